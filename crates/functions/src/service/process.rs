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
        // The shell sets the limit and becomes the command.
        let limited = format!("ulimit -d {}; exec \"$0\" \"$@\"", u64::from(memory) * 1024);
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(limited).args(command).envs(variables.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = shell.spawn().map_err(|error| format!("`{}`: {error}", command.join(" ")))?;
        let (id, log) = (child.id(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (end, ended) = watch::channel(None);
        let waited = Arc::clone(&child);
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
            let _ = end.send(Some(format!("{status}\n{}", lines.join("\n")).trim_end().to_string()));
        };
        let started = std::thread::Builder::new().name("function".into()).spawn(watch);
        let process = Process { child, liveness: Liveness { id, ended } };
        match started {
            Ok(_) => Ok(process),
            Err(error) => Err(format!("no thread for a function: {error}")),
        }
    }
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
