//! The benchmarks of bounded queries; benches/README.md says what they measure.

mod executors;
mod intersection;
mod prediction;
mod results;
mod workloads;

fn main() {
    let arguments = results::Arguments::of_process();
    let results = match std::env::args().nth(1).as_deref() {
        Some("prediction") => prediction::measure(&arguments),
        Some("intersection") => intersection::measure(&arguments),
        Some("executors") => executors::measure(&arguments),
        _ => panic!("which benchmark: prediction, intersection or executors"),
    };
    arguments.write(&results);
}
