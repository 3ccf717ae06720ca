//! Expressions that run as machine code (trill.txt §4).
//!
//! [`compile`] replaces the parts of an expression that are worth it: those of which Arrow's kernels have no
//! fast way, and which take many of them. Such a part is compiled once it has seen enough rows, and where
//! machine code has no result, it is interpreted: the answer, and the error, is that of DataFusion.

#[cfg(test)]
mod tests;
mod translate;

use crate::substitute_expr::{Evaluate, SubstituteExpr};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use translate::{Sizes, Translation, measure, translate};
use whimbrel_native::Compiled;

/// An expression that has seen fewer rows is interpreted: it takes about as long to compile it.
const MIN_ROWS: usize = 1 << 15;

/// An expression that had no result so often is interpreted from then on.
const MAX_FAILURES: usize = 3;

/// Which expressions are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Those that are worth it, once they have seen enough rows.
    Worthwhile,
    /// All that can be, at once: for tests.
    Always,
    /// None.
    Never,
}

/// As the environment says: `WHIMBREL_NATIVE` is `always` or `never`.
static MODE: LazyLock<Mode> = LazyLock::new(|| match std::env::var("WHIMBREL_NATIVE").as_deref() {
    Ok("always") => Mode::Always,
    Ok("never") => Mode::Never,
    _ => Mode::Worthwhile,
});

/// Replaces the parts of an expression over these columns that are compiled.
///
/// # Errors
/// `Internal` if an expression cannot be rebuilt.
pub(super) fn compile(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    compile_in(*MODE, expr, schema)
}

fn compile_in(mode: Mode, expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    if mode == Mode::Never {
        return Ok(expr);
    }
    let mut sizes = Sizes::new();
    measure(&expr, &mut sizes);
    expr.transform_down(|expr| {
        let size = sizes.get(&Arc::as_ptr(&expr).cast()).copied();
        let is_promising = mode == Mode::Always || size.is_some_and(|size| size.is_promising);
        if !is_promising || !translate::is_known(&expr) {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        let fits = size.is_some_and(|size| !size.is_too_large());
        let found = if fits { translate(&expr, schema) } else { None };
        match found.filter(|found| mode == Mode::Always || found.is_worthwhile()) {
            Some(found) => {
                let native = NativeExpr::new(expr, found, schema, mode)?;
                Ok(Transformed::new(Arc::new(SubstituteExpr(native)) as _, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(expr)),
        }
    })
    .data()
}

/// An expression that is compiled.
#[derive(Debug)]
struct NativeExpr {
    interpreted: Arc<dyn PhysicalExpr>,
    /// The columns that it reads, in the order of their numbers.
    columns: Vec<usize>,
    compiled: Compiled,
    data_type: DataType,
    mode: Mode,
    /// How many rows it has seen.
    rows: AtomicUsize,
    /// How often the compiled expression had no result.
    failures: AtomicUsize,
}

impl NativeExpr {
    fn new(
        interpreted: Arc<dyn PhysicalExpr>,
        found: Translation,
        schema: &Schema,
        mode: Mode,
    ) -> Result<NativeExpr> {
        Ok(NativeExpr {
            data_type: interpreted.data_type(schema)?,
            interpreted,
            columns: found.columns,
            compiled: Compiled::new(found.expression),
            mode,
            rows: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
        })
    }

    /// Whether machine code is used for these rows.
    fn is_used(&self, rows: usize) -> bool {
        let before = self.rows.fetch_add(rows, Ordering::Relaxed);
        match self.mode {
            Mode::Always => true,
            _ => before + rows >= MIN_ROWS && self.failures.load(Ordering::Relaxed) < MAX_FAILURES,
        }
    }
}

impl Evaluate for NativeExpr {
    fn original(&self) -> &Arc<dyn PhysicalExpr> {
        &self.interpreted
    }

    fn data_type(&self) -> &DataType {
        &self.data_type
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        // `case` asks what an expression is for rows without columns.
        let column = |index: &usize| batch.columns().get(*index).cloned();
        if self.is_used(rows)
            && let Some(columns) = self.columns.iter().map(column).collect::<Option<Vec<_>>>()
        {
            if let Some(values) = self.compiled.evaluate(&columns, rows, &self.data_type) {
                return Ok(ColumnarValue::Array(values));
            }
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.interpreted.evaluate(batch)
    }

    /// Nothing: it is interpreted.
    fn of(_: &Arc<dyn PhysicalExpr>) -> Option<NativeExpr> {
        None
    }
}
