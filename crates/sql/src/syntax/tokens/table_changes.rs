//! Changes of tables that the parser does not know, as ones that it knows:
//!
//! - `copy t (a, b) from 'x.csv' (delimiter ';')` becomes
//!   `insert into t (a, b) select * from read_csv('x.csv', …)`;
//! - `create table t (x, y) as query` becomes one of a query whose columns have these names;
//! - `upsert into` becomes `insert or replace into`; `checkpoint`, `reindex` and a bare `analyze` become
//!   `vacuum`, which does nothing;
//! - `insert into t by name select …` becomes an insert with a reserved column.

use super::{are_names, is_word};
use crate::files::Format;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The reserved column of an insert whose columns are those of its query.
pub(crate) const BY_NAME: &str = "__by_name";

/// The reserved option of a file that has the columns of a table, `t` or `t(a,b)`.
pub(crate) const LIKE: &str = "__like";

/// Rewrites a change.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if tokens.first().is_some_and(|t| is_word(&t.token, "copy")) {
        return copy_as_insert(&tokens).unwrap_or(tokens);
    }
    match tokens.as_slice() {
        [first, ..] if is_word(&first.token, "upsert") => {
            let insert = ["insert", "or", "replace"].map(Token::make_keyword);
            return [&with_span(insert, first.span), &tokens[1..]].concat();
        }
        // All of them do nothing here.
        [first] if ["checkpoint", "reindex", "analyze"].iter().any(|word| is_word(&first.token, word)) => {
            return with_span([Token::make_keyword("vacuum")], first.span);
        }
        [first, second] if is_word(&first.token, "vacuum") && is_word(&second.token, "analyze") => {
            return vec![first.clone()];
        }
        [first, second, ..] if is_word(&first.token, "vacuum") && is_word(&second.token, "analyze") => {
            return tokens[1..].to_vec();
        }
        _ => {}
    }
    if let Some(named) = named_columns(&tokens) {
        return named;
    }
    let insert =
        tokens.iter().take_while(|t| !is_word(&t.token, "select")).any(|t| is_word(&t.token, "insert"));
    let by_name = |pair: &[TokenWithSpan]| is_word(&pair[0].token, "by") && is_word(&pair[1].token, "name");
    match tokens.windows(2).position(by_name) {
        Some(at) if insert && at < 8 => {
            let (before, after) = (&tokens[..at], &tokens[at + 2..]);
            let column = [Token::LParen, Token::make_word(BY_NAME, None), Token::RParen];
            [before, &with_span(column, tokens[at].span), after].concat()
        }
        _ => tokens,
    }
}

/// `create table t (x, y) as query` as `create table t as select * from (query) as q (x, y)`.
fn named_columns(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let [create, ..] = tokens else { return None };
    let open = tokens.iter().take(10).position(|t| t.token == Token::LParen)?;
    let table = tokens[..open].iter().any(|t| is_word(&t.token, "table"));
    let names = tokens[open + 1..].iter().take_while(|t| matches!(t.token, Token::Word(_) | Token::Comma));
    let close = open + 1 + names.count();
    let separated = are_names(&tokens[open + 1..close]);
    let (end, query) = (tokens.get(close)?, tokens.get(close + 2..)?);
    let begins = is_word(&create.token, "create") && table && separated && end.token == Token::RParen;
    if !(begins && is_word(&tokens.get(close + 1)?.token, "as")) {
        return None;
    }
    let span = create.span;
    let length =
        query.iter().position(|t| matches!(t.token, Token::SemiColon | Token::EOF)).unwrap_or(query.len());
    let select = ["as", "select"].map(Token::make_keyword).into_iter();
    let select = select.chain([Token::Mul, Token::make_keyword("from"), Token::LParen]);
    let alias = [Token::RParen, Token::make_keyword("as"), Token::make_word("__named", None)];
    Some(
        [
            &tokens[..open],
            &with_span(select, span),
            &query[..length],
            &with_span(alias, span),
            &tokens[open..=close],
            &query[length..],
        ]
        .concat(),
    )
}

/// Tokens with the span of another one.
fn with_span(tokens: impl IntoIterator<Item = Token>, span: Span) -> Vec<TokenWithSpan> {
    tokens.into_iter().map(|token| TokenWithSpan { token, span }).collect()
}

/// `copy … from` as an insert.
fn copy_as_insert(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let from = tokens.iter().position(|t| is_word(&t.token, "from"))?;
    let Token::SingleQuotedString(path) = &tokens.get(from + 1)?.token else { return None };
    let query = ["to", "select"];
    if tokens[..from].iter().any(|t| query.iter().any(|word| is_word(&t.token, word))) {
        return None;
    }
    let mut options = options(&tokens[from + 2..]);
    let format = options.iter().position(|(name, _)| name == "format").map(|at| options.remove(at).1);
    let reader = match (format.as_deref().map(str::to_ascii_lowercase).as_deref(), Format::of_path(path)) {
        (Some("parquet"), _) | (None, Some(Format::Parquet)) => "read_parquet",
        (Some("json"), _) | (None, Some(Format::Json)) => "read_json",
        _ => "read_csv",
    };
    let text = Token::SingleQuotedString;
    let mut read = vec![
        Token::make_keyword("select"),
        Token::Mul,
        Token::make_keyword("from"),
        Token::make_word(reader, None),
        Token::LParen,
        text(path.clone()),
    ];
    options.push((LIKE.to_string(), tokens[1..from].iter().map(|t| t.token.to_string()).collect()));
    for (name, value) in options {
        read.extend([Token::Comma, text(name), Token::Comma, text(value)]);
    }
    read.push(Token::RParen);
    let span = tokens[from].span;
    let insert = [Token::make_keyword("insert"), Token::make_keyword("into")];
    Some([&with_span(insert, tokens[0].span), &tokens[1..from], &with_span(read, span)].concat())
}

/// The options of a file: names and values, in parentheses or not.
fn options(tokens: &[TokenWithSpan]) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    let mut named = false;
    for token in tokens {
        match &token.token {
            Token::Word(word) if named => {
                // `format csv`; a name behind a name begins the next option.
                match options.last_mut() {
                    Some((name, value))
                        if name == "format" || matches!(word.value.as_str(), "true" | "false") =>
                    {
                        *value = word.value.clone();
                        named = false;
                    }
                    _ => options.push((word.value.to_ascii_lowercase(), "true".to_string())),
                }
            }
            Token::Word(word) if is_word(&token.token, "csv") => {
                options.push(("format".to_string(), word.value.clone()));
            }
            Token::Word(word) if !is_word(&token.token, "with") && !is_word(&token.token, "as") => {
                options.push((word.value.to_ascii_lowercase(), "true".to_string()));
                named = true;
            }
            Token::SingleQuotedString(value) | Token::Number(value, _) => {
                if let Some((name, option)) = options.last_mut() {
                    *option = match (name.as_str(), value.as_str()) {
                        ("header", "1") => "true".to_string(),
                        ("header", "0") => "false".to_string(),
                        _ => value.clone(),
                    };
                }
                named = false;
            }
            Token::Comma => named = false,
            _ => {}
        }
    }
    options
}
