//! From text to the parser's tree, and what is ours taken off before: the parser knows none of it.
//!
//! - `… paginate 10`, `… allow unbounded 'reason'` at the end of a query;
//! - `cardinality limit 100 (owner)` among the constraints of a table, `alter table t add cardinality limit
//!   …`;
//! - `title like [token] ?`, `(first, last) like [token] ?`: read as `@@`, then as `has_token(word,
//!   columns…)`;
//! - `limit ? at most 50`: how many rows are wanted is given with the call, and the most that it can be;
//! - `owner in (? limit 50)`: a list that is given with the call, and its greatest length;
//! - `?` and `:name` as `$1`, `$2`, …; `upsert into` as `insert into`.
//!
//! Tokens keep their places, so that an error shows the text as it was written.

use crate::error::{Error, Result};
use crate::functions::HAS_TOKEN;
use crate::number::Number;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Delete, Expr, FromTable, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, SelectItem, Statement, TableFactor,
    TableWithJoins, TimezoneInfo, UnaryOperator, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};
use std::borrow::Cow;
use std::ops::ControlFlow;
use whimbrel_sql::walk::{change_expressions, walk_mut, walk_relations};

/// How deeply expressions and queries may be nested.
const DEPTH: usize = 100;
/// How many operators may follow each other: `a + b + c` is as deep as `(a + b) + c`.
const CHAIN: usize = 1000;

/// A statement, and what is ours of it.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    /// The statement, as the parser has it.
    pub statement: Statement,
    /// Rows a page.
    pub paginate: Option<u64>,
    /// Why it may run without a bound.
    pub allowed: Option<String>,
    /// The parameters, in the order of the call.
    pub parameters: Vec<Parameter>,
    /// The insert is an upsert.
    pub upsert: bool,
    /// What a write returns of the rows that it wrote.
    pub returning: Option<Returning>,
    /// Cardinality limits of `create table` or `alter table`.
    pub limits: Vec<DeclaredLimit>,
}

/// `returning a, b`
#[derive(Debug, Clone)]
pub(crate) struct Returning {
    pub items: Vec<SelectItem>,
    /// What the statement calls the table, if it has another name for it.
    pub alias: Option<Ident>,
}

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

/// Reads one statement, and refuses what would be passed over.
pub(crate) fn parse(sql: &str) -> Result<Parsed> {
    let parsed = read(sql)?;
    super::unsupported::check(&parsed.statement)?;
    Ok(parsed)
}

/// The same, with clauses in it that somebody else has to take out: the planner would pass over them.
pub(super) fn read(sql: &str) -> Result<Parsed> {
    let mut tokens = tokens(sql)?;
    check_chains(&tokens)?;
    let limits = take_limits(&mut tokens)?;
    let allowed = take_allowed(&mut tokens)?;
    let paginate = take_paginate(&mut tokens)?;
    let upsert = take_upsert(&mut tokens);
    rewrite_token_search(&mut tokens);
    let mut parameters = parameters(&mut tokens)?;
    take_most_rows(&mut tokens, &mut parameters)?;
    let statement = match alters_limits(&tokens, &limits) {
        // The parser knows no `alter table t add` without anything behind it.
        true => alter_nothing(tokens)?,
        false => statement(tokens)?,
    };
    let (statement, returning) = without_returning(statement);
    Ok(Parsed { statement, paginate, allowed, parameters, upsert, returning, limits })
}

/// `… returning a, b`, which the planner does not know.
fn without_returning(mut statement: Statement) -> (Statement, Option<Returning>) {
    let (items, alias) = match &mut statement {
        Statement::Insert(insert) => (insert.returning.take(), None),
        Statement::Update(update) => (update.returning.take(), alias(&update.table)),
        Statement::Delete(delete) => {
            use_table_name(delete);
            (delete.returning.take(), None)
        }
        _ => (None, None),
    };
    (statement, items.map(|items| Returning { items, alias }))
}

impl Parsed {
    /// The statement with numbers in place of some parameters.
    pub fn with_numbers(mut self, numbers: &[(usize, Number)]) -> Parsed {
        // The visitor never breaks off.
        let _: ControlFlow<()> = walk_mut(&mut self.statement, &mut Numbers(numbers));
        self
    }
}

/// A visitor that puts numbers in place of parameters.
struct Numbers<'n>(&'n [(usize, Number)]);

impl VisitorMut for Numbers<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(id) = &value.value
            && let Some((_, number)) = self.0.iter().find(|(at, _)| parameter_number(id) == Some(*at))
            && let Some(text) = number.text()
        {
            let number = |text: &str| Expr::Value(Value::Number(text.to_string(), false).with_empty_span());
            *expr = match text.strip_prefix('-') {
                Some(text) => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(text)) },
                None => number(&text),
            };
        }
        ControlFlow::Continue(())
    }
}

/// `delete from t as x where x.a = ?` with the table's own name: the planner knows no other of a delete. It
/// stays as it is, and is refused, where the table is in a subquery too.
fn use_table_name(delete: &mut Delete) {
    let FromTable::WithFromKeyword(tables) = &mut delete.from else { return };
    let [TableWithJoins { relation: TableFactor::Table { name, alias, .. }, .. }] = tables.as_mut_slice()
    else {
        return;
    };
    let (Some(alias), [part]) = (alias.as_ref().map(|alias| alias.name.clone()), name.0.as_slice()) else {
        return;
    };
    let Some(own) = part.as_ident().cloned() else { return };
    let mentioned = walk_relations(&delete.selection, |mentioned| match mentioned == name {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    if mentioned.is_break() {
        return;
    }
    if let TableFactor::Table { alias, .. } = &mut tables[0].relation {
        *alias = None;
    }
    let mut renamed = |expr: &mut Expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 2
            && parts[0].value.eq_ignore_ascii_case(&alias.value)
        {
            parts[0] = own.clone();
        }
    };
    change_expressions(&mut delete.selection, &mut renamed);
    change_expressions(&mut delete.returning, &mut renamed);
}

/// The alias of a table, if it has one.
fn alias(table: &TableWithJoins) -> Option<Ident> {
    match &table.relation {
        TableFactor::Table { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
        _ => None,
    }
}

/// The tokens of a statement, without white space, comments and the semicolon at the end.
fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| syntax(error.into()))?;
    let mut tokens: Vec<TokenWithSpan> = tokens
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
        .collect();
    while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    Ok(tokens)
}

/// Refuses chains of operators that would be nested too deeply, which the parser does not count.
fn check_chains(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut chains = vec![0];
    for token in tokens {
        match token.token {
            Token::LParen | Token::LBracket => chains.push(0),
            Token::RParen | Token::RBracket if chains.len() > 1 => {
                chains.pop();
            }
            Token::Comma => chains.last_mut().into_iter().for_each(|chain| *chain = 0),
            _ if is_operator(token) => chains.last_mut().into_iter().for_each(|chain| *chain += 1),
            _ => {}
        }
        if chains.last().is_some_and(|chain| *chain > CHAIN) {
            return Err(Error::invalid(format!(
                "more than {CHAIN} operators in a row; for values of one column write in (…), or give them as a list: \
                 in (? limit 50)"
            )));
        }
    }
    Ok(())
}

/// Whether what is before a token becomes a part of what is behind it.
fn is_operator(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::Mod
        | Token::StringConcat
        | Token::DoubleColon
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq => true,
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::LIKE
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
        ),
        _ => false,
    }
}

/// Parses tokens that are one statement.
fn statement(tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let dialect = GenericDialect {};
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH).with_tokens_with_locations(tokens);
    let mut statement = parser.parse_statement().map_err(syntax)?;
    if parser.peek_token().token != Token::EOF {
        let found = parser.peek_token();
        return Err(syntax(ParserError::ParserError(format!(
            "Expected: end of statement, found: {found}{}",
            found.span.start
        ))));
    }
    match walk_mut(&mut statement, &mut Rewriter) {
        ControlFlow::Continue(()) => Ok(statement),
        ControlFlow::Break(message) => Err(Error::invalid(message)),
    }
}

/// The error of the parser.
pub(crate) fn syntax(error: ParserError) -> Error {
    Error::Invalid(DataFusionError::SQL(Box::new(error), None))
}

/// Whether a token is this keyword.
fn is(token: Option<&TokenWithSpan>, word: &str) -> bool {
    matches!(token.map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// The number that a token is.
fn number(token: Option<&TokenWithSpan>) -> Option<u64> {
    match &token?.token {
        Token::Number(text, _) => text.parse().ok(),
        _ => None,
    }
}

/// `cardinality limit n (a, b)` and the comma before it.
fn take_limits(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<DeclaredLimit>> {
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

/// A name as SQL reads it: in small letters unless it is quoted.
pub(crate) fn name(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// A name as it has to be written, quotes and all.
pub(crate) fn quote_name(name: &str) -> Cow<'_, str> {
    let is_plain_word = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let keyword = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str());
    let reserved = keyword.is_ok_and(|at| {
        let keyword = &ALL_KEYWORDS_INDEX[at];
        RESERVED_FOR_TABLE_ALIAS.contains(keyword) || RESERVED_FOR_COLUMN_ALIAS.contains(keyword)
    });
    match is_plain_word && !reserved {
        true => Cow::Borrowed(name),
        false => Cow::Owned(format!("\"{}\"", name.replace('"', "\"\""))),
    }
}

/// `allow unbounded 'reason'`
fn take_allowed(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<String>> {
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
fn take_paginate(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<u64>> {
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
fn take_most_rows(tokens: &mut Vec<TokenWithSpan>, parameters: &mut [Parameter]) -> Result<()> {
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
fn take_upsert(tokens: &mut [TokenWithSpan]) -> bool {
    let upsert = is(tokens.first(), "upsert");
    if upsert {
        let word = Word { value: "INSERT".to_string(), quote_style: None, keyword: Keyword::INSERT };
        tokens[0].token = Token::Word(word);
    }
    upsert
}

/// `like [token]` as `@@`.
fn rewrite_token_search(tokens: &mut Vec<TokenWithSpan>) {
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

/// `? - interval '1 day'` as `?::timestamp - interval '1 day'`: the planner would take the parameter for an
/// interval.
fn type_interval_operand(expr: &mut Expr) {
    if let Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right } = expr
        && matches!(right.as_ref(), Expr::Interval(_))
        && matches!(left.as_ref(), Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
    {
        let moved = left.clone();
        let data_type = DataType::Timestamp(Some(6), TimezoneInfo::None);
        **left = Expr::Cast { kind: CastKind::Cast, expr: moved, data_type, array: false, format: None };
    }
}

/// `(a, b) < (x, y)` as `a < x or a = x and b < y`, and `(a, b) = (x, y)` as `a = x and b = y`.
fn expand_row_comparison(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else { return };
    let (Expr::Tuple(left), Expr::Tuple(right)) = (left.as_ref(), right.as_ref()) else { return };
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        BinaryOperator::Eq => BinaryOperator::Eq,
        _ => return,
    };
    if left.len() != right.len() || left.is_empty() {
        return;
    }
    let with = |left: &Expr, op: BinaryOperator, right: &Expr| Expr::BinaryOp {
        left: Box::new(left.clone()),
        op,
        right: Box::new(right.clone()),
    };
    let mut pairs = left.iter().zip(right).rev();
    let Some((last, value)) = pairs.next() else { return };
    let mut all = with(last, op.clone(), value);
    for (column, value) in pairs {
        let same = with(&with(column, BinaryOperator::Eq, value), BinaryOperator::And, &all);
        all = match strict {
            BinaryOperator::Eq => same,
            ref strict => with(&with(column, strict.clone(), value), BinaryOperator::Or, &same),
        };
    }
    *expr = Expr::Nested(Box::new(all));
}

/// What the planner reads in other words: `a @@ word` as `has_token(word, a)`, `similar to`, `fetch first n
/// rows only`.
struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        whimbrel_sql::fetch_as_limit(query)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        whimbrel_sql::like_pattern(expr)?;
        type_interval_operand(expr);
        expand_row_comparison(expr);
        let Expr::BinaryOp { left, op: BinaryOperator::AtAt, right } = expr else {
            return ControlFlow::Continue(());
        };
        let columns = match left.as_ref() {
            Expr::Tuple(columns) => columns.clone(),
            Expr::Nested(inner) => vec![inner.as_ref().clone()],
            other => vec![other.clone()],
        };
        let args = std::iter::once(right.as_ref().clone()).chain(columns);
        let args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
        *expr = Expr::Function(Function {
            name: ObjectName::from(vec![Ident::new(HAS_TOKEN)]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args,
                clauses: vec![],
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: vec![],
        });
        ControlFlow::Continue(())
    }
}

/// Numbers the parameters; `? limit n` is a list.
fn parameters(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<Parameter>> {
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
            let length = self::number(tokens.get(at + 2));
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
fn alters_limits(tokens: &[TokenWithSpan], limits: &[DeclaredLimit]) -> bool {
    !limits.is_empty() && is(tokens.first(), "alter") && is(tokens.last(), "add")
}

/// Reads it as an alteration that does nothing but name the table.
fn alter_nothing(mut tokens: Vec<TokenWithSpan>) -> Result<Statement> {
    let Some(add) = tokens.pop() else { return Err(Error::invalid("there is no statement")) };
    let words = ["drop", "column", "none"].map(|word| {
        let keyword = match word {
            "drop" => Keyword::DROP,
            "column" => Keyword::COLUMN,
            _ => Keyword::NoKeyword,
        };
        let word = Word { value: word.to_string(), quote_style: None, keyword };
        TokenWithSpan { token: Token::Word(word), span: add.span }
    });
    tokens.extend(words);
    statement(tokens)
}

/// `$3` is the third, at place 2.
pub(crate) fn parameter_number(id: &str) -> Option<usize> {
    id.trim_start_matches('$').parse::<usize>().ok()?.checked_sub(1)
}
