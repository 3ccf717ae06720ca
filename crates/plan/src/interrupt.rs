//! Planning that can be stopped. Whoever plans says how to find out that nobody wants the plan any more; what
//! takes long while a plan is made asks now and then.

use datafusion::common::{Result, exec_err};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How long planning goes on at most before it asks again.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Who knows whether a plan is still wanted, and what is known of that.
struct Listener {
    is_cancelled: Box<dyn Fn() -> bool>,
    next_poll: Instant,
    cancelled: bool,
}

thread_local! {
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Plans, and stops when `is_cancelled` says so: from then on [`interrupted`] is an error, and so is what is
/// planned.
///
/// ```
/// use whimbrel_plan::{interrupted, interruptible};
///
/// assert!(interruptible(|| false, interrupted).is_ok());
/// ```
pub fn interruptible<T>(is_cancelled: impl Fn() -> bool + 'static, plan: impl FnOnce() -> T) -> T {
    let listener = Listener {
        is_cancelled: Box::new(is_cancelled),
        next_poll: Instant::now() + POLL_INTERVAL,
        cancelled: false,
    };
    let _guard = Guard(LISTENER.replace(Some(listener)));
    plan()
}

/// Puts back who listened before, also when planning panics.
struct Guard(Option<Listener>);

impl Drop for Guard {
    fn drop(&mut self) {
        LISTENER.set(self.0.take());
    }
}

/// Asks whether the plan is still wanted, if that was not done just now.
///
/// # Errors
/// `Execution` if it is not.
pub fn interrupted() -> Result<()> {
    // It is taken out while it is asked: what it does, a signal handler above all, may plan too.
    let Some(mut listener) = LISTENER.take() else { return Ok(()) };
    if !listener.cancelled && Instant::now() >= listener.next_poll {
        listener.cancelled = (listener.is_cancelled)();
        listener.next_poll = Instant::now() + POLL_INTERVAL;
    }
    let cancelled = listener.cancelled;
    LISTENER.set(Some(listener));
    match cancelled {
        true => exec_err!("interrupted"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planning_stops_when_nobody_wants_the_plan() {
        assert!(interrupted().is_ok());
        let begun = Instant::now();
        let stopped = interruptible(
            || true,
            || loop {
                if let Err(error) = interrupted() {
                    return error;
                }
            },
        );
        assert!(stopped.to_string().contains("interrupted") && begun.elapsed() >= POLL_INTERVAL);
        assert!(interrupted().is_ok());
    }

    #[test]
    fn who_is_asked_may_plan_too() {
        let plans = || interruptible(|| true, interrupted).is_err();
        interruptible(plans, || {
            std::thread::sleep(POLL_INTERVAL);
            assert!(interrupted().is_ok(), "the inner plan was asked too soon to be stopped");
        });
    }
}
