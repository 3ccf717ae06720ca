//! Places in a document: `$.a."b c"[0][#-1]`, `$.*`, `$[*]`; JSON pointers (RFC 6901), `/a/0`; and the name
//! of a field, which is what begins with neither `$` nor `/`.

use super::document::Json;
use datafusion::common::{Result, plan_err};

/// A path of steps into a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path(Vec<Step>);

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// The field of this name.
    Field(String),
    /// Of a list; from its end if negative.
    At(i64),
    /// Of a pointer: the name of a field, or a place in a list.
    Either(String),
    /// All fields.
    EveryField,
    /// All items.
    EveryItem,
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// `Execution` if the text is not a path.
    pub fn read(text: &str) -> Result<Path> {
        if let Some(steps) = text.strip_prefix('$') {
            return match steps_of(steps) {
                Some(steps) => Ok(Path(steps)),
                None => plan_err!(
                    "{text:?} is no path in JSON; it is $, then .name, .\"any name\", .*, [0], [#-1] or [*]"
                ),
            };
        }
        if let Some(steps) = text.strip_prefix('/') {
            let name = |step: &str| Step::Either(step.replace("~1", "/").replace("~0", "~"));
            return Ok(Path(steps.split('/').map(name).collect()));
        }
        match text {
            "" => Ok(Path(vec![])),
            name => Ok(Path(vec![Step::Field(name.to_string())])),
        }
    }

    /// A place in a list; from its end if negative.
    pub fn at(place: i64) -> Path {
        Path(vec![Step::At(place)])
    }

    /// Whether it leads to any number of places.
    pub fn is_many(&self) -> bool {
        self.0.iter().any(|step| matches!(step, Step::EveryField | Step::EveryItem))
    }

    /// What is there.
    pub(super) fn all<'a>(&self, document: &'a Json) -> Vec<&'a Json> {
        self.0
            .iter()
            .fold(vec![document], |found, step| found.into_iter().flat_map(|json| step.of(json)).collect())
    }
}

impl Step {
    /// The values that a step leads to.
    fn of<'a>(&self, json: &'a Json) -> Vec<&'a Json> {
        let field = |name: &str, fields: &'a [(String, Json)]| {
            fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        match (self, json) {
            (Step::Field(name) | Step::Either(name), Json::Object(fields)) => {
                field(name, fields).into_iter().collect()
            }
            (Step::At(place), Json::List(values)) => item(values, *place).into_iter().collect(),
            (Step::Either(place), Json::List(values)) => {
                place.parse::<usize>().ok().and_then(|place| values.get(place)).into_iter().collect()
            }
            (Step::EveryField, Json::Object(fields)) => fields.iter().map(|(_, value)| value).collect(),
            (Step::EveryItem, Json::List(values)) => values.iter().collect(),
            _ => vec![],
        }
    }
}

/// An item of an array; a negative place counts from the end.
fn item(values: &[Json], place: i64) -> Option<&Json> {
    let place = if place < 0 { place + values.len() as i64 } else { place };
    values.get(usize::try_from(place).ok()?)
}

/// What stands behind `$`.
fn steps_of(mut text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !text.is_empty() {
        let (step, rest) = match text.strip_prefix('.') {
            Some(field) => named(field)?,
            None => {
                let (place, rest) = text.strip_prefix('[')?.split_once(']')?;
                (placed(place)?, rest)
            }
        };
        steps.push(step);
        text = rest;
    }
    Some(steps)
}

/// `name`, `"any name"` or `*`, and what is behind.
fn named(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((Step::EveryField, rest));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"')?;
        return Some((Step::Field(name.to_string()), rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!name.is_empty()).then(|| (Step::Field(name.to_string()), rest))
}

/// `0`, `-1`, `#-1` or `*`.
fn placed(text: &str) -> Option<Step> {
    match text {
        "*" => Some(Step::EveryItem),
        text => match text.strip_prefix('#') {
            Some(from_end) => from_end.parse().ok().filter(|place| *place < 0).map(Step::At),
            None => text.parse().ok().map(Step::At),
        },
    }
}
