//! `whimbrel explain`: the plan of a query.

use super::whole;
use crate::arguments::{Settings, Text};
use crate::client::Client;
use crate::failure::Outcome;
use crate::script::each_statement;
use whimbrel_sql::Planned;

/// Shows the plan of each query; other statements are run, so that the queries can be planned.
pub fn run(text: &Text, analyze: bool, settings: &Settings) -> Outcome {
    let mut client = Client::new(settings);
    let (text, name) = whole(text)?;
    each_statement(&text, name.as_deref(), 1, |sql| match client.plan(sql)? {
        Planned::Query(stream) | Planned::Copy { stream, .. } => client.explain(&stream, analyze, sql),
        Planned::Explain { stream, analyze: asked } => client.explain(&stream, analyze || asked, sql),
        other @ Planned::Store { .. } => client.act(other, sql),
        Planned::Table(_) | Planned::Done(_) => Ok(()),
    })
}

/// Lists the ways to run each query; other statements are run, so that the queries can be planned.
pub fn candidates(text: &Text, settings: &Settings) -> Outcome {
    let mut client = Client::new(settings);
    let (text, name) = whole(text)?;
    each_statement(&text, name.as_deref(), 1, |sql| match client.plan(sql)? {
        Planned::Query(_) | Planned::Explain { .. } => client.candidates(sql),
        other @ Planned::Store { .. } => client.act(other, sql),
        Planned::Copy { .. } | Planned::Table(_) | Planned::Done(_) => Ok(()),
    })
}
