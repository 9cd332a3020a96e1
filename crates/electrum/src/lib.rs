//! electrum
