//! Regular expressions over events, and the automata that match them (Thompson's construction).
//!
//! Invariant: the arcs of a state are in order of preference: alternatives from left to right, one more
//! repetition before its end if the repetition is greedy, and after it if it is reluctant. Bounded
//! repetitions are written out; an unbounded one goes on only after an iteration that has consumed something.
//! So arcs that consume nothing form no circle, and the order of arcs is that of ways through the automaton.

use super::automaton::{Automaton, Element, Label, RegisterField, Transition};
use datafusion::common::{Result, plan_err};

/// The most states of an automaton; bounded repetitions are written out.
const STATES_MAX: usize = 1 << 14;

/// A regular expression over events.
///
/// ```
/// use whimbrel_temporal::operators::{Element, Regex};
///
/// # fn main() -> datafusion::common::Result<()> {
/// let any = || Regex::event(Element::any());
/// let automaton = any().then(any().optional()).automaton(vec![])?;
/// assert!(!automaton.consumes_lists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum Regex {
    /// The empty sequence.
    Empty,
    /// One event.
    Event(Element),
    /// All events of one instant.
    List(Element),
    /// One after another.
    Concat(Vec<Regex>),
    /// One of them; earlier ones are preferred.
    Or(Vec<Regex>),
    /// At least `least` times and at most `most`; none: any number of times.
    Repeat {
        /// What is repeated.
        of: Box<Regex>,
        /// The least number of times.
        least: usize,
        /// The most; none: there is no limit.
        most: Option<usize>,
        /// Whether more repetitions are preferred to fewer.
        greedy: bool,
    },
}

impl Regex {
    /// One event.
    pub fn event(element: Element) -> Regex {
        Regex::Event(element)
    }

    /// All events of one instant.
    pub fn list(element: Element) -> Regex {
        Regex::List(element)
    }

    /// This, then the other.
    pub fn then(self, next: Regex) -> Regex {
        Regex::Concat(vec![self, next])
    }

    /// This, or else the other.
    pub fn or(self, other: Regex) -> Regex {
        Regex::Or(vec![self, other])
    }

    /// Any number of times, rather more.
    pub fn star(self) -> Regex {
        self.repeat(0, None)
    }

    /// Once or more, rather more.
    pub fn plus(self) -> Regex {
        self.repeat(1, None)
    }

    /// Once or not at all, rather once.
    pub fn optional(self) -> Regex {
        self.repeat(0, Some(1))
    }

    /// Between `least` and `most` times, rather more; none: there is no limit.
    pub fn repeat(self, least: usize, most: Option<usize>) -> Regex {
        Regex::Repeat { of: Box::new(self), least, most, greedy: true }
    }

    /// The same, if it is a repetition, but rather fewer times.
    pub fn reluctant(self) -> Regex {
        match self {
            Regex::Repeat { of, least, most, .. } => Regex::Repeat { of, least, most, greedy: false },
            other => other,
        }
    }

    /// Whether it matches the empty sequence.
    pub fn matches_empty(&self) -> bool {
        match self {
            Regex::Empty => true,
            Regex::Event(_) | Regex::List(_) => false,
            Regex::Concat(parts) => parts.iter().all(Regex::matches_empty),
            Regex::Or(parts) => parts.iter().any(Regex::matches_empty),
            Regex::Repeat { of, least, .. } => *least == 0 || of.matches_empty(),
        }
    }

    /// The automaton that matches it, with this register.
    ///
    /// # Errors
    /// `Plan` if a repetition ends before its least number, the automaton would be too large, or what
    /// [`Automaton::try_new`] refuses.
    pub fn automaton(&self, register: Vec<RegisterField>) -> Result<Automaton> {
        let mut build = Build { states: 1, arcs: Vec::new() };
        let end = build.add(self, 0)?;
        Automaton::try_new(build.states, 0, &[end], build.arcs, register)
    }
}

/// An automaton that is being built.
struct Build {
    states: usize,
    arcs: Vec<Transition>,
}

/// Where what was added ends: where nothing was consumed on the way, and where something was. None: it cannot
/// end so.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    empty: Option<usize>,
    moved: Option<usize>,
}

impl Build {
    fn state(&mut self) -> Result<usize> {
        if self.states == STATES_MAX {
            return plan_err!("the pattern has more than {STATES_MAX} states; repeat less");
        }
        self.states += 1;
        Ok(self.states - 1)
    }

    fn arc(&mut self, from: usize, to: usize, label: Label) {
        self.arcs.push(Transition { from, to, label });
    }

    /// Adds what matches `regex` from a state without arcs on; the state where it ends has no arcs either.
    fn add(&mut self, regex: &Regex, from: usize) -> Result<usize> {
        match regex {
            Regex::Empty => Ok(from),
            Regex::Event(element) => self.element(from, Label::Event(element.clone())),
            Regex::List(element) => self.element(from, Label::List(element.clone())),
            Regex::Concat(parts) => parts.iter().try_fold(from, |at, part| self.add(part, at)),
            Regex::Or(parts) => self.alternatives(parts, from),
            Regex::Repeat { of, least, most, greedy } => self.repetition(of, *least, *most, *greedy, from),
        }
    }

    fn element(&mut self, from: usize, label: Label) -> Result<usize> {
        let to = self.state()?;
        self.arc(from, to, label);
        Ok(to)
    }

    fn alternatives(&mut self, parts: &[Regex], from: usize) -> Result<usize> {
        let end = self.state()?;
        for part in parts {
            let entry = self.state()?;
            self.arc(from, entry, Label::Epsilon);
            let exit = self.add(part, entry)?;
            self.arc(exit, end, Label::Epsilon);
        }
        Ok(end)
    }

    fn repetition(
        &mut self,
        of: &Regex,
        least: usize,
        most: Option<usize>,
        greedy: bool,
        from: usize,
    ) -> Result<usize> {
        check_bounds(least, most)?;
        let mut at = from;
        for _ in 0..least {
            at = self.add(of, at)?;
        }
        let end = self.state()?;
        match most {
            None => {
                // Arcs lead back to this state: it cannot be one that has others.
                let again = self.state()?;
                self.arc(at, again, Label::Epsilon);
                let entry = self.fork(again, end, greedy)?;
                if let Some(last) = self.split(of, entry)?.moved {
                    self.arc(last, again, Label::Epsilon);
                }
            }
            Some(most) => {
                for _ in least..most {
                    let entry = self.fork(at, end, greedy)?;
                    at = self.add(of, entry)?;
                }
                self.arc(at, end, Label::Epsilon);
            }
        }
        Ok(end)
    }

    /// Arcs to a new state, which is returned, and to `end`; the preferred one is first.
    fn fork(&mut self, from: usize, end: usize, greedy: bool) -> Result<usize> {
        let entry = self.state()?;
        let (first, second) = if greedy { (entry, end) } else { (end, entry) };
        self.arc(from, first, Label::Epsilon);
        self.arc(from, second, Label::Epsilon);
        Ok(entry)
    }

    /// Adds the same as [`add`](Build::add), with separate ends for the empty sequence and all others. What
    /// may match the empty sequence is written out twice for that: before something was consumed, and after.
    fn split(&mut self, regex: &Regex, from: usize) -> Result<Ends> {
        if !regex.matches_empty() {
            return Ok(Ends { empty: None, moved: Some(self.add(regex, from)?) });
        }
        match regex {
            Regex::Empty | Regex::Event(_) | Regex::List(_) => Ok(Ends { empty: Some(from), moved: None }),
            Regex::Concat(parts) => self.split_sequence(parts.iter(), from),
            Regex::Or(parts) => {
                let mut ends = Ends::default();
                for part in parts {
                    let entry = self.state()?;
                    self.arc(from, entry, Label::Epsilon);
                    let Ends { empty, moved } = self.split(part, entry)?;
                    ends =
                        Ends { empty: self.join(ends.empty, empty)?, moved: self.join(ends.moved, moved)? };
                }
                Ok(ends)
            }
            Regex::Repeat { of, least, most, greedy } if *least > 0 => {
                check_bounds(*least, *most)?;
                let most = most.map(|most| most - least);
                let rest = Regex::Repeat { of: of.clone(), least: 0, most, greedy: *greedy };
                let times = std::iter::repeat_n(&**of, *least);
                self.split_sequence(times.chain([&rest]), from)
            }
            Regex::Repeat { most: Some(0), .. } => Ok(Ends { empty: Some(from), moved: None }),
            Regex::Repeat { of, most, greedy, .. } => self.split_repetition(of, *most, *greedy, from),
        }
    }

    /// One after another.
    fn split_sequence<'a>(&mut self, parts: impl Iterator<Item = &'a Regex>, from: usize) -> Result<Ends> {
        let mut ends = Ends { empty: Some(from), moved: None };
        for part in parts {
            let before = match ends.empty {
                Some(at) => self.split(part, at)?,
                None => Ends::default(),
            };
            let after = ends.moved.map(|at| self.add(part, at)).transpose()?;
            ends = Ends { empty: before.empty, moved: self.join(before.moved, after)? };
        }
        Ok(ends)
    }

    /// Any number of times up to `most`, which is not 0; none: there is no limit.
    fn split_repetition(
        &mut self,
        of: &Regex,
        most: Option<usize>,
        greedy: bool,
        from: usize,
    ) -> Result<Ends> {
        let end = self.state()?;
        let entry = self.fork(from, end, greedy)?;
        let Ends { empty, moved } = self.split(of, entry)?;
        let most = most.map(|most| most - 1);
        let rest = Regex::Repeat { of: Box::new(of.clone()), least: 0, most, greedy };
        let after = moved.map(|at| self.add(&rest, at)).transpose()?;
        let mut ends = Ends { empty: Some(end), moved: after };
        // An iteration that consumes nothing is followed by others only if their number is bounded.
        if let (Some(at), Some(_)) = (empty, most) {
            let Ends { empty, moved } = self.split(&rest, at)?;
            if let Some(at) = empty {
                self.arc(at, end, Label::Epsilon);
            }
            ends.moved = self.join(ends.moved, moved)?;
        }
        Ok(ends)
    }

    /// A state to which both lead.
    fn join(&mut self, one: Option<usize>, other: Option<usize>) -> Result<Option<usize>> {
        let (Some(one), Some(other)) = (one, other) else { return Ok(one.or(other)) };
        let both = self.state()?;
        self.arc(one, both, Label::Epsilon);
        self.arc(other, both, Label::Epsilon);
        Ok(Some(both))
    }
}

/// # Errors
/// `Plan` if a repetition ends before its least number.
fn check_bounds(least: usize, most: Option<usize>) -> Result<()> {
    match most {
        Some(most) if most < least => {
            plan_err!("a pattern is repeated at least {least} times and at most {most}")
        }
        _ => Ok(()),
    }
}
