//! A proxy that stands between a store and its server, and does harm when it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What goes wrong.
#[derive(Default)]
pub struct Faults {
    /// How many answers are lost from now on: the connection is cut when one comes.
    pub lose_answers: AtomicUsize,
    /// How many were lost.
    pub lost: AtomicUsize,
    /// Every answer of this number is lost, if it is not 0.
    pub lose_every: AtomicUsize,
    answers: AtomicUsize,
    /// The next request is kept back until it is let go.
    pub keep_request: AtomicBool,
    kept: Mutex<Kept>,
    changed: Condvar,
}

#[derive(Default, PartialEq)]
enum Kept {
    #[default]
    Nothing,
    Request,
    LetGo,
    Delivered,
}

impl Faults {
    /// Waits until a request is kept back.
    pub fn wait_for_request(&self) {
        self.wait(|kept| *kept == Kept::Request);
    }

    /// Delivers the request that is kept back, and waits until the server has answered it.
    pub fn let_go(&self) {
        self.set(Kept::LetGo);
        self.wait(|kept| *kept == Kept::Delivered);
    }

    fn wait(&self, until: impl Fn(&Kept) -> bool) {
        drop(self.changed.wait_while(self.kept.lock().unwrap(), |kept| !until(kept)).unwrap());
    }

    fn set(&self, kept: Kept) {
        *self.kept.lock().unwrap() = kept;
        self.changed.notify_all();
    }

    /// Whether to lose this answer.
    fn loses_answer(&self) -> bool {
        let number = self.answers.fetch_add(1, Ordering::SeqCst) + 1;
        let every = self.lose_every.load(Ordering::SeqCst);
        let next =
            self.lose_answers.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let loses = next.is_ok() || number.is_multiple_of(every);
        self.lost.fetch_add(usize::from(loses), Ordering::SeqCst);
        loses
    }
}

/// Starts a proxy to a port; gives its own port, and what can go wrong.
pub fn start(to: u16) -> (u16, Arc<Faults>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let faults = Arc::new(Faults::default());
    let shared = faults.clone();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else { continue };
            connect(client, server, &shared);
        }
    });
    (port, faults)
}

fn connect(client: TcpStream, server: TcpStream, faults: &Arc<Faults>) {
    let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let there = faults.clone();
    std::thread::spawn(move || requests(from_client, to_server, &there));
    let back = faults.clone();
    std::thread::spawn(move || answers(server, client, &back));
}

fn requests(mut client: TcpStream, mut server: TcpStream, faults: &Faults) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let kept = faults.keep_request.swap(false, Ordering::SeqCst);
        if kept {
            faults.set(Kept::Request);
            faults.wait(|kept| *kept == Kept::LetGo);
            // By a connection of its own, for the client's is long closed, and to see that it was answered.
            server = TcpStream::connect(server.peer_addr().unwrap()).unwrap();
        }
        if server.write_all(&buffer[..length]).is_err() {
            break;
        }
        if kept {
            assert!(server.read(&mut [0; 64]).unwrap() > 0);
            faults.set(Kept::Delivered);
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn answers(mut server: TcpStream, mut client: TcpStream, faults: &Faults) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        if faults.loses_answer() || client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
