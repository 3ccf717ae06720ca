//! Automata over events, as data: the augmented finite automata that Trill calls AFA (trill.txt has them
//! among its operators; their meaning is that of Trill's `Detect`).
//!
//! Invariants: every state of an arc is below `states`; all arcs that consume something consume events, or
//! all consume lists; an update names a field of the register, and each at most once.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;

/// An expression over a record batch with the event's columns, followed by the register's. For a
/// [`List`](Label::List) arc each column of the event is a list: its values at one instant.
pub type Expr = Arc<dyn PhysicalExpr>;

/// A field of the register: what an instance of a pattern remembers of the events it has consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct RegisterField {
    /// Its name, which is that of a column of matches.
    pub name: String,
    /// Its value before the first event; its type is that of the field, which may always be null.
    pub initial: ScalarValue,
}

impl RegisterField {
    /// A field with this value before the first event.
    pub fn new(name: impl Into<String>, initial: ScalarValue) -> RegisterField {
        RegisterField { name: name.into(), initial }
    }

    /// The type of the field.
    pub fn data_type(&self) -> DataType {
        self.initial.data_type()
    }

    /// The field as a column of matches.
    pub(crate) fn column(&self) -> Field {
        Field::new(&self.name, self.data_type(), true)
    }
}

/// What is asked of an event, or of a list of simultaneous events, and what is noted of it.
#[derive(Debug, Clone, Default)]
pub struct Element {
    /// A truth value, which has to be true; none: anything is consumed.
    pub condition: Option<Expr>,
    /// New values for some fields of the register, by their numbers. All of them see the register as it was
    /// before.
    pub update: Vec<(usize, Expr)>,
    /// The number of the pattern variable that a consumed row is of; only
    /// [`MatchRecognize`](crate::operators::MatchRecognize) asks for it.
    pub variable: Option<usize>,
}

impl Element {
    /// An element that consumes what satisfies a condition.
    pub fn when(condition: Expr) -> Element {
        Element { condition: Some(condition), ..Element::default() }
    }

    /// An element that consumes anything.
    pub fn any() -> Element {
        Element::default()
    }

    /// The same, which also sets a field of the register.
    pub fn set(mut self, field: usize, value: Expr) -> Element {
        self.update.push((field, value));
        self
    }

    /// The same, as the variable with this number.
    pub fn variable(self, variable: usize) -> Element {
        Element { variable: Some(variable), ..self }
    }
}

/// What an arc consumes.
#[derive(Debug, Clone)]
pub enum Label {
    /// Nothing.
    Epsilon,
    /// One event.
    Event(Element),
    /// All events of one instant at once.
    List(Element),
}

/// A way from one state to another.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The state it leaves.
    pub from: usize,
    /// The state it leads to.
    pub to: usize,
    /// What it consumes.
    pub label: Label,
}

/// An automaton. Arcs that leave one state are in order of preference, and before accepting there; only
/// [`MatchRecognize`](crate::operators::MatchRecognize) prefers one match to another.
#[derive(Debug, Clone)]
pub struct Automaton {
    states: usize,
    start: usize,
    finals: Vec<bool>,
    arcs: Vec<Transition>,
    register: Vec<RegisterField>,
}

impl Automaton {
    /// An automaton with so many states, numbered from 0.
    ///
    /// # Errors
    /// `Plan` if a state or a field of the register does not exist, a field is set twice by one arc, or some
    /// arcs consume single events and others lists.
    pub fn try_new(
        states: usize,
        start: usize,
        finals: &[usize],
        arcs: Vec<Transition>,
        register: Vec<RegisterField>,
    ) -> Result<Automaton> {
        let named = arcs.iter().flat_map(|arc| [arc.from, arc.to]).chain(finals.iter().copied());
        if let Some(state) = named.chain([start]).find(|&state| state >= states) {
            return plan_err!("the automaton has {states} states, and none with the number {state}");
        }
        let is_list = |arc: &Transition| matches!(arc.label, Label::List(_));
        let is_event = |arc: &Transition| matches!(arc.label, Label::Event(_));
        if arcs.iter().any(is_list) && arcs.iter().any(is_event) {
            return plan_err!(
                "some arcs of the pattern consume single events and others lists of simultaneous ones; \
                 let all of them consume lists"
            );
        }
        for arc in &arcs {
            check_update(arc, register.len())?;
        }
        let mut is_final = vec![false; states];
        finals.iter().for_each(|&state| is_final[state] = true);
        Ok(Automaton { states, start, finals: is_final, arcs, register })
    }

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.states
    }

    /// Where instances start.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether an instance that comes to this state is a match.
    pub fn is_final(&self, state: usize) -> bool {
        self.finals[state]
    }

    /// The arcs.
    pub fn arcs(&self) -> &[Transition] {
        &self.arcs
    }

    /// The fields of the register.
    pub fn register(&self) -> &[RegisterField] {
        &self.register
    }

    /// Whether arcs consume lists of simultaneous events.
    pub fn consumes_lists(&self) -> bool {
        self.arcs.iter().any(|arc| matches!(arc.label, Label::List(_)))
    }
}

fn check_update(arc: &Transition, fields: usize) -> Result<()> {
    let (Label::Event(element) | Label::List(element)) = &arc.label else { return Ok(()) };
    for (place, (field, _)) in element.update.iter().enumerate() {
        if *field >= fields {
            return plan_err!("the register has {fields} fields, and none with the number {field}");
        }
        if element.update[..place].iter().any(|(other, _)| other == field) {
            return plan_err!("an arc of the pattern sets field {field} of the register twice");
        }
    }
    Ok(())
}
