//! Prices of functions and object stores, as dated data.

use crate::usage::Usage;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The sheets that come with the engine.
const SHEETS: [(&str, &str); 3] = [
    ("aws-us-east-1-x86", include_str!("../prices/aws-us-east-1-x86.json")),
    ("aws-us-east-1-arm", include_str!("../prices/aws-us-east-1-arm.json")),
    ("own-machines", include_str!("../prices/own-machines.json")),
];

/// What functions and the requests to an object store cost, in dollars.
///
/// ```
/// use whimbrel_functions::PriceSheet;
///
/// let sheet = PriceSheet::named("aws-us-east-1-arm")?;
/// assert!(sheet.put > 12.0 * sheet.get);
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSheet {
    /// What the prices are of.
    pub name: String,
    /// When they were looked up, as year, month and day.
    pub date: String,
    /// Where they are published.
    pub source: String,
    /// A gigabyte of a function's memory for a second.
    pub gb_second: f64,
    /// The invocation of a function.
    pub invocation: f64,
    /// A request that reads.
    pub get: f64,
    /// A request that writes.
    pub put: f64,
    /// A gigabyte that is stored for a month of 30 days.
    pub gb_month: f64,
}

impl PriceSheet {
    /// A sheet that comes with the engine.
    ///
    /// # Errors
    /// `Plan` if there is none of this name, with those that there are.
    pub fn named(name: &str) -> Result<PriceSheet> {
        match SHEETS.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => PriceSheet::parse(text),
            None => {
                let names: Vec<&str> = SHEETS.iter().map(|(name, _)| *name).collect();
                plan_err!("there is no price sheet \"{name}\"; there are {}", names.join(", "))
            }
        }
    }

    /// A sheet of one's own, as JSON with the fields of this type.
    ///
    /// # Errors
    /// `Plan` if a field is missing, unknown, or no price.
    pub fn parse(text: &str) -> Result<PriceSheet> {
        let sheet: PriceSheet =
            serde_json::from_str(text).map_err(|error| plan_datafusion_err!("no price sheet: {error}"))?;
        let prices = [sheet.gb_second, sheet.invocation, sheet.get, sheet.put, sheet.gb_month];
        match prices.iter().all(|price| price.is_finite() && *price >= 0.0) {
            true => Ok(sheet),
            false => plan_err!("no price sheet: a price of \"{}\" is negative or no number", sheet.name),
        }
    }

    /// The same requests, with functions at the prices of another sheet.
    #[must_use]
    pub fn with_functions_of(&self, other: &PriceSheet) -> PriceSheet {
        PriceSheet { gb_second: other.gb_second, invocation: other.invocation, ..self.clone() }
    }
}

/// The prices of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// Of its requests, and of functions that are not in its base pool.
    pub sheet: PriceSheet,
    /// Of the functions of its base pool, if it has one.
    pub base: Option<PriceSheet>,
}

impl Prices {
    /// The prices of a query without a base pool.
    pub fn of(sheet: PriceSheet) -> Prices {
        Prices { sheet, base: None }
    }

    /// The dollars by kind: of the time and memory of functions, of invocations, of requests that read, of
    /// requests that write, and of what was stored for this time. `base` is the part of `usage` that
    /// functions of the base pool have.
    pub fn dollars_by_kind(&self, usage: &Usage, base: &Usage, stored: Duration) -> [f64; 5] {
        let (sheet, of_base) = (&self.sheet, self.base.as_ref().unwrap_or(&self.sheet));
        let elastic = (usage.gb_seconds - base.gb_seconds, (usage.invocations - base.invocations) as f64);
        let months = stored.as_secs_f64() / Duration::from_hours(30 * 24).as_secs_f64();
        [
            elastic.0 * sheet.gb_second + base.gb_seconds * of_base.gb_second,
            elastic.1 * sheet.invocation + base.invocations as f64 * of_base.invocation,
            usage.gets as f64 * sheet.get,
            usage.puts as f64 * sheet.put,
            usage.written_bytes as f64 / 1e9 * months * sheet.gb_month,
        ]
    }

    /// All of it, in dollars.
    pub fn dollars(&self, usage: &Usage, base: &Usage, stored: Duration) -> f64 {
        self.dollars_by_kind(usage, base, stored).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sheet_that_comes_along_is_one() {
        for (name, _) in SHEETS {
            assert_eq!(PriceSheet::named(name).unwrap().name, name);
        }
        assert!(PriceSheet::named("azure").unwrap_err().to_string().contains("own-machines"));
    }

    #[test]
    fn sheets_with_errors_are_refused() {
        let good = serde_json::to_string(&PriceSheet::named("own-machines").unwrap()).unwrap();
        assert!(PriceSheet::parse(&good).is_ok());
        assert!(PriceSheet::parse(&good.replace("\"get\":", "\"gets\":")).is_err());
        assert!(PriceSheet::parse(&good.replace("\"get\":0.0", "\"get\":-1.0")).is_err());
    }

    /// An additional request has to save so many milliseconds of a function to pay for itself (starling.txt
    /// §5.1, §5.2: 8 and 102 for functions of 3008 MB).
    #[test]
    fn requests_pay_for_themselves_as_in_the_paper() {
        let sheet = PriceSheet::named("aws-us-east-1-x86").unwrap();
        let second = sheet.gb_second * 3008.0 / 1024.0;
        assert_eq!((sheet.get / second * 1000.0).round(), 8.0);
        assert_eq!((sheet.put / second * 1000.0).round(), 102.0);
    }
}
