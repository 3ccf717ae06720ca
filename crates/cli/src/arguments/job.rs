//! Arguments of jobs that survive crashes.

use crate::error::{Error, Result};
use clap::Args;
use std::time::Duration;
use whimbrel_jobs::JobOptions;
use whimbrel_jobs::sink::FolderFormat;
use whimbrel_session::durable::{folder_format, wall_duration};

/// How a query is kept.
#[derive(Debug, Args)]
pub struct Job {
    /// Where the state of the job is kept: a folder, or the URL of one in an object store. The same
    /// command goes on with a job whose state is there.
    #[arg(long, value_name = "FOLDER", requires = "to")]
    pub checkpoint: Option<String>,
    /// Where its results go: a folder, or postgres://user@host/database?table=name.
    #[arg(long, value_name = "PLACE", requires = "checkpoint")]
    to: Option<String>,
    /// The time between two checkpoints.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "checkpoint")]
    every: String,
    /// After how long without anything new the job ends; by default it runs until its sources end.
    #[arg(long, value_name = "TIME", requires = "checkpoint")]
    stop_when_idle: Option<String>,
    /// The format of files in a folder: parquet or arrow.
    #[arg(long, value_name = "FORMAT", requires = "checkpoint")]
    to_format: Option<String>,
}

/// How a query is kept, checked.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// Where its state is, and when it is written.
    pub options: JobOptions,
    /// Where its results go.
    pub to: String,
    /// The format of the files there.
    pub format: Option<FolderFormat>,
}

impl Job {
    /// The settings; none if the query is run once.
    ///
    /// # Errors
    /// `Usage` if a time or a format is none.
    pub fn settings(&self) -> Result<Option<JobSettings>> {
        let (Some(checkpoint), Some(to)) = (&self.checkpoint, &self.to) else { return Ok(None) };
        let usage = |error: datafusion::error::DataFusionError| Error::Usage(error.message().into_owned());
        let time = |text: &String, name: &str| -> Result<Duration> {
            wall_duration(&whimbrel_plan::Duration::from(text.as_str()), name).map_err(usage)
        };
        let stop_when_idle =
            self.stop_when_idle.as_ref().map(|text| time(text, "--stop-when-idle")).transpose()?;
        let every = time(&self.every, "--every")?;
        let format = self.to_format.as_deref().map(folder_format).transpose().map_err(usage)?;
        let options = JobOptions { checkpoint: checkpoint.clone(), every, stop_when_idle };
        Ok(Some(JobSettings { options, to: to.clone(), format }))
    }
}
