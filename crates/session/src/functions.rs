//! Functions: a function service and a bucket, by address or on this machine.

use crate::durable::wall_duration;
use crate::references::PlanReferences;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err, plan_err};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_functions::{
    BucketAddress, CLEAN_UP_WAIT, FunctionAddress, FunctionService, Functions, FunctionsSettings, PriceSheet,
    ServiceOptions,
};
use whimbrel_plan::Stream;
use whimbrel_sharded::Options;
use whimbrel_sharded::runtime::{Execution, Progress, RemoteRuntime, Sink, TransferCosts};

/// The name of the function of a service on this machine.
const LOCAL_NAME: &str = "whimbrel";

/// The price sheet of machines that are there anyway.
const OWN_PRICES: &str = "own-machines";

/// What the addresses of functions begin with.
pub const SCHEME: &str = "functions";

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
/// other than AWS Lambda (several for several that run one invocation at a time each) and `&concurrency=…`;
/// with `&base=http://…`, `&base_concurrency=…` and `&wait=…`, behind a service of one's own machines; or
/// `functions` for processes of this machine, which run this program.
///
/// # Errors
/// `Plan` if it is no such address; those of [`connect`].
pub fn open(address: &str) -> Result<Arc<dyn RemoteRuntime>> {
    if address == SCHEME {
        let concurrency = std::thread::available_parallelism().map_or(1, usize::from);
        return Ok(Arc::new(LocalFunctions::start(own_command()?, concurrency)?));
    }
    let address = FunctionsAddress::parse(address)?;
    let bucket = BucketAddress { url: address.bucket, endpoint: s3_server() };
    let settings = |endpoints: Vec<String>, concurrency: Option<usize>| {
        let function = FunctionAddress { name: address.name.clone(), endpoints };
        let mut settings = FunctionsSettings::new(function, bucket.clone())?;
        settings.job.schedule.concurrency = concurrency.unwrap_or(settings.job.schedule.concurrency);
        Ok::<_, DataFusionError>(settings)
    };
    let elastic = connect(settings(address.endpoints, address.concurrency)?)?;
    let Some(endpoint) = address.base else { return Ok(Arc::new(elastic)) };
    let prices = PriceSheet::named(OWN_PRICES)?;
    let base = FunctionsSettings { prices, ..settings(vec![endpoint], address.base_concurrency)? };
    let wait = address.wait.unwrap_or_default();
    Ok(Arc::new(elastic.with_base(&connect(base)?, Some(wait))?))
}

/// The parts of an address of functions.
#[derive(Debug, Default)]
struct FunctionsAddress {
    name: String,
    bucket: String,
    endpoints: Vec<String>,
    concurrency: Option<usize>,
    base: Option<String>,
    base_concurrency: Option<usize>,
    wait: Option<Duration>,
}

impl FunctionsAddress {
    fn parse(address: &str) -> Result<FunctionsAddress> {
        let refused = |why: &str| {
            plan_datafusion_err!(
                "`{address}` is no address of functions: {why}; it is functions://name?bucket=s3://bucket/prefix, and \
                 &endpoint=http://… for a service other than AWS Lambda, or functions for this machine"
            )
        };
        let number = |name: &str, text: &str| {
            let number = text.parse().ok().filter(|number: &usize| *number > 0);
            number.ok_or_else(|| refused(&format!("its {name} is no number above zero")))
        };
        let rest = address.strip_prefix("functions://").ok_or_else(|| refused("it begins otherwise"))?;
        let (name, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = FunctionsAddress { name: name.to_string(), ..FunctionsAddress::default() };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("bucket", url)) => parts.bucket = url.to_string(),
                Some(("endpoint", url)) => parts.endpoints.push(url.to_string()),
                Some(("concurrency", text)) => parts.concurrency = Some(number("concurrency", text)?),
                Some(("base", url)) => parts.base = Some(url.to_string()),
                Some(("base_concurrency", text)) => {
                    parts.base_concurrency = Some(number("base_concurrency", text)?);
                }
                Some(("wait", length)) => {
                    let length = whimbrel_plan::Duration::Text(length.to_string());
                    let wait = wall_duration(&length, "wait").map_err(|error| refused(&error.message()))?;
                    parts.wait = Some(wait);
                }
                _ => return Err(refused("it has an unknown parameter")),
            }
        }
        if parts.bucket.is_empty() {
            return Err(refused("it has no bucket"));
        }
        if parts.name.is_empty() {
            return Err(refused("it has no name"));
        }
        if parts.base.is_none() && (parts.base_concurrency.is_some() || parts.wait.is_some()) {
            return Err(refused("it has no base pool, and says how that is used"));
        }
        Ok(parts)
    }
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

/// Functions of a service on this machine, whose objects are in a folder; both end with this.
struct LocalFunctions {
    functions: Functions,
    _service: FunctionService,
    folder: PathBuf,
}

impl LocalFunctions {
    fn start(command: Vec<String>, concurrency: usize) -> Result<LocalFunctions> {
        let mut settings = FunctionsSettings::new(
            FunctionAddress { name: LOCAL_NAME.to_string(), endpoints: vec![] },
            BucketAddress { url: String::new(), endpoint: None },
        )?;
        let service = FunctionService::start(ServiceOptions {
            command,
            name: LOCAL_NAME.to_string(),
            concurrency,
            memory: settings.memory,
            timeout: Duration::from_secs(900),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        })?;
        let folder = std::env::temp_dir().join(format!("whimbrel-functions-{}", std::process::id()));
        let Some(url) = folder.to_str().map(str::to_string) else {
            return plan_err!("the folder for temporary files has a name that is no text");
        };
        settings.function.endpoints = vec![format!("http://{}", service.address())];
        settings.bucket.url = url;
        settings.job.schedule.concurrency = concurrency;
        Ok(LocalFunctions { functions: connect(settings)?, _service: service, folder })
    }
}

impl Drop for LocalFunctions {
    fn drop(&mut self) {
        // What is left there is of no use to anybody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl RemoteRuntime for LocalFunctions {
    fn cores(&self) -> usize {
        self.functions.cores()
    }

    fn transfer_costs(&self) -> TransferCosts {
        self.functions.transfer_costs()
    }

    fn start(
        &self,
        stream: &Stream,
        options: &Options,
        sinks: Vec<Sink>,
        progress: &Progress,
    ) -> Result<Box<dyn Execution>> {
        self.functions.start(stream, options, sinks, progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none_are_refused_with_the_reason() {
        for (address, why) in [
            ("functions://f", "no bucket"),
            ("functions://?bucket=s3://b", "no name"),
            ("functions://f?bucket=s3://b&concurrency=0", "above zero"),
            ("functions://f?buckets=s3://b", "unknown parameter"),
            ("functions://f?bucket=s3://b&base_concurrency=4", "no base pool"),
            ("functions://f?bucket=s3://b&wait=2s", "no base pool"),
            ("functions://f?bucket=s3://b&base=http://h:9000&wait=soon", "wait"),
            ("functionsf", "begins otherwise"),
        ] {
            let error = open(address).err().unwrap().to_string();
            assert!(error.contains(why), "{address}: {error}");
        }
    }
}
