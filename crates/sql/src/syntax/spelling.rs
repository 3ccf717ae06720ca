//! What the planner learns about names only by planning, kept for the next time that the statement is parsed.
//!
//! DataFusion's planner reads `select userName from t` as the column `username`. If that fails and there is
//! one column of this name in other capitals, the statement is parsed again with `"userName"` in this place.
//! In the same way the planner tells which names are aliases of the same select, and which are fields of
//! structs of outer columns.

use crate::error;
use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};
use std::collections::{BTreeMap, BTreeSet};

/// How the names of a statement are to be read where the planner did not find them as they are written.
#[derive(Debug, Default)]
pub(crate) struct Spelling {
    /// Columns whose names have capital letters, written without quotes; by the end of the word.
    pub capitals: BTreeMap<Location, String>,
    /// Columns of structs whose fields a subquery reads from outside.
    pub outer_structs: BTreeSet<String>,
    /// The ends of names that no column has; each may be an alias of the same select.
    pub aliases: BTreeSet<Location>,
}

impl Spelling {
    /// Records what a planning error says about a name. Returns whether that is new.
    pub fn record_misspelling(&mut self, error: &DataFusionError) -> bool {
        if let Some((place, name)) = error::respelled(error) {
            return self.capitals.insert(place, name).is_none();
        }
        if let Some(place) = error::unknown(error) {
            return self.aliases.insert(place);
        }
        error::outer_struct(error).is_some_and(|column| self.outer_structs.insert(column))
    }

    /// Replaces a word by the quoted name of its column.
    pub fn respell(&self, token: TokenWithSpan) -> TokenWithSpan {
        match (&token.token, self.capitals.get(&token.span.end)) {
            (Token::Word(_), Some(name)) => {
                let word = Word { value: name.clone(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
                TokenWithSpan { token: Token::Word(word), span: token.span }
            }
            _ => token,
        }
    }
}
