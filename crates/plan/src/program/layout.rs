//! Lays out steps as statements.
//!
//! A step gets a variable if it is a source, is used more than once, is the second input of another step, or
//! is the result. The steps between two variables are one chain of method calls. Consecutive steps inside
//! `.query(…)` share one query, which has at most one step with several inputs.

use super::Program;
use super::document::Doc;
use super::steps::{Body, Step, StepKind, Steps};
use super::variable_names::UsedNames;
use datafusion::common::Result;
use std::collections::{BTreeSet, HashMap};

/// The maximal length of a line.
const WIDTH: usize = 100;

/// Names of Python's standard library that a program may use, with their modules.
const IMPORTS: [(&str, &str); 5] = [
    ("date", "datetime"),
    ("datetime", "datetime"),
    ("timedelta", "datetime"),
    ("timezone", "datetime"),
    ("Decimal", "decimal"),
];

/// The program that returns a step.
pub(super) fn program(steps: Steps, result: usize) -> Result<Program> {
    let used = reachable(&steps.all, result);
    let variables = Variables::of(&steps.all, &used, result);
    let parameters: Vec<(String, usize)> = used
        .iter()
        .filter(|s| steps.all[**s].kind == StepKind::Parameter)
        .map(|s| (variables.names[s].clone(), *s))
        .collect();
    let stream = steps.stream(result).clone();
    let sources = parameters.iter().map(|(name, s)| (name.clone(), steps.stream(*s).clone())).collect();
    let all = &steps.all;
    let result = variables.names[&result].clone();
    let mut names: Vec<String> = parameters.into_iter().map(|(name, _)| name).collect();
    let streams = names.len();
    let depth = |n: usize| usize::from(n > 0);
    let functions = steps.functions.into_parameters();
    names.extend(functions.iter().map(|(name, _)| name.clone()));
    let depth = depth(names.len());
    let body = statements(all, &used, &variables, depth);
    let text = match depth {
        0 => script(&body, &result),
        _ => function(&names, streams, &body, &result),
    };
    Ok(Program { text: format!("{}{text}", imports(&body)), result, sources, functions, stream })
}

/// The steps that a result needs, inputs first.
fn reachable(all: &[Step], result: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut pending = vec![result];
    while let Some(step) = pending.pop() {
        if found.insert(step) {
            pending.extend(&all[step].inputs);
        }
    }
    found
}

/// The names of variables and nested functions.
struct Variables {
    /// The steps that have a variable.
    names: HashMap<usize, String>,
    /// The steps that take a nested function as an argument.
    functions: HashMap<usize, String>,
}

impl Variables {
    fn of(all: &[Step], used: &BTreeSet<usize>, result: usize) -> Variables {
        let mut uses: HashMap<usize, usize> = HashMap::new();
        let mut named = BTreeSet::from([result]);
        for step in used {
            for (place, input) in all[*step].inputs.iter().enumerate() {
                *uses.entry(*input).or_default() += 1;
                if place > 0 && all[*step].body.is_none() {
                    named.insert(*input);
                }
            }
            if all[*step].inputs.is_empty() && all[*step].kind != StepKind::Values {
                named.insert(*step);
            }
        }
        named.extend(uses.into_iter().filter(|(_, n)| *n > 1).map(|(step, _)| step));
        let mut used_names = UsedNames::default();
        // Sources choose their names first.
        let (sources, others): (Vec<usize>, Vec<usize>) =
            named.into_iter().partition(|step| all[*step].inputs.is_empty());
        let names: HashMap<usize, String> = sources
            .into_iter()
            .chain(others)
            .map(|s| (s, used_names.unique(&name_for(all, used, s, result))))
            .collect();
        let called = used.iter().filter_map(|s| Some((*s, &names[&all[*s].body?.parameter])));
        let functions =
            called.map(|(s, parameter)| (s, used_names.unique(&format!("next_{parameter}")))).collect();
        Variables { names, functions }
    }
}

/// The name of a step; `result` for a result with the name of a source.
fn name_for(all: &[Step], used: &BTreeSet<usize>, step: usize, result: usize) -> String {
    let is_source = |s: &&usize| all[**s].inputs.is_empty() && all[**s].name == all[step].name;
    match step == result && !all[step].inputs.is_empty() && used.iter().any(|s| is_source(&s)) {
        true => "result".to_string(),
        false => all[step].name.clone(),
    }
}

/// One statement per variable; the statements of nested functions are inside these.
fn statements(all: &[Step], used: &BTreeSet<usize>, variables: &Variables, depth: usize) -> Vec<String> {
    let inside: BTreeSet<usize> = used
        .iter()
        .filter_map(|s| all[*s].body)
        .flat_map(|body| dependents(all, used, body.parameter))
        .collect();
    let assigned: Vec<(usize, &String)> = used
        .iter()
        .filter(|s| {
            !inside.contains(s) && !matches!(all[**s].kind, StepKind::Parameter | StepKind::FunctionParameter)
        })
        .filter_map(|s| Some((*s, variables.names.get(s)?)))
        .collect();
    let (sources, derived): (Vec<_>, Vec<_>) =
        assigned.into_iter().partition(|(s, _)| all[*s].inputs.is_empty());
    let source_count = sources.len();
    let mut lines = Vec::new();
    for (step, name) in sources.into_iter().chain(derived) {
        if lines.len() == source_count && source_count > 0 && depth == 0 {
            lines.push(String::new());
        }
        for called in path(all, variables, step) {
            if let Some(body) = all[called].body {
                lines.extend(inner_function(all, used, variables, (called, body), depth));
            }
        }
        let head = format!("{}{name} = ", " ".repeat(4 * depth));
        let doc = chain(all, variables, step);
        lines.push(format!("{head}{}", doc.lines(depth, head.chars().count(), WIDTH)));
    }
    lines
}

/// The steps that depend on the parameter of a nested function, and the parameter.
fn dependents(all: &[Step], used: &BTreeSet<usize>, parameter: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::from([parameter]);
    // Steps are in topological order. The step that takes the function is outside of it.
    for step in used {
        let (own, body) = (&all[*step], all[*step].body);
        if body.is_none_or(|b| b.parameter != parameter) && own.inputs.iter().any(|i| found.contains(i)) {
            found.insert(*step);
        }
    }
    found
}

/// A nested function: `def next_rows(rows: wb.ShardedStream) -> wb.ShardedStream: …`.
fn inner_function(
    all: &[Step],
    used: &BTreeSet<usize>,
    variables: &Variables,
    (step, body): (usize, Body),
    depth: usize,
) -> Vec<String> {
    let inner: BTreeSet<usize> = dependents(all, used, body.parameter)
        .into_iter()
        .filter(|s| reachable(all, body.result).contains(s))
        .collect();
    let indent = " ".repeat(4 * depth);
    let (function, parameter) = (&variables.functions[&step], &variables.names[&body.parameter]);
    let mut lines = vec![
        String::new(),
        format!("{indent}def {function}({parameter}: wb.ShardedStream) -> wb.ShardedStream:"),
    ];
    lines.extend(statements(all, &inner, variables, depth + 1));
    let head = format!("{indent}    return ");
    let returned = match variables.names.get(&body.result) {
        Some(name) => name.clone(),
        None => chain(all, variables, body.result).lines(depth + 1, head.chars().count(), WIDTH),
    };
    lines.push(format!("{head}{returned}"));
    let blank = if depth == 0 { 2 } else { 1 };
    lines.extend(vec![String::new(); blank]);
    lines
}

/// The steps from the closest variable to a step, without sources.
fn path(all: &[Step], variables: &Variables, step: usize) -> Vec<usize> {
    let mut path = Vec::new();
    let mut next = step;
    while !all[next].inputs.is_empty() && (next == step || !variables.names.contains_key(&next)) {
        path.push(next);
        next = all[next].inputs[0];
    }
    path.reverse();
    path
}

/// The method calls from the closest variable to a step.
fn chain(all: &[Step], variables: &Variables, step: usize) -> Doc {
    if all[step].inputs.is_empty() {
        return all[step].doc.clone();
    }
    let path = path(all, variables, step);
    let base = all[path[0]].inputs[0];
    let mut calls: Vec<Doc> = Vec::new();
    let mut rest = path.as_slice();
    while let Some((first, more)) = rest.split_first() {
        if all[*first].kind == StepKind::QueryMethod {
            let length = query_length(all, rest);
            calls.push(query(all, variables, &rest[..length]));
            rest = &rest[length..];
        } else {
            let function = variables.functions.get(first).cloned().unwrap_or_default();
            calls.push(all[*first].doc.clone().with_inputs(&[String::new(), function]));
            rest = more;
        }
    }
    let base = match variables.names.get(&base) {
        Some(name) => Doc::Text(name.clone()),
        None => all[base].doc.clone(),
    };
    // A single call is broken inside its own parentheses.
    if let [call] = calls.as_slice() {
        return Doc::Group(vec![base, call.clone()]);
    }
    let mut docs = vec![Doc::Break(""), base];
    for (i, call) in calls.into_iter().enumerate() {
        if i > 0 {
            docs.push(Doc::Break(""));
        }
        docs.push(call);
    }
    Doc::Group(vec![Doc::IfBroken("("), Doc::Nest(docs), Doc::Break(""), Doc::IfBroken(")")])
}

/// The number of leading steps that share one query.
fn query_length(all: &[Step], steps: &[usize]) -> usize {
    let mut has_binary = false;
    for (i, step) in steps.iter().enumerate() {
        let is_binary = all[*step].inputs.len() > 1;
        if all[*step].kind != StepKind::QueryMethod || (is_binary && has_binary) {
            return i;
        }
        has_binary |= is_binary;
    }
    steps.len()
}

/// Steps in one query: `.query(other, lambda l, r: l.join(r).select("item"))`.
fn query(all: &[Step], variables: &Variables, steps: &[usize]) -> Doc {
    let others: Vec<usize> = steps.iter().flat_map(|s| all[*s].inputs.iter().skip(1).copied()).collect();
    let names: Vec<String> = match others.len() {
        0 => vec!["q".to_string()],
        1 => vec!["l".to_string(), "r".to_string()],
        n => std::iter::once("q".to_string()).chain((1..=n).map(|i| format!("q{i}"))).collect(),
    };
    let mut body = vec![Doc::Text(format!("lambda {}: {}", names.join(", "), names[0]))];
    for (i, step) in steps.iter().enumerate() {
        if i > 0 {
            body.push(Doc::Break(""));
        }
        body.push(all[*step].doc.clone().with_inputs(&names));
    }
    let mut arguments: Vec<Doc> = others.iter().map(|s| Doc::Text(variables.names[s].clone())).collect();
    arguments.push(Doc::Group(body));
    Doc::call(".query", arguments)
}

/// The import statements for the names that the body uses.
fn imports(body: &[String]) -> String {
    let uses = |word: &str| {
        body.iter().any(|line| {
            line.match_indices(word).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + word.len()..].chars().next();
                !before.is_some_and(|c| c.is_alphanumeric() || "_.\"".contains(c))
                    && matches!(after, Some('(' | '.'))
            })
        })
    };
    let mut text = String::new();
    for module in ["datetime", "decimal"] {
        let names: Vec<&str> = IMPORTS
            .iter()
            .filter(|(word, from)| *from == module && uses(word))
            .map(|(word, _)| *word)
            .collect();
        if !names.is_empty() {
            text.push_str(&format!("from {module} import {}\n", names.join(", ")));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str("import whimbrel as wb\n\n");
    text
}

/// A program without parameters: a script that shows its result if it is the main module.
fn script(body: &[String], result: &str) -> String {
    format!("{}\n\nif __name__ == \"__main__\":\n    {result}.show()\n", body.join("\n"))
}

/// A program with parameters: `def program(clicks: wb.ShardedStream) -> wb.ShardedStream: …`.
fn function(parameters: &[String], streams: usize, body: &[String], result: &str) -> String {
    let parameters = parameters.iter().enumerate().map(|(i, name)| match i < streams {
        true => format!("{name}: wb.ShardedStream"),
        false => name.clone(),
    });
    let head = Doc::Group(vec![
        Doc::call("def program", parameters.map(Doc::Text).collect()),
        Doc::text(" -> wb.ShardedStream:"),
    ]);
    let mut lines = vec![format!("\n{}", head.lines(0, 0, WIDTH))];
    lines.extend(body.iter().cloned());
    lines.push(format!("    return {result}\n"));
    lines.join("\n")
}
