//! Functions on this machine, whose processes run this program, and queries on them.

use datafusion::arrow::util::pretty::pretty_format_batches;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use whimbrel_functions::{
    BucketAddress, FunctionAddress, FunctionService, Functions, FunctionsSettings, ServiceOptions,
};
use whimbrel_plan::Stream;
use whimbrel_session::{PlanReferences, Session};
use whimbrel_sharded::action::collect;
use whimbrel_sharded::runtime::RemoteRuntime;
use whimbrel_sharded::{Options, RuntimeKind};
use whimbrel_sql::Planned;

/// The command that runs one of the tests of `child`.
pub fn child(name: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_string();
    let test = format!("child::{name}");
    [program.as_str(), &test, "--exact", "--ignored", "--nocapture"].map(str::to_string).to_vec()
}

/// A service whose functions run a test of `child`.
pub fn service(name: &str, concurrency: usize, timeout: Duration) -> FunctionService {
    FunctionService::start(ServiceOptions {
        command: child(name),
        name: "f".to_string(),
        concurrency,
        memory: 1024,
        timeout,
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
    })
    .unwrap()
}

/// Functions that run queries, and their objects.
pub struct TestFunctions {
    pub functions: Arc<Functions>,
    pub service: FunctionService,
    pub folder: tempfile::TempDir,
}

impl TestFunctions {
    /// Functions with these changes of their settings; no query is too small for them.
    pub fn new(concurrency: usize, change: impl FnOnce(&mut FunctionsSettings)) -> TestFunctions {
        let service = service("function", concurrency, Duration::from_secs(60));
        let folder = tempfile::tempdir().unwrap();
        let endpoints = vec![format!("http://{}", service.address())];
        let function = FunctionAddress { name: "f".to_string(), endpoints };
        let bucket = BucketAddress { url: folder.path().to_str().unwrap().to_string(), endpoint: None };
        let mut settings = FunctionsSettings::new(function, bucket).unwrap();
        settings.job.schedule.concurrency = concurrency;
        settings.small = 0;
        change(&mut settings);
        let functions = Arc::new(Functions::connect(settings, Arc::new(PlanReferences)).unwrap());
        TestFunctions { functions, service, folder }
    }

    pub fn options(&self) -> Options {
        options(&self.functions)
    }

    /// The keys of all objects that there are.
    pub fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.display().to_string()),
                }
            }
        }
        found
    }
}

/// Queries run on these functions.
pub fn options(functions: &Arc<Functions>) -> Options {
    Options { remote: Some(Arc::clone(functions) as Arc<dyn RemoteRuntime>), ..Options::default() }
}

/// The plan of a query in so many shards.
pub fn plan(sql: &str, shards: usize) -> Stream {
    let mut session = Session::new(Options::default());
    session.sql.set_shards(Some(shards));
    session.sql.set_shard_rows(0);
    match session.plan(sql, None, || false).unwrap().planned {
        Planned::Query(stream) => stream,
        _ => panic!("{sql} is no query"),
    }
}

/// The rows of a query as text, in an order of their own.
pub fn rows(stream: &Stream, options: &Options) -> Vec<String> {
    let table = collect(stream, options).unwrap().wait().unwrap();
    let text = pretty_format_batches(&table.batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// The rows of a query in this process.
pub fn expected(sql: &str) -> Vec<String> {
    let options = Options { runtime: RuntimeKind::Library, ..Options::default() };
    rows(&plan(sql, 1), &options)
}
