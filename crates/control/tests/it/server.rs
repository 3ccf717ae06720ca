//! Redis servers of the tests' own: on a free port, with a folder that is gone afterwards.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

static STARTED: AtomicUsize = AtomicUsize::new(0);

/// A server that runs until it is dropped.
pub struct Server {
    pub port: u16,
    folder: PathBuf,
    settings: Vec<String>,
    child: Child,
}

impl Server {
    /// Starts a server; none, and a line that says so, where there is no program `redis-server`.
    pub fn start(settings: &[&str]) -> Option<Server> {
        let found = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
        if found.is_err() {
            println!("skipped: there is no redis-server");
            return None;
        }
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("whimbrel-control-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        // Another process may be faster to take the port.
        for _ in 0..10 {
            let port = free_port();
            let mut child = spawn(port, &folder, &settings);
            if is_up(&mut child, port) {
                return Some(Server { port, folder, settings, child });
            }
        }
        panic!("redis-server does not start: see {}", folder.join("log").display());
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends it as a crash does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it as a machine does that swaps: it takes connections, and says nothing.
    pub fn hang(&self) {
        assert!(
            Command::new("kill").args(["-STOP", &self.child.id().to_string()]).status().unwrap().success()
        );
    }

    /// Starts it again with the files that it left.
    pub fn restart(&mut self) {
        self.child = spawn(self.port, &self.folder, &self.settings);
        assert!(is_up(&mut self.child, self.port), "see {}", self.folder.join("log").display());
    }

    /// Runs a command on it, past all stores.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let client = redis::Client::open(self.url()).unwrap();
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.query(&mut client.get_connection().unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(port: u16, folder: &std::path::Path, settings: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--logfile", "log", "--save", ""])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"])
        .args(settings)
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Whether it answers, before it ends.
fn is_up(child: &mut Child, port: u16) -> bool {
    for _ in 0..2000 {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) {
            let mut answer = [0; 5];
            let answered = socket.write_all(b"PING\r\n").and_then(|()| socket.read_exact(&mut answer));
            // `+PONG`, or `-NOAUTH` of one with a password; `-LOAD…` is not up yet.
            if answered.is_ok() && (&answer == b"+PONG" || &answer == b"-NOAU") {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
