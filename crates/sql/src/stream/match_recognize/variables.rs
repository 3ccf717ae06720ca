//! The pattern of a `match_recognize`: its variables, and the order in which rows of them follow each other.
//!
//! Invariant: the variables of a pattern are numbered in the order in which they first appear.

use crate::syntax::names;
use crate::syntax::tokens::EXCLUDED;
use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    Ident, MatchRecognizePattern as Ast, MatchRecognizeSymbol as Symbol, RepetitionQuantifier as Quantifier,
};
use std::collections::{BTreeMap, BTreeSet};

/// The most variables in a `permute`: all their orders are alternatives.
const PERMUTED: usize = 6;

/// A pattern over numbers of variables.
#[derive(Debug, Clone)]
pub(super) enum Rows {
    /// A row of a variable; whether the rows of a match leave it out.
    Variable { number: usize, is_excluded: bool },
    /// One after another.
    Concat(Vec<Rows>),
    /// One of them; earlier ones are preferred.
    Or(Vec<Rows>),
    /// Several times.
    Repeat { of: Box<Rows>, least: usize, most: Option<usize>, greedy: bool },
}

/// The rows of a match that an expression is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowSet {
    /// All of them.
    All,
    /// Those of these variables.
    Of(BTreeSet<usize>),
}

impl RowSet {
    /// Whether rows of a variable are among them.
    pub fn contains(&self, variable: usize) -> bool {
        match self {
            RowSet::All => true,
            RowSet::Of(variables) => variables.contains(&variable),
        }
    }
}

/// The variables of a pattern.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// Their names as expressions spell them, and as the pattern does.
    names: Vec<(String, String)>,
    /// Sets of variables that have a name.
    subsets: BTreeMap<String, BTreeSet<usize>>,
}

impl Variables {
    /// Reads a pattern, whose variables become known.
    ///
    /// # Errors
    /// `Plan` if it has anchors, or its bounds do not fit.
    pub fn read(&mut self, pattern: &Ast) -> Result<Rows> {
        Ok(match pattern {
            Ast::Symbol(symbol) | Ast::Exclude(symbol) => self.variable(symbol)?,
            Ast::Permute(symbols) => {
                let symbols = symbols.iter().map(|symbol| self.variable(symbol));
                permuted(symbols.collect::<Result<_>>()?)?
            }
            Ast::Concat(parts) => Rows::Concat(self.each(parts)?),
            Ast::Alternation(parts) => Rows::Or(self.each(parts)?),
            Ast::Group(inner) => self.read(inner)?,
            Ast::Repetition(inner, quantifier) => {
                // The parser knows no reluctant quantifiers: `a+?` is `a+` with a quantifier of its own.
                let (of, quantifier, greedy) = match (inner.as_ref(), quantifier) {
                    (Ast::Repetition(inner, quantifier), Quantifier::AtMostOne) => (inner, quantifier, false),
                    (Ast::Repetition(..), _) => {
                        return plan_err!(
                            "match_recognize: write ( ) around {inner} to repeat it {quantifier}"
                        );
                    }
                    _ => (inner, quantifier, true),
                };
                let (least, most) = bounds(quantifier)?;
                Rows::Repeat { of: Box::new(self.read(of)?), least, most, greedy }
            }
        })
    }

    fn each(&mut self, parts: &[Ast]) -> Result<Vec<Rows>> {
        parts.iter().map(|part| self.read(part)).collect()
    }

    fn variable(&mut self, symbol: &Symbol) -> Result<Rows> {
        let Symbol::Named(name) = symbol else {
            return plan_err!(
                "match_recognize: a pattern has no anchors ({symbol}): ask for the first row in define, with prev(…) is \
                 null of a column that is never null"
            );
        };
        let (name, is_excluded) = match name.value.strip_prefix(EXCLUDED) {
            Some(value) => (Ident { value: value.to_string(), ..name.clone() }, true),
            None => (name.clone(), false),
        };
        let known = self.number(&name);
        let number = known.unwrap_or_else(|| {
            self.names.push((names::ident(&name), name.value.clone()));
            self.names.len() - 1
        });
        Ok(Rows::Variable { number, is_excluded })
    }

    /// Adds a name for several variables.
    ///
    /// # Errors
    /// `Plan` if the name is taken, or a variable is not in the pattern.
    pub fn add_subset(&mut self, name: &Ident, of: &[Ident]) -> Result<()> {
        if self.number(name).is_some() || self.subsets.contains_key(&names::ident(name)) {
            return plan_err!(
                "match_recognize: the subset {name} has the name of something else in the pattern"
            );
        }
        let of = of.iter().map(|variable| self.known(variable)).collect::<Result<_>>()?;
        self.subsets.insert(names::ident(name), of);
        Ok(())
    }

    /// The number of a variable.
    fn number(&self, name: &Ident) -> Option<usize> {
        let name = names::ident(name);
        self.names.iter().position(|(known, _)| *known == name)
    }

    /// The number of a variable of the pattern.
    ///
    /// # Errors
    /// `Plan` if it has none of that name.
    pub fn known(&self, name: &Ident) -> Result<usize> {
        match self.number(name) {
            Some(number) => Ok(number),
            None => plan_err!("match_recognize: the pattern has no variable {name}"),
        }
    }

    /// The rows that go by a name: of a variable, or of a subset.
    pub fn rows(&self, name: &str) -> Option<RowSet> {
        let number = self.names.iter().position(|(known, _)| known == name);
        let of = number.map(|number| BTreeSet::from([number])).or_else(|| self.subsets.get(name).cloned());
        of.map(RowSet::Of)
    }

    /// The names of variables and subsets, as expressions spell them.
    pub fn all_names(&self) -> impl Iterator<Item = &String> {
        self.names.iter().map(|(name, _)| name).chain(self.subsets.keys())
    }

    /// The name of a variable, as the pattern spells it.
    pub fn spelling(&self, number: usize) -> &str {
        &self.names[number].1
    }

    /// How many variables there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}

/// The least and the greatest number of repetitions.
fn bounds(quantifier: &Quantifier) -> Result<(usize, Option<usize>)> {
    let (least, most) = match *quantifier {
        Quantifier::ZeroOrMore => (0, None),
        Quantifier::OneOrMore => (1, None),
        Quantifier::AtMostOne => (0, Some(1)),
        Quantifier::Exactly(times) => (times, Some(times)),
        Quantifier::AtLeast(least) => (least, None),
        Quantifier::AtMost(most) => (0, Some(most)),
        Quantifier::Range(least, most) => (least, Some(most)),
    };
    match most {
        Some(most) if most < least || most == 0 => {
            plan_err!("match_recognize: {quantifier} repeats nothing; write {{least,most}}, most at least 1")
        }
        most => Ok((least as usize, most.map(|most| most as usize))),
    }
}

/// All orders of variables, those that begin with earlier ones first.
fn permuted(variables: Vec<Rows>) -> Result<Rows> {
    if variables.len() > PERMUTED {
        return plan_err!(
            "match_recognize: permute takes at most {PERMUTED} variables, and not {}",
            variables.len()
        );
    }
    let mut orders: Vec<Vec<usize>> = vec![vec![]];
    for _ in &variables {
        let longer = |order: Vec<usize>| {
            let next = (0..variables.len()).filter(|next| !order.contains(next)).collect::<Vec<_>>();
            next.into_iter().map(move |next| order.iter().copied().chain([next]).collect())
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    let in_order = |order: Vec<usize>| Rows::Concat(order.iter().map(|at| variables[*at].clone()).collect());
    Ok(Rows::Or(orders.into_iter().map(in_order).collect()))
}
