//! Ctrl-C. While a query is watched for it, the first one asks the query to stop; a second one, or one while
//! nothing is watched, ends the program at once.

use crate::failure::{INTERRUPTED, say};
use std::convert::Infallible;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use tokio::signal::ctrl_c;

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
        let mut pressed = pin!(ctrl_c());
        // The handler is installed when it is polled for the first time.
        let at_once = tokio::select! {
            biased;
            _ = &mut pressed => true,
            () = ready(()) => false,
        };
        drop(told);
        if at_once {
            self.press();
            pressed.set(ctrl_c());
        }
        while pressed.as_mut().await.is_ok() {
            self.press();
            pressed.set(ctrl_c());
        }
    }

    fn press(&self) {
        let asked_before = self.pressed.swap(true, Ordering::Relaxed);
        if asked_before || self.watchers.load(Ordering::Relaxed) == 0 {
            say("interrupted");
            std::process::exit(INTERRUPTED.into());
        }
    }
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
