//! Keys of objects.
//!
//! They begin with a part of their hash: a store serves so many requests a second for each prefix, and the
//! objects of one stage are all read at the same time.

/// What is gone when its query ends is below this.
pub const QUERIES: &str = "queries";

/// What is kept for other queries is below this.
pub const STAGES: &str = "stages";

/// The key of the object of a unit of work.
pub fn output_key(job: &str, unit: usize) -> String {
    spread(QUERIES, job, &unit.to_string())
}

/// The key of the specification of a query.
pub fn spec_key(job: &str) -> String {
    spread(QUERIES, job, "spec")
}

/// The key of the object of a task of a stage that is kept, by its number in the stage.
pub fn kept_key(stage: &str, task: usize) -> String {
    spread(STAGES, stage, &task.to_string())
}

/// The key of the list of the outputs of a stage that is kept.
pub fn manifest_key(stage: &str) -> String {
    spread(STAGES, stage, "manifest")
}

fn spread(root: &str, folder: &str, name: &str) -> String {
    let hash = blake3::hash(format!("{folder}/{name}").as_bytes());
    format!("{root}/{}/{folder}/{name}", &hash.to_hex()[..4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_keys_of_a_query_have_many_prefixes() {
        let keys: BTreeSet<String> = (0..512).map(|unit| output_key("job", unit)).collect();
        let prefixes: BTreeSet<&str> = keys.iter().map(|key| &key[..QUERIES.len() + 5]).collect();
        assert_eq!(keys.len(), 512);
        assert!(prefixes.len() > 480, "{} prefixes", prefixes.len());
    }
}
