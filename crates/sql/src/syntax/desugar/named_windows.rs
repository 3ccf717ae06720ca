//! Windows that extend others: `over (w rows 1 preceding)`, `window v as (w order by b)`. DataFusion's
//! planner ignores the name in the parentheses.
//!
//! A window has the partitions and the order of the one that it names, and may have an order of its own only
//! if that one has none.
//!
//! ```sql
//! select sum(x) over (w rows 1 preceding) from t window w as (order by x);
//! -- select sum(x) over (order by x rows 1 preceding) from t window w as (order by x)
//! ```

use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, Query, SetExpr, VisitorMut, WindowSpec,
    WindowType,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Inlines the named windows of a query.
pub(super) fn desugar(query: &mut Query) -> ControlFlow<String> {
    let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
    let mut windows = Windows { named: BTreeMap::new(), depth: 0, everywhere: false };
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        let mut spec = match window {
            NamedWindowExpr::NamedWindow(other) => reference(other),
            NamedWindowExpr::WindowSpec(spec) => spec.clone(),
        };
        windows.complete(&mut spec)?;
        windows.named.insert(names::ident(name), spec.clone());
        *window = NamedWindowExpr::WindowSpec(spec);
    }
    walk_mut(&mut select.projection, &mut windows)?;
    // The planner finds the name of a window in the select list only.
    windows.everywhere = true;
    walk_mut(&mut select.qualify, &mut windows)?;
    walk_mut(&mut query.order_by, &mut windows)
}

/// The named windows.
struct Windows {
    /// The windows by name.
    named: BTreeMap<String, WindowSpec>,
    /// How deep in subqueries the visitor is.
    depth: usize,
    /// Whether windows that consist of a name are inlined too.
    everywhere: bool,
}

impl Windows {
    /// Adds the partitions and the order of the window that a window names.
    fn complete(&self, spec: &mut WindowSpec) -> ControlFlow<String> {
        let Some(name) = spec.window_name.take() else { return ControlFlow::Continue(()) };
        let Some(base) = self.named.get(&names::ident(&name)) else {
            return ControlFlow::Break(format!("there is no window {name} before this"));
        };
        if !spec.partition_by.is_empty() {
            return ControlFlow::Break(format!("a window over ({name} …) has the partitions of {name}"));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return ControlFlow::Break(format!("the window {name} has an order already"));
        }
        spec.partition_by = base.partition_by.clone();
        if spec.order_by.is_empty() {
            spec.order_by = base.order_by.clone();
        }
        if spec.window_frame.is_none() {
            spec.window_frame = base.window_frame.clone();
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Windows {
    type Break = String;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Function(Function { over: Some(over), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match over {
            WindowType::WindowSpec(spec) => self.complete(spec),
            WindowType::NamedWindow(name) if self.everywhere => {
                let mut spec = reference(name);
                self.complete(&mut spec)?;
                *over = WindowType::WindowSpec(spec);
                ControlFlow::Continue(())
            }
            WindowType::NamedWindow(_) => ControlFlow::Continue(()),
        }
    }
}

/// `(w)`.
fn reference(window: &Ident) -> WindowSpec {
    WindowSpec {
        window_name: Some(window.clone()),
        partition_by: vec![],
        order_by: vec![],
        window_frame: None,
    }
}
