//! Clauses that only bounded queries have, taken out of the tokens of a statement before it is parsed.

use super::tokens::{is, name, number};
use crate::error::{Error, Result};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// A parameter, in the order of the call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// `:name`
    pub name: Option<String>,
    /// It is a list of at most so many values.
    pub list: Option<u64>,
    /// It says how many rows are wanted, at most so many.
    pub most_rows: Option<u64>,
}

/// `cardinality limit n (columns)`, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredLimit {
    /// How many rows are allowed.
    pub rows: u64,
    /// The columns, as they are written.
    pub columns: Vec<String>,
}

/// `cardinality limit n (a, b)` and the comma before it.
pub(super) fn take_limits(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<DeclaredLimit>> {
    let mut limits = Vec::new();
    while let Some(at) =
        (0..tokens.len()).find(|at| is(tokens.get(*at), "cardinality") && is(tokens.get(at + 1), "limit"))
    {
        let rows = number(tokens.get(at + 2))
            .filter(|rows| *rows > 0)
            .ok_or_else(|| Error::invalid("cardinality limit takes a whole number of rows, one or more"))?;
        let close = (at + 3..tokens.len()).find(|close| tokens[*close].token == Token::RParen);
        let open = tokens.get(at + 3).is_some_and(|token| token.token == Token::LParen);
        let Some(close) = close.filter(|_| open) else {
            return Err(Error::invalid(
                "after cardinality limit n come columns: (owner), or () for the whole table",
            ));
        };
        let columns = tokens[at + 4..close].iter().filter_map(|token| match &token.token {
            Token::Word(word) => Some(name(word)),
            _ => None,
        });
        limits.push(DeclaredLimit { rows, columns: columns.collect() });
        let comma = at > 0 && tokens[at - 1].token == Token::Comma;
        tokens.drain(at - usize::from(comma)..=close);
    }
    Ok(limits)
}

/// `allow unbounded 'reason'`
pub(super) fn take_allowed(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<String>> {
    let Some(at) =
        (0..tokens.len()).find(|at| is(tokens.get(*at), "allow") && is(tokens.get(at + 1), "unbounded"))
    else {
        return Ok(None);
    };
    match (tokens.get(at + 2).map(|t| &t.token), tokens.len() - at) {
        (Some(Token::SingleQuotedString(reason)), 3) if !reason.trim().is_empty() => {
            let reason = reason.clone();
            tokens.truncate(at);
            Ok(Some(reason))
        }
        _ => Err(Error::invalid(
            "allow unbounded stands at the end and says why: allow unbounded 'nightly report'",
        )),
    }
}

/// `paginate n`
pub(super) fn take_paginate(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<u64>> {
    let at = tokens.len().saturating_sub(2);
    if !is(tokens.get(at), "paginate") {
        return match tokens.iter().rposition(|token| is(Some(token), "paginate")) {
            Some(at) if number(tokens.get(at + 1)).is_some() || at + 1 == tokens.len() => {
                Err(Error::invalid("paginate n stands at the end of the query, behind order by: paginate 10"))
            }
            _ => Ok(None),
        };
    }
    let rows = number(tokens.get(at + 1)).filter(|rows| *rows > 0);
    let rows = rows.ok_or_else(|| {
        Error::invalid("paginate takes a number that stands in the query: with a parameter there is no bound")
    })?;
    tokens.truncate(at);
    Ok(Some(rows))
}

/// `limit ? at most 50` at the end, as `limit 50`.
pub(super) fn take_most_rows(tokens: &mut Vec<TokenWithSpan>, parameters: &mut [Parameter]) -> Result<()> {
    let at = tokens.len().saturating_sub(5);
    if !(is(tokens.get(at), "limit") && is(tokens.get(at + 2), "at") && is(tokens.get(at + 3), "most")) {
        return Ok(());
    }
    let most = number(tokens.get(at + 4)).filter(|rows| *rows > 0);
    let most = most
        .ok_or_else(|| Error::invalid("limit ? at most takes a whole number of rows: limit ? at most 50"))?;
    let parameter = match &tokens[at + 1].token {
        Token::Placeholder(id) => parameter_number(id).and_then(|at| parameters.get_mut(at)),
        _ => None,
    };
    let parameter = parameter.ok_or_else(|| {
        Error::invalid("at most says how large a parameter can be: limit ? at most 50, or limit 50")
    })?;
    parameter.most_rows = Some(most);
    tokens.drain(at + 1..at + 4);
    Ok(())
}

/// `upsert into` as `insert into`; says whether it was one.
pub(super) fn take_upsert(tokens: &mut [TokenWithSpan]) -> bool {
    let upsert = is(tokens.first(), "upsert");
    if upsert {
        let word = Word { value: "INSERT".to_string(), quote_style: None, keyword: Keyword::INSERT };
        tokens[0].token = Token::Word(word);
    }
    upsert
}

/// `like [token]` as `@@`.
pub(super) fn rewrite_token_search(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 3 < tokens.len() {
        let search = is(tokens.get(at), "like")
            && tokens[at + 1].token == Token::LBracket
            && is(tokens.get(at + 2), "token")
            && tokens[at + 3].token == Token::RBracket;
        if search {
            tokens[at].token = Token::AtAt;
            tokens.drain(at + 1..=at + 3);
        }
        at += 1;
    }
}

/// Numbers the parameters; `? limit n` is a list.
pub(super) fn parameters(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<Parameter>> {
    let mut found: Vec<Parameter> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let name = match &tokens[at].token {
            Token::Placeholder(text) if text == "?" => None,
            Token::Placeholder(text) => Some(text.trim_start_matches(['$', ':']).to_string()),
            Token::Colon => match tokens.get(at + 1).map(|t| &t.token) {
                Some(Token::Word(word)) => {
                    let name = word.value.clone();
                    tokens.remove(at + 1);
                    Some(name)
                }
                _ => return Err(Error::invalid("after : comes the name of a parameter")),
            },
            _ => {
                at += 1;
                continue;
            }
        };
        let number = place(&mut found, name)?;
        tokens[at].token = Token::Placeholder(format!("${}", number + 1));
        let listed = at > 0 && tokens[at - 1].token == Token::LParen && is(tokens.get(at + 1), "limit");
        if listed {
            let length = super::tokens::number(tokens.get(at + 2));
            found[number].list = Some(
                length.ok_or_else(|| Error::invalid("a list says how long it can be: in (? limit 50)"))?,
            );
            tokens.drain(at + 1..=at + 2);
        }
        at += 1;
    }
    Ok(found)
}

/// The place of a parameter among those of the call: `$2` says it itself, a name that was there before has it
/// already, `?` and a new name are the next.
fn place(found: &mut Vec<Parameter>, name: Option<String>) -> Result<usize> {
    let number = name.as_ref().and_then(|name| name.parse::<usize>().ok());
    let place = match (number, &name) {
        (Some(0), _) => return Err(Error::invalid("parameters are counted from $1")),
        (Some(number), _) => number - 1,
        (None, Some(name)) => {
            found.iter().position(|existing| existing.name.as_ref() == Some(name)).unwrap_or(found.len())
        }
        (None, None) => found.len(),
    };
    if place >= 1000 {
        return Err(Error::invalid(
            "a statement has at most 1000 parameters; give a list as one: in (? limit 50)",
        ));
    }
    while found.len() <= place {
        found.push(Parameter::default());
    }
    if number.is_none() {
        found[place].name = name;
    }
    Ok(place)
}

/// `alter table t add`, the limit taken off.
pub(super) fn alters_limits(tokens: &[TokenWithSpan], limits: &[DeclaredLimit]) -> bool {
    !limits.is_empty() && is(tokens.first(), "alter") && is(tokens.last(), "add")
}

/// `$3` is the third, at place 2.
pub(crate) fn parameter_number(id: &str) -> Option<usize> {
    id.trim_start_matches('$').parse::<usize>().ok()?.checked_sub(1)
}
