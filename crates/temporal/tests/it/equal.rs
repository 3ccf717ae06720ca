//! Every operator but the aggregate, by itself, against the oracle.

use crate::formula::Formula;
use crate::generate::{
    Dice, Draft, FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, conditions, dice, payload, streams,
};
use crate::model::{Event, Value};
use crate::plan::{Pair, Plan, Step, check};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::Operator as Op;
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{SessionCap, TableSide};
use whimbrel_temporal::{Closed, DurationRule, StartRule};

/// So many cases; PROPTEST_CASES=2560 runs ten times as many.
pub fn cases(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = (cases as u64 * default.cases as u64 / 256).max(1) as u32;
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4000, ..default }
}

pub fn unary(step: Step, stream: Stream, dice: &Dice) {
    check(&Plan::of(step), &[stream], dice);
}

fn binary(pair: Pair, left: Stream, right: Stream, dice: &Dice) {
    check(&Plan::Input(0).with(pair, Plan::Input(1)), &[left, right], dice);
}

/// Caps of so many ticks.
pub fn session_caps(ticks: std::ops::Range<i64>) -> impl Strategy<Value = SessionCap> {
    prop_oneof![ticks.clone().prop_map(SessionCap::After), ticks.prop_map(SessionCap::OnGrid)]
}

pub fn closed() -> impl Strategy<Value = Closed> {
    prop_oneof![Just(Closed::Left), Just(Closed::Right)]
}

/// Rules by which an end edge says nothing, or moves as its start edge does.
fn rules_for_edges() -> impl Strategy<Value = (StartRule<Formula>, DurationRule<Formula>)> {
    let start = || Formula::column(0);
    let starts = prop_oneof![
        Just(StartRule::Keep),
        (-9..9i64).prop_map(StartRule::Shift),
        (1..9i64, -3..3i64, closed()).prop_map(|(hop, offset, closed)| StartRule::Snap {
            hop,
            offset,
            closed
        }),
        Just(StartRule::By(start().binary(Op::Multiply, Formula::Int(2)))),
    ];
    let durations = prop_oneof![
        (1..15i64).prop_map(DurationRule::Constant),
        Just(DurationRule::Infinite),
        Just(DurationRule::ByStart(
            start().binary(Op::Modulo, Formula::Int(3)).binary(Op::Plus, Formula::Int(4))
        )),
    ];
    let end_less_start = || Formula::column(1).binary(Op::Minus, start());
    prop_oneof![
        4 => (starts, durations),
        1 => (-9..9i64).prop_map(|by| (StartRule::Shift(by), DurationRule::Keep)),
        1 => Just((StartRule::Shift(7), DurationRule::ByLifetime(end_less_start()))),
    ]
}

/// Rules by which the order of ends may change, and rows be over before they were to end, or vanish.
fn rules_for_ends() -> impl Strategy<Value = (StartRule<Formula>, DurationRule<Formula>)> {
    let start = || Formula::column(0);
    let starts = prop_oneof![
        Just(StartRule::Keep),
        (1..9i64, closed()).prop_map(|(hop, closed)| StartRule::Snap { hop, offset: 0, closed }),
        Just(StartRule::By(start().binary(Op::Multiply, Formula::Int(3)))),
    ];
    let length = Formula::column(1).binary(Op::Minus, start());
    let shorter = move |by| DurationRule::ByLifetime(length.clone().binary(Op::Minus, Formula::Int(by)));
    let durations = prop_oneof![Just(DurationRule::Keep), (0..9i64).prop_map(shorter)];
    (starts, durations)
}

pub fn rules() -> impl Strategy<Value = (StartRule<Formula>, DurationRule<Formula>)> {
    prop_oneof![rules_for_edges(), rules_for_ends()]
}

pub fn keys() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    let one = |c: usize| (vec![c], vec![c]);
    prop_oneof![
        4 => Just(one(KEY)),
        1 => Just((vec![KEY], vec![NUMBER])),
        1 => Just(one(TEXT)),
        1 => Just((vec![KEY, TEXT], vec![KEY, TEXT])),
        1 => Just(one(FLOAT)),
        1 => Just((vec![], vec![])),
    ]
}

/// Period and offset.
pub fn grids() -> impl Strategy<Value = (i64, i64)> {
    (1..12i64, -20..20i64)
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn where_keeps_what_satisfies(
        stream in streams(Kinds::Any, 40), condition in conditions(), dice in dice(),
    ) {
        unary(Step::Where(condition), stream, &dice);
    }

    #[test]
    fn select_computes_rows(stream in streams(Kinds::Any, 40), dice in dice()) {
        let sum = Formula::column(NUMBER).binary(Op::Plus, Formula::column(KEY));
        let product = Formula::column(FLOAT).binary(Op::Multiply, Formula::Float(1.5));
        let formulas = vec![Formula::column(NUMBER), sum, Formula::column(TEXT), product];
        unary(Step::Select(formulas), stream, &dice);
    }

    #[test]
    fn select_moves_columns(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::Select([NUMBER, KEY, TEXT, FLOAT].map(Formula::column).to_vec()), stream, &dice);
    }

    /// What a filter has taken out is not computed with: 12 / 0 would fail.
    #[test]
    fn select_does_not_see_what_where_took_out(stream in streams(Kinds::Any, 40), dice in dice()) {
        let not_zero = Formula::column(NUMBER).binary(Op::NotEq, Formula::Int(0));
        let quotient = Formula::Int(12).binary(Op::Divide, Formula::column(NUMBER));
        let formulas = vec![Formula::column(KEY), quotient, Formula::column(TEXT), Formula::column(FLOAT)];
        check(&Plan::of(Step::Where(not_zero)).then(Step::Select(formulas)), &[stream], &dice);
    }

    #[test]
    fn with_start_adds_the_start(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::WithStart, stream, &dice);
    }

    #[test]
    fn unnest_unfolds(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::Unnest(1), with_lists(stream), &dice);
    }

    #[test]
    fn alter_lifetime_of_anything(stream in streams(Kinds::Any, 40), rules in rules(), dice in dice()) {
        unary(Step::Alter(rules.0, rules.1), stream, &dice);
    }

    #[test]
    fn alter_lifetime_of_points(stream in streams(Kinds::Points, 40), rules in rules(), dice in dice()) {
        unary(Step::Alter(rules.0, rules.1), stream, &dice);
    }

    #[test]
    fn alter_lifetime_of_intervals(stream in streams(Kinds::Intervals, 40), rules in rules(), dice in dice()) {
        unary(Step::Alter(rules.0, rules.1), stream, &dice);
    }

    #[test]
    fn alter_lifetime_of_whole_lifetimes(stream in streams(Kinds::Any, 40), rules in rules(), dice in dice()) {
        check(&Plan::of(Step::Coalesce).then(Step::Alter(rules.0, rules.1)), &[stream], &dice);
    }

    /// One relation as edges, and as intervals: what comes out is the same.
    #[test]
    fn alter_lifetime_does_not_look_at_how_rows_come(
        stream in streams(Kinds::Any, 40), rules in rules(), dice in dice(),
    ) {
        let told = |edges| {
            let draft = |event: &Event| Draft { event: event.clone(), edges, early: edges };
            Stream::new(stream.schema.clone(), stream.events.iter().map(draft).collect())
        };
        unary(Step::Alter(rules.0.clone(), rules.1.clone()), told(true), &dice);
        unary(Step::Alter(rules.0, rules.1), told(false), &dice);
    }

    #[test]
    fn session_ends_together(
        stream in streams(Kinds::Any, 40), keys in keys(), timeout in 1..12i64,
        cap in prop::option::of(session_caps(1..30)),
        dice in dice(),
    ) {
        unary(Step::SessionWindows(keys.0.clone(), timeout, cap), stream.clone(), &dice);
        unary(Step::Session(keys.0, timeout, cap), stream, &dice);
    }

    #[test]
    fn clip_constant_cuts(stream in streams(Kinds::Any, 40), limit in 1..15i64, dice in dice()) {
        unary(Step::ClipConstant(limit), stream, &dice);
    }

    #[test]
    fn chop_changes_no_relation(
        stream in streams(Kinds::Any, 40), period in 1..15i64, offset in 0..15i64, dice in dice(),
    ) {
        unary(Step::Chop(period, offset % period), stream, &dice);
    }

    #[test]
    fn chop_lets_rows_start_at_beats(
        stream in streams(Kinds::Any, 40), period in 1..15i64, offset in 0..15i64, dice in dice(),
    ) {
        let pieces = Plan::of(Step::ClipConstant(20)).then(Step::Coalesce);
        let pieces = pieces.then(Step::Chop(period, offset % period)).then(Step::WithStart);
        check(&pieces, &[stream], &dice);
    }

    #[test]
    fn point_at_end_is_where_it_ends(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::PointAtEnd, stream, &dice);
    }

    #[test]
    fn coalesce_by_start(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::Coalesce, stream, &dice);
    }

    #[test]
    fn or_else_is_there_where_nothing_is(stream in streams(Kinds::Any, 12), row in payload(), dice in dice()) {
        unary(Step::OrElse(row), stream, &dice);
    }

    #[test]
    fn top_k_of_every_snapshot(
        stream in streams(Kinds::Any, 40), column in KEY..=FLOAT, descending: bool, skip in 0..3usize,
        fetch in 0..6usize, dice in dice(),
    ) {
        unary(Step::TopK { column, descending, skip, fetch }, stream, &dice);
    }

    #[test]
    fn groups_are_recomputed(
        stream in streams(Kinds::Any, 30), keys in keys(), column in KEY..=FLOAT, dice in dice(),
    ) {
        unary(Step::Numbered { key: keys.0, column, is_tiled: false }, stream, &dice);
    }

    #[test]
    fn groups_of_windows_are_computed_once(
        stream in streams(Kinds::Points, 40), size in 1..12i64, offset in 0..12i64, keys in keys(),
        column in KEY..=FLOAT, dice in dice(),
    ) {
        let windows = StartRule::Snap { hop: size, offset: offset % size, closed: Closed::Left };
        let windows = Plan::of(Step::Alter(windows, DurationRule::Constant(size)));
        check(&windows.then(Step::Numbered { key: keys.0, column, is_tiled: true }), &[stream], &dice);
    }

    #[test]
    fn changes_are_told_once(stream in streams(Kinds::Any, 40), dice in dice()) {
        unary(Step::Changes, stream, &dice);
    }

    #[test]
    fn union_is_both(left in streams(Kinds::Any, 30), right in streams(Kinds::Any, 30), dice in dice()) {
        binary(Pair::Union, left, right, &dice);
    }

    #[test]
    fn clip_by_the_next_of_its_key(
        left in streams(Kinds::Any, 30), right in streams(Kinds::Any, 30), keys in keys(), dice in dice(),
    ) {
        binary(Pair::Clip(keys.0, keys.1), left, right, &dice);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn join_while_both_are_alive(
        left in streams(Kinds::Any, 24), right in streams(Kinds::Any, 24), keys in keys(), dice in dice(),
    ) {
        binary(Pair::Join(keys.0, keys.1), left, right, &dice);
    }

    #[test]
    fn join_of_intervals(
        left in streams(Kinds::Intervals, 24), right in streams(Kinds::Points, 24), keys in keys(),
        dice in dice(),
    ) {
        binary(Pair::Join(keys.0, keys.1), left, right, &dice);
    }

    #[test]
    fn exists_and_not(
        left in streams(Kinds::Any, 30), right in streams(Kinds::Any, 30), keys in keys(), negate: bool,
        dice in dice(),
    ) {
        binary(Pair::Exists { negate, keys }, left, right, &dice);
    }

    #[test]
    fn joins_where_nulls_are_equal(
        left in streams(Kinds::Any, 24), right in streams(Kinds::Any, 24), keys in keys(), negate: bool,
        dice in dice(),
    ) {
        binary(Pair::JoinNulls(keys.0.clone(), keys.1.clone()), left.clone(), right.clone(), &dice);
        binary(Pair::ExistsNulls { negate, keys }, left, right, &dice);
    }

    #[test]
    fn lookups_in_a_table_at_rest(
        stream in streams(Kinds::Any, 24), table in streams(Kinds::Any, 24), keys in keys(), negate: bool,
        nulls_equal: bool, dice in dice(),
    ) {
        let table = table.at_rest();
        let lookup = |keys, table| Pair::Lookup { keys, table, nulls_equal };
        binary(lookup(keys.clone(), TableSide::Right), stream.clone(), table.clone(), &dice);
        let other = (keys.1.clone(), keys.0.clone());
        binary(lookup(other, TableSide::Left), table.clone(), stream.clone(), &dice);
        binary(Pair::LookupExists { negate, keys, nulls_equal }, stream, table, &dice);
    }

    #[test]
    fn exists_and_not_of_intervals(
        left in streams(Kinds::Intervals, 30), right in streams(Kinds::Intervals, 30), keys in keys(),
        negate: bool,
        dice in dice(),
    ) {
        binary(Pair::Exists { negate, keys }, left, right, &dice);
    }
}

/// The same stream, with a list of up to three numbers in place of the number.
pub fn with_lists(mut stream: Stream) -> Stream {
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    let mut fields = stream.schema.fields().to_vec();
    fields[NUMBER] = Arc::new(Field::new("numbers", DataType::List(item), true));
    stream.schema = Arc::new(Schema::new(fields));
    let list = |Event { row, .. }: &mut Event| match row[NUMBER] {
        Value::Int(n) => {
            let elements = (0..n.rem_euclid(4)).map(|i| if i == 2 { Value::Null } else { Value::Int(n + i) });
            row[NUMBER] = Value::List(elements.collect());
        }
        _ => row[NUMBER] = Value::Null,
    };
    stream.events.iter_mut().for_each(list);
    stream
}
