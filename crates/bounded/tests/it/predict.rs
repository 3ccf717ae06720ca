//! Prediction: its arithmetic against drawn numbers, and whole predictions against calls, in time that is
//! only a number. Nothing here depends on how fast the machine is, but for the last test, which asks how fast
//! it is.

use crate::support::script;
use crate::workloads::{self, Workload, scadr, tpcw};
use std::sync::Arc;
use std::time::Duration;
use whimbrel_bounded::predict::{Distribution, Grid, Histogram, Knob, Model, Options, Slo, Sweep};
use whimbrel_bounded::store::{Distant, Found, Latency, Read};
use whimbrel_bounded::{Argument, Clock, Database, Error, Executor, MemoryStore, Prepared, Store};

type Far = Arc<Distant<Arc<MemoryStore>>>;

/// Numbers that look random: what a test draws must not come from what it tests.
struct Draws(u64);

impl Draws {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Log-normal nanoseconds around a median of so many milliseconds.
    fn latency(&mut self, median: f64) -> u64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        (median * 1e6 * (0.5 * normal).exp()) as u64
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn near(found: Duration, expected: Duration, within: f64) -> bool {
    (found.as_secs_f64() / expected.as_secs_f64() - 1.0).abs() <= within
}

fn quantiles_agree(found: &Distribution, drawn: impl Iterator<Item = u64>, within: f64) {
    let mut drawn: Vec<u64> = drawn.collect();
    drawn.sort_unstable();
    for quantile in [0.1, 0.5, 0.9, 0.99] {
        let expected = Duration::from_nanos(drawn[(quantile * drawn.len() as f64) as usize]);
        let found = found.quantile(quantile);
        assert!(near(found, expected, within), "at {quantile}: {found:?}, drawn {expected:?}");
    }
}

#[test]
fn sums_maxima_and_repetitions_are_those_of_drawn_numbers() {
    let mut draws = Draws(7);
    let left: Vec<u64> = (0..200_000).map(|_| draws.latency(20.0)).collect();
    let right: Vec<u64> = (0..200_000).map(|_| draws.latency(30.0)).collect();
    let [of_left, of_right] = [&left, &right].map(|all| Histogram::of(all.iter().copied()).distribution());
    let pairs = || left.iter().zip(&right);
    quantiles_agree(&of_left.then(&of_right), pairs().map(|(l, r)| l + r), 0.02);
    quantiles_agree(&of_left.maximum(&of_right), pairs().map(|(l, r)| *l.max(r)), 0.02);
    quantiles_agree(&of_left.repeated(7), left.chunks_exact(7).map(|seven| seven.iter().sum()), 0.03);
    quantiles_agree(&of_left.shifted(5e6), left.iter().map(|l| l + 5_000_000), 0.02);
}

#[test]
fn nothing_is_cut_off() {
    let hour = Duration::from_secs(3600);
    let all = Histogram::of([1_000, hour.as_nanos() as u64]).distribution();
    assert!(near(all.quantile(0.999), hour, 0.01));
    assert!((all.share_within(Duration::from_secs(60)) - 0.5).abs() < 1e-9);
    assert_eq!(Histogram::of([]).distribution().quantile(0.99), Duration::ZERO);
}

/// A store far away over rows that are there, in simulated time, and the clock.
fn far(workload: &Workload, latency: Latency) -> (Far, Clock) {
    let near = Arc::new(MemoryStore::default());
    let db = Database::open(near.clone()).unwrap();
    workloads::script(&db, workload.schema);
    (workload.fill)(&db);
    workload.queries.iter().for_each(|query| drop(db.prepare(query.sql).unwrap()));
    let clock = Clock::simulated();
    (Arc::new(Distant::new(near, latency, clock.clone(), 11)), clock)
}

fn grid() -> Grid {
    Grid::new(&[1, 3, 10], &[1, 10], &[512]).unwrap()
}

fn options(clock: &Clock, intervals: usize, samples: usize) -> Options {
    Options { grid: grid(), intervals, samples, clients: 1, clock: clock.clone(), ..Options::default() }
}

/// The latencies of calls, in simulated time.
fn truth(
    query: &Prepared,
    arguments: fn(usize) -> Vec<Argument>,
    clock: &Clock,
    calls: usize,
) -> Distribution {
    let call = |at: usize| {
        let before = clock.now();
        query.call(&arguments(at)).unwrap();
        (clock.now() - before).as_nanos() as u64
    };
    Histogram::of((0..calls).map(call)).distribution()
}

/// Every query, its bound met, is predicted by a model that has not measured their fan-outs of fifty.
fn predictions_are_near(workload: &Workload, tuples: &[u64]) {
    // Without its heavy tail, of which only many more samples than a test should take show the size.
    let tuple = Duration::from_micros(20);
    let (store, clock) = far(workload, Latency { tail: 0.0, tuple, ..Latency::shared_network(ms(20)) });
    let db = Database::open(store.clone()).unwrap();
    let grid = Grid::new(&[1, 10, 30, 100], tuples, &[256]).unwrap();
    let model = Model::measure(&store, &Options { grid, ..options(&clock, 2, 250) }).unwrap();
    assert!(model.dependence().abs() < 0.05, "{}", model.dependence());
    for query in workload.queries {
        let prepared = db.prepare(query.sql).unwrap();
        let prediction = prepared.predict(&model, Slo::new(0.9, ms(100)).unwrap()).unwrap();
        let seen = truth(&prepared, query.arguments, &clock, 500).quantile(0.9);
        let error = prediction.quantile_latency.as_secs_f64() / seen.as_secs_f64() - 1.0;
        let name = format!("{}, {}", workload.name, query.name);
        assert!(error.abs() <= 0.1, "{name}: {seen:?}, and {error:+.3} was said\n{prediction}");
        assert!(!prediction.extrapolated && !prediction.few_samples, "{name}");
        assert_eq!(prediction.rounds as u64, query.bound.1);
    }
}

#[test]
fn scadr_is_predicted() {
    predictions_are_near(&scadr::WORKLOAD, &[1, 10, 100]);
}

#[test]
fn tpcw_is_predicted() {
    predictions_are_near(&tpcw::WORKLOAD, &[1, 20, 100]);
}

/// A small database over a store far away with this latency.
fn small(latency: Latency) -> (Database, Far, Clock) {
    let clock = Clock::simulated();
    let store = Arc::new(Distant::new(Arc::default(), latency, clock.clone(), 3));
    let db = Database::open(store.clone()).unwrap();
    script(&db, &scadr::SCHEMA.replace("limit 100 (owner)", "limit 10 (owner)"));
    (db, store, clock)
}

#[test]
fn rounds_are_added_and_executors_wait_differently() {
    let (db, store, clock) = small(Latency::constant(ms(20)));
    let model = Model::measure(&store, &options(&clock, 2, 200)).unwrap();
    let slo = Slo::new(0.9, ms(50)).unwrap();
    let predict = |executor, sql: &str| {
        let options = whimbrel_bounded::Options { executor, ..Default::default() };
        let db = Database::open_with(store.clone(), options).unwrap();
        db.prepare(sql).unwrap().predict(&model, slo).unwrap()
    };
    let parallel = predict(Executor::Parallel, scadr::STREAM);
    assert!(near(parallel.quantile_latency, ms(40), 0.02), "{parallel}");
    assert!(parallel.holds && parallel.rounds == 2, "{parallel}");
    assert!(near(parallel.together, ms(40), 0.02), "{parallel}");
    let simple = predict(Executor::Simple, scadr::STREAM);
    assert!(near(simple.quantile_latency, ms(20 * 11), 0.02), "{simple}");
    assert!(!simple.holds && simple.rounds == 11 && simple.probability < 0.01, "{simple}");
    // The branches of a union go through their rounds together.
    let union = "select username from users where username = ?
        union all select target from subscriptions where owner = ?";
    let both = db.prepare(union).unwrap().predict(&model, slo).unwrap();
    assert_eq!(both.rounds, 1);
    assert!(near(both.quantile_latency, ms(20), 0.02), "{both}");
}

#[test]
fn more_is_never_faster() {
    let latency = Latency { tuple: Duration::from_millis(1), ..Latency::shared_network(ms(20)) };
    let (db, store, clock) = small(latency);
    let model = Model::measure(&store, &options(&clock, 3, 400)).unwrap();
    let slo = Slo::new(0.9, ms(90)).unwrap();
    let sweep = Sweep::evenly("subscriptions(owner)".parse().unwrap(), 1, 10, 10);
    let chart = db.chart(scadr::STREAM, &model, slo, &sweep).unwrap();
    let times: Vec<Duration> =
        chart.points.iter().map(|(_, prediction)| prediction.quantile_latency).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    let largest = chart.largest().unwrap_or_else(|| panic!("{chart}"));
    assert!((2..10).contains(&largest), "{chart}");
    assert!(chart.to_string().contains(&largest.to_string()));
    assert!(chart.svg().contains("90% under 90ms"));
    // Nothing was changed for it.
    assert_eq!(db.compile(scadr::STREAM).unwrap().plan.bound.requests, 11);
    let rows = Sweep { knob: Knob::Rows, values: vec![1, 5, 10] };
    let map = db.heat_map(scadr::STREAM, &model, slo, &sweep, &rows).unwrap();
    assert_eq!((map.cells.len(), map.cells[0].len()), (3, sweep.values.len()));
    for (x, y) in map.largest() {
        let row = map.up.values.iter().position(|value| *value == y).unwrap();
        let column = map.across.values.iter().position(|value| *value == x).unwrap();
        assert!(map.cells[row][column].holds, "{map}");
    }
    assert_eq!(map.svg().matches("<rect").count(), 1 + 3 * sweep.values.len());
}

#[test]
fn beyond_the_grid_and_with_few_samples_nothing_is_promised() {
    let (db, store, clock) = small(Latency::constant(ms(1)));
    let narrow = Options { grid: Grid::new(&[1, 5], &[1, 10], &[512]).unwrap(), ..options(&clock, 2, 50) };
    let model = Model::measure(&store, &narrow).unwrap();
    let stream = db.prepare(scadr::STREAM).unwrap();
    let prediction = stream.predict(&model, Slo::new(0.5, ms(500)).unwrap()).unwrap();
    assert!(prediction.extrapolated && !prediction.holds, "{prediction}");
    assert!(prediction.to_string().contains("measure on a larger grid"), "{prediction}");
    let find = db.prepare(scadr::FIND_USER).unwrap();
    let prediction = find.predict(&model, Slo::new(0.99, ms(500)).unwrap()).unwrap();
    assert!(prediction.few_samples && !prediction.holds, "{prediction}");
    assert!(prediction.to_string().contains("50 samples"), "{prediction}");
    assert!(find.predict(&model, Slo::new(0.5, ms(500)).unwrap()).unwrap().holds);
}

/// Intervals, the last of each so many three times slower.
fn with_bad_intervals(store: &Far, clock: &Clock, intervals: usize, every: usize) -> Model {
    let latency = Latency::shared_network(ms(20));
    let one = |at: usize| {
        store.set(if at % every == every - 1 { latency.slower(3.0) } else { latency });
        Model::measure(store, &Options { seed: at as u64, ..options(clock, 1, 500) }).unwrap()
    };
    let mut model = one(0);
    (1..intervals).for_each(|at| model.extend(one(at)).unwrap());
    store.set(latency);
    model
}

#[test]
fn more_intervals_are_surer() {
    let (db, store, clock) = small(Latency::shared_network(ms(20)));
    let find = db.prepare(scadr::FIND_USER).unwrap();
    let slo = Slo::new(0.9, ms(50)).unwrap();
    let [few, many] = [4, 16].map(|n| find.predict(&with_bad_intervals(&store, &clock, n, 4), slo).unwrap());
    for prediction in [&few, &many] {
        assert!((prediction.probability - 0.75).abs() < 0.02, "{prediction}");
        assert!(!prediction.holds && prediction.worst > ms(50), "{prediction}");
        assert!(prediction.quantile_latency < ms(50), "{prediction}");
    }
    let width = |(low, high): (f64, f64)| high - low;
    assert!(width(many.probability_band) < 0.7 * width(few.probability_band), "{few}\n{many}");
    assert!(many.band.1 - many.band.0 < few.band.1 - few.band.0, "{few}\n{many}");
}

#[test]
fn a_store_that_became_slower_is_found_out() {
    let latency = Latency::shared_network(ms(20));
    let (_, store, clock) = small(latency);
    let model = with_bad_intervals(&store, &clock, 12, 12);
    // Fan-outs that the model has not.
    let grid = Grid::new(&[2, 6], &[1, 4], &[512]).unwrap();
    let again = Options { grid, seed: 99, ..options(&clock, 4, 300) };
    let same = model.drift(&store, &again).unwrap();
    assert!(!same.flagged, "{same}\n{:?}", same.shapes);
    assert!((0.9..1.1).contains(&same.slower), "{same}");
    store.set(latency.slower(1.4));
    let drifted = model.drift(&store, &again).unwrap();
    assert!(drifted.flagged && (1.3..1.5).contains(&drifted.slower), "{drifted}");
    store.set(latency.slower(0.6));
    assert!(model.drift(&store, &again).unwrap().flagged);
}

#[test]
fn a_model_is_kept_and_leaves_nothing_else_behind() {
    let store = Arc::new(MemoryStore::default());
    let entries = || {
        let all = Read::Range { from: vec![], to: vec![255; 8], limit: usize::MAX, reverse: false };
        match store.read(&[all]).unwrap().swap_remove(0) {
            Found::Entries(entries) => entries.len(),
            other => panic!("{other:?}"),
        }
    };
    let clock = Clock::simulated();
    let model = Model::measure(&store, &options(&clock, 2, 20)).unwrap();
    assert_eq!(entries(), 0);
    assert_eq!(Model::from_bytes(&model.to_bytes().unwrap()).unwrap(), model);
    let file = std::env::temp_dir().join(format!("whimbrel-latencies-{}", std::process::id()));
    model.save(&file).unwrap();
    assert_eq!(Model::load(&file).unwrap(), model);
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(Model::load(&file), Err(Error::Unavailable(_))));
    let mut bytes = model.to_bytes().unwrap();
    for end in [0, 5, 18, 19, 30, bytes.len() - 1] {
        assert!(matches!(Model::from_bytes(&bytes[..end]), Err(Error::Data(_))), "{end}");
    }
    bytes[18] += 1;
    assert!(Model::from_bytes(&bytes).unwrap_err().to_string().contains("another release"));
    let other = Options { grid: Grid::new(&[1], &[1], &[512]).unwrap(), ..options(&clock, 1, 20) };
    assert!(model.clone().extend(Model::measure(&store, &other).unwrap()).is_err());
    assert!(Grid::new(&[], &[1], &[1]).is_err() && Grid::new(&[0, 1], &[1], &[1]).is_err());
}

fn lines(db: &Database, sql: &str) -> String {
    let page = db.execute(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).unwrap();
    crate::support::rows(&page.batch).join("\n")
}

#[test]
fn explain_shows_the_plan_and_what_becomes_of_a_promise() {
    let (db, store, clock) = small(Latency::constant(ms(20)));
    let plan = lines(&db, &format!("explain {}", scadr::STREAM));
    assert!(plan.contains("SortedIndexJoin") && plan.contains("at most 11 requests"), "{plan}");
    let ask = format!("/* a page */ EXPLAIN slo '90% under 50ms' {}", scadr::STREAM);
    let missing = db.execute(&ask, &[]).unwrap_err().to_string();
    assert!(missing.contains("db.keep_model(&db.measure("), "{missing}");
    db.keep_model(&Model::measure(&store, &options(&clock, 3, 200)).unwrap()).unwrap();
    assert_eq!(Database::open(store.clone()).unwrap().model().unwrap().unwrap().intervals(), 3);
    let held = lines(&db, &ask);
    assert!(held.contains("90% under 50ms holds: kept in 100% of intervals"), "{held}");
    assert!(held.contains("round 2: 10 ranges of 10 x "), "{held}");
    let broken = lines(&db, &ask.replace("50ms", "30ms"));
    assert!(broken.contains("90% under 30ms does not hold"), "{broken}");
    // Of a write only the query for its rows is known, and that asks nothing here.
    let write = lines(&db, "explain slo '90% under 50ms' insert into users values (:name, :password, :town)");
    assert!(write.contains("90% under 50ms is not safe"), "{write}");
    assert!(write.contains("but that is the query for the rows that change"), "{write}");
    for (sql, says) in [
        ("explain slo 50 select 1", "explain slo '99% under 50ms'"),
        ("explain slo '99 under 50ms' select 1", "write '99% under 50ms'"),
        ("explain slo '99% under 50' select 1", "write '99% under 50ms'"),
        ("explain slo '100% under 50ms' select 1", "between 0 % and 100 %"),
        ("explain", "explain takes a statement"),
        ("explain\nselect nam from users where username = 'a'", "nam"),
    ] {
        let error = db.execute(sql, &[]).unwrap_err().to_string();
        assert!(error.contains(says), "{sql}: {error}");
    }
    let free = format!("{} allow unbounded 'nightly'", "select * from thoughts");
    let error = db.execute(&format!("explain slo '90% under 1s' {free}"), &[]).unwrap_err().to_string();
    assert!(error.contains("no latency that can be predicted"), "{error}");
    db.close();
    let error = db.measure(&options(&clock, 1, 20)).unwrap_err().to_string();
    assert!(error.contains("the database is closed"), "{error}");
}

#[test]
fn knobs_are_read_and_refused() {
    let (db, store, clock) = small(Latency::constant(ms(20)));
    let model = Model::measure(&store, &options(&clock, 2, 100)).unwrap();
    let slo = Slo::new(0.5, ms(50)).unwrap();
    for text in ["rows", "$2", "subscriptions(owner)", "tags(owner, timestamp)", "users()"] {
        assert_eq!(text.parse::<Knob>().unwrap().to_string(), text);
    }
    assert!("owner".parse::<Knob>().is_err());
    let with = |sql: &str, knob: &str| {
        let sweep = Sweep { knob: knob.parse().unwrap(), values: vec![1, 2] };
        db.chart(sql, &model, slo, &sweep).map(|chart| chart.largest())
    };
    assert_eq!(with(scadr::INTERSECTION, "$2").unwrap(), Some(2));
    assert_eq!(with(scadr::FOLLOWED, "rows").unwrap(), Some(2));
    assert!(with(scadr::FIND_USER, "rows").unwrap_err().to_string().contains("neither limit nor paginate"));
    assert!(with(scadr::FIND_USER, "$1").unwrap_err().to_string().contains("is no list"));
    assert!(with(scadr::FIND_USER, "follows(owner)").unwrap_err().to_string().contains("no table"));
}

/// A store in this process answers faster than the engine asks it.
#[test]
fn what_the_engine_itself_takes_is_not_promised() {
    let db = Database::open(MemoryStore::default()).unwrap();
    script(&db, scadr::SCHEMA);
    let model = db.measure(&Options { intervals: 2, samples: 50, ..Options::default() }).unwrap();
    let find = db.prepare(scadr::FIND_USER).unwrap();
    let said = find.predict(&model, Slo::new(0.5, ms(10_000)).unwrap()).unwrap();
    assert!(said.holds && said.own > Duration::ZERO, "{said}");
    let near = find.predict(&model, Slo::new(0.5, said.own * 2).unwrap()).unwrap();
    assert!(!near.holds && near.to_string().contains("what the engine itself takes"), "{near}");
    // Rounds were measured on wider rows: what they have in them for that is no part of the engine's own
    // time.
    let narrow = "select timestamp from thoughts where owner = :owner order by timestamp limit 100";
    let narrow = db.prepare(narrow).unwrap().predict(&model, Slo::new(0.5, ms(10_000)).unwrap()).unwrap();
    assert!(narrow.own > Duration::ZERO, "{narrow}");
}
