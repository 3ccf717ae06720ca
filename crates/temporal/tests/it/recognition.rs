//! Row patterns that exist twice: as the engine's, and as a matcher that goes back where it fails, and takes
//! what is preferred first.

use crate::detection::{Asked, COUNT, Part, Pattern, initial, register, with_register};
use crate::model::{Event, Row, Value};
use crate::oracle::{Events, in_order, key_of};
use arrow::datatypes::SchemaRef;
use std::collections::{BTreeMap, HashSet};
use whimbrel_temporal::Time;
use whimbrel_temporal::operators::{
    AfterMatch, MatchRecognize, Previous, RowPattern, Simultaneous, with_previous,
};

/// In formulas of patterns: the first column of an earlier row, whatever its number turns out to be.
pub const PREVIOUS: usize = 100;

/// A row pattern and how it is looked for.
#[derive(Debug, Clone)]
pub struct Recognition {
    pub pattern: Pattern,
    pub key: Vec<usize>,
    pub previous: Vec<Previous>,
    pub within: Option<i64>,
    pub after_match: AfterMatch,
    pub match_number: bool,
}

/// What is still to be matched, in order.
#[derive(Debug, Clone)]
enum Task {
    Match(Pattern),
    /// A row was matched since this place.
    Moved(usize),
}

/// A key's rows, and what is known not to match them.
struct Matcher<'a> {
    rows: &'a [(Time, Row)],
    /// Rows from this time on are out of reach.
    deadline: Time,
    failed: HashSet<String>,
}

/// A match: the register, and the variable of each row.
type Found = (Row, Vec<usize>);

impl Matcher<'_> {
    /// The preferred match of tasks, of which the last is the next.
    fn best(&mut self, mut tasks: Vec<Task>, at: usize, register: Row, path: &mut Vec<usize>) -> Option<Row> {
        let Some(task) = tasks.pop() else {
            path.truncate(at);
            return Some(register);
        };
        let name = format!("{task:?} {tasks:?} {at} {register:?}");
        if self.failed.contains(&name) {
            return None;
        }
        let found = match task {
            Task::Moved(from) if from == at => None,
            Task::Moved(_) | Task::Match(Pattern::Empty) => self.best(tasks, at, register, path),
            Task::Match(Pattern::One(part)) => self.row(&part, tasks, at, &register, path),
            Task::Match(Pattern::Concat(parts)) => {
                tasks.extend(parts.into_iter().rev().map(Task::Match));
                self.best(tasks, at, register, path)
            }
            Task::Match(Pattern::Or(parts)) => parts.into_iter().find_map(|part| {
                let tasks = [&tasks[..], &[Task::Match(part)]].concat();
                self.best(tasks, at, register.clone(), path)
            }),
            Task::Match(Pattern::Repeat { of, least, most, greedy }) => {
                let rest = Pattern::Repeat {
                    of: of.clone(),
                    least: least.saturating_sub(1),
                    most: most.map(|most: usize| most.saturating_sub(1)),
                    greedy,
                };
                let mut again = vec![Task::Match(rest)];
                if least == 0 && most.is_none() {
                    again.push(Task::Moved(at));
                }
                again.push(Task::Match(*of));
                let ways = match (least, most) {
                    (0, Some(0)) => vec![vec![]],
                    (0, _) if greedy => vec![again, vec![]],
                    (0, _) => vec![vec![], again],
                    _ => vec![again],
                };
                ways.into_iter()
                    .find_map(|way| self.best([&tasks[..], &way].concat(), at, register.clone(), path))
            }
        };
        if found.is_none() {
            self.failed.insert(name);
        }
        found
    }

    fn row(
        &mut self,
        part: &Part,
        tasks: Vec<Task>,
        at: usize,
        register: &Row,
        path: &mut Vec<usize>,
    ) -> Option<Row> {
        let (_, row) = self.rows.get(at).filter(|(time, _)| *time < self.deadline)?;
        let register = part.take(row, register)?;
        path.truncate(at);
        path.resize(at, 0);
        path.push(part.variable);
        self.best(tasks, at + 1, register, path)
    }
}

impl Recognition {
    /// The pattern over columns as they are numbered here.
    fn pattern(&self) -> Pattern {
        let more = self.previous.len();
        renumbered(&self.pattern, &move |column| match column {
            PREVIOUS.. => column - PREVIOUS + COUNT,
            COUNT.. => column + more,
            _ => column,
        })
    }

    pub fn operator(&self, input: &SchemaRef) -> MatchRecognize {
        let columns = with_register(&with_previous(input, &self.previous).expect("columns"));
        let automaton = self.pattern().regex(&columns, false).automaton(register());
        let pattern = RowPattern {
            automaton: automaton.expect("an automaton"),
            key: self.key.clone(),
            previous: self.previous.clone(),
            within: self.within,
            after_match: self.after_match,
            match_number: self.match_number.then(|| "match".to_string()),
            simultaneous: Simultaneous::Ordered,
        };
        MatchRecognize::try_new(pattern, input).expect("a pattern")
    }

    pub fn oracle(&self, events: &Events) -> Events {
        let mut keys: BTreeMap<Row, Vec<&Event>> = BTreeMap::new();
        for event in events {
            keys.entry(key_of(&event.row, &self.key)).or_default().push(event);
        }
        let mut matches = Vec::new();
        for (key, mut events) in keys {
            events.sort_by_key(|e| (e.start, &e.row));
            let rows: Vec<(Time, Row)> =
                (0..events.len()).map(|i| (events[i].start, self.row(&events, i))).collect();
            matches.extend(self.matches_of(&key, &rows));
        }
        in_order(matches)
    }

    /// A row with its columns of earlier rows.
    fn row(&self, events: &[&Event], at: usize) -> Row {
        let mut row = events[at].row.clone();
        for &Previous { column, rows } in &self.previous {
            row.push(at.checked_sub(rows).map_or(Value::Null, |before| events[before].row[column].clone()));
        }
        row
    }

    fn matches_of(&self, key: &Row, rows: &[(Time, Row)]) -> Events {
        let pattern = self.pattern();
        let (mut at, mut matches) = (0, Vec::new());
        while at < rows.len() {
            let deadline = self.within.map_or(Time::MAX, |within| rows[at].0.saturating_add(within));
            let mut path = vec![0; at];
            let mut matcher = Matcher { rows, deadline, failed: HashSet::new() };
            let found = matcher.best(vec![Task::Match(pattern.clone())], at, initial(), &mut path);
            let Some((register, path)): Option<Found> = found.map(|register| (register, path)) else {
                at += 1;
                continue;
            };
            let time = rows[path.len() - 1].0;
            let mut row: Row = key.iter().chain(&register).cloned().collect();
            if self.match_number {
                row.push(Value::Int(matches.len() as i64 + 1));
            }
            matches.push(Event { start: time, end: time + 1, row });
            let mut of = (at..path.len()).filter(|&row| match self.after_match {
                AfterMatch::ToFirst(variable) | AfterMatch::ToLast(variable) => path[row] == variable,
                _ => true,
            });
            at = match self.after_match {
                AfterMatch::PastLastRow => path.len(),
                AfterMatch::ToNextRow => at + 1,
                AfterMatch::ToFirst(_) => of.next().expect("a row of the variable"),
                AfterMatch::ToLast(_) => of.next_back().expect("a row of the variable"),
            };
        }
        matches
    }
}

fn renumbered(pattern: &Pattern, number: &dyn Fn(usize) -> usize) -> Pattern {
    let all = |parts: &[Pattern]| parts.iter().map(|part| renumbered(part, number)).collect();
    match pattern {
        Pattern::Empty => Pattern::Empty,
        Pattern::Concat(parts) => Pattern::Concat(all(parts)),
        Pattern::Or(parts) => Pattern::Or(all(parts)),
        Pattern::Repeat { of, least, most, greedy } => Pattern::Repeat {
            of: Box::new(renumbered(of, number)),
            least: *least,
            most: *most,
            greedy: *greedy,
        },
        Pattern::One(Part { condition, update, variable }) => {
            let condition = condition.as_ref().map(|asked| match asked {
                Asked::Event(formula) => Asked::Event(formula.renumbered(number)),
                other => panic!("{other:?} is asked of lists"),
            });
            let update = update.iter().map(|(column, value)| (*column, value.renumbered(number)));
            Pattern::One(Part { condition, update: update.collect(), variable: *variable })
        }
    }
}
