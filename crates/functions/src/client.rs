//! Functions as a runtime: where queries go, and what they cost.

use crate::bill::{Bill, Finished};
use crate::billing::{Account, Billed, Metered};
use crate::bucket::{Bucket, BucketAddress};
use crate::coordinator::{
    self, Board, CombineCosts, Combining, JobSettings, QUERIES, STAGES, ScheduleSettings, Start,
    wait_for_clean_up,
};
use crate::hedged_store::Stragglers;
use crate::invoke::{FunctionAddress, Invoke, Invoker};
use crate::model::{
    Expected, Forecast, Goal, Model, PoolModel, Rates, Shape, choose_plan, forecast_text, is_small,
};
use crate::plan::Plan;
use crate::pools::{BasePool, Pool, Pools};
use crate::prices::{PriceSheet, Prices};
use crate::small_query::SmallQuery;
use crate::tables::Tables;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use datafusion::common::{Result, exec_datafusion_err, internal_err, plan_err};
use std::any::Any;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use whimbrel_plan::{References, Stream};
use whimbrel_sharded::program::Programs;
use whimbrel_sharded::runtime::{
    ChosenPlan, Execution, Network, Progress, RemotePart, RemoteRuntime, Sink, TransferCosts,
};
use whimbrel_sharded::{JobSpec, Memory, Options};

/// What part of its memory the operators of a function may hold; the rest is for what it reads and writes.
const OPERATOR_MEMORY: f64 = 0.5;

/// For how long queries are waited for that have ended, and for which functions still work.
pub const CLEAN_UP_WAIT: Duration = Duration::from_secs(10);

/// Queries that read less than this are done before a function has begun.
const SMALL: u64 = 4 << 20;

/// Tables that were uploaded are below this.
const TABLES: &str = "tables";

/// Functions, and how they are used.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionsSettings {
    /// The function.
    pub function: FunctionAddress,
    /// Where objects are.
    pub bucket: BucketAddress,
    /// How queries are run.
    pub job: JobSettings,
    /// How many megabytes of memory a function has.
    pub memory: u32,
    /// Whether large shuffles go through tasks that combine; none: where that is cheaper.
    pub combine: Option<bool>,
    /// Queries that read at most so many bytes from tables run in the process that asks; 0 for none.
    pub small: u64,
    /// For how long a function may run.
    pub timeout: Duration,
    /// How requests that take too long are treated.
    pub stragglers: Stragglers,
    /// What all of it costs.
    pub prices: PriceSheet,
    /// How fast functions are; none: as those of AWS Lambda, or of one's own machines, usually are.
    pub rates: Option<Rates>,
    /// What the plans of queries are chosen by.
    pub goal: Goal,
}

impl FunctionsSettings {
    /// The usual settings of a function and a bucket.
    ///
    /// # Errors
    /// None but those of the price sheet that comes along.
    pub fn new(function: FunctionAddress, bucket: BucketAddress) -> Result<FunctionsSettings> {
        let job = JobSettings {
            schedule: ScheduleSettings::default(),
            parallel_reads: 16,
            inline_bytes: u64::MAX,
            keep: None,
        };
        Ok(FunctionsSettings {
            function,
            bucket,
            job,
            memory: 3008,
            combine: None,
            small: SMALL,
            timeout: Duration::from_secs(900),
            stragglers: Stragglers::default(),
            prices: PriceSheet::named("aws-us-east-1-x86")?,
            rates: None,
            goal: Goal::Knee,
        })
    }
}

/// Functions, as a client sees them.
#[derive(Clone)]
pub struct Functions {
    settings: FunctionsSettings,
    pool: Pool,
    /// Functions that are used before these.
    base: Option<Base>,
    /// Functions of other memory, which a query may run on instead.
    sizes: Vec<Functions>,
    bucket: Arc<Bucket>,
    references: Arc<dyn References>,
    tables: Arc<Tables>,
    network: Arc<QueryNetwork>,
    /// The bill of the query that these functions are for, and of the last one of all.
    bills: [Arc<Mutex<Option<Bill>>>; 2],
    board: Board,
    /// What has to live as long as these functions.
    _owned: Option<Arc<dyn Any + Send + Sync>>,
}

/// Functions of one's own machines, which are used before others.
#[derive(Clone)]
struct Base {
    pool: BasePool,
    model: PoolModel,
}

/// The thread that talks to functions. It goes on when nobody needs it any more, until everything has been
/// removed that queries have written.
struct QueryNetwork(Arc<Network>);

impl Drop for QueryNetwork {
    fn drop(&mut self) {
        let network = Arc::clone(&self.0);
        let end = move || {
            wait_for_clean_up(CLEAN_UP_WAIT);
            drop(network);
        };
        // Without another thread nobody waits: what is left in the bucket is found by a sweep.
        let _ = std::thread::Builder::new().name("whimbrel-clean-up".to_string()).spawn(end);
    }
}

impl Functions {
    /// Functions that are there.
    ///
    /// # Errors `Plan` if the bucket has no address, or no region is known; `ResourcesExhausted` if there are
    /// no threads.
    pub fn connect(settings: FunctionsSettings, references: Arc<dyn References>) -> Result<Functions> {
        let invoker = Arc::new(Invoker::new(&settings.function, settings.timeout)?);
        Functions::with_invoker(settings, references, invoker)
    }

    /// Functions that are invoked in this way.
    ///
    /// # Errors
    /// As [`connect`](Functions::connect).
    pub fn with_invoker(
        settings: FunctionsSettings,
        references: Arc<dyn References>,
        invoker: Arc<dyn Invoke>,
    ) -> Result<Functions> {
        if settings.job.schedule.concurrency == 0 || settings.job.schedule.attempts == 0 {
            return plan_err!("functions run one task at a time at least, and try it once");
        }
        if settings.rates.is_some_and(|rates| !rates.are_possible()) {
            return plan_err!("rates of functions are above zero, their invocation and latency not below");
        }
        Ok(Functions {
            pool: Pool::new(invoker, settings.job.schedule.concurrency, settings.memory),
            base: None,
            sizes: vec![],
            bucket: Arc::new(Bucket::open(&settings.bucket, settings.stragglers)?),
            network: Arc::new(QueryNetwork(Arc::new(Network::start()?))),
            tables: Tables::of_process(),
            bills: Default::default(),
            board: Board::default(),
            references,
            settings,
            _owned: None,
        })
    }

    /// These functions behind a base pool: work goes there as long as it has places, and to these functions
    /// when it has waited for a place for so long (none: it waits until there is one). Queries of this and of
    /// other functions behind the same pool share its places.
    ///
    /// # Errors
    /// `Plan` if the two exchange rows through different buckets, or one of them is two pools already.
    ///
    /// # Examples
    /// ```no_run
    /// # fn pools(
    /// #     cloud: whimbrel_functions::Functions,
    /// #     own: whimbrel_functions::Functions,
    /// # ) -> datafusion::common::Result<()> {
    /// let both = cloud.with_base(&own, Some(std::time::Duration::from_secs(2)))?;
    /// assert!(both.settings().bucket == own.settings().bucket);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_base(&self, base: &Functions, wait: Option<Duration>) -> Result<Functions> {
        self.require_same_bucket(base)?;
        if self.is_compound() || base.is_compound() {
            return plan_err!("a pool is functions of one kind, and one of these is several already");
        }
        let pool = BasePool { pool: base.pool.clone(), wait };
        let base = Base { pool, model: base.pool_model() };
        Ok(Functions { base: Some(base), bills: Default::default(), board: Board::default(), ..self.clone() })
    }

    /// These functions and others, of other memory: a query runs on those that serve the goal of these best.
    /// All use the bucket of these, and as many run at the same time as of these.
    ///
    /// # Errors
    /// `Plan` if some exchange rows through another bucket, or are several already.
    ///
    /// # Examples
    /// ```no_run
    /// # fn sizes(
    /// #     small: whimbrel_functions::Functions,
    /// #     large: whimbrel_functions::Functions,
    /// # ) -> datafusion::common::Result<()> {
    /// let either = small.with_sizes(&[large])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_sizes(&self, others: &[Functions]) -> Result<Functions> {
        others.iter().try_for_each(|other| self.require_same_bucket(other))?;
        if self.is_compound() || others.iter().any(Functions::is_compound) {
            return plan_err!("a size is functions of one kind, and one of these is several already");
        }
        let bills = Default::default();
        Ok(Functions { sizes: others.to_vec(), bills, board: Board::default(), ..self.clone() })
    }

    fn require_same_bucket(&self, other: &Functions) -> Result<()> {
        let (own, other) = (&self.settings.bucket.url, &other.settings.bucket.url);
        match own == other {
            true => Ok(()),
            false => plan_err!("functions of one query share a bucket, and these have `{other}` and `{own}`"),
        }
    }

    /// Whether these are two pools, or several sizes.
    fn is_compound(&self) -> bool {
        self.base.is_some() || !self.sizes.is_empty()
    }

    /// The same functions, whose plans are chosen by another goal.
    #[must_use]
    pub fn with_goal(&self, goal: Goal) -> Functions {
        Functions { settings: FunctionsSettings { goal, ..self.settings.clone() }, ..self.clone() }
    }

    /// The same functions; what is owned lives as long as they do: their service, for example.
    #[must_use]
    pub fn with_owned(&self, owned: Arc<dyn Any + Send + Sync>) -> Functions {
        Functions { _owned: Some(owned), ..self.clone() }
    }

    /// The same functions for one query, with a bill of its own.
    #[must_use]
    pub fn for_query(&self) -> Functions {
        let [_, last] = &self.bills;
        Functions { bills: [Arc::default(), Arc::clone(last)], ..self.clone() }
    }

    /// How they are used.
    pub fn settings(&self) -> &FunctionsSettings {
        &self.settings
    }

    /// The bill of the query that these functions are for, once it has ended.
    pub fn bill(&self) -> Option<Bill> {
        self.bills[0].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The bill of the last query of all that has ended.
    pub fn last_bill(&self) -> Option<Bill> {
        self.bills[1].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How far the query is that was started last: for each stage its tasks, those that run, and those that
    /// have ended.
    pub fn progress(&self) -> Vec<(usize, usize, usize)> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a query is expected to take and to cost.
    ///
    /// # Errors
    /// `Plan` if it cannot run on functions.
    pub fn explain(&self, stream: &Stream, options: &Options) -> Result<Forecast> {
        Ok(self.best_size(stream, options)?.1)
    }

    /// The functions of the size that serves the goal best, and what a query is expected to take on them.
    fn best_size(&self, stream: &Stream, options: &Options) -> Result<(&Functions, Forecast)> {
        let part = RemotePart::of(stream)?;
        let forecast = |size: &Functions| {
            let programs = Programs::new(part.stream(), &size.task_options(stream, options)?)?;
            let (_, mut forecast) = size.combined(&programs);
            forecast.memory = (!self.sizes.is_empty()).then_some(size.settings.memory);
            Ok(forecast)
        };
        let sizes: Vec<&Functions> = std::iter::once(self).chain(&self.sizes).collect();
        let mut forecasts = sizes.iter().map(|size| forecast(size)).collect::<Result<Vec<Forecast>>>()?;
        let expected: Vec<Expected> = forecasts.iter().map(Forecast::expected).collect();
        let place = self.settings.goal.choose(&expected);
        Ok((sizes[place], forecasts.swap_remove(place)))
    }

    /// The functions of one size that a query runs on, with the bills of these.
    fn for_run(&self, stream: &Stream, options: &Options) -> Result<Functions> {
        if self.sizes.is_empty() {
            return Ok(self.clone());
        }
        let (size, _) = self.best_size(stream, options)?;
        Ok(Functions {
            bills: self.bills.clone(),
            board: Arc::clone(&self.board),
            sizes: vec![],
            ..size.clone()
        })
    }

    /// What a query is expected to take and to cost, as text; with a bill, beside what it has taken.
    ///
    /// # Errors
    /// As [`explain`](Functions::explain).
    pub fn explain_text(&self, stream: &Stream, options: &Options, bill: Option<&Bill>) -> Result<String> {
        Ok(forecast_text(&self.explain(stream, options)?, bill))
    }

    /// How fast these functions are thought to be.
    pub fn rates(&self) -> Rates {
        let is_lambda = self.settings.function.endpoints.is_empty();
        let usual = if is_lambda { Rates::LAMBDA } else { Rates::OWN_MACHINES };
        self.settings.rates.unwrap_or(usual)
    }

    /// What is expected of the functions of this pool.
    fn pool_model(&self) -> PoolModel {
        PoolModel {
            rates: self.rates(),
            concurrency: self.settings.job.schedule.concurrency,
            memory: self.settings.memory,
            prices: self.settings.prices.clone(),
        }
    }

    /// What is expected of queries.
    fn model(&self) -> Model {
        let base = self.base.as_ref().map(|base| (base.model.clone(), base.pool.wait));
        Model::of(&self.settings.job, self.pool_model(), base, self.operator_memory())
    }

    /// The megabytes of memory that each function has at least.
    fn memory(&self) -> u32 {
        self.base.iter().map(|base| base.model.memory).fold(self.settings.memory, u32::min)
    }

    /// How many bytes the operators of a task may hold.
    fn operator_memory(&self) -> u64 {
        (f64::from(self.memory()) * OPERATOR_MEMORY) as u64 * (1 << 20)
    }

    /// The prices of queries.
    fn prices(&self) -> Prices {
        let base = self.base.as_ref().map(|base| base.model.prices.clone());
        Prices { sheet: self.settings.prices.clone(), base }
    }

    /// What a query is run with.
    fn job_settings(&self) -> JobSettings {
        let schedule = ScheduleSettings { concurrency: self.cores(), ..self.settings.job.schedule };
        JobSettings { schedule, ..self.settings.job.clone() }
    }

    /// The pools of a query that begins. Those of its own have its own places: a service refuses what is too
    /// much for it.
    fn pools(&self) -> Pools {
        let Pool { invoker, memory, .. } = &self.pool;
        let elastic = Pool::new(Arc::clone(invoker), self.settings.job.schedule.concurrency, *memory);
        Pools::new(elastic, self.base.as_ref().map(|base| base.pool.clone()))
    }

    /// What the tasks of a query are run with.
    fn task_options(&self, stream: &Stream, options: &Options) -> Result<Options> {
        if !stream.properties().bounded {
            return plan_err!(
                "functions run queries that end, and this one reads a source that does not; run it in this process"
            );
        }
        let memory = match options.memory {
            Memory::Query(bytes) | Memory::Channel(bytes) => bytes.min(self.operator_memory()),
            Memory::Unlimited => self.operator_memory(),
        };
        Ok(Options { memory: Memory::Channel(memory), ..options.clone() })
    }

    /// The specification and the plan of a query.
    fn plan(&self, stream: &Stream, options: &Options) -> Result<(JobSpec, Arc<Plan>)> {
        let spec = JobSpec::of(stream, &self.task_options(stream, options)?, &self.references)?;
        let plan = Arc::new(Plan::of(&spec, &self.references)?);
        Ok((spec, plan))
    }

    /// Which shuffles of a query are combined, and what it is expected to take then. Combining saves requests
    /// and takes time, so all ways are looked at.
    fn combined(&self, programs: &Programs) -> (Combining, Forecast) {
        let costs = CombineCosts {
            prices: self.settings.prices.clone(),
            memory: self.settings.memory,
            transfer: self.rates().transfer,
        };
        let ways = match self.settings.combine {
            Some(true) => vec![Combining::Always],
            Some(false) => vec![Combining::Never],
            None => vec![Combining::Never, Combining::WhereCheaper(costs), Combining::Always],
        };
        let forecast =
            |way: &Combining| self.model().forecast(&Shape::of(programs, way), self.settings.small);
        let mut forecasts: Vec<Forecast> = ways.iter().map(forecast).collect();
        let expected: Vec<Expected> = forecasts.iter().map(Forecast::expected).collect();
        let place = Goal::Knee.choose(&expected);
        (ways[place].clone(), forecasts.swap_remove(place))
    }

    /// Copies a file, or all files of a folder, to the bucket, for queries that read it there; where it is
    /// then.
    ///
    /// # Errors
    /// `Execution` if it cannot be read; those of the store.
    pub fn upload(&self, path: &Path) -> Result<String> {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return plan_err!("`{}` is no file with a name", path.display());
        };
        let key = format!("{TABLES}/{}", object_name(name));
        if !path.is_dir() {
            self.upload_file(path, key.clone())?;
            return Ok(self.bucket.url_of(&key));
        }
        let failed = |error: std::io::Error| exec_datafusion_err!("`{}`: {error}", path.display());
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if let Some(name) = entry.file_name().to_str().filter(|_| entry.path().is_file()) {
                self.upload_file(&entry.path(), format!("{key}/{}", object_name(name)))?;
            }
        }
        Ok(self.bucket.url_of(&format!("{key}/")))
    }

    fn upload_file(&self, path: &Path, key: String) -> Result<()> {
        let failed = |error: std::io::Error| exec_datafusion_err!("`{}`: {error}", path.display());
        let file = std::fs::File::open(path).map_err(failed)?;
        let bucket = Arc::clone(&self.bucket);
        self.network.0.wait(async move { Ok(bucket.upload(&key, file).await?) })
    }

    /// Removes what is older than this: what queries have left that were given up, and what was kept; how
    /// many objects and bytes.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sweep(&self, age: Duration) -> Result<(usize, u64)> {
        let bucket = Arc::clone(&self.bucket);
        self.network.0.wait(async move {
            let mut found = bucket.older_than(QUERIES, age).await?;
            found.extend(bucket.older_than(STAGES, age).await?);
            let bytes = found.iter().map(|(_, bytes)| bytes).sum();
            let keys: Vec<String> = found.into_iter().map(|(key, _)| key).collect();
            let count = keys.len();
            bucket.delete(keys).await?;
            let left = [QUERIES, STAGES, TABLES].map(|prefix| bucket.remove_staged_files(prefix, age));
            Ok(left.iter().fold((count, bytes), |sum, files| (sum.0 + files.0, sum.1 + files.1)))
        })
    }
}

/// The name of a file in a bucket. Letters that mean something in URLs or in patterns of names are replaced;
/// a digest tells such names apart.
fn object_name(name: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "._-=+,@() ".contains(letter);
    if name.chars().all(is_safe) {
        return name.to_string();
    }
    let safe: String = name.chars().map(|letter| if is_safe(letter) { letter } else { '_' }).collect();
    // Before the suffix, which says the format.
    let (stem, suffix) = safe.split_at(safe.rfind('.').filter(|at| *at > 0).unwrap_or(safe.len()));
    let digest = blake3::hash(name.as_bytes()).to_hex();
    format!("{stem}-{}{suffix}", &digest[..8])
}

impl RemoteRuntime for Functions {
    fn cores(&self) -> usize {
        self.model().concurrency()
    }

    fn transfer_costs(&self) -> TransferCosts {
        self.model().transfer_costs()
    }

    fn choose_plan(
        &self,
        options: &Options,
        plan: &mut dyn FnMut(usize) -> Result<Stream>,
    ) -> Result<ChosenPlan> {
        choose_plan(self.cores(), self.settings.goal, plan, |stream| self.explain(stream, options))
    }

    fn forecast(&self, stream: &Stream, options: &Options, is_over: bool) -> Result<Option<String>> {
        let bill = self.last_bill().filter(|_| is_over);
        self.explain_text(stream, options, bill.as_ref()).map(Some)
    }

    fn last_cost(&self) -> Option<String> {
        self.last_bill().map(|bill| bill.to_string())
    }

    fn start(
        &self,
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>> {
        self.for_run(stream, options)?.run(stream, options, sinks, progress)
    }
}

impl Functions {
    /// Starts a query on these functions, which are of one size.
    fn run(
        &self,
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>> {
        let part = RemotePart::of(stream)?;
        let (spec, plan) = self.plan(part.stream(), options)?;
        let account = Account { began: Instant::now(), prices: self.prices(), bills: self.bills.clone() };
        if is_small(plan.programs.source_bytes(), self.settings.small) {
            let query = SmallQuery::start(stream, options, sinks, progress, Arc::clone(&self.tables))?;
            return Ok(Box::new(Billed::new(query, account)));
        }
        let digests = match self.settings.job.keep {
            Some(_) => plan.programs.stage_digests(&self.references)?,
            None => vec![],
        };
        let (combining, _) = self.combined(&plan.programs);
        let start = Start {
            spec,
            plan,
            digests,
            combining,
            settings: self.job_settings(),
            pools: self.pools(),
            bucket: Arc::new(self.bucket.for_query()),
            board: Arc::clone(&self.board),
        };
        self.network.0.check_process()?;
        let ended = coordinator::start(start, self.network.0.handle(), part.sinks(sinks)?, progress)?;
        let query = RunningJob { ended, _network: Arc::clone(&self.network) };
        Ok(Box::new(Billed::new(query, account)))
    }
}

/// A query that runs on functions.
struct RunningJob {
    ended: Receiver<(Result<()>, Finished)>,
    _network: Arc<QueryNetwork>,
}

impl Metered for RunningJob {
    fn wait(&mut self, until: Option<Instant>) -> Result<Option<(Result<()>, Finished)>> {
        let ended = match until {
            Some(until) => self.ended.recv_deadline(until),
            None => self.ended.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match ended {
            Ok(ended) => Ok(Some(ended)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => internal_err!("the coordinator has panicked"),
        }
    }
}
