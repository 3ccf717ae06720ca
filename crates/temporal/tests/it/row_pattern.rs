//! Row patterns against the oracle, and directed cases of preference, of skipping and of when matches come
//! out.

use crate::detection::{Asked, Part, Pattern};
use crate::equal::{cases, unary};
use crate::formula::Formula;
use crate::generate::{FLOAT, KEY, Kinds, NUMBER, TEXT, dice, streams};
use crate::pattern::{
    Memory, Told, appending, binary, column, columns, is_text, literal, of_event, parts, patterns, run,
    texts, told,
};
use crate::plan::Step;
use crate::recognition::{PREVIOUS, Recognition};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as Op;
use proptest::prelude::*;
use whimbrel_temporal::operators::{
    AfterMatch, Element, MatchRecognize, Previous, Regex, RegisterField, RowPattern, Simultaneous,
};
use whimbrel_temporal::{INFINITY, Message, Operator, Other};

/// A pattern that asks for one row at least.
fn rows(memory: Memory) -> impl Strategy<Value = Pattern> {
    (patterns(memory, false), parts(memory, false)).prop_map(|(pattern, part)| {
        match pattern.matches_empty() {
            true => Pattern::Concat(vec![pattern, part]),
            false => pattern,
        }
    })
}

fn recognitions(memory: Memory) -> impl Strategy<Value = Recognition> {
    let keys = prop_oneof![4 => Just(vec![KEY]), 1 => Just(vec![]), 1 => Just(vec![TEXT, FLOAT])];
    let within = prop_oneof![1 => Just(None), 3 => (1..30i64).prop_map(Some)];
    let after = prop_oneof![2 => Just(AfterMatch::PastLastRow), 1 => Just(AfterMatch::ToNextRow)];
    (rows(memory), keys, within, after, any::<bool>()).prop_map(
        |(pattern, key, within, after_match, match_number)| Recognition {
            pattern,
            key,
            previous: vec![],
            within,
            after_match,
            match_number,
        },
    )
}

/// A row of variable 0 that is not the first, in the middle of a pattern.
fn with_variable(before: Pattern, asked: Option<Formula>, after: Pattern) -> Pattern {
    let part = Part { condition: asked.map(Asked::Event), update: vec![], variable: 0 };
    let middle = Pattern::Repeat { of: Box::new(Pattern::One(part)), least: 1, most: Some(3), greedy: true };
    Pattern::Concat(vec![before, middle, after])
}

/// A part that compares a row with an earlier one.
fn compared(op: Op, earlier: usize) -> Pattern {
    let formula = Formula::column(NUMBER).binary(op, Formula::column(PREVIOUS + earlier));
    Pattern::One(Part { condition: Some(Asked::Event(formula)), update: vec![], variable: 1 })
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn preferred_matches(
        stream in streams(Kinds::Any, 30), recognition in recognitions(Memory::Noted), dice in dice(),
    ) {
        unary(Step::Recognize(recognition), stream.without_huge_floats(), &dice);
    }

    #[test]
    fn preferred_matches_that_ask_for_what_they_noted(
        stream in streams(Kinds::Any, 30), recognition in recognitions(Memory::Asked), dice in dice(),
    ) {
        unary(Step::Recognize(recognition), stream.without_huge_floats(), &dice);
    }

    #[test]
    fn matches_after_rows_of_a_variable(
        stream in streams(Kinds::Any, 30), recognition in recognitions(Memory::Noted), after in rows(Memory::Noted),
        asked in prop::option::of(of_event()), last: bool, dice in dice(),
    ) {
        let pattern = with_variable(recognition.pattern, asked, after);
        let after_match = if last { AfterMatch::ToLast(0) } else { AfterMatch::ToFirst(0) };
        let recognition = Recognition { pattern, after_match, ..recognition };
        unary(Step::Recognize(recognition), stream.without_huge_floats(), &dice);
    }

    #[test]
    fn rows_that_look_back(
        stream in streams(Kinds::Any, 30), recognition in recognitions(Memory::Asked), first in 0..2usize,
        less: bool, dice in dice(),
    ) {
        let previous = vec![Previous { column: NUMBER, rows: 2 }, Previous { column: NUMBER, rows: 1 }];
        let op = if less { Op::Lt } else { Op::GtEq };
        let steps = Pattern::Repeat { of: Box::new(compared(op, first)), least: 1, most: None, greedy: true };
        let pattern = Pattern::Concat(vec![steps, recognition.pattern]);
        let recognition = Recognition { pattern, previous, ..recognition };
        unary(Step::Recognize(recognition), stream.without_huge_floats(), &dice);
    }
}

fn pattern(regex: Regex, after_match: AfterMatch, within: Option<i64>) -> RowPattern {
    RowPattern {
        automaton: regex.automaton(texts()).unwrap(),
        key: vec![],
        previous: vec![],
        within,
        after_match,
        match_number: None,
        simultaneous: Simultaneous::Ordered,
    }
}

fn recognize(pattern: RowPattern) -> MatchRecognize {
    MatchRecognize::try_new(pattern, &columns()).unwrap()
}

/// Events at 0, 1, 2 and so on, with these letters.
fn letters(letters: &'static str) -> Message {
    let letter = |i: usize| (i as i64, &letters[i..i + 1], i as i64);
    let events: Vec<Told> = (0..letters.len()).map(letter).collect();
    told(&events, Other::Open)
}

fn all(regex: Regex, after_match: AfterMatch, events: &'static str) -> Vec<String> {
    let mut operator = recognize(pattern(regex, after_match, None));
    let mut out = run(&mut operator, vec![letters(events), Message::Punctuation(INFINITY)]);
    assert_eq!(out.pop().as_deref(), Some("end"));
    out
}

#[test]
fn greedy_and_reluctant_repetitions() {
    let a = || appending("A");
    let past = AfterMatch::PastLastRow;
    assert_eq!(all(a().plus(), past, "AAABA"), ["[2, 3) [Text(\"AAA\")]", "[4, 5) [Text(\"A\")]"]);
    let one_by_one = ["[0, 1) [Text(\"A\")]", "[1, 2) [Text(\"A\")]"];
    assert_eq!(all(a().plus().reluctant(), past, "AA"), one_by_one);
    assert_eq!(all(a().repeat(1, Some(2)), past, "AAA"), ["[1, 2) [Text(\"AA\")]", "[2, 3) [Text(\"A\")]"]);
    let any = || Regex::event(Element::any());
    let up_to_b = |any: Regex| a().then(any).then(appending("B"));
    assert_eq!(all(up_to_b(any().star()), past, "AABAB"), ["[4, 5) [Text(\"AB\")]"]);
    let shorter = all(up_to_b(any().star().reluctant()), past, "AABAB");
    assert_eq!(shorter, ["[2, 3) [Text(\"AB\")]", "[4, 5) [Text(\"AB\")]"]);
}

/// An iteration that consumes nothing does not count, but what it would consume is still preferred in order.
#[test]
fn repetitions_of_what_may_match_nothing() {
    let a = appending("A").star().reluctant().star().then(Regex::event(Element::any()));
    assert_eq!(all(a, AfterMatch::PastLastRow, "AAA"), ["[2, 3) [Text(\"AA\")]"]);
}

#[test]
fn alternatives_are_preferred_from_left_to_right() {
    let ab = || appending("A").then(appending("B"));
    let past = AfterMatch::PastLastRow;
    assert_eq!(all(appending("A").or(ab()), past, "AB"), ["[0, 1) [Text(\"A\")]"]);
    assert_eq!(all(ab().or(appending("A")), past, "ABA"), ["[1, 2) [Text(\"AB\")]", "[2, 3) [Text(\"A\")]"]);
}

#[test]
fn where_the_next_match_begins() {
    let variable = |text, number| Regex::event(Element::when(is_text(text)).variable(number));
    let regex = || variable("A", 0).then(variable("B", 1).plus()).then(variable("C", 2).star());
    let ends = |after| -> Vec<String> {
        let found = all(regex(), after, "ABBCABB");
        found.iter().map(|row| row.split(',').next().unwrap().to_string()).collect()
    };
    assert_eq!(ends(AfterMatch::PastLastRow), ["[3", "[6"]);
    assert_eq!(ends(AfterMatch::ToNextRow), ["[3", "[6"]);
    assert_eq!(ends(AfterMatch::ToFirst(1)), ["[3", "[6"]);
    let any = || Regex::event(Element::any().variable(1));
    let three = || Regex::event(Element::any().variable(0)).then(any()).then(any());
    let ends = |after| all(three(), after, "ABCDE").len();
    assert_eq!(ends(AfterMatch::PastLastRow), 1);
    assert_eq!(ends(AfterMatch::ToNextRow), 3);
    assert_eq!(ends(AfterMatch::ToFirst(1)), 3);
    assert_eq!(ends(AfterMatch::ToLast(1)), 2);
    let error = |after| {
        let mut operator = recognize(pattern(three(), after, None));
        operator.push(0, letters("ABCDE"), &mut Vec::new()).unwrap_err().strip_backtrace()
    };
    assert!(error(AfterMatch::ToFirst(0)).contains("would be found for ever"));
    assert!(error(AfterMatch::ToLast(7)).contains("has no row of the variable to skip to"));
}

#[test]
fn matches_come_out_when_they_are_certain() {
    let regex = || appending("A").plus();
    let past = AfterMatch::PastLastRow;
    let mut operator = recognize(pattern(regex(), past, Some(10)));
    // The match may go on: what comes after its last row is held back.
    assert!(run(&mut operator, vec![letters("AA")]).is_empty());
    assert_eq!(run(&mut operator, vec![Message::Punctuation(5)]), ["1"]);
    assert!(run(&mut operator, vec![Message::Punctuation(9)]).is_empty());
    assert_eq!(run(&mut operator, vec![Message::Punctuation(10)]), ["[1, 2) [Text(\"AA\")]", "10"]);
    let mut operator = recognize(pattern(regex(), past, None));
    // The row at 1 is not looked at before time has passed it.
    assert_eq!(run(&mut operator, vec![letters("AA"), Message::Punctuation(1)]), ["0"]);
    assert_eq!(run(&mut operator, vec![Message::Punctuation(500)]), ["1"]);
    let rows = told(&[(600, "B", 0), (601, "B", 0)], Other::Open);
    assert_eq!(run(&mut operator, vec![rows]), ["[1, 2) [Text(\"AA\")]"]);
    assert_eq!(run(&mut operator, vec![Message::Punctuation(602)]), ["602"]);
}

#[test]
fn a_price_that_falls_and_rises() {
    let number = || column("number", 1);
    let against = |op| Element::when(binary(number(), op, column("number_1", 2)));
    let start = Element::any().set(0, number());
    let falls = against(Op::Lt).set(1, number());
    let rises = against(Op::Gt).set(2, number());
    let regex = Regex::event(start).then(Regex::event(falls).plus()).then(Regex::event(rises).plus());
    let field = |name| RegisterField::new(name, ScalarValue::Int64(None));
    let pattern = RowPattern {
        automaton: regex.automaton(vec![field("first"), field("bottom"), field("last")]).unwrap(),
        previous: vec![Previous { column: 1, rows: 1 }],
        match_number: Some("match".to_string()),
        key: vec![0],
        ..pattern(Regex::event(Element::any()), AfterMatch::PastLastRow, None)
    };
    let prices = [90, 80, 70, 75, 85, 60, 62, 61, 70];
    let events: Vec<Told> = (0..).zip(prices).map(|(at, price)| (at, "x", price)).collect();
    let found =
        run(&mut recognize(pattern), vec![told(&events, Other::Open), Message::Punctuation(INFINITY)]);
    assert_eq!(
        found,
        [
            "[4, 5) [Text(\"x\"), Int(90), Int(70), Int(85), Int(1)]",
            "[8, 9) [Text(\"x\"), Int(62), Int(61), Int(70), Int(2)]",
            "end"
        ]
    );
}

#[test]
fn what_may_match_nothing_is_refused() {
    let error = |pattern| MatchRecognize::try_new(pattern, &columns()).err().unwrap().strip_backtrace();
    let past = AfterMatch::PastLastRow;
    let any = || Regex::event(Element::any());
    assert!(error(pattern(any().star(), past, None)).contains("may match no row at all"));
    assert!(error(pattern(any(), past, Some(0))).contains("within 0 ticks"));
    assert!(error(pattern(Regex::list(Element::any()), past, None)).contains("one by one"));
    let with = |previous| RowPattern { previous: vec![previous], ..pattern(any(), past, None) };
    assert!(error(with(Previous { column: 2, rows: 1 })).contains("none with the number 2"));
    assert!(error(with(Previous { column: 0, rows: 0 })).contains("of a row itself"));
    let truth = RowPattern {
        automaton: Regex::event(Element::when(literal(1i64))).automaton(texts()).unwrap(),
        ..pattern(any(), past, None)
    };
    assert!(error(truth).contains("not a truth value"));
}

#[test]
fn keys_without_attempts_are_forgotten() {
    let regex = Regex::event(Element::when(is_text("A"))).then(Regex::event(Element::when(is_text("B"))));
    let mut operator =
        recognize(RowPattern { key: vec![1], ..pattern(regex, AfterMatch::PastLastRow, Some(3)) });
    let mut largest = 0;
    for batch in 0..40 {
        let events: Vec<Told> = (0..10_000).map(|i| (batch, "A", batch * 10_000 + i)).collect();
        operator.push(0, told(&events, Other::Open), &mut Vec::new()).unwrap();
        if batch >= 20 {
            largest = largest.max(operator.save().unwrap().len());
        }
    }
    assert!(largest < 150_000 * 60, "{largest} bytes");
}
