//! Ctrl-C and SIGTERM.
//!
//! While a query runs, the first Ctrl-C asks it to stop. A second one, or one while no query runs, ends the
//! program at once. After SIGTERM the program has a moment to stop its query and to remove the file that it
//! writes.

use crate::error::{EXIT_INTERRUPTED, print_message};
use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tokio::signal::ctrl_c;
use whimbrel_sharded::action::remove_partial_files;

/// How long a query has to stop after SIGTERM.
const GRACE_PERIOD: Duration = Duration::from_secs(2);

/// The exit code after SIGTERM: 128 and the number of the signal.
const EXIT_TERMINATED: i32 = 143;

/// What a signal asks for.
#[derive(PartialEq, Eq)]
enum Request {
    /// Ctrl-C: the query shall stop.
    Interrupt,
    /// SIGTERM: the program shall end.
    Terminate,
}

/// The signals of the process.
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

    /// Waits for the next signal.
    async fn next(&mut self) -> Request {
        let interrupt = async {
            match ctrl_c().await {
                Ok(()) => Request::Interrupt,
                // The system gives us no handler for Ctrl-C.
                Err(_) => pending().await,
            }
        };
        #[cfg(unix)]
        return tokio::select! {
            request = interrupt => request,
            Some(()) = self.terminate.recv() => Request::Terminate,
        };
        #[cfg(not(unix))]
        return interrupt.await;
    }
}

/// Receives Ctrl-C. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Interrupts {
    state: Arc<State>,
}

/// What the receiving thread and the watches share.
#[derive(Debug, Default)]
struct State {
    /// Whether Ctrl-C was pressed since the first of the watches began.
    pressed: AtomicBool,
    /// The number of watches that live.
    watches: AtomicUsize,
}

impl State {
    /// Receives signals until the program ends. Drops `ready_sender` once the handlers are installed.
    async fn receive(&self, ready_sender: Sender<Infallible>) {
        let Ok(mut signals) = Signals::new() else { return };
        let mut request = {
            let mut next = pin!(signals.next());
            // The handler of Ctrl-C is installed by the first poll.
            let polled = tokio::select! {
                biased;
                request = &mut next => Some(request),
                () = ready(()) => None,
            };
            drop(ready_sender);
            match polled {
                Some(request) => request,
                None => next.await,
            }
        };
        loop {
            self.interrupt();
            if request == Request::Terminate {
                std::thread::sleep(GRACE_PERIOD);
                exit(EXIT_TERMINATED);
            }
            request = signals.next().await;
        }
    }

    /// Records Ctrl-C. Ends the program if no query listens, or one did not stop after the first Ctrl-C.
    fn interrupt(&self) {
        let is_repeated = self.pressed.swap(true, Ordering::Relaxed);
        if is_repeated || self.watches.load(Ordering::Relaxed) == 0 {
            print_message("interrupted");
            exit(EXIT_INTERRUPTED.into());
        }
    }
}

/// Ends the program. Files that are not complete are removed.
fn exit(code: i32) -> ! {
    remove_partial_files();
    std::process::exit(code)
}

/// As long as this lives, its owner looks at [`Interrupts::pressed`], and Ctrl-C does not end the program.
pub struct Watch {
    state: Arc<State>,
}

impl Interrupts {
    /// Installs the handlers, and returns when they are installed: the line editor restores whatever handler
    /// it finds. Where the system refuses, Ctrl-C ends the program as it does others.
    pub fn install() -> Interrupts {
        let interrupts = Interrupts::default();
        let state = interrupts.state.clone();
        let (ready_sender, installed) = channel::<Infallible>();
        let thread = std::thread::Builder::new().name("ctrl-c".into());
        let _ = thread.spawn(move || {
            if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() {
                runtime.block_on(state.receive(ready_sender));
            }
        });
        // Nothing is sent. The wait ends when the sender is dropped.
        let _ = installed.recv();
        interrupts
    }

    /// Begins to watch for Ctrl-C. The first watch forgets what was pressed before it.
    pub fn watch(&self) -> Watch {
        if self.state.watches.fetch_add(1, Ordering::Relaxed) == 0 {
            self.state.pressed.store(false, Ordering::Relaxed);
        }
        Watch { state: self.state.clone() }
    }

    /// Whether Ctrl-C was pressed since the watch began.
    pub fn pressed(&self) -> bool {
        self.state.pressed.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.state.watches.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.state.pressed.store(false, Ordering::Relaxed);
        }
    }
}
