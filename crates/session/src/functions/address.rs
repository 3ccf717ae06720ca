//! Addresses of functions, as the command takes them: `functions://name?bucket=s3://…&…`, or `functions?…`
//! for processes of this machine.

use crate::durable::wall_duration;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use std::str::FromStr;
use std::time::Duration;
use whimbrel_functions::{Goal, PriceSheet};

/// What the addresses of functions begin with.
pub const SCHEME: &str = "functions";

/// The parts of an address.
#[derive(Debug, Default)]
pub struct FunctionsAddress {
    /// Where functions are; none: they are processes of this machine.
    pub place: Option<Place>,
    /// How many run at the same time.
    pub concurrency: Option<usize>,
    /// The megabytes of memory that each has.
    pub memory: Option<u32>,
    /// What they cost.
    pub prices: Option<PriceSheet>,
    /// For how long outputs of stages are kept.
    pub keep: Option<Duration>,
    /// Queries that read at most so many bytes run in this process.
    pub small: Option<u64>,
    /// What plans are chosen by.
    pub goal: Option<Goal>,
}

/// Where functions are.
#[derive(Debug, Default)]
pub struct Place {
    /// The name of the function.
    pub name: String,
    /// Where objects are.
    pub bucket: String,
    /// Services other than AWS Lambda.
    pub endpoints: Vec<String>,
    /// The names and megabytes of functions that differ in their memory.
    pub sizes: Vec<(String, u32)>,
    /// The service of one's own machines that is used before, and how.
    pub base: Option<BasePlace>,
}

/// A service of one's own machines.
#[derive(Debug, Default)]
pub struct BasePlace {
    /// Its address.
    pub endpoint: String,
    /// How many of its functions run at the same time.
    pub concurrency: Option<usize>,
    /// For how long tasks wait for it.
    pub wait: Duration,
}

impl FunctionsAddress {
    /// The parts of a text.
    ///
    /// # Errors
    /// `Plan` with the reason if it is no such address.
    pub fn parse(text: &str) -> Result<FunctionsAddress> {
        Parameters::of(text).and_then(FunctionsAddress::of).map_err(|why| refused(text, &why))
    }

    fn of(mut parameters: Parameters<'_>) -> Result<FunctionsAddress, String> {
        let max_cost = parameters.take("max_cost", |text| amount(text).map(Goal::MaxCost))?;
        let max_latency = parameters.take("max_latency", |text| duration(text).map(Goal::MaxLatency))?;
        if max_cost.is_some() && max_latency.is_some() {
            return Err("it has two goals, max_cost and max_latency".to_string());
        }
        let address = FunctionsAddress {
            concurrency: parameters.take("concurrency", positive)?,
            memory: parameters.take("memory", positive)?,
            prices: parameters
                .take("prices", |name| PriceSheet::named(name).map_err(|error| message(&error)))?,
            keep: parameters.take("keep", duration)?,
            small: parameters.take("small", |text| text.parse().map_err(|_| "is no number".to_string()))?,
            goal: max_cost.or(max_latency),
            place: match parameters.name {
                None => None,
                Some("") => return Err("it has no name".to_string()),
                Some(name) => Some(Place::of(name, &mut parameters)?),
            },
        };
        parameters.end()?;
        Ok(address)
    }
}

impl Place {
    fn of(name: &str, parameters: &mut Parameters<'_>) -> Result<Place, String> {
        let url = |text: &str| Ok(text.to_string());
        let mut place = Place { name: name.to_string(), ..Place::default() };
        place.bucket = parameters.take("bucket", url)?.ok_or("it has no bucket")?;
        while let Some(endpoint) = parameters.take("endpoint", url)? {
            place.endpoints.push(endpoint);
        }
        while let Some(size) = parameters.take("size", size)? {
            place.sizes.push(size);
        }
        if let Some(endpoint) = parameters.take("base", url)? {
            let concurrency = parameters.take("base_concurrency", positive)?;
            let wait = parameters.take("wait", duration)?.unwrap_or_default();
            place.base = Some(BasePlace { endpoint, concurrency, wait });
        }
        if parameters.has("base_concurrency") || parameters.has("wait") {
            return Err("it has no base pool, and says how that is used".to_string());
        }
        Ok(place)
    }
}

/// The name of an address, and its parameters that have not been read yet.
struct Parameters<'a> {
    name: Option<&'a str>,
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn of(text: &'a str) -> Result<Parameters<'a>, String> {
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let name = match place.strip_prefix(SCHEME) {
            Some("") => None,
            Some(rest) => Some(rest.strip_prefix("://").ok_or("it begins otherwise")?),
            None => return Err("it begins otherwise".to_string()),
        };
        let pair = |text: &'a str| text.split_once('=').ok_or(format!("`{text}` has no value"));
        let left = query.split('&').filter(|text| !text.is_empty()).map(pair).collect::<Result<_, _>>()?;
        Ok(Parameters { name, left })
    }

    fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(other, _)| *other == name)
    }

    /// Reads the first parameter of a name that is left.
    fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(place) = self.left.iter().position(|(other, _)| *other == name) else { return Ok(None) };
        let (_, text) = self.left.remove(place);
        read(text).map(Some).map_err(|why| format!("its {name} `{text}` {why}"))
    }

    fn end(&self) -> Result<(), String> {
        match self.left.first() {
            Some((name, _)) => Err(format!("it has an unknown parameter, or one twice: {name}")),
            None => Ok(()),
        }
    }
}

fn refused(address: &str, why: &str) -> DataFusionError {
    plan_datafusion_err!(
        "`{address}` is no address of functions: {why}; it is functions://name?bucket=s3://bucket/prefix, and \
         &endpoint=http://… for a service other than AWS Lambda, or functions for this machine"
    )
}

fn positive<T: FromStr + PartialOrd + Default>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| "is no whole number above zero".to_string())
}

fn size(text: &str) -> Result<(String, u32), String> {
    match text.rsplit_once(':') {
        Some((name, megabytes)) if !name.is_empty() => Ok((name.to_string(), positive(megabytes)?)),
        _ => Err("is no NAME:MEGABYTES".to_string()),
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let dollars = text.parse().ok().filter(|dollars: &f64| dollars.is_finite() && *dollars >= 0.0);
    dollars.ok_or_else(|| "is no number of dollars".to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    let length = whimbrel_plan::Duration::Text(text.to_string());
    wall_duration(&length, "it").map_err(|_| "is no duration, such as 10s or 1h".to_string())
}

fn message(error: &DataFusionError) -> String {
    error.message().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_parameters() {
        let address = FunctionsAddress::parse(
            "functions://f?bucket=s3://b/p&endpoint=http://h:1&endpoint=http://h:2&base=http://o&wait=2s\
             &size=g:3008&size=h:10240&memory=1769&prices=aws-us-east-1-arm&keep=1h&small=0&max_cost=0.01&concurrency=7",
        );
        let FunctionsAddress { place, concurrency, memory, prices, keep, small, goal } = address.unwrap();
        let place = place.unwrap();
        assert_eq!((place.name.as_str(), place.bucket.as_str()), ("f", "s3://b/p"));
        assert_eq!(place.endpoints, ["http://h:1", "http://h:2"]);
        assert_eq!(place.sizes, [("g".to_string(), 3008), ("h".to_string(), 10240)]);
        assert_eq!(place.base.unwrap().wait, Duration::from_secs(2));
        assert_eq!((concurrency, memory, small), (Some(7), Some(1769), Some(0)));
        assert_eq!(prices.unwrap().name, "aws-us-east-1-arm");
        assert_eq!(keep, Some(Duration::from_secs(3600)));
        assert_eq!(goal, Some(Goal::MaxCost(0.01)));
        let local = FunctionsAddress::parse("functions?max_latency=5s").unwrap();
        assert!(local.place.is_none());
        assert_eq!(local.goal, Some(Goal::MaxLatency(Duration::from_secs(5))));
    }

    #[test]
    fn addresses_that_are_none_are_refused_with_the_reason() {
        for (address, why) in [
            ("functions://f", "no bucket"),
            ("functions://?bucket=s3://b", "no name"),
            ("functions://f?bucket=s3://b&concurrency=0", "above zero"),
            ("functions://f?bucket=s3://b&memory=-1", "above zero"),
            ("functions://f?buckets=s3://b&bucket=s3://b", "unknown parameter"),
            ("functions://f?bucket=s3://b&bucket=s3://c", "twice: bucket"),
            ("functions://f?bucket=s3://b&base_concurrency=4", "no base pool"),
            ("functions://f?bucket=s3://b&wait=2s", "no base pool"),
            ("functions://f?bucket=s3://b&base=http://h:9000&wait=soon", "its wait `soon` is no duration"),
            ("functions://f?bucket=s3://b&size=g", "NAME:MEGABYTES"),
            ("functions://f?bucket=s3://b&size=g:0", "above zero"),
            ("functions://f?bucket", "`bucket` has no value"),
            ("functions?bucket=s3://b", "unknown parameter"),
            ("functions?max_cost=1&max_latency=1s", "two goals"),
            ("functions?max_cost=-1", "no number of dollars"),
            ("functions?prices=azure", "no price sheet"),
            ("functionsf", "begins otherwise"),
            ("functions:f", "begins otherwise"),
        ] {
            let error = FunctionsAddress::parse(address).unwrap_err().to_string();
            assert!(error.contains(why), "{address}: {error}");
        }
    }
}
