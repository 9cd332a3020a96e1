//! A ZMQ message of the node: it is a notification, or ignored.
#![no_main]

libfuzzer_sys::fuzz_target!(|message: &[u8]| birdhouse_node::fuzzing::zmq(message));
