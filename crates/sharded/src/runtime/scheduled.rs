//! The runtime of a scheduler: a query runs as in library mode, on one of its threads at a time, in turns
//! with others.
//!
//! It is handed to the scheduler when somebody waits for it, or wants to be told of its end. Who waits on a
//! thread of the scheduler, a function that a query calls, runs the query there: that thread may be the only
//! one.

use super::library::Schedule;
use super::{Execution, Progress, Runtime, Wiring};
use crate::end::End;
use crate::scheduler::{Scheduler, Task, Turn};
use crossbeam_channel::Select;
use datafusion::common::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a turn is, if the query can go on for so long; a step more.
const TURN: Duration = Duration::from_millis(2);

/// The runtime that runs queries on the threads of a scheduler.
#[derive(Clone)]
pub struct Scheduled(pub Arc<Scheduler>);

impl Runtime for Scheduled {
    fn start(&self, wiring: Wiring, progress: Progress) -> Result<Box<dyn Execution>> {
        Ok(Box::new(Handed {
            scheduler: self.0.clone(),
            query: Some(Schedule::new(wiring, progress.control().clone())),
            end: None,
        }))
    }
}

/// A query, and who is told of its end.
struct Query {
    /// None: it is over.
    schedule: Option<Schedule>,
    outcome: Result<()>,
    end: Arc<End>,
}

impl Query {
    /// Drops the query, and its sinks with it, before anybody is told of its end.
    fn finish(&mut self, outcome: Result<()>) -> Turn {
        self.schedule = None;
        self.outcome = outcome;
        Turn::Ended
    }
}

impl Task for Query {
    fn turn(&mut self) -> Turn {
        let began = Instant::now();
        while let Some(schedule) = &mut self.schedule {
            match schedule.turn() {
                Ok(Turn::Ready) if began.elapsed() < TURN => {}
                Ok(Turn::Ended) => return self.finish(Ok(())),
                Ok(turn) => return turn,
                Err(error) => return self.finish(Err(error)),
            }
        }
        Turn::Ended
    }

    fn register<'a>(&'a self, select: &mut Select<'a>) -> usize {
        self.schedule.as_ref().map_or(0, |schedule| schedule.register(select))
    }

    fn tell_end(self: Box<Self>) {
        self.end.publish(self.outcome);
    }
}

/// A query for a scheduler, which has it or will get it.
struct Handed {
    scheduler: Arc<Scheduler>,
    /// None: the scheduler has it.
    query: Option<Schedule>,
    /// What tells of its end, once the scheduler has it.
    end: Option<Arc<End>>,
}

impl Handed {
    /// Hands the query to the scheduler, unless that has been done.
    fn spawn(&mut self) -> Result<Arc<End>> {
        let end = self.end.get_or_insert_default().clone();
        if let Some(schedule) = self.query.take() {
            let query = Query { schedule: Some(schedule), outcome: Ok(()), end: end.clone() };
            self.scheduler.spawn(Box::new(query))?;
        }
        Ok(end)
    }
}

impl Execution for Handed {
    fn wait(&mut self, until: Option<Instant>) -> Result<bool> {
        if let Some(query) = &mut self.query
            && self.scheduler.has_this_thread()
        {
            return query.wait(until);
        }
        let end = self.spawn()?;
        match until {
            None => end.wait().map(|()| true),
            Some(until) => end.wait_timeout(until.saturating_duration_since(Instant::now())),
        }
    }

    fn detach(&mut self) -> Result<Option<Arc<End>>> {
        self.spawn().map(Some)
    }
}
