//! Checkpoints and tapes: a program that is restored from a checkpoint, or rebuilt from a tape, goes on as
//! the original, message for message, whatever the order in which its lanes were fed.

use crate::data::*;
use datafusion::arrow::array::UInt32Array;
use datafusion::arrow::compute::take_record_batch;
use datafusion::prelude::lit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use whimbrel_plan::nodes::{Partitioning, Scope, TimeSpec};
use whimbrel_plan::{Agg, AggFunction, JoinKind, Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::dataset::{Shard, dataset as source};
use whimbrel_sharded::error::ErrorKind;
use whimbrel_sharded::exchange::{Reach, partitioner};
use whimbrel_sharded::program::{ChannelProgram, Programs, Step};
use whimbrel_sharded::relation::always;
use whimbrel_sharded::stage::{Input, Kind, Origin};
use whimbrel_temporal::{Closed, Disorder, IngressOptions, Message, Punctuate, Time};

/// What a runtime does to a program.
#[derive(Clone)]
enum Act {
    Push(usize, Message),
    End(usize),
    Step,
}

/// A message, with the bounds of its batch.
#[derive(Debug, PartialEq)]
enum Exact {
    Rows(Vec<(Time, Time, String)>),
    Punctuation(Time),
}

/// The outcome of an act: the step, the messages that came out, and the number of late rows so far.
type Outcome = (Option<Step>, Vec<(usize, Exact)>, u64);

fn exact(message: &Message) -> Exact {
    let batch = match message {
        Message::Batch(batch) => batch.clone().compact().unwrap(),
        Message::Punctuation(time) => return Exact::Punctuation(*time),
    };
    let row = |(i, text): (usize, String)| (batch.sync[i], batch.other_at(i), text);
    Exact::Rows(text(&batch.rows).into_iter().enumerate().map(row).collect())
}

fn act(program: &mut dyn ChannelProgram, act: &Act, made: &mut [Vec<Message>]) -> Outcome {
    let mut out = Vec::new();
    let step = match act.clone() {
        Act::Push(lane, message) => program.push(lane, message).map(|()| None).unwrap(),
        Act::End(lane) => program.end(lane).map(|()| None).unwrap(),
        Act::Step => program.step(&mut out).map(Some).unwrap(),
    };
    let outcome = (step, out.iter().map(|(o, m)| (*o, exact(m))).collect(), program.rows_late());
    out.into_iter().for_each(|(output, message)| made[output].push(message));
    outcome
}

/// The lanes in a random order, several messages between two steps.
fn tape(lanes: Vec<Vec<Message>>, random: &mut Random) -> Vec<Act> {
    let mut lanes: Vec<_> = lanes.into_iter().map(Vec::into_iter).map(Some).collect();
    let mut acts = Vec::new();
    while lanes.iter().any(Option::is_some) {
        let lane = random.below(lanes.len() as u64) as usize;
        let Some(messages) = &mut lanes[lane] else { continue };
        for _ in 0..1 + random.below(3) {
            match messages.next() {
                Some(message) => acts.push(Act::Push(lane, message)),
                None => {
                    acts.push(Act::End(lane));
                    lanes[lane] = None;
                    break;
                }
            }
        }
        if random.below(3) > 0 {
            acts.push(Act::Step);
        }
    }
    acts.extend([Act::Step, Act::Step]);
    acts
}

/// The output of all channels: by stage, channel and output.
type Made = Vec<Vec<Vec<Vec<Message>>>>;

/// The messages of the lanes of an input, as a runtime would deliver them.
fn lanes(programs: &Programs, made: &Made, stage: usize, input: &Input, index: usize) -> Vec<Vec<Message>> {
    let stages = &programs.stages().stages;
    let (from, output, exchange) = match &input.origin {
        Origin::Scan(scan) => {
            let shard = source(scan.source.as_ref()).unwrap().open(index, scan.columns.as_deref(), 16);
            let Shard::Reader(mut reader) = shard.unwrap() else { panic!("tables are read") };
            return vec![std::iter::from_fn(|| reader.next().unwrap()).map(always).collect()];
        }
        Origin::Edge { stage, output, exchange } => (*stage, *output, exchange.as_deref()),
    };
    let producers = &stages[from];
    let reach = Reach::of(exchange, producers.channels, stages[stage].channels, producers.machines);
    let lane = |producer: usize| {
        let targets = reach.targets(producer);
        let mut partitioner =
            partitioner(exchange, producer, &producers.outputs[output].schema, true).unwrap();
        let mut lane = Vec::new();
        for message in &made[from][producer][output] {
            let Message::Batch(batch) = message else {
                lane.push(message.clone());
                continue;
            };
            let mut parts = vec![None; targets.len()];
            partitioner.partition(batch.clone().compact().unwrap(), &mut parts).unwrap();
            lane.extend(parts[index - targets.start].take().map(Message::Batch));
        }
        lane
    };
    reach.sources(index).map(lane).collect()
}

/// Runs every channel of a query; restores or rebuilds others at random positions. Returns the number of rows
/// of the result, and of programs that were restored or rebuilt.
fn check(name: &str, stream: &Stream, random: &mut Random) -> (usize, usize) {
    let options = Options { batch_rows: 16, ..library() };
    let programs = Programs::new(stream, &options).unwrap();
    let mut made: Made = Vec::new();
    let mut restored = 0;
    for (number, stage) in programs.stages().stages.iter().enumerate() {
        let mut channels = Vec::new();
        for index in 0..stage.channels {
            let inputs = stage.inputs.iter();
            let lanes = inputs.flat_map(|i| lanes(&programs, &made, number, i, index)).collect();
            let tape = tape(lanes, random);
            let new = || programs.channel(number, index).unwrap();
            let what = format!("{name}, stage {number}, channel {index}");
            channels.push(match stage.kind {
                Kind::Temporal => temporal(&what, &new, &tape, stage.outputs.len(), random, &mut restored),
                Kind::Relational => {
                    relational(&what, &new, &tape, stage.outputs.len(), random, &mut restored)
                }
            });
        }
        made.push(channels);
    }
    let (stage, output) = programs.stages().result;
    let rows = |message: &Message| if let Message::Batch(batch) = message { batch.len() } else { 0 };
    let rows = made[stage].iter().flat_map(|channel| &channel[output]).map(rows).sum();
    (rows, restored)
}

fn temporal(
    what: &str,
    new: &dyn Fn() -> Box<dyn ChannelProgram>,
    tape: &[Act],
    outputs: usize,
    random: &mut Random,
    restored: &mut usize,
) -> Vec<Vec<Message>> {
    let mut places: Vec<usize> = (0..6).map(|_| random.below(tape.len() as u64 + 1) as usize).collect();
    places.sort_unstable();
    let (mut program, mut made) = (new(), vec![Vec::new(); outputs]);
    let (mut saved, mut outcomes) = (Vec::new(), Vec::new());
    for (at, next) in tape.iter().enumerate() {
        if places.contains(&at) {
            saved.push((at, program.save().unwrap().expect("a checkpoint")));
        }
        outcomes.push(act(program.as_mut(), next, &mut made));
    }
    for (at, state) in saved {
        let (mut first, mut second) = (new(), new());
        first.restore(&state).unwrap();
        // A restored program has an equivalent checkpoint.
        second.restore(&first.save().unwrap().expect("a checkpoint")).unwrap();
        for (offset, (next, expected)) in tape.iter().zip(&outcomes).enumerate().skip(at) {
            for program in [&mut first, &mut second] {
                let found = act(program.as_mut(), next, &mut vec![Vec::new(); outputs]);
                assert_eq!(&found, expected, "{what}: act {offset}, from a checkpoint before act {at} on");
            }
        }
        *restored += 1;
    }
    made
}

/// Relational programs have no checkpoint, and are rebuilt from their tape.
fn relational(
    what: &str,
    new: &dyn Fn() -> Box<dyn ChannelProgram>,
    tape: &[Act],
    outputs: usize,
    random: &mut Random,
    rebuilt: &mut usize,
) -> Vec<Vec<Message>> {
    let (mut program, mut made) = (new(), vec![Vec::new(); outputs]);
    let (mut tape, mut outcomes) = (tape.to_vec(), Vec::new());
    for next in &tape {
        outcomes.push(act(program.as_mut(), next, &mut made));
        assert!(program.save().unwrap().is_none());
    }
    while outcomes.last().and_then(|(step, _, _)| *step) != Some(Step::Ended) {
        tape.push(Act::Step);
        outcomes.push(act(program.as_mut(), &Act::Step, &mut made));
    }
    for _ in 0..4 {
        let at = random.below(tape.len() as u64 + 1) as usize;
        let what = format!("{what}, rebuilt before act {at}");
        assert_continues(&what, new(), &tape, &outcomes);
        assert_replays(&what, new(), &tape, at, &outcomes);
        *rebuilt += 1;
    }
    let refused = program.restore(&[]).unwrap_err();
    assert_eq!(ErrorKind::of(&refused), ErrorKind::Invalid);
    assert!(refused.to_string().contains("what the old one was given"), "{refused}");
    made
}

/// Runs the rest of a tape: the outcomes are those of the original.
fn assert_continues(what: &str, mut program: Box<dyn ChannelProgram>, tape: &[Act], outcomes: &[Outcome]) {
    let outputs =
        1 + outcomes.iter().flat_map(|(_, out, _)| out).map(|(output, _)| *output).max().unwrap_or(0);
    for (number, (next, expected)) in tape.iter().zip(outcomes).enumerate() {
        let found = act(program.as_mut(), next, &mut vec![Vec::new(); outputs]);
        assert_eq!(&found, expected, "{what}: act {number}");
    }
}

/// A program that gets the tape up to a position before its first step repeats the messages of the original,
/// and then goes on as that.
fn assert_replays(
    what: &str,
    mut program: Box<dyn ChannelProgram>,
    tape: &[Act],
    at: usize,
    outcomes: &[Outcome],
) {
    let expected: Vec<&(usize, Exact)> = outcomes.iter().flat_map(|(_, out, _)| out).collect();
    let outputs = 1 + expected.iter().map(|(output, _)| *output).max().unwrap_or(0);
    let mut found = Vec::new();
    let mut run = |next: &Act| {
        let (step, out, _) = act(program.as_mut(), next, &mut vec![Vec::new(); outputs]);
        found.extend(out);
        step
    };
    let pushed = tape[..at].iter().filter(|next| !matches!(next, Act::Step));
    pushed.chain(&tape[at..]).for_each(|next| {
        run(next);
    });
    while run(&Act::Step) != Some(Step::Ended) {}
    assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{what}");
}

fn keyed(stream: &Stream) -> Stream {
    stream.rekey(vec![column("user")]).unwrap().redistribute(Some(3), Scope::Global).unwrap()
}

fn windows(stream: &Stream) -> Stream {
    keyed(stream).sliding(20, Closed::Left).unwrap()
}

fn aggregates() -> Vec<(String, Agg)> {
    let of = |name: &str, f, of: &str| (name.to_string(), Agg::of(f, column(of)));
    vec![
        ("n".to_string(), Agg::count()),
        of("sum", AggFunction::Sum, "cost"),
        of("mean", AggFunction::Average, "cost"),
        of("least", AggFunction::Min, "cost"),
        of("first", AggFunction::First, "ad"),
        of("kinds", AggFunction::CountDistinct, "ad"),
    ]
}

/// Rows that come up to ten rows late, with a reorder latency that is too short for some.
fn disordered() -> Stream {
    let clicks = clicks(300);
    let mut random = Random(11);
    let mut order: Vec<u32> = (0..300).collect();
    order.sort_by_cached_key(|i| i64::from(*i) + random.below(10));
    let rows = take_record_batch(&clicks, &UInt32Array::from(order)).unwrap();
    let options = IngressOptions {
        disorder: Disorder::Drop,
        reorder_latency: 6,
        punctuate: Punctuate::Every(15),
        ..IngressOptions::default()
    };
    relation(&rows, 2, 1).ingress(TimeSpec::point("time"), options).unwrap()
}

/// The same rows with a clock for each user, whose rows are up to ten late within it.
fn partitioned() -> Stream {
    let clicks = clicks(300);
    let mut random = Random(12);
    let mut order: Vec<u32> = (0..300).collect();
    order.sort_by_cached_key(|i| i64::from(*i) + random.below(60));
    let rows = take_record_batch(&clicks, &UInt32Array::from(order)).unwrap();
    let options =
        IngressOptions { disorder: Disorder::Drop, reorder_latency: 10, ..IngressOptions::default() };
    let partitioning = Partitioning { columns: vec!["user".to_string()], lag: Some(45) };
    relation(&rows, 2, 1).ingress_by_partition(TimeSpec::point("time"), options, partitioning).unwrap()
}

/// The queries, by name.
fn queries() -> Vec<(&'static str, Stream)> {
    let stream = points(&clicks(300), 2, 1);
    let others = points(&clicks(60), 2, 1);
    let join = |kind| windows(&stream).join(&windows(&others), vec![], kind, "_right").unwrap();
    let users = relation(&table(vec![ints("user", 0..20), ints("age", 20..40)]), 2, 1);
    let old = keyed(&users).aggregate(vec![("age".to_string(), Agg::of(AggFunction::Max, column("age")))]);
    vec![
        ("points", stream.clone()),
        ("tumbling", keyed(&stream).tumbling(30, 0, Closed::Left).unwrap().aggregate(aggregates()).unwrap()),
        (
            "hopping",
            keyed(&stream).hopping(40, 10, 0, Closed::Left).unwrap().aggregate(aggregates()).unwrap(),
        ),
        ("sliding", windows(&stream).aggregate(aggregates()).unwrap()),
        ("inner join", join(JoinKind::Inner)),
        ("left join", join(JoinKind::Left)),
        ("exists", windows(&stream).where_exists(&windows(&others), vec![]).unwrap()),
        ("not exists", windows(&stream).where_not_exists(&windows(&others), vec![]).unwrap()),
        ("session", keyed(&stream).session(9, None).unwrap().aggregate(aggregates()).unwrap()),
        ("union", windows(&stream).union(&windows(&others)).unwrap().distinct().unwrap()),
        ("clip", windows(&stream).clip(&keyed(&others), vec![]).unwrap()),
        (
            "late rows",
            keyed(&disordered()).tumbling(30, 0, Closed::Left).unwrap().aggregate(aggregates()).unwrap(),
        ),
        ("partitions", partitioned().tumbling(30, 0, Closed::Left).unwrap().aggregate(aggregates()).unwrap()),
        (
            "a join of partitions",
            partitioned()
                .sliding(20, Closed::Left)
                .unwrap()
                .join(&partitioned().sliding(9, Closed::Left).unwrap(), vec![], JoinKind::Left, "_right")
                .unwrap(),
        ),
        (
            "merged partitions",
            partitioned()
                .merge_partitions()
                .unwrap()
                .rekey(vec![])
                .unwrap()
                .tumbling(30, 0, Closed::Left)
                .unwrap()
                .aggregate(aggregates())
                .unwrap(),
        ),
        ("table", keyed(&stream).join(&old.unwrap(), vec![], JoinKind::Inner, "_right").unwrap()),
        (
            "table as events",
            keyed(&relation(&clicks(300), 2, 1).where_(column("cost").gt(lit(9_i64))).unwrap())
                .ingress(
                    TimeSpec::point("time"),
                    IngressOptions { disorder: Disorder::Adjust, ..IngressOptions::default() },
                )
                .unwrap()
                .aggregate(count())
                .unwrap(),
        ),
    ]
}

/// Queries over tables, all channels of which are relational, by name.
fn tables() -> Vec<(&'static str, Stream)> {
    let (clicks, others) = (relation(&clicks(300), 3, 1), relation(&clicks(60), 2, 1));
    let keyed = |table: &Stream| {
        table.rekey(vec![column("user")]).unwrap().redistribute(Some(3), Scope::Global).unwrap()
    };
    let join = |kind| keyed(&clicks).join(&keyed(&others), vec![], kind, "_right").unwrap();
    let by_cost = || vec![column("cost").sort(false, false), column("time").sort(true, false)];
    let one = |table: &Stream| table.reshard(Some(1), Scope::Global).unwrap();
    vec![
        ("filter", clicks.where_(column("cost").gt(lit(40_i64))).unwrap()),
        ("aggregate of a table", keyed(&clicks).aggregate(aggregates()).unwrap()),
        ("distinct", keyed(&clicks).select(vec![column("user"), column("ad")]).unwrap().distinct().unwrap()),
        ("inner join of tables", join(JoinKind::Inner)),
        ("left join of tables", join(JoinKind::Left)),
        ("full join of tables", join(JoinKind::Full)),
        ("anti join of tables", join(JoinKind::Anti)),
        ("union of tables", keyed(&clicks).union(&keyed(&others)).unwrap()),
        ("sort", one(&clicks).sort(by_cost()).unwrap()),
        ("first rows", one(&clicks).sort(by_cost()).unwrap().limit(5, Some(20)).unwrap()),
        (
            "broadcast",
            clicks
                .where_exists(
                    &others.broadcast(Some(3), Scope::Global).unwrap(),
                    vec![(column("ad"), column("ad"))],
                )
                .unwrap(),
        ),
    ]
}

#[test]
fn relational_programs_are_rebuilt_from_their_tapes() {
    let mut random = Random(41);
    for (name, stream) in tables() {
        for _ in 0..4 {
            let (rows, rebuilt) = check(name, &stream, &mut random);
            assert!(rows > 0 && rebuilt > 0, "{name}: {rows} rows, {rebuilt} programs");
        }
    }
}

#[test]
fn programs_go_on_from_checkpoints() {
    let mut random = Random(97);
    for (name, stream) in queries() {
        for _ in 0..4 {
            let (rows, restored) = check(name, &stream, &mut random);
            assert!(rows > 0 && restored > 0, "{name}: {rows} rows, {restored} checkpoints");
        }
    }
}

/// A program in the middle of its tape.
fn half_run(programs: &Programs, stage: usize, index: usize) -> Box<dyn ChannelProgram> {
    let mut program = programs.channel(stage, index).unwrap();
    for from in (0..200).step_by(20) {
        program.push(0, always(clicks(200).slice(from, 20))).unwrap();
    }
    program.step(&mut Vec::new()).unwrap();
    program
}

fn refusal(program: &mut dyn ChannelProgram, state: &[u8]) -> String {
    let refused = program.restore(state).unwrap_err();
    assert_eq!(ErrorKind::of(&refused), ErrorKind::Data, "{refused}");
    refused.to_string()
}

#[test]
fn another_channel_or_query_is_refusal() {
    let stream = points(&clicks(200), 2, 1);
    let counts = |cost: i64| {
        let some = stream.where_(column("cost").gt(lit(cost))).unwrap();
        some.sliding(20, Closed::Left).unwrap().aggregate(count()).unwrap()
    };
    let programs = Programs::new(&counts(50), &library()).unwrap();
    let state = half_run(&programs, 0, 0).save().unwrap().unwrap();
    let other = refusal(programs.channel(0, 1).unwrap().as_mut(), &state);
    assert!(
        other.contains("it has `stage 0, channel 0 of 2` where this one has `stage 0, channel 1"),
        "{other}"
    );
    let others = Programs::new(&counts(51), &library()).unwrap();
    let other = refusal(others.channel(0, 0).unwrap().as_mut(), &state);
    assert!(other.contains("the checkpoint is of another query"), "{other}");
    assert!(other.contains("Int64(50)") && other.contains("Int64(51)"), "{other}");
    // The same query with batches of another size.
    let again = Programs::new(&counts(50), &Options { batch_rows: 7, ..local() }).unwrap();
    again.channel(0, 0).unwrap().restore(&state).unwrap();
}

#[test]
fn damaged_checkpoints_are_refusal() {
    let stream =
        points(&clicks(200), 1, 1).sliding(20, Closed::Left).unwrap().aggregate(aggregates()).unwrap();
    let programs = Programs::new(&stream, &library()).unwrap();
    let state = half_run(&programs, 0, 0).save().unwrap().unwrap();
    let mut program = programs.channel(0, 0).unwrap();
    let mut random = Random(5);
    for _ in 0..2000 {
        let at = random.below(state.len() as u64) as usize;
        let mut damaged = state.clone();
        match random.below(3) {
            0 => damaged.truncate(at),
            1 => damaged[at] ^= 1 << random.below(8),
            _ => damaged.insert(at, random.below(256) as u8),
        }
        let restored = catch_unwind(AssertUnwindSafe(|| program.restore(&damaged)));
        assert!(restored.expect("no panic").is_err());
    }
    // A refused checkpoint leaves the program as it was.
    program.restore(&state).unwrap();
}
