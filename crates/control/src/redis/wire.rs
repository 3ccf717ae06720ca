//! What carries commands to a server and answers back, in the clear or encrypted.
//!
//! A signal ends a call of the system that waits, and says nothing about the server: waiting goes on until
//! the time for it is over. The crate `redis` gives up there, so in the clear only its parser is used; where
//! it encrypts, the library below it goes on by itself.

use super::servers::{Address, Servers};
use redis::{Client, Connection, ErrorKind, Msg, Parser, PubSub, RedisResult, Value, cmd};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A connection that is logged in.
pub enum Wire {
    Clear(Clear),
    Encrypted(Box<Connection>),
}

/// A connection in the clear.
pub struct Clear {
    socket: Patient<TcpStream>,
    parser: Parser,
    /// Messages that came while something else was waited for.
    messages: VecDeque<Msg>,
}

/// What goes on over signals, for so long.
struct Patient<S> {
    socket: S,
    timeout: Duration,
}

/// What messages come from.
pub trait Messages {
    /// How long the next one is waited for.
    fn set_timeout(&mut self, timeout: Duration) -> RedisResult<()>;

    /// The next one.
    fn message(&mut self) -> RedisResult<Msg>;

    /// Asks whether the server is there.
    fn ping(&mut self) -> RedisResult<()>;
}

impl Wire {
    /// Connects to a server and logs in.
    pub fn open(servers: &Servers, address: &Address, timeout: Duration) -> RedisResult<Wire> {
        if !servers.is_encrypted() {
            return Clear::open(servers, address, timeout).map(Wire::Clear);
        }
        let connection = Client::open(servers.connection(address))?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(Wire::Encrypted(Box::new(connection)))
    }

    /// Sends commands.
    pub fn send(&mut self, commands: &[u8]) -> RedisResult<()> {
        match self {
            Wire::Clear(clear) => Ok(clear.socket.write_all(commands)?),
            Wire::Encrypted(connection) => connection.send_packed_command(commands),
        }
    }

    /// The next answer.
    pub fn receive(&mut self) -> RedisResult<Value> {
        match self {
            Wire::Clear(clear) => clear.receive(),
            Wire::Encrypted(connection) => connection.recv_response(),
        }
    }

    /// How long an answer is waited for.
    pub fn set_read_timeout(&mut self, timeout: Duration) -> RedisResult<()> {
        match self {
            Wire::Clear(clear) => clear.set_timeout(timeout),
            Wire::Encrypted(connection) => connection.set_read_timeout(Some(timeout)),
        }
    }
}

impl Clear {
    fn open(servers: &Servers, address: &Address, timeout: Duration) -> RedisResult<Clear> {
        let socket = connect(address, timeout)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.set_write_timeout(Some(timeout))?;
        let socket = Patient { socket, timeout };
        let mut clear = Clear { socket, parser: Parser::new(), messages: VecDeque::new() };
        let login = servers.connection(address);
        let login = login.redis_settings();
        if let Some(password) = login.password() {
            let mut auth = cmd("AUTH");
            login.username().into_iter().for_each(|user| {
                auth.arg(user);
            });
            clear.log_in(&auth.arg(password).get_packed_command())?;
        }
        if login.db() != 0 {
            clear.log_in(&cmd("SELECT").arg(login.db()).get_packed_command())?;
        }
        Ok(clear)
    }

    /// Sends a part of the login. What is neither done nor refused comes from no server: a socket that is
    /// connected to itself says back what it is told.
    fn log_in(&mut self, command: &[u8]) -> RedisResult<()> {
        self.socket.write_all(command)?;
        match self.receive()? {
            Value::Okay => Ok(()),
            Value::ServerError(error) if error.code() == "LOADING" => Err(error.into()),
            Value::ServerError(error) => {
                let says = format!("{} {}", error.code(), error.details().unwrap_or_default());
                Err((ErrorKind::AuthenticationFailed, "it refuses the login", says).into())
            }
            _ => Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
        }
    }

    fn receive(&mut self) -> RedisResult<Value> {
        self.parser.parse_value(&mut self.socket)
    }
}

/// Connects to the first address of a host that answers.
fn connect(to: &Address, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in (to.host(), to.port()).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Messages for Clear {
    fn set_timeout(&mut self, timeout: Duration) -> RedisResult<()> {
        self.socket.timeout = timeout;
        Ok(self.socket.socket.set_read_timeout(Some(timeout))?)
    }

    fn message(&mut self) -> RedisResult<Msg> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(message);
        }
        loop {
            if let Some(message) = Msg::from_owned_value(self.receive()?) {
                return Ok(message);
            }
        }
    }

    fn ping(&mut self) -> RedisResult<()> {
        self.socket.write_all(&cmd("PING").get_packed_command())?;
        while let Some(message) = Msg::from_owned_value(self.receive()?) {
            self.messages.push_back(message);
        }
        Ok(())
    }
}

impl Messages for PubSub<'_> {
    fn set_timeout(&mut self, timeout: Duration) -> RedisResult<()> {
        self.set_read_timeout(Some(timeout))
    }

    fn message(&mut self) -> RedisResult<Msg> {
        self.get_message()
    }

    fn ping(&mut self) -> RedisResult<()> {
        PubSub::ping::<Value>(self).map(|_| ())
    }
}

impl<S> Patient<S> {
    /// Makes a call, and makes it again if a signal ended it.
    fn call<T>(&mut self, mut call: impl FnMut(&mut S) -> io::Result<T>) -> io::Result<T> {
        let started = Instant::now();
        loop {
            match call(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
            // The socket counts its own time anew in every call.
            if started.elapsed() >= self.timeout {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

impl<S: Read> Read for Patient<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.call(|socket| socket.read(bytes))
    }
}

impl<S: Write> Write for Patient<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
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
