//! Charts of a query's predicted latency over values of its limits.

use super::engine::Engine;
use super::handle::Database;
use crate::error::Result;
use crate::predict::{Chart, HeatMap, Knob, Model, Outline, Prediction, Slo, Sweep};
use crate::schema::Schema;
use crate::syntax;

impl Database {
    /// The predicted latency of a query for every value of a limit, and the largest that keeps a promise.
    ///
    /// # Errors
    /// `Invalid` if the query has no such limit, `Unbounded` if it has no bound even with it.
    ///
    /// ```
    /// # use whimbrel_bounded::{Database, MemoryStore, predict::{Grid, Knob, Options, Sweep}};
    /// # let db = Database::open(MemoryStore::default())?;
    /// let columns = "owner varchar(20), at bigint, text varchar(140)";
    /// db.execute(&format!("create table thoughts ({columns}, primary key (owner, at))"), &[])?;
    /// # let grid = Grid::new(&[1], &[1, 50], &[256])?;
    /// # let model = db.measure(&Options { grid, intervals: 2, samples: 200, ..Options::default() })?;
    /// let rows = Sweep { knob: Knob::Rows, values: vec![10, 20, 50] };
    /// let query = "select text from thoughts where owner = ? order by at desc limit 10";
    /// let chart = db.chart(query, &model, "90% under 1s".parse()?, &rows)?;
    /// assert_eq!(chart.largest(), Some(50));
    /// assert!(chart.svg().starts_with("<svg"));
    /// # Ok::<(), whimbrel_bounded::Error>(())
    /// ```
    pub fn chart(&self, sql: &str, model: &Model, slo: Slo, sweep: &Sweep) -> Result<Chart> {
        let point =
            |value: &u64| Ok((*value, self.engine.predict_with(sql, model, slo, &[(&sweep.knob, *value)])?));
        let points = sweep.values.iter().map(point).collect::<Result<_>>()?;
        Ok(Chart { knob: sweep.knob.clone(), slo, points })
    }

    /// The same for two limits at once.
    ///
    /// # Errors
    /// As [`chart`](Database::chart).
    pub fn heat_map(
        &self,
        sql: &str,
        model: &Model,
        slo: Slo,
        across: &Sweep,
        up: &Sweep,
    ) -> Result<HeatMap> {
        let cell = |x: &u64, y: &u64| {
            self.engine.predict_with(sql, model, slo, &[(&across.knob, *x), (&up.knob, *y)])
        };
        let row = |y: &u64| across.values.iter().map(|x| cell(x, y)).collect::<Result<Vec<_>>>();
        let cells = up.values.iter().map(row).collect::<Result<_>>()?;
        Ok(HeatMap { across: across.clone(), up: up.clone(), slo, cells })
    }
}

impl Engine {
    /// The prediction for a query with these limits.
    fn predict_with(&self, sql: &str, model: &Model, slo: Slo, knobs: &[(&Knob, u64)]) -> Result<Prediction> {
        let mut parsed = syntax::parse(sql)?;
        let mut schema = Schema::clone(&self.schema());
        knobs.iter().try_for_each(|(knob, value)| knob.apply(*value, &mut schema, &mut parsed))?;
        let compiled = self.compile_over(sql, &schema, &parsed)?;
        Prediction::of(&Outline::of(&compiled.plan)?, self.options.executor, model, slo)
    }
}
