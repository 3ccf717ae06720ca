//! Syntax of other engines, where the parser would only say that it did not expect a word.
//!
//! ```sql
//! pivot t on k using sum(x);      -- refused: from t pivot (sum(x) for k in (…))
//! select * from t limit 10 percent;  -- refused: limit (select count(*) / 10 from t)
//! ```

use super::is_word;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Refuses such syntax with what to write instead.
///
/// # Errors
/// `Plan` if the statement has it.
pub(in crate::syntax) fn refuse_unsupported(tokens: &[TokenWithSpan]) -> Result<()> {
    match tokens.first() {
        Some(first) if is_word(&first.token, "pivot") => plan_err!(
            "pivot stands behind a table, with the values that become columns: \
             from t pivot (sum(x) for k in ('a', 'b')); what else t has makes the groups"
        ),
        Some(first) if is_word(&first.token, "unpivot") => {
            plan_err!("unpivot stands behind a table: from t unpivot (value for name in (a, b))")
        }
        _ if (0..tokens.len()).any(|at| is_percentage(&tokens[at..])) => plan_err!(
            "limit takes a number of rows, not a share of them; compute it: limit (select count(*) / 2 from t)"
        ),
        _ => Ok(()),
    }
}

/// Whether this is `limit 50 %` or `limit 50 percent`, and no expression that goes on.
fn is_percentage(tokens: &[TokenWithSpan]) -> bool {
    let [limit, number, sign, rest @ ..] = tokens else { return false };
    let ends = rest.first().is_none_or(|next| {
        matches!(next.token, Token::EOF | Token::SemiColon | Token::RParen) || is_word(&next.token, "offset")
    });
    let share = is_word(&sign.token, "percent") || (sign.token == Token::Mod && ends);
    is_word(&limit.token, "limit") && matches!(number.token, Token::Number(..)) && share
}
