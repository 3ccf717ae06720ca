//! `a isnull` and `a notnull`, which the parser would take for `a` under another name.
//!
//! ```sql
//! select a isnull from t where b notnull;  -- select a is null from t where b is not null
//! ```

use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words behind which an operand or a name begins, so that one of these tests cannot stand there.
const BEFORE_OPERANDS: [&str; 28] = [
    "select",
    "distinct",
    "all",
    "where",
    "having",
    "qualify",
    "on",
    "by",
    "and",
    "or",
    "not",
    "when",
    "then",
    "else",
    "case",
    "in",
    "like",
    "ilike",
    "between",
    "is",
    "as",
    "from",
    "join",
    "set",
    "using",
    "returning",
    "values",
    "table",
];

/// Rewrites these tests.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for at in 0..tokens.len() {
        let token = &tokens[at];
        let negated = is_word(&token.token, "notnull");
        let calls =
            tokens.get(at + 1).is_some_and(|next| matches!(next.token, Token::LParen | Token::Period));
        let is_test = (negated || is_word(&token.token, "isnull"))
            && !calls
            && at.checked_sub(1).is_some_and(|before| ends_operand(&tokens[before].token));
        match is_test {
            true => {
                let words: &[&str] = if negated { &["is", "not", "null"] } else { &["is", "null"] };
                let word = |word: &&str| TokenWithSpan { token: Token::make_keyword(word), span: token.span };
                rewritten.extend(words.iter().map(word));
            }
            false => rewritten.push(token.clone()),
        }
    }
    rewritten
}

/// Whether an operand may end with this token.
fn ends_operand(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || !BEFORE_OPERANDS.iter().any(|before| word.value.eq_ignore_ascii_case(before))
        }
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Placeholder(_)
        | Token::RParen
        | Token::RBracket
        | Token::RBrace => true,
        _ => false,
    }
}
