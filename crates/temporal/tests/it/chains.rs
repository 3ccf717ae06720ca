//! Operators wired together at random, a stream often feeding both sides of one.

use crate::calls::Call;
use crate::equal::{cases, grids, keys, rules, session_caps};
use crate::formula::Formula;
use crate::generate::{FLOAT, KEY, Kinds, NUMBER, TEXT, conditions, dice, streams, streams_near_zero};
use crate::pattern::any_detection;
use crate::plan::{Pair, Plan, Step, Variant, check};
use proptest::prelude::*;
use whimbrel_temporal::operators::{AggregateFunction as F, Fraction};

fn columns(columns: [usize; 4]) -> Step {
    Step::Select(columns.map(Formula::column).to_vec())
}

/// Steps that give the generated columns again.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let alter = |(start, duration)| vec![Step::Alter(start, duration)];
    let session_step = |((key, _), timeout, cap)| vec![Step::Session(key, timeout, cap)];
    let session = (keys(), 1..12i64, prop::option::of(session_caps(5..30)));
    prop_oneof![
        1 => conditions().prop_map(|c| vec![Step::Where(c)]),
        1 => Just(vec![columns([NUMBER, KEY, TEXT, FLOAT])]),
        1 => Just(vec![Step::WithStart, columns([KEY, 4, TEXT, FLOAT])]),
        2 => rules().prop_map(alter),
        1 => session.prop_map(session_step),
        1 => (1..15i64).prop_map(|limit| vec![Step::ClipConstant(limit)]),
        1 => (1..15i64).prop_map(|period| vec![Step::ClipConstant(20), Step::Chop(period, 0)]),
        1 => Just(vec![Step::PointAtEnd]),
        1 => (-15..15i64).prop_map(|by| vec![Step::Extend(by)]),
        1 => Just(vec![Step::Stitch]),
        1 => (grids(), 1..15i64).prop_map(|((period, offset), size)| {
            vec![Step::Quantize((size, period, offset), None)]
        }),
        1 => Just(vec![Step::Distinct(Variant::Any)]),
        2 => aggregates(variants()),
        1 => any_detection().prop_map(|detection| vec![Step::Detect(detection)]),
    ]
}

fn variants() -> impl Strategy<Value = Variant> {
    prop_oneof![
        3 => Just(Variant::Any),
        1 => Just(Variant::Tumbling(6)),
        1 => Just(Variant::Sliding(5)),
    ]
}

fn aggregates(variants: impl Strategy<Value = Variant>) -> impl Strategy<Value = Vec<Step>> {
    let call = |function, column| Call { function, argument: Some(Formula::column(column)), filter: None };
    let median = F::Percentile { fraction: Fraction::HALF, continuous: false };
    let by_float = Call { function: F::MaxBy, argument: Some(Formula::pair(FLOAT, TEXT)), filter: None };
    let calls = prop_oneof![
        Just(vec![call(F::Sum, NUMBER), call(F::Min, TEXT), call(F::Average, FLOAT)]),
        Just(vec![call(F::Count, TEXT), call(F::Max, TEXT), call(F::Sum, FLOAT)]),
        Just(vec![call(F::CountDistinct, NUMBER), call(F::Max, TEXT), call(F::Min, FLOAT)]),
        Just(vec![call(F::Single, NUMBER), by_float, call(median, FLOAT)]),
    ];
    (calls, variants).prop_map(|(calls, variant)| {
        vec![Step::Aggregate { key: vec![KEY], calls, variant }, columns([0, 1, 2, 3])]
    })
}

/// Two-input operators, and the columns of theirs that are the generated ones.
fn pairs() -> impl Strategy<Value = (Pair, Option<Step>)> {
    prop_oneof![
        Just((Pair::Union, None)),
        keys().prop_map(|(l, r)| (Pair::Join(l, r), Some(columns([0, 5, 2, 7])))),
        (any::<bool>(), keys()).prop_map(|(negate, keys)| (Pair::Exists { negate, keys }, None)),
        keys().prop_map(|(l, r)| (Pair::Clip(l, r), None)),
    ]
}

fn plans() -> impl Strategy<Value = Plan> {
    let input = (0..2usize).prop_map(Plan::Input);
    input.prop_recursive(3, 5, 2, |inner| {
        let unary =
            (steps(), inner.clone()).prop_map(|(steps, plan)| steps.into_iter().fold(plan, Plan::then));
        let binary = (pairs(), inner.clone(), inner).prop_map(|((pair, columns), left, right)| {
            columns.into_iter().fold(left.with(pair, right), Plan::then)
        });
        prop_oneof![3 => unary, 2 => binary]
    })
}

proptest! {
    #![proptest_config(cases(1500))]

    /// Without huge floats: a third of one, which an average gives, is inexact, and a sum of such leaves a
    /// residue.
    #[test]
    fn combinations(
        left in streams_near_zero(Kinds::Any, 16), right in streams_near_zero(Kinds::Any, 16),
        plan in plans(), dice in dice(),
    ) {
        check(&plan, &[left.without_huge_floats(), right.without_huge_floats()], &dice);
    }

    /// A condition on what an aggregate gives.
    #[test]
    fn conditions_on_results(
        stream in streams_near_zero(Kinds::Any, 16), aggregates in aggregates(variants()),
        condition in conditions(), dice in dice(),
    ) {
        let steps = aggregates.into_iter().chain([Step::Where(condition)]);
        check(&steps.fold(Plan::Input(0), Plan::then), &[stream.without_huge_floats()], &dice);
    }

    /// Relations without a beginning beside streams.
    #[test]
    fn what_was_always_there(
        left in streams(Kinds::Any, 20), right in streams(Kinds::Any, 20), pair in pairs(), both: bool,
        aggregates in prop::option::of(aggregates(Just(Variant::Any))), dice in dice(),
    ) {
        let (pair, columns) = pair;
        let left = if both { left.always_there() } else { left };
        let plan = Plan::Input(0).with(pair, Plan::Input(1));
        let steps = columns.into_iter().chain(aggregates.into_iter().flatten());
        check(&steps.fold(plan, Plan::then), &[left, right.always_there()], &dice);
    }

    /// One stream feeds both sides, one of them after a step.
    #[test]
    fn diamonds(
        stream in streams(Kinds::Any, 20), steps in steps(), pair in pairs(), swap: bool, dice in dice(),
    ) {
        let (pair, columns) = pair;
        let side = steps.into_iter().fold(Plan::Input(0), Plan::then);
        let both = match swap {
            true => side.with(pair, Plan::Input(0)),
            false => Plan::Input(0).with(pair, side),
        };
        let plan = columns.into_iter().fold(both, Plan::then);
        check(&plan, &[stream], &dice);
    }
}
