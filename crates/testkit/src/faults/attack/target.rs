//! The listener that an attack connects to.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};

use crate::error::Result;

/// A listener of the server.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A port that clients connect to themselves.
    Direct(u16),
    /// A port where a PROXY header names the client's address.
    Proxied(u16),
}

impl Target {
    /// Connects; with [`Target::Proxied`] the server sees `address` as the client's.
    pub fn connect(self, address: Ipv4Addr) -> Result<TcpStream> {
        match self {
            Self::Direct(port) => Ok(TcpStream::connect(("127.0.0.1", port))?),
            Self::Proxied(port) => {
                let mut stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.write_all(format!("PROXY TCP4 {address} 198.51.100.1 40000 50001\r\n").as_bytes())?;
                Ok(stream)
            }
        }
    }
}
