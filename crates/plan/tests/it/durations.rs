//! Durations good and bad.

use crate::support::{invalid, micros};
use arrow::datatypes::{DataType, TimeUnit};
use whimbrel_plan::Duration;
use whimbrel_plan::duration::show_ticks;

fn seconds() -> DataType {
    DataType::Timestamp(TimeUnit::Second, None)
}

fn in_micros(text: &str) -> i64 {
    Duration::from(text).ticks(&micros(), "size").unwrap()
}

#[test]
fn text_with_every_unit() {
    assert_eq!(in_micros("5m"), 300_000_000);
    assert_eq!(in_micros("1h30m"), 5_400_000_000);
    assert_eq!(in_micros("1h 30m"), 5_400_000_000);
    assert_eq!(in_micros("1w"), 7 * 86_400_000_000);
    assert_eq!(in_micros("1d"), 86_400_000_000);
    assert_eq!(in_micros("2s3ms4us"), 2_003_004);
    assert_eq!(in_micros("7µs"), 7);
    assert_eq!(in_micros("5000ns"), 5);
    assert_eq!(in_micros("-2s"), -2_000_000);
    assert_eq!(in_micros("0s"), 0);
}

#[test]
fn nanoseconds_and_ticks() {
    assert_eq!(Duration::Nanos(1_500_000_000).ticks(&micros(), "size").unwrap(), 1_500_000);
    assert_eq!(Duration::Ticks(10).ticks(&DataType::Int64, "size").unwrap(), 10);
    assert_eq!(Duration::Ticks(0).ticks(&micros(), "offset").unwrap(), 0);
    let zoned = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    assert_eq!(Duration::from("1us").ticks(&zoned, "size").unwrap(), 1000);
}

#[test]
fn what_is_not_a_whole_number_of_ticks() {
    assert_eq!(
        invalid(Duration::from("500ms").ticks(&seconds(), "hopping: hop")),
        "hopping: hop: \"500ms\" is not a whole number of ticks: this stream's time is timestamp(s), one \
        tick is 1s"
    );
    assert_eq!(
        invalid(Duration::Nanos(1500).ticks(&micros(), "size")),
        "size: 1us500ns is not a whole number of ticks: this stream's time is timestamp(us), one tick is 1us"
    );
}

#[test]
fn the_wrong_kind_for_the_stream() {
    assert_eq!(
        invalid(Duration::from("5m").ticks(&DataType::Int64, "size")),
        "size: \"5m\" has a unit, but this stream's time is a logical clock (int64): pass an integer"
    );
    assert_eq!(
        invalid(Duration::Ticks(5).ticks(&micros(), "size")),
        "size: 5 has no unit; this stream's time is timestamp(us): pass a duration such as \"5m\""
    );
}

#[test]
fn what_is_no_duration() {
    let why = |text: &str| {
        let message = invalid(Duration::from(text).ticks(&micros(), "size"));
        let (_, rest) = message.split_once("is not a duration: ").unwrap();
        rest.split_once("; write").unwrap().0.to_string()
    };
    assert_eq!(why(""), "it is empty");
    assert_eq!(why("-"), "it is empty");
    assert_eq!(why("5"), "5 has no unit");
    assert_eq!(why("m"), "a whole number is missing before \"m\"");
    assert_eq!(why("5 minutes"), "5 has no unit");
    assert_eq!(why("5minutes"), "\"minutes\" is not a unit");
    assert_eq!(why("1.5h"), "1.5h is not a whole number; use a smaller unit");
    assert_eq!(why("1M"), "\"M\" is not a unit, a month is \"mo\"");
    assert_eq!(why("99999999999999999999999999999999999999999s"), "the number is too large");
    assert_eq!(why("99999999999999999999999999999999999999w"), "the number is too large");
}

#[test]
fn months_are_no_number_of_ticks() {
    let ticks = |duration: Duration| invalid(duration.ticks(&micros(), "session: timeout"));
    let interval = Duration::Interval { months: 14, days: 1, nanos: 0 };
    for (months, shown) in [("2mo".into(), "\"2mo\""), ("1y2d".into(), "\"1y2d\""), (interval, "14mo1d")] {
        let message = ticks(months);
        assert!(message.starts_with(&format!("session: timeout: {shown} has months or years")), "{message}");
    }
    assert_eq!(in_micros("1w1h"), 169 * 3_600_000_000);
}

#[test]
fn zero_negative_and_endless() {
    let positive = |d: Duration| d.positive_ticks(&micros(), "hop");
    assert_eq!(invalid(positive(Duration::Ticks(0))), "hop: 0 is no duration; give a positive one");
    assert_eq!(invalid(positive("0m".into())), "hop: \"0m\" is no duration; give a positive one");
    assert_eq!(invalid(positive("-5m".into())), "hop: \"-5m\" is negative; give a positive duration");
    assert_eq!(
        invalid(positive("99999999999999d".into())),
        "hop: \"99999999999999d\" is too long: it does not fit in 64 bits of ticks"
    );
    assert_eq!(
        invalid(Duration::Ticks(i64::MAX).positive_ticks(&DataType::Int64, "hop")),
        "hop: 9223372036854775807 is too long: it does not fit in 64 bits of ticks"
    );
}

#[test]
fn ticks_read_like_durations() {
    assert_eq!(show_ticks(5_400_000_000, &micros()), "1h30m");
    assert_eq!(show_ticks(604_800, &seconds()), "7d");
    assert_eq!(show_ticks(-1, &micros()), "-1us");
    assert_eq!(show_ticks(0, &micros()), "0s");
    assert_eq!(show_ticks(42, &DataType::Int64), "42");
    assert_eq!(show_ticks(i64::MIN, &seconds()), "-106751991167300d15h30m8s");
}
