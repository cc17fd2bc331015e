//! Connections of the operating system, for connectors' own threads, and ports to be served by others.
//!
//! Connecting and reading block, so nothing of it is called on a worker's thread, and nothing connects again by itself.

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long one address is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// One TCP connection, to read from.
#[derive(Debug)]
pub struct Connection(TcpStream);

impl Connection {
    /// Connects to `host:port`: to the first of its addresses that answers, each tried for ten seconds.
    ///
    /// # Errors
    /// As the system says of the last address.
    pub fn open(address: &str) -> io::Result<Connection> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for resolved in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&resolved, CONNECT_TIMEOUT) {
                Ok(stream) => return Ok(Connection(stream)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// A second handle of the same connection, to close it from another thread.
    ///
    /// # Errors
    /// As the system says.
    pub fn another(&self) -> io::Result<Connection> {
        self.0.try_clone().map(Connection)
    }

    /// Closes it in both directions; whoever reads from it wakes up.
    pub fn close(&self) {
        // Fails only if the connection is gone, which is what is wanted.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

/// A port that is taken, not blocking.
#[derive(Debug)]
pub struct Listener(TcpListener);

/// Takes a port.
///
/// # Errors
/// As the system says: it is in use, or no address of this machine.
pub fn listen(address: &str) -> io::Result<Listener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(Listener(listener))
}

impl Listener {
    /// Where it is: with port 0, the one that the system chose.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }

    /// For whoever serves it.
    #[must_use]
    pub fn into_inner(self) -> TcpListener {
        self.0
    }
}
