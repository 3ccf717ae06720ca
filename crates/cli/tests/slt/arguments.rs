//! What was asked for on the command line.

use crate::database::{On, Place};
use std::path::{Path, PathBuf};

const HELP: &str = "Run SQL logic tests.

usage: slt [OPTIONS] [FILE|FOLDER]...

Without a path the project's own files run, on every runtime, and messages of errors have to be as they stand there.

  --runtime NAME   library, or local, a cluster or functions with so many shards: local1, cluster3; may be
                   repeated (default: all)
  --strict         messages of errors have to be as in the file
  --failures N     print at most N failures a file (default: 20)
  --quiet          say nothing of files that pass
  --help           this text

exit status: 0 all passed, 1 some failed, 2 wrong usage";

/// What to run, and where.
pub struct Arguments {
    pub paths: Vec<PathBuf>,
    pub places: Vec<Place>,
    pub strict: bool,
    pub failures_max: usize,
    pub quiet: bool,
}

impl Arguments {
    /// `None` if help was asked for, and given.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
        let (mut paths, mut places) = (Vec::new(), Vec::new());
        let (mut strict, mut quiet, mut failures_max) = (false, false, 20);
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; see --help"));
            match word.as_str() {
                "--help" | "-h" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                "--runtime" => places.push(place(&value()?)?),
                "--failures" => {
                    let number = value()?;
                    failures_max =
                        number.parse().map_err(|_| format!("--failures: {number} is no number"))?;
                }
                "--strict" => strict = true,
                "--quiet" | "-q" => quiet = true,
                // What `cargo test` hands to every test program.
                "--nocapture" | "--no-capture" | "--show-output" => {}
                "--test-threads" | "--color" | "--format" => drop(value()?),
                option if option.starts_with('-') => return Err(format!("there is no {option}; see --help")),
                path => paths.push(path.into()),
            }
        }
        if paths.is_empty() {
            paths.push(Path::new("../../tests/slt").canonicalize().map_err(|e| e.to_string())?);
            strict = true;
        }
        if places.is_empty() {
            places = Place::ALL.to_vec();
        }
        Ok(Some(Arguments { paths, places, strict, failures_max, quiet }))
    }
}

fn place(name: &str) -> Result<Place, String> {
    if name == "library" {
        return Ok(Place::LIBRARY);
    }
    let shards = |prefix: &str| {
        let shards = name.strip_prefix(prefix).map(|shards| if shards.is_empty() { "1" } else { shards });
        shards.and_then(|shards| shards.parse().ok()).filter(|shards| *shards > 0)
    };
    let places = [("local", On::ThisProcess), ("cluster", On::Cluster), ("functions", On::Functions)];
    let found =
        places.iter().find_map(|(prefix, on)| Some(Place { on: *on, ..Place::local(shards(prefix)?) }));
    found.ok_or_else(|| {
        format!(
            "there is no runtime {name}; there are library, local1, local2, …, cluster1, …, functions1, …"
        )
    })
}
