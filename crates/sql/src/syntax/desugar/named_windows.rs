//! Windows that are made of others: `over (w rows 1 preceding)`, `window v as (w order by b)`. DataFusion's planner takes
//! what stands in the parentheses for all of the window.
//!
//! A window has the partitions and the order of the one that it names, and may have an order of its own only if that one has
//! none.

use crate::syntax::names;
use crate::syntax::walk::walk_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, Query, SetExpr, VisitorMut, WindowSpec,
    WindowType,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Puts what the named windows of a query stand for where they are named.
pub(super) fn desugar(query: &mut Query) -> ControlFlow<String> {
    let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
    let mut windows = Windows { known: BTreeMap::new(), depth: 0, everywhere: false };
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        let mut spec = match window {
            NamedWindowExpr::NamedWindow(other) => named(other),
            NamedWindowExpr::WindowSpec(spec) => spec.clone(),
        };
        windows.complete(&mut spec)?;
        windows.known.insert(names::ident(name), spec.clone());
        *window = NamedWindowExpr::WindowSpec(spec);
    }
    walk_mut(&mut select.projection, &mut windows)?;
    // The planner finds a name of a window in what is selected, and nowhere else.
    windows.everywhere = true;
    walk_mut(&mut select.qualify, &mut windows)?;
    walk_mut(&mut query.order_by, &mut windows)
}

/// The windows that have names.
struct Windows {
    known: BTreeMap<String, WindowSpec>,
    depth: usize,
    /// Whether windows that are nothing but a name are written out, too.
    everywhere: bool,
}

impl Windows {
    /// Puts in what a window takes from the one that it names.
    fn complete(&self, spec: &mut WindowSpec) -> ControlFlow<String> {
        let Some(name) = spec.window_name.take() else { return ControlFlow::Continue(()) };
        let Some(base) = self.known.get(&names::ident(&name)) else {
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
                let mut spec = named(name);
                self.complete(&mut spec)?;
                *over = WindowType::WindowSpec(spec);
                ControlFlow::Continue(())
            }
            WindowType::NamedWindow(_) => ControlFlow::Continue(()),
        }
    }
}

/// `(w)`.
fn named(window: &Ident) -> WindowSpec {
    WindowSpec {
        window_name: Some(window.clone()),
        partition_by: vec![],
        order_by: vec![],
        window_frame: None,
    }
}
