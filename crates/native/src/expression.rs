//! What is computed: a tree of operations on values of one [`Kind`] each.

use crate::kind::Kind;

/// An expression over columns. A null operand gives null, unless an operation says otherwise.
///
/// ```
/// use whimbrel_native::{Arithmetic, Expression, Kind};
///
/// let twice = Expression::arithmetic(
///     Arithmetic::Multiply,
///     Expression::Column(0, Kind::I64),
///     Expression::Constant(Kind::I64, Some(2)),
/// );
/// assert_eq!((twice.kind(), twice.operations()), (Some(Kind::I64), 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expression {
    /// The column of this number.
    Column(usize, Kind),
    /// The same value in each row: its bits, or null.
    Constant(Kind, Option<u64>),
    /// An operation on two numbers of one kind.
    Arithmetic(Arithmetic, Box<[Expression; 2]>),
    /// A comparison of two values of one kind. Floats are ordered as by IEEE 754's `totalOrder`.
    Comparison(Comparison, Box<[Expression; 2]>),
    /// Whether both are true: false if one is false, whatever the other is.
    And(Box<[Expression; 2]>),
    /// Whether one is true: true if one is true, whatever the other is.
    Or(Box<[Expression; 2]>),
    /// Whether it is false.
    Not(Box<Expression>),
    /// Whether it is null, which is never null.
    IsNull(Box<Expression>),
    /// A float with the other sign.
    Negated(Box<Expression>),
    /// A float that equals all floats which SQL takes for equal: no negative zero, one NaN.
    Canonical(Box<Expression>),
    /// A number as one of another kind.
    Cast {
        /// The number.
        of: Box<Expression>,
        /// The kind of the result.
        to: Kind,
        /// Whether a number that does not fit is null. Otherwise there is no result at all.
        or_null: bool,
    },
    /// The value of the first branch whose condition is true.
    Case {
        /// Conditions, and values.
        branches: Vec<[Expression; 2]>,
        /// The value if no condition is true.
        otherwise: Box<Expression>,
    },
}

/// An operation on numbers. Those on integers have no result if one is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// A sum.
    Add,
    /// A difference.
    Subtract,
    /// A product.
    Multiply,
    /// A quotient. That of integers is rounded towards zero; there is no result if the divisor is zero.
    Divide,
    /// The remainder of integers, with the sign of the dividend.
    Remainder,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// Equal.
    Equal,
    /// Not equal.
    NotEqual,
    /// Less.
    Less,
    /// Less or equal.
    LessOrEqual,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
}

impl Expression {
    /// An operation on two numbers.
    pub fn arithmetic(operation: Arithmetic, left: Expression, right: Expression) -> Expression {
        Expression::Arithmetic(operation, Box::new([left, right]))
    }

    /// A comparison of two values.
    pub fn comparison(comparison: Comparison, left: Expression, right: Expression) -> Expression {
        Expression::Comparison(comparison, Box::new([left, right]))
    }

    /// Whether both are true.
    pub fn and(left: Expression, right: Expression) -> Expression {
        Expression::And(Box::new([left, right]))
    }

    /// Whether one is true.
    pub fn or(left: Expression, right: Expression) -> Expression {
        Expression::Or(Box::new([left, right]))
    }

    /// Whether it is false.
    #[must_use]
    pub fn negation(of: Expression) -> Expression {
        Expression::Not(Box::new(of))
    }

    /// Whether it is null.
    #[must_use]
    pub fn null_test(of: Expression) -> Expression {
        Expression::IsNull(Box::new(of))
    }

    /// The kind of the result; none if operands do not fit together.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Expression::Column(_, kind) | Expression::Constant(kind, _) => Some(*kind),
            Expression::Arithmetic(operation, operands) => {
                let kind = common_kind(operands.iter())?;
                let is_of_integers = *operation == Arithmetic::Remainder;
                (kind.is_integer() || kind.is_float() && !is_of_integers).then_some(kind)
            }
            Expression::Comparison(_, operands) => common_kind(operands.iter()).map(|_| Kind::Bool),
            Expression::And(operands) | Expression::Or(operands) => {
                common_kind(operands.iter()).filter(|kind| *kind == Kind::Bool)
            }
            Expression::Not(of) => of.kind().filter(|kind| *kind == Kind::Bool),
            Expression::IsNull(of) => of.kind().map(|_| Kind::Bool),
            Expression::Negated(of) | Expression::Canonical(of) => of.kind().filter(|kind| kind.is_float()),
            Expression::Cast { of, to, .. } => of.kind().filter(|from| is_cast(*from, *to)).map(|_| *to),
            Expression::Case { branches, otherwise } => {
                let conditions = common_kind(branches.iter().map(|[condition, _]| condition));
                let values = branches.iter().map(|[_, value]| value).chain([otherwise.as_ref()]);
                common_kind(values).filter(|_| conditions == Some(Kind::Bool))
            }
        }
    }

    /// How many operations it has.
    pub fn operations(&self) -> usize {
        let own = usize::from(!matches!(self, Expression::Column(..) | Expression::Constant(..)));
        own + self.operands().into_iter().map(Expression::operations).sum::<usize>()
    }

    /// The kind of each column, by their numbers; none of those that it does not read.
    pub(crate) fn columns(&self) -> Vec<Option<Kind>> {
        let mut columns = Vec::new();
        self.add_columns(&mut columns);
        columns
    }

    fn add_columns(&self, columns: &mut Vec<Option<Kind>>) {
        if let Expression::Column(number, kind) = self {
            columns.resize(columns.len().max(number + 1), None);
            columns[*number] = Some(*kind);
        }
        self.operands().into_iter().for_each(|operand| operand.add_columns(columns));
    }

    /// What it is computed of.
    pub fn operands(&self) -> Vec<&Expression> {
        match self {
            Expression::Column(..) | Expression::Constant(..) => vec![],
            Expression::Arithmetic(_, operands)
            | Expression::Comparison(_, operands)
            | Expression::And(operands)
            | Expression::Or(operands) => operands.iter().collect(),
            Expression::Not(of)
            | Expression::IsNull(of)
            | Expression::Negated(of)
            | Expression::Canonical(of)
            | Expression::Cast { of, .. } => vec![of],
            Expression::Case { branches, otherwise } => {
                branches.iter().flatten().chain([otherwise.as_ref()]).collect()
            }
        }
    }
}

/// The kind that all have.
fn common_kind<'a>(mut expressions: impl Iterator<Item = &'a Expression>) -> Option<Kind> {
    let first = expressions.next()?.kind()?;
    expressions.all(|other| other.kind() == Some(first)).then_some(first)
}

/// Whether there are instructions for a cast. Floats as integers are left to others.
fn is_cast(from: Kind, to: Kind) -> bool {
    match (from, to) {
        (Kind::F32, Kind::F64) => true,
        (from, to) => from.is_integer() && (to.is_integer() || to.is_float()),
    }
}
