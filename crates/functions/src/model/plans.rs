//! Which plan of a query runs, and in how many tasks: few shards may have another plan than many, and the
//! tasks of the best plans are looked for.

use super::tasks::choose_tasks;
use super::{Expected, Forecast, Goal};
use datafusion::common::Result;
use std::collections::BTreeMap;
use whimbrel_plan::{Stream, stage_shards, with_stage_shards};
use whimbrel_sharded::runtime::{ChosenPlan, PlanChoice};

/// For how many plans of a query the number of tasks in each stage is looked for.
const TUNED_PLANS: usize = 3;

/// A plan, and what it is expected to take.
struct Candidate {
    shards: usize,
    stream: Stream,
    forecast: Forecast,
}

impl Candidate {
    fn choice(&self, chosen: bool) -> PlanChoice {
        let (seconds, dollars, gb_seconds) = self.forecast.expected();
        let tasks = self.forecast.stages.iter().map(|stage| stage.tasks).collect();
        PlanChoice { shards: self.shards, tasks, seconds, dollars, gb_seconds, chosen }
    }
}

/// The plan of a query that serves a goal best, with at most so many tasks in each stage. `plan` plans it in
/// a number of shards, and `expect` says what a plan is expected to take.
///
/// # Errors
/// Those of `plan` and `expect`.
pub fn choose_plan(
    most: usize,
    goal: Goal,
    plan: &mut dyn FnMut(usize) -> Result<Stream>,
    expect: impl Fn(&Stream) -> Result<Forecast>,
) -> Result<ChosenPlan> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for shards in shard_counts(most) {
        let stream = plan(shards)?;
        let forecast = expect(&stream)?;
        candidates.push(Candidate { shards, stream, forecast });
        // More shards would not run anywhere else.
        if candidates.iter().any(|candidate| candidate.forecast.runs_here) {
            break;
        }
    }
    for place in best_of_each_shape(&candidates, goal)? {
        let Candidate { shards, stream, forecast } = &candidates[place];
        let (tuned, expected) = choose_tasks(stream, most, goal, &expect)?;
        let tasks = |forecast: &Forecast| forecast.stages.iter().map(|stage| stage.tasks).collect::<Vec<_>>();
        if tasks(&expected) != tasks(forecast) {
            candidates.push(Candidate { shards: *shards, stream: tuned, forecast: expected });
        }
    }
    let chosen = best(&candidates, goal);
    let choices = candidates.iter().enumerate().map(|(place, candidate)| candidate.choice(place == chosen));
    Ok(ChosenPlan { choices: choices.collect(), stream: candidates[chosen].stream.clone() })
}

/// 1, 2, 4, … up to a number, and that number.
fn shard_counts(most: usize) -> impl Iterator<Item = usize> {
    let powers = std::iter::successors(Some(1), move |count| Some(2 * count).filter(|next| *next < most));
    powers.chain((most > 1).then_some(most))
}

/// The place of the best candidate.
fn best<'a>(candidates: impl IntoIterator<Item = &'a Candidate>, goal: Goal) -> usize {
    let expected: Vec<Expected> =
        candidates.into_iter().map(|candidate| candidate.forecast.expected()).collect();
    goal.choose(&expected)
}

/// The places of the best candidates, each the best among those with the same operators.
fn best_of_each_shape(candidates: &[Candidate], goal: Goal) -> Result<Vec<usize>> {
    let mut by_shape: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, candidate) in candidates.iter().enumerate() {
        by_shape.entry(shape(&candidate.stream)?).or_default().push(place);
    }
    let best_of = |places: &[usize]| best(places.iter().map(|place| &candidates[*place]), goal);
    let mut left: Vec<usize> = by_shape.values().map(|places| places[best_of(places)]).collect();
    left.sort_unstable();
    let tuned = left.len().min(TUNED_PLANS);
    Ok((0..tuned).map(|_| left.remove(best_of(&left))).collect())
}

/// The operators of a plan, without its numbers of tasks.
fn shape(stream: &Stream) -> Result<String> {
    let stages = stage_shards(stream.plan())?.len();
    Stream::from_plan(with_stage_shards(stream.plan(), &vec![2; stages])?)?.explain()
}

#[cfg(test)]
mod tests {
    use super::shard_counts;

    #[test]
    fn shards_are_powers_of_two_and_the_most() {
        let counts = |most| shard_counts(most).collect::<Vec<_>>();
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
        assert_eq!(counts(8), [1, 2, 4, 8]);
    }
}
