//! Threads that run many queries: a given number, however many queries there are (trill.txt §6).
//!
//! A thread takes the query that has been ready for the longest time, runs it for a while, and puts it back.
//! So queries that compute for long get equal times, and one that gets rows goes before those that got some
//! later. Of the threads that have nothing to run, one waits for the sources of all queries that wait for
//! rows; while all threads are busy, the sources are looked at between two turns.
//!
//! Invariants: a task is in `ready`, in `waiting`, or with one thread. At most one thread has the tasks that
//! were waiting (`is_watched`). Who adds a task to `waiting` or to `ready` wakes that thread.

use crossbeam_channel::{Receiver, Select, Sender, bounded};
use datafusion::common::{DataFusionError, Result, plan_err};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the sources of tasks that wait are looked at while others run.
const LOOK_INTERVAL: Duration = Duration::from_micros(500);
/// So many tasks are found ready in one look, at most.
const FOUND_AT_ONCE: usize = 64;
/// The stack of a thread: dropping a plan recurses as deep as its longest condition.
pub(crate) const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// Of a thread of a scheduler, and of one that works for it: what tells which one.
    static SCHEDULER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Work for another thread, which does it while this one waits. If this is a thread of a scheduler, that one
/// may not wait for the scheduler either.
pub fn for_this_thread<T>(work: impl FnOnce() -> T + Send) -> impl FnOnce() -> T + Send {
    let scheduler = SCHEDULER.get();
    move || {
        SCHEDULER.set(scheduler);
        work()
    }
}

/// What a scheduler runs. It catches its own panics.
pub(crate) trait Task: Send {
    /// Works on for a short time.
    fn turn(&mut self) -> Turn;

    /// Registers everything that it waits for; how many registrations that were.
    fn register<'a>(&'a self, select: &mut Select<'a>) -> usize;

    /// Tells of its end, when it is not counted any more.
    fn tell_end(self: Box<Self>);
}

/// How a task stands after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It can go on.
    Ready,
    /// It can go on when something comes that it has registered.
    Waiting,
    /// It is over.
    Ended,
}

/// A number of threads that run queries. Queries go on when it is dropped; the threads end with the last one.
///
/// ```
/// use whimbrel_sharded::Scheduler;
/// let scheduler = Scheduler::new(2)?;
/// assert_eq!((scheduler.threads(), scheduler.queries()), (2, 0));
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub struct Scheduler {
    shared: Arc<Shared>,
    threads: usize,
    /// The process that has the threads: a fork has none of them.
    process: u32,
}

/// What the threads have in common.
struct Shared {
    state: Mutex<State>,
    /// Wakes threads that have nothing to run.
    work: Condvar,
    /// Wakes the thread that waits for sources.
    poke: Sender<()>,
    poked: Receiver<()>,
}

struct State {
    ready: VecDeque<Box<dyn Task>>,
    waiting: Vec<Box<dyn Task>>,
    /// All tasks, those included that a thread has.
    tasks: usize,
    is_watched: bool,
    looked: Instant,
    /// No task will be added.
    closed: bool,
}

impl Scheduler {
    /// So many threads.
    ///
    /// # Errors
    /// `Plan` if it is none; `ResourcesExhausted` if a thread cannot be started.
    pub fn new(threads: usize) -> Result<Scheduler> {
        if threads == 0 {
            return plan_err!("a scheduler needs at least one thread");
        }
        let (poke, poked) = bounded(1);
        let state = State {
            ready: VecDeque::new(),
            waiting: Vec::new(),
            tasks: 0,
            is_watched: false,
            looked: Instant::now(),
            closed: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), poke, poked });
        // Dropped on an error, it ends the threads that have been started.
        let scheduler = Scheduler { shared, threads, process: std::process::id() };
        for _ in 0..threads {
            let shared = Arc::clone(&scheduler.shared);
            let thread =
                std::thread::Builder::new().name("whimbrel scheduler".into()).stack_size(STACK_BYTES);
            thread.spawn(move || shared.run()).map_err(|error| {
                DataFusionError::ResourcesExhausted(format!("no thread for a scheduler: {error}"))
            })?;
        }
        Ok(scheduler)
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// How many queries have not ended.
    pub fn queries(&self) -> usize {
        self.shared.lock().tasks
    }

    /// Whether the current thread is one of its own, or works for one.
    pub(crate) fn has_this_thread(&self) -> bool {
        SCHEDULER.get() == Some(self.shared.id())
    }

    /// Runs a task.
    ///
    /// # Errors
    /// `Plan` in a fork of the process that has the threads.
    pub(crate) fn spawn(&self, task: Box<dyn Task>) -> Result<()> {
        if self.process != std::process::id() {
            return plan_err!(
                "this scheduler has its threads in process {}, of which this one is a fork; make a scheduler here",
                self.process
            );
        }
        let mut state = self.shared.lock();
        state.tasks += 1;
        state.ready.push_back(task);
        drop(state);
        self.shared.work.notify_one();
        self.shared.poke();
        Ok(())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // In a fork nobody else has the lock, and maybe nobody gives it back.
        if self.process == std::process::id() {
            self.shared.lock().closed = true;
            self.shared.work.notify_all();
            self.shared.poke();
        }
    }
}

impl Shared {
    /// The state is consistent after a panic: tasks run without the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread that waits for sources, or the next one that will.
    fn poke(&self) {
        let _ = self.poke.try_send(());
    }

    /// What tells it from others that are there.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Runs tasks until there will be none.
    fn run(&self) {
        SCHEDULER.set(Some(self.id()));
        let mut state = self.lock();
        loop {
            if !state.is_watched && !state.waiting.is_empty() && state.looked.elapsed() > LOOK_INTERVAL {
                state = self.look(state, false);
            }
            if let Some(task) = state.ready.pop_front() {
                drop(state);
                state = self.turn(task);
            } else if !state.is_watched && !state.waiting.is_empty() {
                state = self.look(state, true);
            } else if state.closed && state.tasks == 0 {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Gives a task a turn, and puts it where it belongs then.
    fn turn(&self, mut task: Box<dyn Task>) -> MutexGuard<'_, State> {
        let turn = task.turn();
        let mut state = self.lock();
        match turn {
            Turn::Ready => state.ready.push_back(task),
            Turn::Waiting => {
                state.waiting.push(task);
                self.poke();
            }
            Turn::Ended => {
                state.tasks -= 1;
                if state.closed && state.tasks == 0 {
                    self.work.notify_all();
                }
                drop(state);
                task.tell_end();
                return self.lock();
            }
        }
        state
    }

    /// Looks which of the waiting tasks are ready; waits for one, or for a poke, if it may.
    fn look<'a>(&'a self, mut state: MutexGuard<'a, State>, may_wait: bool) -> MutexGuard<'a, State> {
        state.is_watched = true;
        let tasks = std::mem::take(&mut state.waiting);
        drop(state);
        let ready = self.find_ready(&tasks, may_wait);
        let mut state = self.lock();
        for (number, task) in tasks.into_iter().enumerate() {
            match ready.contains(&number) {
                true => state.ready.push_back(task),
                false => state.waiting.push(task),
            }
        }
        state.is_watched = false;
        state.looked = Instant::now();
        // This thread takes one of those that are ready, and another one may have to wait in its place.
        (0..ready.len().min(2)).for_each(|_| self.work.notify_one());
        state
    }

    /// The numbers of some tasks that are ready.
    fn find_ready(&self, tasks: &[Box<dyn Task>], may_wait: bool) -> Vec<usize> {
        let mut select = Select::new();
        let poked = select.recv(&self.poked);
        // By the number of the registration, after that of the poke.
        let mut owners = Vec::with_capacity(2 * tasks.len());
        for (number, task) in tasks.iter().enumerate() {
            owners.extend(std::iter::repeat_n(number, task.register(&mut select)));
        }
        let mut ready = Vec::new();
        let mut found = if may_wait { Some(select.ready()) } else { select.try_ready().ok() };
        while let Some(operation) = found {
            if operation == poked {
                let _ = self.poked.try_recv();
            } else if let Some(task) = owners.get(operation - poked - 1).filter(|task| !ready.contains(*task))
            {
                ready.push(*task);
            }
            select.remove(operation);
            found = if ready.len() < FOUND_AT_ONCE { select.try_ready().ok() } else { None };
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Adds up numbers until its channel is closed.
    struct Sum {
        numbers: Receiver<usize>,
        sum: Arc<AtomicUsize>,
        ended: Sender<()>,
    }

    impl Task for Sum {
        fn turn(&mut self) -> Turn {
            match self.numbers.try_recv() {
                Ok(number) => {
                    self.sum.fetch_add(number, Ordering::Relaxed);
                    Turn::Ready
                }
                Err(error) if error.is_disconnected() => Turn::Ended,
                Err(_) => Turn::Waiting,
            }
        }

        fn register<'a>(&'a self, select: &mut Select<'a>) -> usize {
            select.recv(&self.numbers);
            1
        }

        fn tell_end(self: Box<Self>) {
            let _ = self.ended.send(());
        }
    }

    /// Starts so many sums: where their numbers go, and the sums.
    fn sums(
        scheduler: &Scheduler,
        count: usize,
        ended: &Sender<()>,
    ) -> BTreeMap<usize, (Sender<usize>, Arc<AtomicUsize>)> {
        let start = |number| {
            let (sender, numbers) = crossbeam_channel::unbounded();
            let sum = Arc::new(AtomicUsize::new(0));
            let task = Sum { numbers, sum: Arc::clone(&sum), ended: ended.clone() };
            scheduler.spawn(Box::new(task)).unwrap();
            (number, (sender, sum))
        };
        (0..count).map(start).collect()
    }

    #[test]
    fn all_tasks_get_what_they_wait_for() {
        for threads in [1, 2, 5] {
            let scheduler = Scheduler::new(threads).unwrap();
            let (ended, ends) = crossbeam_channel::unbounded();
            let sums = sums(&scheduler, 100, &ended);
            for round in 1..=50 {
                for (number, (sender, _)) in &sums {
                    sender.send(number * round).unwrap();
                }
                if round % 10 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            assert_eq!(scheduler.queries(), 100);
            let totals: Vec<_> = sums.into_values().map(|(_, sum)| sum).collect();
            totals.iter().for_each(|_| ends.recv().unwrap());
            for (number, sum) in totals.iter().enumerate() {
                assert_eq!(sum.load(Ordering::Relaxed), number * 50 * 51 / 2);
            }
            assert_eq!(scheduler.queries(), 0);
        }
    }

    #[test]
    fn tasks_go_on_when_the_scheduler_is_dropped() {
        let scheduler = Scheduler::new(2).unwrap();
        let (ended, ends) = crossbeam_channel::unbounded();
        let sums = sums(&scheduler, 3, &ended);
        let shared = Arc::downgrade(&scheduler.shared);
        drop(scheduler);
        sums.values().for_each(|(sender, _)| sender.send(7).unwrap());
        let totals: Vec<_> = sums.into_values().map(|(_, sum)| sum).collect();
        totals.iter().for_each(|_| ends.recv().unwrap());
        assert!(totals.iter().all(|sum| sum.load(Ordering::Relaxed) == 7));
        while shared.strong_count() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_task_that_computes_does_not_hold_up_others() {
        /// Is always ready.
        struct Busy(Receiver<()>);
        impl Task for Busy {
            fn turn(&mut self) -> Turn {
                if self.0.try_recv().is_ok() { Turn::Ended } else { Turn::Ready }
            }
            fn register<'a>(&'a self, _: &mut Select<'a>) -> usize {
                0
            }
            fn tell_end(self: Box<Self>) {}
        }
        let scheduler = Scheduler::new(1).unwrap();
        let (stop, stopped) = bounded(1);
        scheduler.spawn(Box::new(Busy(stopped))).unwrap();
        let (ended, ends) = crossbeam_channel::unbounded();
        drop(sums(&scheduler, 2, &ended));
        ends.recv().unwrap();
        ends.recv().unwrap();
        stop.send(()).unwrap();
    }
}
