//! Windows and the other verbs about lifetimes.

use crate::support::*;
use arrow::datatypes::DataType;
use datafusion::logical_expr::lit;
use whimbrel_plan::calendar::Grid;
use whimbrel_plan::nodes::{AlterLifetime, LifetimeChange};
use whimbrel_plan::{Duration, Node, Stream, column, node};
use whimbrel_temporal::operators::SessionCap;
use whimbrel_temporal::{Closed, DurationRule, Lifetimes, StartRule};

#[track_caller]
fn altered(stream: &Stream) -> &AlterLifetime {
    match node(stream.plan()) {
        Some(Node::AlterLifetime(n)) => n,
        other => panic!("no AlterLifetime but {other:?}"),
    }
}

const MINUTE: i64 = 60_000_000;

#[test]
fn hopping() {
    let stream = clicks().hopping("5m", "1m", 0, Closed::Left).unwrap();
    let node = altered(&stream);
    assert_eq!(*node.start, StartRule::Snap { hop: MINUTE, offset: 0, closed: Closed::Left });
    assert_eq!(*node.duration, DurationRule::Constant(5 * MINUTE));
    assert_eq!(node.label, "hopping 5m hop 1m");
    let hop = Lifetimes::Hop { size: 5 * MINUTE, hop: MINUTE, offset: 0 };
    assert_eq!(stream.properties().lifetimes, hop);
    assert_eq!(columns(&stream), columns(&clicks()));
}

#[test]
fn equal_windows_are_equal_plans_however_they_are_written() {
    let clicks = clicks();
    let a = clicks.hopping("60m", "1m", 0, Closed::Left).unwrap();
    let b = clicks.hopping(Duration::Nanos(3_600_000_000_000), "60s", "-3m", Closed::Left).unwrap();
    assert_eq!(a.plan(), b.plan());
}

#[test]
fn hopping_on_a_logical_clock_with_an_offset_closed_right() {
    let stream = ticks().hopping(10, 4, 13, Closed::Right).unwrap();
    let node = altered(&stream);
    assert_eq!(*node.start, StartRule::Snap { hop: 4, offset: 1, closed: Closed::Right });
    assert_eq!(*node.duration, DurationRule::Constant(10), "the size need not be a multiple of the hop");
    assert_eq!(node.label, "hopping 10 hop 4 offset 1 closed right");
    assert_eq!(stream.properties().lifetimes, Lifetimes::Hop { size: 10, hop: 4, offset: 1 });
}

#[test]
fn hopping_refuses_hops_that_make_no_sense() {
    let hopping = |size: i64, hop: i64| invalid(ticks().hopping(size, hop, 0, Closed::Left));
    assert_eq!(hopping(10, 0), "hopping: hop: 0 is no duration; give a positive one");
    assert_eq!(hopping(10, -5), "hopping: hop: -5 is negative; give a positive duration");
    assert_eq!(hopping(0, 5), "hopping: size: 0 is no duration; give a positive one");
}

#[test]
fn tumbling_is_hopping_by_its_size() {
    let stream = clicks().tumbling("1h", "15m", Closed::Left).unwrap();
    let node = altered(&stream);
    let hour = 60 * MINUTE;
    assert_eq!(*node.start, StartRule::Snap { hop: hour, offset: 15 * MINUTE, closed: Closed::Left });
    assert_eq!(*node.duration, DurationRule::Constant(hour));
    assert_eq!(node.label, "tumbling 1h offset 15m");
}

#[test]
fn sliding() {
    let right = ticks().sliding(7, Closed::Right).unwrap();
    assert_eq!(*altered(&right).start, StartRule::Keep);
    assert_eq!(*altered(&right).duration, DurationRule::Constant(7));
    assert_eq!(right.properties().lifetimes, Lifetimes::Constant(7));
    let left = ticks().sliding(7, Closed::Left).unwrap();
    assert_eq!(*altered(&left).start, StartRule::Shift(1));
    assert_eq!(*altered(&left).duration, DurationRule::Constant(7));
    assert_eq!(left.properties().lifetimes, Lifetimes::Constant(7));
    assert_eq!(
        invalid(ticks().sliding(0, Closed::Right)),
        "sliding: size: 0 is no duration; give a positive one"
    );
}

#[test]
fn shift_keeps_what_is_known() {
    assert_eq!(clicks().shift("-5m").unwrap().properties().lifetimes, Lifetimes::Points);
    assert_eq!(stays(true).shift(3).unwrap().properties().lifetimes, Lifetimes::Intervals);
    assert_eq!(stays(false).shift(3).unwrap().properties().lifetimes, Lifetimes::Any);
    let hopping = ticks().hopping(10, 5, 0, Closed::Left).unwrap().shift(7).unwrap();
    assert_eq!(hopping.properties().lifetimes, Lifetimes::Hop { size: 10, hop: 5, offset: 2 });
    let sliding = ticks().sliding(4, Closed::Right).unwrap().shift(7).unwrap();
    assert_eq!(sliding.properties().lifetimes, Lifetimes::Constant(4));
    assert_eq!(altered(&sliding).label, "shift by 7");
}

#[test]
fn alter_duration() {
    let short = stays(false).alter_duration(Some(5.into())).unwrap();
    assert_eq!(short.properties().lifetimes, Lifetimes::Constant(5));
    assert_eq!(*altered(&short).duration, DurationRule::Constant(5));
    let forever = clicks().alter_duration(None).unwrap();
    assert_eq!(forever.properties().lifetimes, Lifetimes::StartEdges);
    assert_eq!(altered(&forever).label, "alive for ever");
    assert_eq!(
        invalid(clicks().alter_duration(Some("0s".into()))),
        "alter_duration: \"0s\" is no duration; give a positive one"
    );
}

#[test]
fn alter_lifetime_by_expressions_over_the_lifetime() {
    let start = StartRule::By(column("start") - column("start") % lit(10));
    let duration = DurationRule::ByLifetime((column("end") - column("start")) * lit(2));
    let stream = stays(true).alter_lifetime(start, duration).unwrap();
    assert_eq!(stream.properties().lifetimes, Lifetimes::Intervals);
    assert_eq!(altered(&stream).label, "alter lifetime from start - start % 10 for (end - start) * 2");
    let by_start = DurationRule::ByStart(column("start") % lit(10_i64) + lit(1_i64));
    let stream = stays(false).alter_lifetime(StartRule::Keep, by_start).unwrap();
    assert_eq!(stream.properties().lifetimes, Lifetimes::Intervals);
    let kept = stays(false)
        .alter_lifetime(StartRule::Keep, DurationRule::ByLifetime(column("end") - column("start")));
    assert_eq!(kept.unwrap().properties().lifetimes, Lifetimes::Any);
}

#[test]
fn alter_lifetime_refuses() {
    let by = |e| ticks().alter_lifetime(StartRule::By(e), DurationRule::Keep);
    assert_eq!(invalid(by(column("v"))), "column \"v\" not found; columns: start");
    assert_eq!(invalid(by(column("end"))), "column \"end\" not found; columns: start");
    let snap = |offset| StartRule::Snap { hop: 10, offset, closed: Closed::Left };
    let grid = |offset| ticks().alter_lifetime(snap(offset), DurationRule::Keep).unwrap();
    assert_eq!(altered(&grid(-3)).start, altered(&grid(17)).start, "equal grids");
    assert_eq!(invalid(by(lit(1.5))), "alter_lifetime: 1.5 is float64; a rule gives ticks (int64)");
    let rules = |start, duration| invalid(ticks().alter_lifetime(start, duration));
    assert_eq!(
        rules(StartRule::Keep, DurationRule::Constant(0)),
        "alter_lifetime: the duration is 0; give a positive one"
    );
    let snap = StartRule::Snap { hop: -1, offset: 0, closed: Closed::Left };
    assert_eq!(rules(snap, DurationRule::Keep), "alter_lifetime: the grid's hop is -1; give a positive one");
}

#[test]
fn lifetimes_that_keep_their_length_but_snap() {
    let snap = || StartRule::Snap { hop: 10, offset: 3, closed: Closed::Right };
    let of = |s: Stream| s.alter_lifetime(snap(), DurationRule::Keep).unwrap().properties().lifetimes;
    assert_eq!(of(ticks()), Lifetimes::Points);
    assert_eq!(
        of(ticks().sliding(5, Closed::Right).unwrap()),
        Lifetimes::Hop { size: 5, hop: 10, offset: 3 }
    );
    assert_eq!(of(stays(true)), Lifetimes::Intervals);
    assert_eq!(of(stays(false)), Lifetimes::Any);
}

#[test]
fn sessions_are_per_key() {
    let stream = clicks()
        .rekey(vec![column("user")])
        .unwrap()
        .session("30m", Some(SessionCap::OnGrid("2h".into())))
        .unwrap();
    let Some(Node::Session(session)) = node(stream.plan()) else { panic!("no session") };
    assert_eq!(*session.key, [column("user")]);
    assert_eq!((session.timeout, session.cap), (30 * MINUTE, Some(SessionCap::OnGrid(120 * MINUTE))));
    assert_eq!(stream.properties().lifetimes, Lifetimes::Any);
    assert_eq!(stream.properties().key, ["user"]);
    assert_eq!(
        invalid(clicks().session("30m", Some(SessionCap::After("-1h".into())))),
        "session: max_duration: \"-1h\" is negative; give a positive duration"
    );
}

#[test]
fn clips() {
    let stream = ticks().clip_constant(5).unwrap();
    assert_eq!(stream.properties().lifetimes, Lifetimes::Any);
    assert!(
        matches!(node(stream.plan()), Some(Node::ChangeLifetimes(n)) if n.change == LifetimeChange::Clip(5))
    );

    let on = vec![(column("k"), column("guest"))];
    let stream = ticks().clip(&stays(true), on.clone()).unwrap();
    assert_eq!(names(&stream), "t k v", "the left columns come out");
    let Some(Node::Clip(clip)) = node(stream.plan()) else { panic!("no clip") };
    assert_eq!(*clip.on, on);

    let all = ticks().clip(&stays(true), vec![]).unwrap();
    assert!(matches!(node(all.plan()), Some(Node::Clip(n)) if n.on.is_empty()));
}

#[test]
fn clip_by_a_computed_key_gives_the_left_columns_only() {
    let stream = ticks().clip(&stays(true), vec![(column("k") % lit(3), column("guest"))]).unwrap();
    assert_eq!(names(&stream), "t k v");
    assert_eq!(stream.properties().time, Some(DataType::Int64));
}

#[test]
fn chops() {
    let hops = ticks().hopping(10, 5, 2, Closed::Left).unwrap();
    let chopped = hops.chop(5, 7).unwrap();
    assert!(
        matches!(node(chopped.plan()), Some(Node::ChangeLifetimes(n)) if n.beats() == Some(&Grid::Ticks { hop: 5, offset: 2 }))
    );
    assert_eq!(chopped.properties().lifetimes, Lifetimes::Hop { size: 5, hop: 5, offset: 2 });
    assert_eq!(hops.chop(5, 0).unwrap().properties().lifetimes, Lifetimes::Intervals, "other beats");
    let lifetimes = |size, period| {
        let hops = ticks().hopping(size, 6, 0, Closed::Left).unwrap();
        hops.chop(period, 0).unwrap().properties().lifetimes
    };
    assert_eq!(lifetimes(9, 6), Lifetimes::Intervals, "the last piece is shorter");
    assert_eq!(lifetimes(12, 3), Lifetimes::Hop { size: 3, hop: 3, offset: 0 });
    assert_eq!(lifetimes(9, 3), Lifetimes::Hop { size: 3, hop: 3, offset: 0 });
    assert_eq!(lifetimes(12, 4), Lifetimes::Intervals, "hops are no multiple of the period");
    assert_eq!(ticks().chop(5, 0).unwrap().properties().lifetimes, Lifetimes::Points);
    assert_eq!(ticks().clip_constant(9).unwrap().chop(5, 0).unwrap().properties().lifetimes, Lifetimes::Any);
    assert_eq!(invalid(ticks().chop(0, 0)), "chop: period: 0 is no duration; give a positive one");
}

#[test]
fn points_at_end() {
    assert_eq!(stays(false).point_at_end().unwrap().properties().lifetimes, Lifetimes::Points);
}

#[test]
fn with_start_adds_a_column_of_the_time_type() {
    let stream = clicks().hopping("5m", "1m", 0, Closed::Left).unwrap().with_start("window_end").unwrap();
    assert!(columns(&stream).ends_with(", window_end: timestamp(us)"));
    assert!(matches!(stream.properties().lifetimes, Lifetimes::Hop { .. }));
    assert_eq!(
        invalid(clicks().with_start("time")),
        "with_start: there is a column \"time\" already; choose another name"
    );
}

#[test]
fn time_is_needed() {
    let t = click_table();
    let needs = |verb: &str| {
        format!(
            "{verb} needs a stream with time, this is a relation without: name its time column when you \
            read it, time=\"…\""
        )
    };
    assert_eq!(invalid(t.hopping("5m", "1m", 0, Closed::Left)), needs("hopping"));
    assert_eq!(invalid(t.tumbling("5m", 0, Closed::Left)), needs("tumbling"));
    assert_eq!(invalid(t.sliding("5m", Closed::Left)), needs("sliding"));
    assert_eq!(invalid(t.session("5m", None)), needs("session"));
    assert_eq!(invalid(t.shift("5m")), needs("shift"));
    assert_eq!(invalid(t.alter_duration(None)), needs("alter_duration"));
    assert_eq!(invalid(t.alter_lifetime(StartRule::Keep, DurationRule::Keep)), needs("alter_lifetime"));
    assert_eq!(invalid(t.chop("5m", 0)), needs("chop"));
    assert_eq!(invalid(t.clip_constant("5m")), needs("clip"));
    assert_eq!(invalid(t.clip(&clicks(), vec![])), needs("clip"));
    assert_eq!(invalid(clicks().clip(&t, vec![])), needs("clip: the other stream"));
    assert_eq!(invalid(t.point_at_end()), needs("point_at_end"));
    assert_eq!(invalid(t.with_start("s")), needs("with_start"));
}
