//! A connection to one node: commands out, answers in.
//!
//! A signal ends a call of the system that waits, and says nothing about the server: waiting goes on until
//! the time for it is over. The connections of the crate `redis` give up there, and then nobody knows whether
//! a write was made; so only its parser is used here.

use redis::{ConnectionInfo, Parser, RedisResult, Value};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A connection that is logged in.
pub(super) struct Link {
    socket: Patient<TcpStream>,
    parser: Parser,
}

/// What goes on over signals, for so long.
struct Patient<S> {
    socket: S,
    timeout: Duration,
}

impl Link {
    /// Connects and logs in.
    pub fn open(host: &str, port: u16, login: &ConnectionInfo, timeout: Duration) -> RedisResult<Link> {
        let socket = connect(host, port, timeout)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let mut link = Link { socket: Patient { socket, timeout }, parser: Parser::new() };
        let settings = login.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = redis::cmd("AUTH");
            settings.username().into_iter().for_each(|user| {
                auth.arg(user);
            });
            if let Value::ServerError(refused) = link.ask(&auth.arg(password).get_packed_command())? {
                return Err(refused.into());
            }
        }
        // Who may not ask this, or a node that is not ready yet, says so again when it is asked something.
        link.ask(&redis::cmd("PING").get_packed_command())?;
        Ok(link)
    }

    /// Asks what is the first of a connection.
    ///
    /// While a node on this machine is away, its port may be given to the socket that looks for it. The
    /// socket is then connected to itself and says back whatever it is told; let it go, or the node cannot
    /// have its port again.
    fn ask(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.send(command)?;
        match self.receive()? {
            Value::Array(_) => Err(Error::from(ErrorKind::ConnectionRefused).into()),
            answer => Ok(answer),
        }
    }

    /// Sends commands.
    pub fn send(&mut self, commands: &[u8]) -> RedisResult<()> {
        Ok(self.socket.write_all(commands)?)
    }

    /// The next answer.
    pub fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.socket)
    }
}

/// Connects to the first address of a host that answers.
fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream> {
    let mut failed = Error::new(ErrorKind::NotFound, "the host has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl<S> Patient<S> {
    /// Makes a call, and makes it again if a signal ended it.
    fn call<T>(&mut self, mut call: impl FnMut(&mut S) -> Result<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            match call(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
            // The socket counts its own time anew in every call.
            if started.elapsed() >= self.timeout {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
}

impl<S: Read> Read for Patient<S> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.call(|socket| socket.read(bytes))
    }
}

impl<S: Write> Write for Patient<S> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.call(|socket| socket.write(bytes))
    }

    fn flush(&mut self) -> Result<()> {
        self.call(Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::Patient;
    use std::io::{ErrorKind, Read, Result};
    use std::time::Duration;

    /// A socket whose calls signals end, so many of them.
    struct Disturbed(usize);

    impl Read for Disturbed {
        fn read(&mut self, _: &mut [u8]) -> Result<usize> {
            std::thread::sleep(Duration::from_millis(1));
            self.0 = self.0.saturating_sub(1);
            if self.0 == 0 { Ok(1) } else { Err(ErrorKind::Interrupted.into()) }
        }
    }

    #[test]
    fn a_signal_is_no_answer() {
        let read = |signals, timeout| Patient { socket: Disturbed(signals), timeout }.read(&mut [0]);
        assert_eq!(read(5, Duration::from_secs(5)).ok(), Some(1));
        let error = read(usize::MAX, Duration::from_millis(5)).expect_err("it never answers");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
