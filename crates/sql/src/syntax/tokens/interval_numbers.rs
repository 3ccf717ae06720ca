//! `interval (2) day` as `interval 2 day`: the parser would take the number for the precision of the type,
//! and the unit for the value.

use super::is_word;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::HashSet;

/// Takes the parentheses away.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_number = |tokens: &[TokenWithSpan]| match tokens {
        [interval, open, number, close, unit, ..] => {
            is_word(&interval.token, "interval")
                && open.token == Token::LParen
                && matches!(number.token, Token::Number(..))
                && close.token == Token::RParen
                && matches!(unit.token, Token::Word(_))
        }
        _ => false,
    };
    let begins: HashSet<usize> = (0..tokens.len()).filter(|at| is_number(&tokens[*at..])).collect();
    let is_parenthesis = |at: &usize| {
        [1, 3].iter().any(|back| at.checked_sub(*back).is_some_and(|begin| begins.contains(&begin)))
    };
    tokens.into_iter().enumerate().filter(|(at, _)| !is_parenthesis(at)).map(|(_, token)| token).collect()
}
