//! Equivalence classes of columns and constants (piql.txt §5.1: the equality predicates of Algorithm 1).
//!
//! Invariant: two members are in one class only if every row that the query returns has equal values in both.

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use std::collections::HashMap;

/// A column, or an expression over parameters alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Member {
    /// A column.
    Column(Column),
    /// The same value in all rows.
    Constant(Expr),
}

impl Member {
    /// The member as an expression.
    pub fn expr(&self) -> Expr {
        match self {
            Member::Column(column) => Expr::Column(column.clone()),
            Member::Constant(expr) => expr.clone(),
        }
    }
}

/// Classes of equal members.
#[derive(Debug, Clone, Default)]
pub(super) struct Equalities {
    members: Vec<Member>,
    class: Vec<usize>,
    places: HashMap<Member, usize>,
}

impl Equalities {
    /// Puts two members into one class.
    pub fn add(&mut self, left: &Member, right: &Member) {
        let (left, right) = (self.place(left), self.place(right));
        let (kept, gone) = (self.class[left], self.class[right]);
        self.class.iter_mut().filter(|class| **class == gone).for_each(|class| *class = kept);
    }

    /// The class of a member.
    fn place(&mut self, member: &Member) -> usize {
        if let Some(place) = self.places.get(member) {
            return *place;
        }
        let place = self.members.len();
        self.members.push(member.clone());
        self.class.push(place);
        self.places.insert(member.clone(), place);
        place
    }

    /// Whether two members are in one class.
    pub fn same(&self, left: &Member, right: &Member) -> bool {
        left == right
            || match (self.places.get(left), self.places.get(right)) {
                (Some(left), Some(right)) => self.class[*left] == self.class[*right],
                _ => false,
            }
    }

    /// The other members of its class.
    pub fn equals<'a>(&'a self, member: &Member) -> impl Iterator<Item = &'a Member> {
        let place = self.places.get(member).copied();
        let class = place.map(|place| self.class[place]);
        self.members
            .iter()
            .enumerate()
            .filter(move |(at, _)| Some(self.class[*at]) == class && Some(*at) != place)
            .map(|(_, member)| member)
    }

    /// The constant in the class of a column.
    pub fn constant(&self, column: &Column) -> Option<&Expr> {
        self.equals(&Member::Column(column.clone())).find_map(|member| match member {
            Member::Constant(expr) => Some(expr),
            Member::Column(_) => None,
        })
    }
}
