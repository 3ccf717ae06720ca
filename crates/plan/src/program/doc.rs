//! Text that knows where it may be broken into lines (Wadler, "A prettier printer").
//!
//! A group is written in one line if what is left of the line holds it, else each of its own breaks is a new
//! line; groups inside of it decide anew.

/// A text with places where it may be broken.
#[derive(Debug, Clone)]
pub(super) enum Doc {
    /// These characters, without a line break.
    Text(String),
    /// A new line, or what is given.
    Break(&'static str),
    /// This if the group around it is broken, else nothing.
    IfBroken(&'static str),
    /// One after the other, broken together.
    Group(Vec<Doc>),
    /// One after the other, in new lines four spaces further in.
    Nest(Vec<Doc>),
    /// The stream that is so manieth input of an operation: its name is known when all are.
    Input(usize),
}

const INDENT: usize = 4;

/// What is still to be written: at which depth, and whether its group is broken.
type Rest<'a> = Vec<(usize, bool, &'a Doc)>;

impl Doc {
    /// Characters.
    pub fn text(text: impl Into<String>) -> Doc {
        Doc::Text(text.into())
    }

    /// `head(first, second)`, or an argument a line.
    pub fn call(head: impl Into<String>, arguments: Vec<Doc>) -> Doc {
        let head = head.into();
        if arguments.is_empty() {
            return Doc::Text(format!("{head}()"));
        }
        Doc::Group(vec![
            Doc::Text(format!("{head}(")),
            Doc::Nest(listed(arguments)),
            Doc::Break(""),
            Doc::text(")"),
        ])
    }

    /// `[first, second]`, or one a line.
    pub fn list(items: Vec<Doc>) -> Doc {
        if items.is_empty() {
            return Doc::text("[]");
        }
        Doc::Group(vec![Doc::text("["), Doc::Nest(listed(items)), Doc::Break(""), Doc::text("]")])
    }

    /// Name and value of an argument.
    pub fn named(name: &str, value: Doc) -> Doc {
        Doc::Group(vec![Doc::Text(format!("{name}=")), value])
    }

    /// As text in lines of at most so many characters where possible, the first of which begins at `column`.
    pub fn lines(&self, depth: usize, column: usize, width: usize) -> String {
        let mut out = String::new();
        let mut left = width.saturating_sub(column);
        let mut rest: Rest<'_> = vec![(depth, true, self)];
        while let Some((depth, broken, doc)) = rest.pop() {
            match doc {
                Doc::Text(text) => put(&mut out, &mut left, text),
                Doc::Input(_) => {}
                Doc::Break(_) if broken => {
                    out.push('\n');
                    out.push_str(&" ".repeat(depth * INDENT));
                    left = width.saturating_sub(depth * INDENT);
                }
                Doc::Break(flat) => put(&mut out, &mut left, flat),
                Doc::IfBroken(text) if broken => put(&mut out, &mut left, text),
                Doc::IfBroken(_) => {}
                Doc::Nest(docs) => rest.extend(docs.iter().rev().map(|d| (depth + 1, broken, d))),
                Doc::Group(docs) => {
                    let broken = !fits(docs, &rest, left);
                    rest.extend(docs.iter().rev().map(|d| (depth, broken, d)));
                }
            }
        }
        out
    }

    /// With these names in the places of the inputs.
    pub fn with_inputs(self, names: &[String]) -> Doc {
        let all = |docs: Vec<Doc>| docs.into_iter().map(|d| d.with_inputs(names)).collect();
        match self {
            Doc::Input(i) => Doc::Text(names[i].clone()),
            Doc::Group(docs) => Doc::Group(all(docs)),
            Doc::Nest(docs) => Doc::Nest(all(docs)),
            other => other,
        }
    }

    /// In one line; the same operations have the same text.
    pub fn flat(&self) -> String {
        match self {
            Doc::Text(text) => text.clone(),
            Doc::Break(flat) => flat.to_string(),
            Doc::IfBroken(_) => String::new(),
            Doc::Group(docs) | Doc::Nest(docs) => docs.iter().map(Doc::flat).collect(),
            Doc::Input(i) => format!("\u{1}{i}"),
        }
    }
}

/// Each in a line of its own, with commas.
fn listed(arguments: Vec<Doc>) -> Vec<Doc> {
    let last = arguments.len() - 1;
    let mut docs = Vec::new();
    for (i, argument) in arguments.into_iter().enumerate() {
        docs.push(Doc::Break(if i == 0 { "" } else { " " }));
        docs.push(argument);
        docs.push(if i == last { Doc::IfBroken(",") } else { Doc::text(",") });
    }
    docs
}

fn put(out: &mut String, left: &mut usize, text: &str) {
    out.push_str(text);
    *left = left.saturating_sub(text.chars().count());
}

/// Whether these, in one line, and what follows them up to the next line break, are not longer than that.
fn fits(docs: &[Doc], after: &Rest<'_>, left: usize) -> bool {
    let mut left = left as isize;
    let mut stack: Vec<(bool, &Doc)> = after.iter().map(|(_, broken, doc)| (*broken, *doc)).collect();
    let own = stack.len();
    stack.extend(docs.iter().rev().map(|d| (false, d)));
    while let Some((broken, doc)) = stack.pop() {
        // A group that comes after decides for itself; it may break as early as it can.
        let after = stack.len() < own;
        match doc {
            Doc::Text(text) => left -= text.chars().count() as isize,
            Doc::Input(_) => {}
            Doc::Break(_) if broken => return left >= 0,
            Doc::Break(flat) => left -= flat.len() as isize,
            Doc::IfBroken(text) if broken => left -= text.len() as isize,
            Doc::IfBroken(_) => {}
            Doc::Group(docs) => stack.extend(docs.iter().rev().map(|d| (after, d))),
            Doc::Nest(docs) => stack.extend(docs.iter().rev().map(|d| (broken, d))),
        }
        if left < 0 {
            return false;
        }
    }
    true
}
