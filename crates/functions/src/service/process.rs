//! The process of an environment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;
use tokio::sync::watch;

/// How many of the last lines of its log are kept.
const LINES: usize = 20;

/// How often a process is asked whether it has ended, once it has closed its log.
const POLL: Duration = Duration::from_millis(2);

/// How often it is asked how much memory a process uses.
const MEMORY_POLL: Duration = Duration::from_millis(50);

/// A process that is ended when this is dropped.
pub struct Process {
    child: Arc<Mutex<Child>>,
    /// Tells whether it lives.
    pub liveness: Liveness,
}

/// Tells whether a process lives.
#[derive(Clone)]
pub struct Liveness {
    id: u32,
    /// How it has ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl Liveness {
    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Whether it lives.
    pub fn is_alive(&self) -> bool {
        self.ended.borrow().is_none()
    }

    /// Waits for its end; how it has ended.
    pub async fn ended(&mut self) -> String {
        let ended = self.ended.wait_for(Option::is_some).await;
        ended.ok().and_then(|how| how.clone()).unwrap_or_default()
    }
}

impl Process {
    /// Starts a command, with so many megabytes of memory at most.
    ///
    /// # Errors
    /// A sentence if it cannot be started.
    pub fn start(command: &[String], memory: u32, variables: &[(&str, String)]) -> Result<Process, String> {
        let [program, arguments @ ..] = command else { return Err("no command".to_string()) };
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("`{program}`: {error}"))?;
        let (id, log) = (child.id(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (end, ended) = watch::channel(None);
        let waited = Arc::clone(&child);
        let limited = MemoryLimit::watch(Arc::clone(&child), id, memory)
            .map_err(|error| format!("no thread for a function: {error}"))?;
        let watch = move || {
            let mut lines = Vec::new();
            // The log ends with the process.
            for line in log.into_iter().flat_map(|log| BufReader::new(log).lines()).map_while(Result::ok) {
                lines.push(line);
                if lines.len() > LINES {
                    lines.remove(0);
                }
            }
            let status = wait(&waited);
            let why = limited.exceeded().unwrap_or(status);
            let _ = end.send(Some(format!("{why}\n{}", lines.join("\n")).trim_end().to_string()));
        };
        let started = std::thread::Builder::new().name("function".into()).spawn(watch);
        let process = Process { child, liveness: Liveness { id, ended } };
        match started {
            Ok(_) => Ok(process),
            Err(error) => Err(format!("no thread for a function: {error}")),
        }
    }
}

/// Ends a process that takes more memory than it has. What counts is what it uses (its resident set), as on
/// Lambda; what it has reserved is several times as much. On systems without `/proc` there is no limit.
#[derive(Clone, Default)]
struct MemoryLimit(Arc<Mutex<Option<String>>>);

impl MemoryLimit {
    /// Watches a process until it has ended.
    fn watch(child: Arc<Mutex<Child>>, id: u32, megabytes: u32) -> std::io::Result<MemoryLimit> {
        let limit = MemoryLimit::default();
        let exceeded = Arc::clone(&limit.0);
        let watch = move || {
            while let Some(used) = resident_megabytes(id) {
                if used > megabytes {
                    let why = format!("it took {used} MB of memory, and has {megabytes} MB");
                    *exceeded.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                    // It may have ended by itself.
                    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
                    return;
                }
                sleep(MEMORY_POLL);
            }
        };
        std::thread::Builder::new().name("function-memory".into()).spawn(watch)?;
        Ok(limit)
    }

    /// Why the process was ended, if it was.
    fn exceeded(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How much memory a process uses; none if it has ended.
fn resident_megabytes(id: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    u32::try_from(kilobytes / 1024).ok()
}

/// Waits for the end of a process, which may be ended meanwhile; how it was.
fn wait(child: &Mutex<Child>) -> String {
    loop {
        match child.lock().unwrap_or_else(PoisonError::into_inner).try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Ok(None) => {}
            Err(error) => return error.to_string(),
        }
        sleep(POLL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}
