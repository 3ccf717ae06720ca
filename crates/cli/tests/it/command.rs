//! Runs the command, with a folder of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that is gone after the test.
pub struct Folder {
    pub path: PathBuf,
}

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whimbrel-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder { path }
    }

    /// Writes a file into it.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// What a file has.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path.join(name)).unwrap()
    }

    /// The names of its files, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.path).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command, run here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = whimbrel(arguments);
        command.current_dir(&self.path);
        command
    }

    /// What it prints, if it is run here and all goes well.
    pub fn prints(&self, arguments: &[&str]) -> String {
        prints(self.command(arguments))
    }

    /// How it fails, if it is run here: exit code and message. It prints nothing else.
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        fails(self.command(arguments))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The command, with nothing to read.
pub fn whimbrel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whimbrel"));
    command.args(arguments).stdin(Stdio::null()).env_remove("VIRTUAL_ENV");
    command
}

/// The flights that ship with the product.
pub fn flights() -> String {
    Path::new("../../data/nyc_flights_2013.parquet").canonicalize().unwrap().display().to_string()
}

pub fn prints(mut command: Command) -> String {
    printed(command.output().unwrap())
}

fn printed(output: Output) -> String {
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

pub fn fails(mut command: Command) -> (i32, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{text}");
    (output.status.code().unwrap(), text)
}

/// Runs the command with something to read.
pub fn reads(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

pub fn prints_for(command: Command, input: &str) -> String {
    printed(reads(command, input))
}
