//! How fast functions are: what a client is told, or has measured.

/// How fast functions are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// From the invocation to the first request, and from the last one to the answer, in seconds.
    pub invocation: f64,
    /// The latency of a request, in seconds.
    pub latency: f64,
    /// How many bytes a function reads or writes in a second.
    pub transfer: f64,
    /// How many bytes it computes with in a second, with a whole processor.
    pub compute: f64,
    /// How many rows it computes with in a second, with a whole processor.
    pub rows: f64,
    /// How many functions compute at this rate at the same time; those that are more share the processors.
    pub processors: f64,
    /// How long a new function takes until it begins, in seconds.
    pub cold_start: f64,
    /// How many reads of the objects of a query the store serves in a second, to all functions together.
    pub reads: f64,
    /// How many writes.
    pub writes: f64,
}

impl Rates {
    /// Of AWS Lambda over Amazon S3: latency and throughput as in starling.txt §3.3 and §5.1, and the
    /// requests that Amazon promises for one prefix, which is what a new bucket serves. What this engine
    /// computes was measured (`benches/functions.py`).
    pub const LAMBDA: Rates = Rates {
        invocation: 0.03,
        latency: 0.015,
        transfer: 75e6,
        compute: 2.5e9,
        rows: 60e6,
        processors: f64::INFINITY,
        cold_start: 0.2,
        reads: 5500.0,
        writes: 3500.0,
    };

    /// Of processes of one machine over an object store that is near. How many processors it has is not known
    /// here: two that are threads of one core are not much more than one. Processes stay when they have
    /// begun.
    pub const OWN_MACHINES: Rates = Rates {
        invocation: 0.005,
        latency: 0.002,
        transfer: 500e6,
        cold_start: 0.0,
        reads: f64::INFINITY,
        writes: f64::INFINITY,
        ..Rates::LAMBDA
    };

    /// Whether functions can be so fast.
    pub fn are_possible(&self) -> bool {
        let is_time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        let Rates { transfer, compute, rows, processors, reads, writes, .. } = *self;
        [self.invocation, self.latency, self.cold_start].into_iter().all(is_time)
            && [transfer, compute, rows, processors, reads, writes].into_iter().all(|rate| rate > 0.0)
    }
}
