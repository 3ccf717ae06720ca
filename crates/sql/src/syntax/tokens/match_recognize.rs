//! Clauses of `match_recognize` that the parser does not know, in the places of ones that it knows.
//!
//! | written | parsed |
//! |---|---|
//! | `pattern (…) within interval '1' hour` | a measure `interval '1' hour as "__within"` |
//! | `subset u = (a, b)` | a measure `u = (a, b) as "__subset"` |
//! | `after match skip to a` | `after match skip to last a` |
//! | `final last(x)`, `running last(x)` | `final(last(x))`, `running(last(x))` |
//! | `(select …) match_recognize (…)` | a table `"__input"`, and a measure `(select …) as "__input"` |
//! | `{- a b -}` | `(a b)`, with names that begin with `__excluded` |

use super::{closing, is_word, opening};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use std::ops::Range;

/// The alias of the measure that is how long a match may take.
pub(crate) const WITHIN: &str = "__within";
/// The alias of a measure that is a subset of variables.
pub(crate) const SUBSET: &str = "__subset";

/// The alias of the measure that is the query whose rows are read, and the name of its table.
pub(crate) const INPUT: &str = "__input";
/// What the name of a variable begins with whose rows do not come out.
pub(crate) const EXCLUDED: &str = "__excluded ";

/// The words with which clauses begin.
const CLAUSES: [&str; 10] =
    ["partition", "order", "measures", "one", "all", "after", "pattern", "within", "subset", "define"];

/// Rewrites the clauses of each `match_recognize`.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    // From the last one on, so that places before it stay.
    let mut end = tokens.len();
    while let Some(mut word) = tokens[..end].iter().rposition(|t| is_word(&t.token, "match_recognize")) {
        end = word;
        let is_open = tokens.get(word + 1).is_some_and(|t| t.token == Token::LParen);
        let Some(close) = closing(&tokens, word + 1).filter(|_| is_open) else { continue };
        let mut clauses = clauses(tokens.drain(word + 2..close).collect());
        if let Some(query) = subquery_before(&tokens, word) {
            end = query.start;
            word -= query.len() - 1;
            let name = TokenWithSpan { token: quoted(INPUT), span: tokens[end].span };
            let query = tokens.splice(query, [name.clone()]).collect();
            // The query may have others.
            clauses.push([name].into_iter().chain(rewrite(query)).collect());
        }
        tokens.splice(word + 2..word + 2, rewritten(clauses));
    }
    tokens
}

/// The query in brackets that is read by the `match_recognize` at this place; an alias may stand between.
fn subquery_before(tokens: &[TokenWithSpan], word: usize) -> Option<Range<usize>> {
    let is_name = |t: &TokenWithSpan| matches!(t.token, Token::Word(_));
    let close = match &tokens[..word] {
        [.., close] if close.token == Token::RParen => word - 1,
        [.., close, name] if close.token == Token::RParen && is_name(name) => word - 2,
        [.., close, by, name]
            if close.token == Token::RParen && is_word(&by.token, "as") && is_name(name) =>
        {
            word - 3
        }
        _ => return None,
    };
    let open = opening(tokens, close)?;
    let begins = ["select", "with", "values", "from"];
    let first = &tokens[open + 1].token;
    let is_query = *first == Token::LParen || begins.iter().any(|begin| is_word(first, begin));
    // A name before the bracket is that of a function.
    let is_call = open.checked_sub(1).is_some_and(|at| {
        let opens_table = ["from", "join", "lateral"].iter().any(|before| is_word(&tokens[at].token, before));
        is_name(&tokens[at]) && !opens_table
    });
    (is_query && !is_call).then_some(open..close + 1)
}

fn quoted(name: &str) -> Token {
    Token::Word(Word { value: name.to_string(), quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

/// The clauses between the brackets.
fn rewritten(mut clauses: Vec<Vec<TokenWithSpan>>) -> Vec<TokenWithSpan> {
    let mut hidden: Vec<TokenWithSpan> = Vec::new();
    for clause in &mut clauses {
        if begins(clause, "within") {
            hide(clause, WITHIN, &mut hidden);
        } else if begins(clause, "subset") {
            hide(clause, SUBSET, &mut hidden);
        } else if begins(clause, "after") {
            name_last(clause);
        } else if begins(clause, "pattern") {
            *clause = with_marks(std::mem::take(clause));
        } else if begins(clause, "measures") {
            *clause = with_calls(std::mem::take(clause));
        } else if clause.first().is_some_and(|t| t.token == quoted(INPUT)) {
            hide(clause, INPUT, &mut hidden);
        }
    }
    add_measures(&mut clauses, hidden);
    clauses.into_iter().flatten().collect()
}

/// Adds measures, each after a comma.
fn add_measures(clauses: &mut Vec<Vec<TokenWithSpan>>, mut added: Vec<TokenWithSpan>) {
    let Some(first) = added.first() else { return };
    match clauses.iter().position(|clause| begins(clause, "measures")) {
        Some(measures) => clauses[measures].extend(added),
        None => {
            let is_before = |clause: &Vec<TokenWithSpan>| {
                clause.is_empty() || begins(clause, "partition") || begins(clause, "order")
            };
            let at = clauses.iter().take_while(|clause| is_before(clause)).count();
            added[0] = TokenWithSpan { token: Token::make_keyword("measures"), span: first.span };
            clauses.insert(at, added);
        }
    }
}

/// The clauses, each from its word to the next.
fn clauses(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut clauses: Vec<Vec<TokenWithSpan>> = vec![vec![]];
    let mut depth = 0_usize;
    let mut next = 0;
    for token in tokens {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        // Clauses have one order, so a column may be called as one that is over.
        let clause = CLAUSES.iter().position(|word| is_word(&token.token, word));
        if depth == 0
            && let Some(clause) = clause.filter(|clause| *clause >= next)
            && begins_clause(&token, clauses.last())
        {
            next = clause + 1;
            clauses.push(vec![]);
        }
        if let Some(last) = clauses.last_mut() {
            last.push(token);
        }
    }
    clauses
}

/// Whether a word begins a clause: what stands before it is complete.
fn begins_clause(token: &TokenWithSpan, before: Option<&Vec<TokenWithSpan>>) -> bool {
    let last = before.and_then(|before| before.last());
    let is_open = |t: &TokenWithSpan| {
        matches!(t.token, Token::Comma | Token::Period) || is_word(&t.token, "by") || is_word(&t.token, "as")
    };
    // `all` and `one` begin `… row per match`.
    !last.is_some_and(is_open) && matches!(token.token, Token::Word(_))
}

fn begins(clause: &[TokenWithSpan], word: &str) -> bool {
    clause.first().is_some_and(|t| is_word(&t.token, word))
}

/// Takes the expressions of a clause, as measures under this alias.
fn hide(clause: &mut Vec<TokenWithSpan>, alias: &str, hidden: &mut Vec<TokenWithSpan>) {
    let mut tokens = std::mem::take(clause).into_iter();
    let Some(word) = tokens.next() else { return };
    let at = |token: Token| TokenWithSpan { token, span: word.span };
    let alias = || [at(Token::make_keyword("as")), at(quoted(alias))];
    let mut depth = 0_usize;
    hidden.push(at(Token::Comma));
    for token in tokens {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => hidden.extend(alias()),
            _ => {}
        }
        hidden.push(token);
    }
    hidden.extend(alias());
}

/// `skip to a` as `skip to last a`.
fn name_last(clause: &mut Vec<TokenWithSpan>) {
    let Some(to) = clause.iter().position(|t| is_word(&t.token, "to")) else { return };
    let known = ["first", "last", "next"];
    if clause.len() == to + 2 && !known.iter().any(|word| is_word(&clause[to + 1].token, word)) {
        let last = TokenWithSpan { token: Token::make_keyword("last"), span: clause[to].span };
        clause.insert(to + 1, last);
    }
}

/// The names in `{- -}` with a mark, and `permute` as the parser wants it.
fn with_marks(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut is_excluded = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(mut token) = tokens.next() {
        let next = tokens.peek().map(|t| &t.token);
        if token.token == Token::LBrace && next == Some(&Token::Minus) {
            (token.token, is_excluded) = (Token::LParen, true);
            tokens.next();
        } else if token.token == Token::Minus && next == Some(&Token::RBrace) {
            (token.token, is_excluded) = (Token::RParen, false);
            tokens.next();
        } else if let Token::Word(word) = &mut token.token {
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("permute") {
                word.value = "PERMUTE".to_string();
            } else if is_excluded {
                word.value.insert_str(0, EXCLUDED);
                word.keyword = Keyword::NoKeyword;
            }
        }
        out.push(token);
    }
    out
}

/// `final last(x)` as `final(last(x))`.
fn with_calls(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut ends: Vec<usize> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        out.push(token.clone());
        while ends.last() == Some(&at) {
            ends.pop();
            out.push(TokenWithSpan { token: Token::RParen, span: token.span });
        }
        let chooses = is_word(&token.token, "final") || is_word(&token.token, "running");
        let call = tokens.get(at + 1..at + 3);
        let is_call = call
            .is_some_and(|call| matches!(call[0].token, Token::Word(_)) && call[1].token == Token::LParen);
        if chooses
            && is_call
            && let Some(end) = closing(&tokens, at + 2)
        {
            out.push(TokenWithSpan { token: Token::LParen, span: token.span });
            ends.push(end);
        }
    }
    out
}

/// Which tokens are within the brackets of a pattern: a `?` there is a quantifier, and no parameter.
pub(super) fn quantifiers(tokens: &[TokenWithSpan]) -> Vec<bool> {
    let mut are = vec![false; tokens.len()];
    let recognizes = tokens.iter().any(|t| is_word(&t.token, "match_recognize"));
    for at in 0..tokens.len() {
        let opens = tokens.get(at + 1).is_some_and(|t| t.token == Token::LParen);
        if recognizes && opens && is_word(&tokens[at].token, "pattern") {
            let end = closing(tokens, at + 1).unwrap_or(at);
            are[at..end].fill(true);
        }
    }
    are
}
