//! How many tasks each stage of a query gets: a local search over what the model expects. Starling leaves it
//! to the user (§4.3, §6.1), who gives each object to a task, and sweeps over the tasks of joins.

use super::{Forecast, Goal};
use datafusion::common::Result;
use whimbrel_plan::{StageShards, Stream, stage_shards, with_stage_shards};

/// How often all stages are looked at.
const ROUNDS: usize = 4;

/// How many plans are looked at for each second that the query is expected to take: about a tenth of it.
const PLANS_PER_SECOND: f64 = 20.0;

/// The number of tasks of a stage, changed.
#[derive(Debug, Clone, Copy)]
enum Change {
    Double,
    Halve,
}

impl Change {
    fn of(self, tasks: usize, most: usize) -> usize {
        match self {
            Change::Double => (2 * tasks).min(most),
            Change::Halve => tasks.div_ceil(2),
        }
    }
}

/// The query with the numbers of tasks that serve the goal best, as far as a search from those that it has
/// finds them; none is above `most`.
///
/// # Errors
/// Those of `expect`, which says what a query is expected to take.
pub fn choose_tasks(
    stream: &Stream,
    most: usize,
    goal: Goal,
    expect: impl Fn(&Stream) -> Result<Forecast>,
) -> Result<(Stream, Forecast)> {
    let stages = stage_shards(stream.plan())?;
    let tasks = stages.iter().map(|stage| stage.shards).collect();
    let best = (stream.clone(), expect(stream)?);
    let plans_left = if best.1.runs_here { 0.0 } else { best.1.seconds * PLANS_PER_SECOND };
    let mut search = Search { stream, most, goal, expect, tasks, best, plans_left };
    for _ in 0..ROUNDS {
        let mut has_helped = false;
        for group in groups(&stages) {
            for change in [Change::Double, Change::Halve] {
                has_helped |= search.change(&group, change)?;
            }
        }
        if !has_helped {
            break;
        }
    }
    Ok(search.best)
}

/// A search that goes on.
struct Search<'a, F> {
    stream: &'a Stream,
    most: usize,
    goal: Goal,
    expect: F,
    /// The numbers of tasks of the best plan so far, and the plan.
    tasks: Vec<usize>,
    best: (Stream, Forecast),
    plans_left: f64,
}

impl<F: Fn(&Stream) -> Result<Forecast>> Search<'_, F> {
    /// Changes the tasks of these stages as long as that helps; whether it has.
    fn change(&mut self, stages: &[usize], change: Change) -> Result<bool> {
        let mut has_helped = false;
        loop {
            let mut tasks = self.tasks.clone();
            stages.iter().for_each(|stage| tasks[*stage] = change.of(tasks[*stage], self.most));
            if tasks == self.tasks || self.plans_left < 1.0 {
                return Ok(has_helped);
            }
            self.plans_left -= 1.0;
            let other = Stream::from_plan(with_stage_shards(self.stream.plan(), &tasks)?)?;
            let expected = (self.expect)(&other)?;
            if self.goal.choose(&[self.best.1.expected(), expected.expected()]) == 0 {
                return Ok(has_helped);
            }
            (self.tasks, self.best, has_helped) = (tasks, (other, expected), true);
        }
    }
}

/// Stages that are changed together. Two that another waits for gain nothing if one of them ends sooner.
fn groups(stages: &[StageShards]) -> Vec<Vec<usize>> {
    let free = |keep: &dyn Fn(&StageShards) -> bool| -> Vec<usize> {
        let stages = stages.iter().enumerate().filter(|(_, stage)| stage.is_free && keep(stage));
        stages.map(|(number, _)| number).collect()
    };
    let (sources, others) = (free(&|stage| stage.reads_source), free(&|stage| !stage.reads_source));
    let single = free(&|_| true).into_iter().map(|stage| vec![stage]);
    let mut groups: Vec<Vec<usize>> = [sources, others].into_iter().filter(|group| group.len() > 1).collect();
    groups.extend(single);
    groups
}
