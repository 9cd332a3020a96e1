//! The listener that an attack connects to.

use std::fmt;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::str::FromStr;

use crate::error::{Error, Result};

/// A listener of the server; as text `direct:PORT` or `proxied:PORT`.
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

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(port) => write!(f, "direct:{port}"),
            Self::Proxied(port) => write!(f, "proxied:{port}"),
        }
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (way, port) = text.split_once(':').unwrap_or_default();
        match (way, port.parse()) {
            ("direct", Ok(port)) => Ok(Self::Direct(port)),
            ("proxied", Ok(port)) => Ok(Self::Proxied(port)),
            _ => Err(Error::Protocol(format!("{text:?} is no target"))),
        }
    }
}
