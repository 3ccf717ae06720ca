//! Functions: a function service and a bucket, by address or on this machine.

mod address;

pub use address::SCHEME;

use crate::references::PlanReferences;
use address::{BasePlace, FunctionsAddress};
use datafusion::common::{Result, plan_err};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use whimbrel_functions::{
    BucketAddress, CLEAN_UP_WAIT, FunctionAddress, FunctionService, Functions, FunctionsSettings, PriceSheet,
    ServiceOptions,
};
use whimbrel_sharded::runtime::RemoteRuntime;

/// The name of the function of a service on this machine.
const LOCAL_NAME: &str = "whimbrel";

/// The price sheet of machines that are there anyway.
const OWN_PRICES: &str = "own-machines";

/// How many functions run at the same time, if nothing else is said.
const CONCURRENCY: usize = 100;

/// Runs the invocations of a function service in this process, which that has started.
///
/// # Errors
/// As [`whimbrel_functions::serve`].
pub fn serve() -> Result<Infallible> {
    whimbrel_functions::serve(Arc::new(PlanReferences))
}

/// Waits until everything has been removed that queries of this process have written, for ten seconds at
/// most. Who ends the process calls this last.
pub fn wait_for_clean_up() {
    whimbrel_functions::wait_for_clean_up(CLEAN_UP_WAIT);
}

/// Functions that are there.
///
/// # Errors
/// As [`Functions::connect`].
pub fn connect(settings: FunctionsSettings) -> Result<Functions> {
    Functions::connect(settings, Arc::new(PlanReferences))
}

/// The functions at an address: `functions://name?bucket=s3://…`, with `&endpoint=http://…` for a service
/// other than AWS Lambda (several for several that run one invocation at a time each), and
/// `&size=name:megabytes` for functions of other memory; `&base=http://…`, `&base_concurrency=…` and
/// `&wait=…` for a service of one's own machines before it; or `functions` for processes of this machine,
/// which run this program. `concurrency`, `memory` (in megabytes), `prices`, `keep`, `small`, and the goal
/// `max_cost` or `max_latency` are parameters of both.
///
/// # Errors
/// `Plan` if it is no such address; those of [`connect`].
pub fn open(address: &str) -> Result<Arc<dyn RemoteRuntime>> {
    let address = FunctionsAddress::parse(address)?;
    let Some(place) = &address.place else {
        return Ok(Arc::new(start(&address)?));
    };
    let bucket = BucketAddress { url: place.bucket.clone(), endpoint: s3_server() };
    let settings = |name: &str, endpoints: &[String]| {
        let function = FunctionAddress { name: name.to_string(), endpoints: endpoints.to_vec() };
        settings(&address, function, bucket.clone())
    };
    let mut elastic = connect(settings(&place.name, &place.endpoints)?)?;
    if !place.sizes.is_empty() {
        let size = |(name, memory): &(String, u32)| {
            connect(FunctionsSettings { memory: *memory, ..settings(name, &place.endpoints)? })
        };
        elastic = elastic.with_sizes(&place.sizes.iter().map(size).collect::<Result<Vec<_>>>()?)?;
    }
    let Some(BasePlace { endpoint, concurrency, wait }) = &place.base else { return Ok(Arc::new(elastic)) };
    let prices = PriceSheet::named(OWN_PRICES)?;
    let mut base = FunctionsSettings { prices, ..settings(&place.name, std::slice::from_ref(endpoint))? };
    base.job.schedule.concurrency = concurrency.unwrap_or(CONCURRENCY);
    Ok(Arc::new(elastic.with_base(&connect(base)?, Some(*wait))?))
}

/// The settings that an address has for a function and a bucket.
fn settings(
    address: &FunctionsAddress,
    function: FunctionAddress,
    bucket: BucketAddress,
) -> Result<FunctionsSettings> {
    let mut settings = FunctionsSettings::new(function, bucket)?;
    settings.job.schedule.concurrency = address.concurrency.unwrap_or(CONCURRENCY);
    settings.job.keep = address.keep;
    settings.memory = address.memory.unwrap_or(settings.memory);
    settings.prices = address.prices.clone().unwrap_or(settings.prices);
    settings.small = address.small.unwrap_or(settings.small);
    settings.goal = address.goal.unwrap_or(settings.goal);
    Ok(settings)
}

/// The S3 server of the environment, if it is not Amazon's.
fn s3_server() -> Option<String> {
    let names = ["AWS_ENDPOINT", "AWS_ENDPOINT_URL"];
    names.iter().find_map(|name| std::env::var(name).ok()).filter(|address| !address.is_empty())
}

/// What makes this program a function: it may be the command, or an interpreter with the package, which finds
/// that by the name under which it was started.
fn own_command() -> Result<Vec<String>> {
    let started = std::env::args()
        .next()
        .filter(|program| program.rsplit('/').next().is_some_and(|name| name.starts_with("python")));
    if let Some(python) = started {
        return Ok([python.as_str(), "-m", "whimbrel", "function"].map(str::to_string).to_vec());
    }
    match std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_string)) {
        Some(program) => Ok(vec![program, "function".to_string()]),
        None => plan_err!("the path of this program is not known"),
    }
}

/// A service on this machine, and the folder for its objects; both end with this.
struct LocalService {
    _service: FunctionService,
    folder: PathBuf,
}

impl Drop for LocalService {
    fn drop(&mut self) {
        // What is left there is of no use to anybody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Functions of a service on this machine, which ends with them.
fn start(address: &FunctionsAddress) -> Result<Functions> {
    let function = FunctionAddress { name: LOCAL_NAME.to_string(), endpoints: vec![] };
    let mut settings = settings(address, function, BucketAddress { url: String::new(), endpoint: None })?;
    if address.prices.is_none() {
        settings.prices = PriceSheet::named(OWN_PRICES)?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    settings.job.schedule.concurrency = address.concurrency.unwrap_or(cores);
    let folder = std::env::temp_dir().join(format!("whimbrel-functions-{}", std::process::id()));
    let Some(url) = folder.to_str().map(str::to_string) else {
        return plan_err!("the folder for temporary files has a name that is no text");
    };
    let service = FunctionService::start(ServiceOptions {
        command: own_command()?,
        name: LOCAL_NAME.to_string(),
        concurrency: settings.job.schedule.concurrency,
        memory: settings.memory,
        timeout: settings.timeout,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
    })?;
    settings.function.endpoints = vec![format!("http://{}", service.address())];
    settings.bucket.url = url;
    let owned = Arc::new(LocalService { _service: service, folder });
    Ok(connect(settings)?.with_owned(owned))
}
