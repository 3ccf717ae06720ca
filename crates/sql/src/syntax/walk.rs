//! Walks over the parser's tree.
//!
//! The parser's own `visit` is generic: each type of visitor compiles the walk over several hundred types of
//! nodes anew. Here all visitors share one walk, which calls them through a table of functions, so that this
//! crate compiles in a fraction of the time. A visitor is called at most a few times per node, and the cost
//! of an indirect call does not show.

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Lets a visitor see all of a tree, until it breaks off.
pub fn walk<V: Visitor>(tree: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut recorded = Recorded { visitor, result: None };
    let _: ControlFlow<()> = tree.visit(&mut SharedWalk(&mut recorded));
    recorded.result.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// The same for a visitor that changes the tree.
pub fn walk_mut<V: VisitorMut>(tree: &mut impl VisitMut, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut recorded = Recorded { visitor, result: None };
    let _: ControlFlow<()> = tree.visit(&mut SharedWalkMut(&mut recorded));
    recorded.result.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Calls a function with each name of a relation, until it breaks off.
///
/// ```
/// use datafusion::sql::sqlparser::dialect::GenericDialect;
/// use datafusion::sql::sqlparser::parser::Parser;
/// use std::ops::ControlFlow;
/// use whimbrel_sql::walk::walk_relations;
///
/// let query = Parser::parse_sql(&GenericDialect {}, "select * from a join b on a.k = b.k").unwrap();
/// let mut names = vec![];
/// let _: ControlFlow<()> = walk_relations(&query, |name| {
///     names.push(name.to_string());
///     ControlFlow::Continue(())
/// });
/// assert_eq!(names, ["a", "b"]);
/// ```
pub fn walk_relations<B>(
    tree: &impl Visit,
    visit: impl FnMut(&ObjectName) -> ControlFlow<B>,
) -> ControlFlow<B> {
    struct Relations<F>(F);
    impl<B, F: FnMut(&ObjectName) -> ControlFlow<B>> Visitor for Relations<F> {
        type Break = B;

        fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<B> {
            (self.0)(name)
        }
    }
    walk(tree, &mut Relations(visit))
}

/// Lets a function change each name of a relation.
pub fn change_relations(tree: &mut impl VisitMut, change: impl FnMut(&mut ObjectName)) {
    struct Relations<F>(F);
    impl<F: FnMut(&mut ObjectName)> VisitorMut for Relations<F> {
        type Break = ();

        fn post_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
            (self.0)(name);
            ControlFlow::Continue(())
        }
    }
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_mut(tree, &mut Relations(change));
}

/// Lets a function change each expression, those inside of others first.
pub fn change_expressions(tree: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    struct Expressions<F>(F);
    impl<F: FnMut(&mut Expr)> VisitorMut for Expressions<F> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            (self.0)(expr);
            ControlFlow::Continue(())
        }
    }
    // The visitor never breaks off.
    let _: ControlFlow<()> = walk_mut(tree, &mut Expressions(change));
}

/// A visitor, and what it broke off with.
struct Recorded<'a, V, B> {
    /// The visitor.
    visitor: &'a mut V,
    /// What it broke off with.
    result: Option<B>,
}

impl<V, B> Recorded<'_, V, B> {
    /// Keeps what a visitor breaks off with.
    fn record(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|result| self.result = Some(result))
    }
}

/// The walk that visitors of one kind share, and what it calls: the same functions as the parser's visitor
/// has, without its type of result.
macro_rules! shared_walk {
    ($walk:ident, $calls:ident, $visitor:ident, $reference:ident, $($visit:ident: $node:ty,)*) => {
        trait $calls {
            $(fn $visit(&mut self, node: $reference<'_, $node>) -> ControlFlow<()>;)*
        }

        impl<V: $visitor> $calls for Recorded<'_, V, V::Break> {
            $(fn $visit(&mut self, node: $reference<'_, $node>) -> ControlFlow<()> {
                let flow = self.visitor.$visit(node);
                self.record(flow)
            })*
        }

        struct $walk<'a>(&'a mut dyn $calls);

        impl $visitor for $walk<'_> {
            type Break = ();

            $(fn $visit(&mut self, node: $reference<'_, $node>) -> ControlFlow<()> {
                self.0.$visit(node)
            })*
        }
    };
    ($walk:ident, $calls:ident, $visitor:ident, $reference:ident) => {
        shared_walk! {
            $walk, $calls, $visitor, $reference,
            pre_visit_query: Query,
            post_visit_query: Query,
            pre_visit_select: Select,
            post_visit_select: Select,
            pre_visit_relation: ObjectName,
            post_visit_relation: ObjectName,
            pre_visit_table_factor: TableFactor,
            post_visit_table_factor: TableFactor,
            pre_visit_expr: Expr,
            post_visit_expr: Expr,
            pre_visit_statement: Statement,
            post_visit_statement: Statement,
            pre_visit_value: ValueWithSpan,
            post_visit_value: ValueWithSpan,
        }
    };
}

/// A shared reference, as an argument of the macro.
type Shared<'a, T> = &'a T;
/// An exclusive reference, as an argument of the macro.
type Exclusive<'a, T> = &'a mut T;

shared_walk!(SharedWalk, Calls, Visitor, Shared);
shared_walk!(SharedWalkMut, CallsMut, VisitorMut, Exclusive);

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn parsed(sql: &str) -> Statement {
        Parser::parse_sql(&GenericDialect {}, sql).expect("the text is SQL").remove(0)
    }

    #[test]
    fn a_walk_ends_where_the_visitor_breaks_off() {
        let mut seen = vec![];
        let flow = walk_relations(&parsed("select * from a, b, c"), |name| {
            seen.push(name.to_string());
            if seen.len() == 2 { ControlFlow::Break(name.to_string()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!((flow, seen.join(" ")), (ControlFlow::Break("b".to_string()), "a b".to_string()));
    }

    #[test]
    fn changes_reach_all_of_a_tree() {
        let mut statement = parsed("select (select x from a where y = x) from a");
        change_relations(&mut statement, |name| *name = ObjectName::from(vec!["t".into()]));
        change_expressions(&mut statement, |expr| {
            if let Expr::Identifier(name) = expr {
                name.value.make_ascii_uppercase();
            }
        });
        assert_eq!(statement.to_string(), "SELECT (SELECT X FROM t WHERE Y = X) FROM t");
    }
}
