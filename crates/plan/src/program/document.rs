//! Documents for pretty printing (Wadler, "A prettier printer").
//!
//! A group is printed on one line if it fits into the rest of the line. Otherwise each of its own breaks is a
//! line break; nested groups are laid out independently.

/// A document: text with optional line breaks.
#[derive(Debug, Clone)]
pub(super) enum Doc {
    /// Text without a line break.
    Text(String),
    /// A line break in a broken group, else this text.
    Break(&'static str),
    /// This text in a broken group, else nothing.
    IfBroken(&'static str),
    /// Documents in sequence that are broken together.
    Group(Vec<Doc>),
    /// Documents in sequence, indented by one more level.
    Nest(Vec<Doc>),
    /// The input of a step with this index. Variables are named last: [`Doc::with_inputs`].
    Input(usize),
}

const INDENT: usize = 4;

/// The documents that are not yet printed: indentation, whether the group is broken, document.
type Pending<'a> = Vec<(usize, bool, &'a Doc)>;

impl Doc {
    /// Text without a line break.
    pub fn text(text: impl Into<String>) -> Doc {
        Doc::Text(text.into())
    }

    /// A call, `head(first, second)`; if it does not fit, one argument per line.
    pub fn call(head: impl Into<String>, arguments: Vec<Doc>) -> Doc {
        let head = head.into();
        if arguments.is_empty() {
            return Doc::Text(format!("{head}()"));
        }
        Doc::Group(vec![
            Doc::Text(format!("{head}(")),
            Doc::Nest(separated(arguments)),
            Doc::Break(""),
            Doc::text(")"),
        ])
    }

    /// A list, `[first, second]`; if it does not fit, one item per line.
    pub fn list(items: Vec<Doc>) -> Doc {
        if items.is_empty() {
            return Doc::text("[]");
        }
        Doc::Group(vec![Doc::text("["), Doc::Nest(separated(items)), Doc::Break(""), Doc::text("]")])
    }

    /// A keyword argument, `name=value`.
    pub fn keyword(name: &str, value: Doc) -> Doc {
        Doc::Group(vec![Doc::Text(format!("{name}=")), value])
    }

    /// Prints in lines of at most `width` characters where possible; the first line begins at `column`.
    pub fn lines(&self, depth: usize, column: usize, width: usize) -> String {
        let mut out = String::new();
        let mut left = width.saturating_sub(column);
        let mut pending: Pending<'_> = vec![(depth, true, self)];
        while let Some((depth, broken, doc)) = pending.pop() {
            match doc {
                Doc::Text(text) => write(&mut out, &mut left, text),
                Doc::Input(_) => {}
                Doc::Break(_) if broken => {
                    out.push('\n');
                    out.push_str(&" ".repeat(depth * INDENT));
                    left = width.saturating_sub(depth * INDENT);
                }
                Doc::Break(flat) => write(&mut out, &mut left, flat),
                Doc::IfBroken(text) if broken => write(&mut out, &mut left, text),
                Doc::IfBroken(_) => {}
                Doc::Nest(docs) => pending.extend(docs.iter().rev().map(|d| (depth + 1, broken, d))),
                Doc::Group(docs) => {
                    let broken = !fits(docs, &pending, left);
                    pending.extend(docs.iter().rev().map(|d| (depth, broken, d)));
                }
            }
        }
        out
    }

    /// The document with its inputs replaced by the names of their variables.
    pub fn with_inputs(self, names: &[String]) -> Doc {
        let all = |docs: Vec<Doc>| docs.into_iter().map(|d| d.with_inputs(names)).collect();
        match self {
            Doc::Input(i) => Doc::Text(names[i].clone()),
            Doc::Group(docs) => Doc::Group(all(docs)),
            Doc::Nest(docs) => Doc::Nest(all(docs)),
            other => other,
        }
    }

    /// The document on one line. Equal calls have equal text.
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

/// Each in a line of its outer, with commas.
fn separated(arguments: Vec<Doc>) -> Vec<Doc> {
    let last = arguments.len() - 1;
    let mut docs = Vec::new();
    for (i, argument) in arguments.into_iter().enumerate() {
        docs.push(Doc::Break(if i == 0 { "" } else { " " }));
        docs.push(argument);
        docs.push(if i == last { Doc::IfBroken(",") } else { Doc::text(",") });
    }
    docs
}

fn write(out: &mut String, left: &mut usize, text: &str) {
    out.push_str(text);
    *left = left.saturating_sub(text.chars().count());
}

/// Whether these documents on one line, and the text up to the next line break, fit into `left` characters.
fn fits(docs: &[Doc], after: &Pending<'_>, left: usize) -> bool {
    let mut left = left as isize;
    let mut stack: Vec<(bool, &Doc)> = after.iter().map(|(_, broken, doc)| (*broken, *doc)).collect();
    let outer = stack.len();
    stack.extend(docs.iter().rev().map(|d| (false, d)));
    while let Some((broken, doc)) = stack.pop() {
        // A later group may be broken: then the line ends at its first break.
        let after = stack.len() < outer;
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
