//! Which unit of work is invoked when.
//!
//! Invariants: a unit is invoked once all units that it reads from have ended, or all that have not are
//! running and will have ended by the time it has read the others (starling.txt §4.4); no more attempts run
//! than the service takes; the first attempt of a unit that succeeds is its outcome, for all readers. It has
//! no clock and no threads: the time is told.

use super::units::Units;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How work is invoked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScheduleSettings {
    /// How many invocations run at the same time.
    pub concurrency: usize,
    /// How often a unit is tried that fails for reasons of its machine.
    pub attempts: usize,
    /// What part of a stage has to be done before the rest of it is invoked a second time; above 1 for never.
    pub duplicate_after: f64,
    /// How many times the median of its stage a unit may take before that.
    pub duplicate_factor: f64,
    /// Whether units begin before all that they read from have ended.
    pub pipelined: bool,
    /// Units of a stage that read less than so many bytes together are invoked together.
    pub group_bytes: u64,
}

impl Default for ScheduleSettings {
    fn default() -> ScheduleSettings {
        ScheduleSettings {
            concurrency: 8,
            attempts: 4,
            duplicate_after: 0.9,
            duplicate_factor: 3.0,
            pipelined: true,
            group_bytes: 2 << 20,
        }
    }
}

/// A unit takes less than this in any case, before it is invoked a second time.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long it takes from an invocation to the first read.
const BEGIN: Duration = Duration::from_millis(20);

/// No unit begins early before all but one in so many of its sources have ended.
const MISSING: usize = 4;

/// How fast a function reads what is there, in bytes a second.
const READ_RATE: f64 = 75e6;

/// What part of a place a unit earns that has ended, after the service has refused invocations.
const PLACE_EARNED: f64 = 0.2;

/// At most so many units are invoked together: when one is lost, all of them are.
const GROUP: usize = 64;

/// From how many sources the units of one invocation read at most: each takes some bytes of its message,
/// which services limit.
const GROUP_SOURCES: usize = 16_384;

/// The state of a query's work.
pub struct Schedule {
    units: Arc<Units>,
    settings: ScheduleSettings,
    states: Vec<State>,
    /// Units that can be invoked, those of earlier stages first.
    ready: BTreeSet<(usize, usize)>,
    /// Units some of whose sources have ended, in the same order.
    waiting: BTreeSet<(usize, usize)>,
    invocations: usize,
    /// How many invocations the service seems to take.
    places: f64,
    /// How long the units of each stage took that have ended, tasks and those that combine, in order.
    took: Vec<[Vec<Duration>; 2]>,
    /// How many units of each stage there are.
    counts: Vec<[usize; 2]>,
    done: usize,
}

#[derive(Clone)]
struct State {
    /// How many of its sources have not ended.
    missing: usize,
    /// The bytes of those that have.
    known_bytes: u64,
    /// When its running attempts began.
    running: Vec<Instant>,
    failures: usize,
    was_duplicated: bool,
    is_done: bool,
}

impl Schedule {
    /// The beginning of a query. Units that are done already are given by `is_done`, and are nobody's
    /// business; the others that nobody needs, too.
    pub fn new(units: &Arc<Units>, settings: ScheduleSettings, is_done: &[bool]) -> Schedule {
        let stages = units.plan.programs.stages().stages.len();
        let state = |unit: usize| State {
            missing: units.sources(unit).iter().filter(|source| !is_done[**source]).count(),
            known_bytes: 0,
            running: vec![],
            failures: 0,
            was_duplicated: false,
            is_done: is_done[unit],
        };
        let states: Vec<State> = (0..units.count()).map(state).collect();
        let is_ready = |unit: &usize| !states[*unit].is_done && states[*unit].missing == 0;
        let ready = (0..states.len()).filter(is_ready).map(|unit| (units.stage(unit), unit)).collect();
        let mut counts = vec![[0, 0]; stages];
        for unit in 0..units.count() {
            counts[units.stage(unit)][usize::from(units.combine(unit).is_some())] += 1;
        }
        Schedule {
            units: Arc::clone(units),
            settings,
            done: states.iter().filter(|state| state.is_done).count(),
            states,
            ready,
            waiting: BTreeSet::new(),
            invocations: 0,
            places: settings.concurrency as f64,
            took: vec![Default::default(); stages],
            counts,
        }
    }

    /// Readers read so many bytes each from outputs that were kept.
    pub fn add_kept(&mut self, bytes: &[(usize, u64)]) {
        bytes.iter().for_each(|(reader, bytes)| self.states[*reader].known_bytes += bytes);
    }

    /// Whether there are units that nothing else is waited for.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The units of the next invocation, if there is one and room for it.
    pub fn next(&mut self, now: Instant) -> Option<Vec<usize>> {
        if self.invocations as f64 >= self.places.floor() {
            return None;
        }
        let group = match self.ready_group() {
            Some(group) => group,
            None => vec![self.early(now).or_else(|| self.straggler(now))?],
        };
        group.iter().for_each(|unit| self.states[*unit].running.push(now));
        self.invocations += 1;
        Some(group)
    }

    /// The first unit that is ready, and others of its stage, if they have little to read.
    fn ready_group(&mut self) -> Option<Vec<usize>> {
        let (stage, first) = self.ready.pop_first()?;
        let mut group = vec![first];
        // How much a task reads from tables is not known here.
        if self.units.sources(first).is_empty() || self.states[first].failures > 0 {
            return Some(group);
        }
        let is_combine = self.units.combine(first).is_some();
        let mut bytes = self.states[first].known_bytes;
        let mut sources = self.units.sources(first).len();
        for (_, unit) in self.ready.range((stage, first)..(stage + 1, 0)).copied().collect::<Vec<_>>() {
            let state = &self.states[unit];
            bytes += state.known_bytes;
            sources += self.units.sources(unit).len();
            let is_alike = self.units.combine(unit).is_some() == is_combine && state.failures == 0;
            let is_small = bytes <= self.settings.group_bytes && sources <= GROUP_SOURCES;
            if !is_small || group.len() == GROUP || !is_alike {
                break;
            }
            self.ready.remove(&(stage, unit));
            group.push(unit);
        }
        Some(group)
    }

    /// A unit that takes much longer than others of its stage, nearly all of which have ended.
    fn straggler(&mut self, now: Instant) -> Option<usize> {
        let units = 0..self.states.len();
        let late: Vec<[Option<Duration>; 2]> = (0..self.took.len()).map(|stage| self.late(stage)).collect();
        if late.iter().flatten().all(Option::is_none) {
            return None;
        }
        let unit = units.into_iter().find(|unit| {
            let (state, (stage, kind)) = (&self.states[*unit], self.kind(*unit));
            let ([began], false) = (&state.running[..], state.is_done || state.was_duplicated) else {
                return false;
            };
            late[stage][kind].is_some_and(|late| now.saturating_duration_since(*began) > late)
        })?;
        self.states[unit].was_duplicated = true;
        Some(unit)
    }

    /// From when on a unit of a stage is late, tasks and those that combine, if nearly all of them have
    /// ended.
    fn late(&self, stage: usize) -> [Option<Duration>; 2] {
        [0, 1].map(|kind| {
            let (took, all) = (&self.took[stage][kind], self.counts[stage][kind]);
            // A stage of one task has nothing to be compared with.
            let nearly_all = (self.settings.duplicate_after * all as f64).max(1.0);
            let is_time = took.len() < all && took.len() as f64 >= nearly_all;
            is_time.then(|| median(took).mul_f64(self.settings.duplicate_factor).max(PATIENCE))
        })
    }

    /// A unit whose missing sources are all running, and will have ended by the time it has read the others.
    fn early(&mut self, now: Instant) -> Option<usize> {
        if !self.settings.pipelined {
            return None;
        }
        let mut stage = None;
        let place = self.waiting.iter().copied().find(|(of, unit)| {
            // Units of a stage mostly wait for the same.
            let is_first = stage.replace(*of) != Some(*of);
            is_first && self.is_time(*unit, now)
        })?;
        self.waiting.remove(&place);
        Some(place.1)
    }

    fn is_time(&self, unit: usize, now: Instant) -> bool {
        let (state, sources) = (&self.states[unit], self.units.sources(unit));
        if state.missing * MISSING > sources.len() {
            return false;
        }
        let missing = sources.iter().filter(|source| !self.states[**source].is_done);
        let left = missing
            .map(|source| self.expected_end(*source, now))
            .try_fold(Duration::ZERO, |longest, left| Some(longest.max(left?)));
        let reads = Duration::from_secs_f64(state.known_bytes as f64 / READ_RATE);
        left.is_some_and(|left| left <= reads + BEGIN)
    }

    /// How long a running unit will still take, if that can be told.
    fn expected_end(&self, unit: usize, now: Instant) -> Option<Duration> {
        let began = self.states[unit].running.first()?;
        let (stage, kind) = self.kind(unit);
        let took = Some(&self.took[stage][kind]).filter(|took| !took.is_empty())?;
        Some(median(took).saturating_sub(now.saturating_duration_since(*began)))
    }

    fn kind(&self, unit: usize) -> (usize, usize) {
        (self.units.stage(unit), usize::from(self.units.combine(unit).is_some()))
    }

    /// An attempt has succeeded; whether it was the first one of its unit. `bytes` are those of its output
    /// for each of its readers.
    pub fn succeed(&mut self, unit: usize, began: Instant, now: Instant, bytes: &[(usize, u64)]) -> bool {
        self.end(unit, began);
        let kind = self.kind(unit);
        if std::mem::replace(&mut self.states[unit].is_done, true) {
            return false;
        }
        self.done += 1;
        self.places = (self.places + PLACE_EARNED).min(self.settings.concurrency as f64);
        let place = (kind.0, unit);
        // A unit that was given up may wait for another attempt.
        self.ready.remove(&place);
        self.waiting.remove(&place);
        let (took, time) = (&mut self.took[kind.0][kind.1], now.saturating_duration_since(began));
        took.insert(took.partition_point(|other| *other <= time), time);
        for (reader, bytes) in bytes {
            let state = &mut self.states[*reader];
            if state.is_done {
                continue;
            }
            state.missing -= 1;
            state.known_bytes += bytes;
            if !state.running.is_empty() {
                continue;
            }
            let place = (self.units.stage(*reader), *reader);
            match state.missing {
                0 => {
                    self.waiting.remove(&place);
                    self.ready.insert(place);
                }
                _ => _ = self.waiting.insert(place),
            }
        }
        true
    }

    /// An attempt has failed for reasons of its machine; whether there is hope for its unit.
    pub fn fail(&mut self, unit: usize, began: Instant) -> bool {
        self.end(unit, began);
        let state = &mut self.states[unit];
        state.failures += 1;
        let has_hope = state.is_done || !state.running.is_empty() || state.failures < self.settings.attempts;
        if has_hope {
            self.wait_again(unit);
        }
        has_hope
    }

    /// An attempt was not begun.
    pub fn put_back(&mut self, unit: usize, began: Instant) {
        self.end(unit, began);
        self.wait_again(unit);
    }

    /// Who waits for others holds a place that they may need.
    pub fn begin_nothing_early(&mut self) {
        self.settings.pipelined = false;
    }

    /// The service runs fewer at the same time than was thought. That may change: each success earns a part
    /// of a place.
    pub fn throttle(&mut self) {
        self.begin_nothing_early();
        self.places = (self.invocations as f64).max(1.0);
    }

    fn wait_again(&mut self, unit: usize) {
        let (state, place) = (&self.states[unit], (self.units.stage(unit), unit));
        if !state.is_done && state.running.is_empty() {
            match state.missing {
                0 => self.ready.insert(place),
                _ => self.waiting.insert(place),
            };
        }
    }

    fn end(&mut self, unit: usize, began: Instant) {
        let running = &mut self.states[unit].running;
        if let Some(place) = running.iter().position(|other| *other == began) {
            running.swap_remove(place);
        }
    }

    /// An invocation has ended.
    pub fn leave(&mut self) {
        self.invocations -= 1;
    }

    /// How many units were invoked a second time, as they took too long.
    pub fn duplicates(&self) -> u64 {
        self.states.iter().filter(|state| state.was_duplicated).count() as u64
    }

    /// Whether all units have ended.
    pub fn is_done(&self) -> bool {
        self.done == self.states.len()
    }

    /// Whether a unit has an outcome.
    pub fn has_outcome(&self, unit: usize) -> bool {
        self.states[unit].is_done
    }

    /// How many tasks each stage has, how many of them run, and how many have ended.
    pub fn progress(&self) -> Vec<(usize, usize, usize)> {
        let mut stages = vec![(0, 0, 0); self.counts.len()];
        for unit in 0..self.units.plan.tasks() {
            let (stage, state) = (&mut stages[self.units.stage(unit)], &self.states[unit]);
            stage.0 += 1;
            stage.1 += usize::from(!state.is_done && !state.running.is_empty());
            stage.2 += usize::from(state.is_done);
        }
        stages
    }
}

/// The middle of times that are in order.
fn median(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}
