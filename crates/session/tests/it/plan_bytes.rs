//! Bytes of plans are not trusted: whatever is in them, reading ends with a plan or an error.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use whimbrel_plan::{References, Stream};
use whimbrel_session::{PlanReferences, Session};
use whimbrel_sharded::program::Programs;
use whimbrel_sharded::{JobSpec, Memory, Options};
use whimbrel_sql::Planned;

/// What stands before the document: what it is, its version, its digest.
const HEADER: usize = 4 + 2 + 32;

/// Queries that have every kind of step and expression between them.
const QUERIES: &[&str] = &[
    "select 1 as a, 'x' as b, null as c, date '2024-01-01' as d, interval '1 month' as e, [1, 2] as f",
    "select n % 3 as k, sum(n), avg(n) filter (where n > 2), count(distinct n) from range(9) t(n) \
     group by 1 having sum(n) > 1",
    "select a.n, b.n from range(4) a(n) left join range(2, 6) b(n) on a.n = b.n order by 1 desc \
     nulls last limit 3 offset 1",
    "select n, row_number() over (partition by n % 2 order by n rows between 1 preceding and \
     current row) from range(5) t(n)",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select * from r",
    "select unnest([1, 2, 3]) as n union all select n from range(3) t(n) where n in (select max(m) \
     from range(3) s(m))",
    "select distinct on (n % 2) n from range(6) t(n) order by n % 2, n desc",
    "select case when n > 1 then n::varchar else 'few' end, n between 1 and 2, coalesce(n, 0) from \
     (values (1), (2)) t(n)",
    "select (select max(n) from range(3) s(n)), exists (select 1 from range(3) s(n) where s.n = \
     t.n) from range(2) t(n)",
    "select n, n % 7 as k from range(100) t(n) order by n desc, k",
    "select '2001-02-16 20:38:40-05'::timestamptz at time zone 'America/Denver', '[1, 2]'::int[]",
];

fn references() -> Arc<dyn References> {
    Arc::new(PlanReferences)
}

fn plans() -> Vec<(&'static str, Stream)> {
    let mut session = Session::new(Options::default());
    for setting in ["set shards = 2", "set shard_rows = 0"] {
        session.plan(setting, None, || false).unwrap();
    }
    let planned = QUERIES.iter().map(|sql| match session.plan(sql, None, || false).unwrap().planned {
        Planned::Query(stream) => (*sql, stream),
        _ => panic!("{sql} is a query"),
    });
    planned.collect()
}

#[test]
fn a_plan_that_was_read_is_written_alike() {
    for (sql, stream) in plans() {
        let bytes = stream.to_bytes(&references()).unwrap();
        let again = Stream::from_bytes(&bytes, &references()).unwrap();
        assert_eq!(again.to_bytes(&references()).unwrap(), bytes, "{sql}");
        assert_eq!(again.schema(), stream.schema(), "{sql}");
    }
}

#[test]
fn a_job_is_the_same_in_every_process() {
    let options = Options { batch_rows: 1000, memory: Memory::Channel(1 << 30), ..Options::default() };
    let specs = plans().into_iter().map(|(sql, stream)| {
        let spec = JobSpec::of(&stream, &options, &references()).unwrap();
        let elsewhere = JobSpec::from_bytes(&spec.to_bytes().unwrap()).unwrap();
        assert_eq!(elsewhere, spec, "{sql}");
        let (here, there) =
            (Programs::new(&stream, &options).unwrap(), elsewhere.programs(&references()).unwrap());
        let channels =
            |programs: &Programs| programs.stages().stages.iter().map(|s| s.channels).collect::<Vec<_>>();
        assert_eq!(channels(&here), channels(&there), "{sql}");
        let other = Options { batch_rows: 999, ..options.clone() };
        assert_ne!(
            JobSpec::of(&stream, &other, &references()).unwrap().digest().unwrap(),
            spec.digest().unwrap()
        );
        spec
    });
    let digests: BTreeSet<[u8; 32]> = specs.map(|spec| spec.digest().unwrap()).collect();
    assert_eq!(digests.len(), QUERIES.len());
    assert!(JobSpec::from_bytes(b"nonsense").is_err());
}

/// Bytes with a digest that fits.
fn with_digest(mut bytes: Vec<u8>) -> Vec<u8> {
    let digest = blake3::hash(&bytes[HEADER..]);
    bytes[HEADER - 32..HEADER].copy_from_slice(digest.as_bytes());
    bytes
}

#[test]
fn damage_that_the_digest_does_not_find_is_refused_or_read() {
    let bytes: Vec<Vec<u8>> =
        plans().iter().map(|(_, stream)| stream.to_bytes(&references()).unwrap()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let (mut read, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut damaged = bytes[round % bytes.len()].clone();
        for _ in 0..=random(3) {
            let at = HEADER + random(damaged.len() - HEADER);
            match random(4) {
                0 => damaged[at] = random(256) as u8,
                1 => damaged[at] ^= 1 << random(8),
                2 => damaged.truncate(at.max(HEADER + 1)),
                _ => damaged.insert(at, random(256) as u8),
            }
        }
        let damaged = with_digest(damaged);
        let result = catch_unwind(AssertUnwindSafe(|| Stream::from_bytes(&damaged, &references())));
        match result.unwrap_or_else(|_| panic!("round {round} panicked")) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read > 0 && refused > read, "{read} read, {refused} refused");
}
