//! Ctrl-C. While a query is watched for it, the first one asks the query to stop; a second one, or one while nothing
//! is watched, ends the program at once. Where the system asks the program to end (SIGTERM) it has a moment to stop
//! its query and to remove the file that it writes.

use crate::failure::{INTERRUPTED, say};
use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tokio::signal::ctrl_c;
use whimbrel_sharded::action::remove_partial_files;

/// How long a query has to stop before the program ends.
const MOMENT: Duration = Duration::from_secs(2);

/// The exit code of a program that was asked to end: 128 and the signal's number.
const TERMINATED: i32 = 143;

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Wish {
    /// That the query stops.
    Stop,
    /// That the program ends.
    End,
}

/// The signals that are listened for.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {})
    }

    async fn next(&mut self) -> Wish {
        let stop = async {
            match ctrl_c().await {
                Ok(()) => Wish::Stop,
                // Ctrl-C cannot be listened for.
                Err(_) => pending().await,
            }
        };
        #[cfg(unix)]
        return tokio::select! {
            wish = stop => wish,
            Some(()) = self.terminate.recv() => Wish::End,
        };
        #[cfg(not(unix))]
        return stop.await;
    }
}

/// Listens for Ctrl-C. Cheap to clone.
#[derive(Clone, Default)]
pub struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    pressed: AtomicBool,
    watchers: AtomicUsize,
}

impl Shared {
    /// Listens for ever; drops what it was given once it does.
    async fn listen(&self, told: Sender<Infallible>) {
        let Ok(mut signals) = Signals::new() else { return };
        let mut wish = {
            let mut next = pin!(signals.next());
            // The handler of Ctrl-C is installed when it is polled for the first time.
            let at_once = tokio::select! {
                biased;
                wish = &mut next => Some(wish),
                () = ready(()) => None,
            };
            drop(told);
            match at_once {
                Some(wish) => wish,
                None => next.await,
            }
        };
        loop {
            self.press();
            if wish == Wish::End {
                std::thread::sleep(MOMENT);
                end(TERMINATED);
            }
            wish = signals.next().await;
        }
    }

    fn press(&self) {
        let asked_before = self.pressed.swap(true, Ordering::Relaxed);
        if asked_before || self.watchers.load(Ordering::Relaxed) == 0 {
            say("interrupted");
            end(INTERRUPTED.into());
        }
    }
}

/// Ends the program, which leaves no file half written.
fn end(code: i32) -> ! {
    remove_partial_files();
    std::process::exit(code)
}

/// While it lives, somebody looks at [`Interrupts::pressed`].
pub struct Watch {
    shared: Arc<Shared>,
}

impl Interrupts {
    /// Starts listening, and returns when Ctrl-C is listened for: the line editor puts back whatever handler
    /// it finds. Where the system refuses, Ctrl-C ends the program as it does any other.
    pub fn listen() -> Interrupts {
        let interrupts = Interrupts::default();
        let shared = interrupts.shared.clone();
        let (told, listening) = channel::<Infallible>();
        let listener = std::thread::Builder::new().name("ctrl-c".into());
        let _ = listener.spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
                runtime.block_on(shared.listen(told));
            }
        });
        // The other end is dropped: that is the news.
        let _ = listening.recv();
        interrupts
    }

    /// From now on a Ctrl-C is taken notice of. What was pressed before is forgotten, unless somebody is
    /// watching already.
    pub fn watch(&self) -> Watch {
        if self.shared.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.shared.pressed.store(false, Ordering::Relaxed);
        }
        Watch { shared: self.shared.clone() }
    }

    /// Whether Ctrl-C was pressed since the watch began.
    pub fn pressed(&self) -> bool {
        self.shared.pressed.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.shared.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.shared.pressed.store(false, Ordering::Relaxed);
        }
    }
}
