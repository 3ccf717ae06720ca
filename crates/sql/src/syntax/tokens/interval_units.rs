//! `interval 2 quarters` as `interval 2 quarter`: the parser does not know the plurals of some units, and
//! would take them for aliases.

use super::{closing, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The plurals, and the units that they are.
const PLURALS: [(&str, &str); 5] = [
    ("quarters", "quarter"),
    ("decades", "decade"),
    ("centuries", "century"),
    ("millennia", "millennium"),
    ("millenniums", "millennium"),
];

/// Writes the units of intervals as the parser knows them.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let units: Vec<usize> = (0..tokens.len())
        .filter(|at| is_word(&tokens[*at].token, "interval"))
        .filter_map(|at| unit(&tokens, at + 1))
        .collect();
    for at in units {
        let known = PLURALS.iter().find(|(plural, _)| is_word(&tokens[at].token, plural));
        if let Some((_, unit)) = known {
            tokens[at].token = Token::make_keyword(unit);
        }
    }
    tokens
}

/// Where the unit of an interval is whose value begins here, if the value has none itself.
fn unit(tokens: &[TokenWithSpan], value: usize) -> Option<usize> {
    let unit = match &tokens.get(value)?.token {
        Token::LParen => closing(tokens, value)? + 1,
        Token::SingleQuotedString(text) if text.trim().parse::<f64>().is_err() => return None,
        _ => value + 1,
    };
    (unit < tokens.len()).then_some(unit)
}
