//! A node that the firewall cuts off. The rules end with the process that made them, however that ends.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The longest wait for the rules.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time in which a loopback address that is not cut off accepts a connection.
const CONNECT: Duration = Duration::from_millis(200);
/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A node that is cut off until this is dropped.
#[derive(Debug)]
pub struct CutOff {
    nft: Child,
}

impl CutOff {
    /// Cuts off the node at an address, whose group has the number of the last three bytes (`scripts/cassandra`).
    pub(crate) fn of(address: Ipv4Addr, port: u16) -> io::Result<Option<Self>> {
        let may = Command::new("nft").args(["list", "tables"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !may.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        // It reads commands until its input ends, and owns the table: the kernel removes that with it.
        let mut nft = Command::new("nft").arg("--interactive").stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        nft.stdin.as_mut().expect("it is piped").write_all(rules(address).as_bytes())?;
        let cut = Self { nft };
        let began = Instant::now();
        while TcpStream::connect_timeout(&SocketAddr::from((address, port)), CONNECT).is_ok() {
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("{address} is still connected")));
            }
            sleep(LOOK);
        }
        Ok(Some(cut))
    }
}

impl Drop for CutOff {
    fn drop(&mut self) {
        drop(self.nft.stdin.take());
        // Nothing can be done about a process that cannot be waited for.
        let _ = self.nft.wait();
    }
}

/// Commands that drop what the node sends, and what is sent to it.
fn rules(address: Ipv4Addr) -> String {
    let [_, high, middle, low] = address.octets();
    let group = u32::from_be_bytes([0, high, middle, low]);
    let table = format!("inet birdhouse_{group}");
    format!(
        "add table {table} {{ flags owner; }}\n\
         add chain {table} cut {{ type filter hook output priority 0; }}\n\
         add rule {table} cut ip daddr {address} drop\n\
         add rule {table} cut meta skgid {group} drop\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_the_address_and_the_group_of_a_node() {
        let rules = rules(Ipv4Addr::new(127, 88, 5, 2));
        assert!(rules.contains("ip daddr 127.88.5.2 drop") && rules.contains("meta skgid 5768450 drop"), "{rules}");
    }
}
