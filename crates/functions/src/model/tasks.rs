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
        for step in steps(&stages) {
            has_helped |= search.go(&step)?;
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
    /// Takes a step as long as that helps; whether it has.
    fn go(&mut self, step: &Step) -> Result<bool> {
        let mut has_helped = false;
        loop {
            let mut tasks = self.tasks.clone();
            step.iter().for_each(|(stage, change)| tasks[*stage] = change.of(tasks[*stage], self.most));
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

/// Changes that are made together.
type Step = Vec<(usize, Change)>;

/// The steps of a search. Two stages that another waits for gain nothing if one of them ends sooner, so some
/// are changed together. Half as many tasks that read from twice as many make as many requests.
fn steps(stages: &[StageShards]) -> Vec<Step> {
    let free = |keep: &dyn Fn(&StageShards) -> bool| -> Vec<usize> {
        let stages = stages.iter().enumerate().filter(|(_, stage)| stage.is_free && keep(stage));
        stages.map(|(number, _)| number).collect()
    };
    let all =
        |stages: &[usize], change: Change| stages.iter().map(|stage| (*stage, change)).collect::<Step>();
    let (sources, others) = (free(&|stage| stage.reads_source), free(&|stage| !stage.reads_source));
    let both = [Change::Double, Change::Halve];
    let together = [&sources, &others].into_iter().filter(|group| group.len() > 1);
    let mut steps: Vec<Step> = together.flat_map(|group| both.map(|change| all(group, change))).collect();
    if !sources.is_empty() && !others.is_empty() {
        for [of_sources, of_others] in [[Change::Double, Change::Halve], [Change::Halve, Change::Double]] {
            steps.push([all(&sources, of_sources), all(&others, of_others)].concat());
        }
    }
    steps.extend(free(&|_| true).into_iter().flat_map(|stage| both.map(|change| vec![(stage, change)])));
    steps
}
