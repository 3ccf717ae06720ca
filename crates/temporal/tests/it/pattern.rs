//! Patterns against the oracle, and the cases of Trill's own tests.

use crate::detection::{Asked, COUNT, Detection, Part, Pattern, SUM, WORD};
use crate::equal::{cases, unary};
use crate::formula::Formula;
use crate::generate::{Draft, FLOAT, KEY, Kinds, NUMBER, Stream, TEXT, dice, streams};
use crate::model::{Event, Value, decode, value};
use crate::plan::Step;
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as Op;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Column, IsNullExpr, Literal};
use proptest::prelude::*;
use std::sync::Arc;
use whimbrel_temporal::operators::{
    Automaton, Detect, Element, Label, Overlap, Quantifier, Regex, RegisterField, Simultaneous, Transition,
    quantified,
};
use whimbrel_temporal::{Batch, INFINITY, Message, Operator, Other, Time};

pub fn number(n: i64) -> Formula {
    Formula::Int(n)
}

/// Conditions over the event alone.
pub fn of_event() -> impl Strategy<Value = Formula> {
    let is = |column, op, value| Formula::column(column).binary(op, value);
    prop_oneof![
        4 => (-3..4i64).prop_map(move |n| is(NUMBER, Op::Lt, number(n))),
        2 => (-3..2i64).prop_map(move |n| is(NUMBER, Op::GtEq, number(n))),
        1 => (0..4i64).prop_map(move |n| is(KEY, Op::NotEq, number(n))),
        1 => Just(is(FLOAT, Op::GtEq, Formula::Float(0.0))),
    ]
}

/// Conditions over the register, and the event.
pub fn of_register() -> impl Strategy<Value = Formula> {
    let is = |left, op, right| Formula::column(left).binary(op, right);
    prop_oneof![
        3 => (1..5i64).prop_map(move |n| is(COUNT, Op::Lt, number(n))),
        1 => Just(is(NUMBER, Op::GtEq, Formula::column(COUNT))),
        1 => Just(is(TEXT, Op::Eq, Formula::column(WORD))),
        1 => Just(is(FLOAT, Op::GtEq, Formula::column(SUM))),
    ]
}

pub fn both(left: Formula, right: Formula) -> Formula {
    left.binary(Op::And, right)
}

/// What a pattern may remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Nothing,
    /// It notes, but does not ask for what it noted.
    Noted,
    Asked,
}

pub fn formulas(memory: Memory) -> BoxedStrategy<Option<Formula>> {
    let any = prop_oneof![1 => Just(None), 5 => of_event().prop_map(Some)];
    match memory {
        Memory::Asked => prop_oneof![
            3 => any,
            2 => of_register().prop_map(Some),
            2 => (of_event(), of_register()).prop_map(|(e, r)| Some(both(e, r))),
        ]
        .boxed(),
        _ => any.boxed(),
    }
}

pub fn updates(memory: Memory, lists: bool) -> BoxedStrategy<Vec<(usize, Formula)>> {
    let more = (COUNT, Formula::column(COUNT).binary(Op::Plus, number(1)));
    let added = Formula::column(SUM).binary(Op::Plus, Formula::column(FLOAT));
    match memory {
        Memory::Nothing => Just(vec![]).boxed(),
        // A list is no value of these fields.
        _ if lists => prop_oneof![Just(vec![]), Just(vec![more])].boxed(),
        _ => prop_oneof![
            2 => Just(vec![]),
            3 => Just(vec![more.clone()]),
            1 => Just(vec![(WORD, Formula::column(TEXT)), more.clone()]),
            1 => Just(vec![(COUNT, Formula::column(NUMBER))]),
            1 => Just(vec![(SUM, added)]),
        ]
        .boxed(),
    }
}

pub fn parts(memory: Memory, lists: bool) -> impl Strategy<Value = Pattern> {
    (formulas(memory), updates(memory, lists), 0..4u8, 1..4usize).prop_map(
        move |(condition, update, how, variable)| {
            let condition = condition.map(|formula| match how {
                _ if !lists => Asked::Event(formula),
                0 | 1 => Asked::Any(formula),
                2 => Asked::All(formula),
                _ => Asked::AtLeast(2, formula),
            });
            Pattern::One(Part { condition, update, variable })
        },
    )
}

/// Patterns over at most four levels.
pub fn patterns(memory: Memory, lists: bool) -> impl Strategy<Value = Pattern> {
    let leaf = prop_oneof![12 => parts(memory, lists), 1 => Just(Pattern::Empty)];
    leaf.prop_recursive(4, 8, 3, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        let most = prop_oneof![3 => Just(None), 2 => (0..3usize).prop_map(Some)];
        let repeat = (inner, 0..3usize, most, any::<bool>()).prop_map(|(of, least, more, greedy)| {
            let most = more.map(|more| least + more);
            Pattern::Repeat { of: Box::new(of), least, most, greedy }
        });
        prop_oneof![
            4 => several.clone().prop_map(Pattern::Concat),
            2 => several.prop_map(Pattern::Or),
            3 => repeat,
        ]
    })
}

fn detections(memory: Memory, lists: bool) -> impl Strategy<Value = Detection> {
    let keys = prop_oneof![
        5 => Just(vec![KEY]), 1 => Just(vec![]), 1 => Just(vec![TEXT]), 1 => Just(vec![FLOAT]),
        1 => Just(vec![KEY, TEXT]),
    ];
    let overlap = prop_oneof![Just(Overlap::Allowed), Just(Overlap::Refused)];
    let simultaneous = prop_oneof![3 => Just(Simultaneous::Ordered), 1 => Just(Simultaneous::Kill)];
    (patterns(memory, lists), keys, 1..30i64, overlap, simultaneous).prop_map(
        move |(pattern, key, max_duration, overlap, simultaneous)| Detection {
            pattern,
            key,
            max_duration,
            overlap,
            simultaneous,
            lists,
        },
    )
}

pub fn any_detection() -> impl Strategy<Value = Detection> {
    let detection = prop_oneof![
        detections(Memory::Nothing, false),
        detections(Memory::Asked, false),
        detections(Memory::Asked, true),
    ];
    // Columns of matches are those of generated streams.
    detection.prop_map(|detection| Detection { key: vec![KEY], ..detection })
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn patterns_without_memory(
        stream in streams(Kinds::Any, 40), detection in detections(Memory::Nothing, false), dice in dice(),
    ) {
        unary(Step::Detect(detection), stream.without_huge_floats(), &dice);
    }

    #[test]
    fn patterns_that_note(
        stream in streams(Kinds::Any, 30), detection in detections(Memory::Noted, false), dice in dice(),
    ) {
        unary(Step::Detect(detection), stream.without_huge_floats(), &dice);
    }

    #[test]
    fn patterns_that_ask_for_what_they_noted(
        stream in streams(Kinds::Any, 30), detection in detections(Memory::Asked, false), dice in dice(),
    ) {
        unary(Step::Detect(detection), stream.without_huge_floats(), &dice);
    }

    /// Where nothing is simultaneous, what comes out does not wait for time to pass.
    #[test]
    fn patterns_over_events_one_by_one(
        stream in streams(Kinds::Any, 40), plain in detections(Memory::Nothing, false),
        asking in detections(Memory::Asked, false), dice in dice(),
    ) {
        let stream = stream.without_huge_floats();
        let draft = |(place, event): (i64, &Event)| {
            let start = 3 * place;
            Draft { event: Event { start, end: start + 5, row: event.row.clone() }, edges: false, early: false }
        };
        let events = Stream::new(stream.schema.clone(), (0..).zip(&stream.events).map(draft).collect());
        for detection in [plain, asking] {
            let detection = Detection { simultaneous: Simultaneous::Absent, ..detection };
            unary(Step::Detect(detection), events.clone(), &dice);
        }
    }

    #[test]
    fn patterns_over_lists(
        stream in streams(Kinds::Any, 30), detection in detections(Memory::Asked, true), dice in dice(),
    ) {
        unary(Step::Detect(detection), stream.without_huge_floats(), &dice);
    }

    #[test]
    fn patterns_over_lists_without_memory(
        stream in streams(Kinds::Any, 30), detection in detections(Memory::Nothing, true), dice in dice(),
    ) {
        unary(Step::Detect(detection), stream.without_huge_floats(), &dice);
    }
}

/// An event of a directed test: when, which text and which number.
pub type Told = (Time, &'static str, i64);

pub fn columns() -> SchemaRef {
    let text = Field::new("text", DataType::Utf8, false);
    Arc::new(Schema::new(vec![text, Field::new("number", DataType::Int64, false)]))
}

pub fn told(events: &[Told], other: Other) -> Message {
    let times: Vec<Time> = events.iter().map(|event| event.0).collect();
    let texts = StringArray::from_iter_values(events.iter().map(|event| event.1));
    let numbers = Int64Array::from_iter_values(events.iter().map(|event| event.2));
    let rows = RecordBatch::try_new(columns(), vec![Arc::new(texts), Arc::new(numbers)]).unwrap();
    Message::Batch(Batch::new(times.into(), other, rows))
}

/// What comes of messages, in their order: rows as `[start, end) values`, punctuations as their time.
pub fn run(operator: &mut dyn Operator, messages: Vec<Message>) -> Vec<String> {
    let mut out = Vec::new();
    messages.into_iter().for_each(|message| operator.push(0, message, &mut out).unwrap());
    let show = |message: &Message| match message {
        Message::Punctuation(INFINITY) => vec!["end".to_string()],
        Message::Punctuation(time) => vec![time.to_string()],
        Message::Batch(batch) => (0..batch.len())
            .map(|row| {
                let values: Vec<Value> = batch.rows.columns().iter().map(|c| value(c, row)).collect();
                format!("[{}, {}) {values:?}", batch.sync[row], batch.other_at(row))
            })
            .collect(),
    };
    out.iter().flat_map(show).collect()
}

pub type Expr = Arc<dyn PhysicalExpr>;

pub fn column(name: &str, index: usize) -> Expr {
    Arc::new(Column::new(name, index))
}

pub fn literal(value: impl Into<ScalarValue>) -> Expr {
    Arc::new(Literal::new(value.into()))
}

pub fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

pub fn is_text(text: &str) -> Expr {
    binary(column("text", 0), Op::Eq, literal(text))
}

/// An element that appends the event's text to the register, which may be null.
pub fn appending(text: &str) -> Regex {
    let register = column("texts", 2);
    let is_null: Expr = Arc::new(IsNullExpr::new(register.clone()));
    let so_far: Expr =
        Arc::new(CaseExpr::try_new(None, vec![(is_null, literal(""))], Some(register)).unwrap());
    let both = binary(so_far, Op::StringConcat, column("text", 0));
    Regex::event(Element::when(is_text(text)).set(0, both))
}

pub fn texts() -> Vec<RegisterField> {
    vec![RegisterField::new("texts", ScalarValue::Utf8(None))]
}

#[test]
fn as_many_of_one_as_of_the_other() {
    // Trill's AfaPatternAiBi01.
    let count = || column("count", 2);
    let (more, less) = (binary(count(), Op::Plus, literal(1i64)), binary(count(), Op::Minus, literal(1i64)));
    let b = |op| binary(is_text("B"), Op::And, binary(count(), op, literal(1i64)));
    let pattern = Regex::event(Element::when(is_text("A")).set(0, more)).star();
    let pattern = pattern.then(Regex::event(Element::when(b(Op::Gt)).set(0, less)).star());
    let pattern = pattern.then(Regex::event(Element::when(b(Op::Eq)).set(0, count())));
    let register = vec![RegisterField::new("count", ScalarValue::Int64(Some(0)))];
    let automaton = pattern.automaton(register).unwrap();
    let events: Vec<Told> =
        (0..).zip(["A", "A", "A", "B", "B", "B", "B"]).map(|(n, text)| (100 + 10 * n, text, n)).collect();
    for simultaneous in [Simultaneous::Ordered, Simultaneous::Kill, Simultaneous::Absent] {
        let mut detect =
            Detect::try_new(&automaton, &columns(), vec![], 1000, Overlap::Allowed, simultaneous).unwrap();
        let messages = vec![told(&events, Other::After(1)), Message::Punctuation(INFINITY)];
        assert_eq!(
            run(&mut detect, messages),
            ["[130, 1120) [Int(1)]", "[140, 1110) [Int(1)]", "[150, 1100) [Int(1)]", "end"]
        );
    }
}

#[test]
fn a_match_goes_on() {
    // Trill's AfaZeroOrOneGroup.
    let pattern = appending("O").then(appending("A").star().then(appending("F")).optional());
    let automaton = pattern.automaton(texts()).unwrap();
    let events = [(0, "O", 0), (1, "A", 0), (2, "A", 0), (3, "F", 0), (4, "O", 0)];
    let mut detect =
        Detect::try_new(&automaton, &columns(), vec![], 10, Overlap::Refused, Simultaneous::Kill).unwrap();
    assert_eq!(
        run(&mut detect, vec![told(&events, Other::Open), Message::Punctuation(INFINITY)]),
        ["[0, 10) [Text(\"O\")]", "[3, 10) [Text(\"OAAF\")]", "[4, 14) [Text(\"O\")]", "end"]
    );
}

#[test]
fn matches_and_punctuations_are_in_order() {
    // Trill's AfaPunctuationAtBatchBoundary, in batches of three.
    let automaton = appending("A").then(appending("B")).automaton(texts()).unwrap();
    let text = |n: i64| ["A", "B", "C"][n as usize % 3];
    let events = |from: i64, to: i64| (from..to).map(|n| (n, text(n), n)).collect::<Vec<Told>>();
    let messages = vec![
        told(&events(0, 3), Other::Open),
        told(&events(3, 6), Other::Open),
        told(&events(6, 7), Other::Open),
        Message::Punctuation(6),
        told(&events(7, 9), Other::Open),
        Message::Punctuation(INFINITY),
    ];
    let detect = |simultaneous| {
        Detect::try_new(&automaton, &columns(), vec![], 3, Overlap::Refused, simultaneous).unwrap()
    };
    let expected = ["[1, 3) [Text(\"AB\")]", "[4, 6) [Text(\"AB\")]", "6", "[7, 9) [Text(\"AB\")]", "end"];
    for simultaneous in [Simultaneous::Ordered, Simultaneous::Absent] {
        assert_eq!(run(&mut detect(simultaneous), messages.clone()), expected);
    }
    // What cannot be followed by anything at its instant comes out at once.
    let first = messages[..1].to_vec();
    assert_eq!(run(&mut detect(Simultaneous::Absent), first.clone()), expected[..1]);
    assert_eq!(run(&mut detect(Simultaneous::Ordered), first), expected[..1]);
    let two = vec![told(&events(0, 2), Other::Open)];
    assert_eq!(run(&mut detect(Simultaneous::Absent), two.clone()), expected[..1]);
    assert!(run(&mut detect(Simultaneous::Ordered), two.clone()).is_empty());
    let punctuated = [two, vec![Message::Punctuation(1)]].concat();
    assert_eq!(run(&mut detect(Simultaneous::Ordered), punctuated.clone()), ["1"]);
    let later = [punctuated, vec![Message::Punctuation(2)]].concat();
    assert_eq!(run(&mut detect(Simultaneous::Ordered), later), ["1", expected[0], "2"]);
}

#[test]
fn lists_of_simultaneous_events() {
    // Trill's CoreAfaList01.
    let is = |n: i64| binary(column("number", 1), Op::Eq, literal(n));
    let of = |quantifier, n| quantified(quantifier, &is(n), &columns(), 2).unwrap();
    let none = binary(of(Quantifier::Count, 1), Op::Eq, literal(0i64));
    let arc = |from, to, condition| Transition { from, to, label: Label::List(Element::when(condition)) };
    let arcs = vec![arc(0, 1, of(Quantifier::Any, 0)), arc(1, 1, none), arc(1, 2, of(Quantifier::Any, 1))];
    let automaton = Automaton::try_new(3, 0, &[2], arcs, vec![]).unwrap();
    let detect = |events: &[Told]| {
        let mut detect =
            Detect::try_new(&automaton, &columns(), vec![], 10, Overlap::Refused, Simultaneous::Kill)
                .unwrap();
        run(&mut detect, vec![told(events, Other::After(1)), Message::Punctuation(INFINITY)])
    };
    assert_eq!(detect(&[(0, "", 0), (1, "", 0), (2, "", 1)]), ["[2, 10) []", "end"]);
    assert_eq!(detect(&[(0, "", 5), (0, "", 0), (2, "", 7), (2, "", 1)]), ["[2, 10) []", "end"]);
    assert_eq!(detect(&[(0, "", 5), (2, "", 7), (2, "", 1)]), ["end"]);
}

#[test]
fn the_last_event_of_a_match_may_begin_another() {
    let automaton = appending("A").then(appending("A")).automaton(texts()).unwrap();
    let events = [(0, "A", 0), (1, "A", 0), (2, "A", 0)];
    let mut detect =
        Detect::try_new(&automaton, &columns(), vec![], 9, Overlap::Refused, Simultaneous::Absent).unwrap();
    assert_eq!(
        run(&mut detect, vec![told(&events, Other::Open)]),
        ["[1, 9) [Text(\"AA\")]", "[2, 10) [Text(\"AA\")]"]
    );
}

#[test]
fn a_match_near_the_end_of_time_does_not_wrap() {
    let automaton = appending("A").then(appending("B")).automaton(texts()).unwrap();
    let last = INFINITY - 2;
    for (overlap, simultaneous) in
        [(Overlap::Allowed, Simultaneous::Ordered), (Overlap::Refused, Simultaneous::Kill)]
    {
        let mut detect = Detect::try_new(&automaton, &columns(), vec![], 5, overlap, simultaneous).unwrap();
        let events = [(last, "A", 0), (last + 1, "B", 0)];
        let messages = vec![told(&events, Other::Open), Message::Punctuation(INFINITY)];
        let mut out = Vec::new();
        messages.into_iter().for_each(|message| detect.push(0, message, &mut out).unwrap());
        let row = vec![Value::Text("AB".to_string())];
        assert_eq!(decode(&out), [Event { start: last + 1, end: INFINITY, row }]);
    }
}

#[test]
fn keys_without_instances_are_forgotten() {
    let any = || Regex::event(Element::when(is_text("A")));
    for register in [vec![], texts()] {
        let note = if register.is_empty() { any() } else { appending("A") };
        let automaton = any().then(note).automaton(register).unwrap();
        for overlap in [Overlap::Allowed, Overlap::Refused] {
            let mut detect =
                Detect::try_new(&automaton, &columns(), vec![1], 5, overlap, Simultaneous::Absent).unwrap();
            let mut largest = 0;
            for batch in 0..40 {
                // Every key has one event, so every instance ends because its time is over.
                let events: Vec<Told> = (0..10_000).map(|i| (batch, "A", batch * 10_000 + i)).collect();
                detect.push(0, told(&events, Other::Open), &mut Vec::new()).unwrap();
                if batch >= 20 {
                    largest = largest.max(detect.save().unwrap().len());
                }
            }
            // About as many keys as come between two sweeps.
            assert!(largest < 150_000 * 40, "{largest} bytes for {overlap:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let one = |label| Automaton::try_new(2, 0, &[1], vec![Transition { from: 0, to: 1, label }], texts());
    let detect = |automaton: &Automaton, max| {
        let detect =
            Detect::try_new(automaton, &columns(), vec![], max, Overlap::Refused, Simultaneous::Kill);
        detect.err().map(|error| error.strip_backtrace()).unwrap_or_default()
    };
    let any = one(Label::Event(Element::any())).unwrap();
    assert!(detect(&any, 0).contains("0 ticks at most"));
    assert_eq!(detect(&any, 1), "");
    let number = one(Label::Event(Element::when(column("number", 1)))).unwrap();
    assert!(detect(&number, 1).contains("not a truth value but Int64"));
    let wrong = one(Label::Event(Element::any().set(0, column("number", 1)))).unwrap();
    assert!(detect(&wrong, 1).contains("sets texts, which is Utf8, to number@1, which is Int64"));
    assert!(one(Label::Event(Element::any().set(1, literal("")))).is_err());
    let twice = Element::any().set(0, literal("")).set(0, literal(""));
    assert!(one(Label::Event(twice)).is_err());
    assert!(Automaton::try_new(1, 0, &[1], vec![], vec![]).is_err());
    let mixed = Regex::event(Element::any()).then(Regex::list(Element::any()));
    assert!(mixed.automaton(vec![]).unwrap_err().strip_backtrace().contains("let all of them consume lists"));
    assert!(Regex::event(Element::any()).repeat(3, Some(2)).automaton(vec![]).is_err());
    let nested = Regex::event(Element::any()).optional().repeat(3, Some(2)).star();
    assert!(nested.automaton(vec![]).is_err());
    assert!(Regex::event(Element::any()).repeat(100_000, None).automaton(vec![]).is_err());
}
