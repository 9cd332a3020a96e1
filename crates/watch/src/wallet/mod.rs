//! Scripts of a watch: branches of its descriptor and the window of the gap. Reads nothing.
