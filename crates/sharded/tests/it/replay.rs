//! Channels that run again from their tapes.

use crate::data::*;
use datafusion::prelude::lit;
use whimbrel_plan::nodes::Scope;
use whimbrel_plan::{Stream, column};
use whimbrel_sharded::Options;
use whimbrel_sharded::program::{ChannelId, ChannelTape, Produced, Programs, Step, TapeEntry};
use whimbrel_sharded::relation::always;
use whimbrel_sharded::replay::record;

fn redistributed() -> Stream {
    let keyed = relation(&clicks(500), 3, 1).rekey(vec![column("user")]).unwrap();
    keyed.redistribute(Some(3), Scope::Global).unwrap().aggregate(count()).unwrap()
}

#[test]
fn every_runtime_gives_equal_tasks() {
    let tasks = |options: &Options| {
        let recording = record(&redistributed(), &Options { batch_rows: 16, ..options.clone() }).unwrap();
        recording.check().unwrap();
        recording.tasks().collect::<Vec<_>>()
    };
    let library = tasks(&library());
    assert!(library.len() > 6);
    assert_eq!(tasks(&local()), library);
}

#[test]
fn another_tape_is_another_answer() {
    let rows = table(vec![ints("n", [1, 2, 3])]);
    let query = relation(&rows, 1, 1).where_(column("n").gt(lit(1_i64))).unwrap();
    let programs = Programs::new(&query, &library()).unwrap();
    let new = || programs.channel(0, 0).unwrap();
    let entries = vec![TapeEntry::Message(0, always(rows)), TapeEntry::End(0)];
    let wrong = Produced { output: 0, digest: [0; 32] };
    let channel = ChannelId { stage: 0, channel: 0 };
    for (produced, problem) in [(vec![wrong], "differs"), (vec![], "differs")] {
        let tape = ChannelTape { entries: entries.clone(), produced };
        let error = tape.replay(channel, new().as_mut()).unwrap_err().to_string();
        assert!(error.contains("message 0 of stage 0, channel 0") && error.contains(problem), "{error}");
    }
    let missing = ChannelTape { entries: vec![TapeEntry::End(0)], produced: vec![wrong] };
    let error = missing.replay(channel, new().as_mut()).unwrap_err().to_string();
    assert!(error.contains("handed out 1 messages, and 0 when it was replayed"), "{error}");
    assert_eq!(new().step(&mut vec![]).unwrap(), Step::Needs(0));
}
