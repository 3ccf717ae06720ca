//! `nextval('s')` and `currval('s')`: numbers that a session counts. They are no part of a transaction: a
//! number that was taken is gone.
//!
//! ```sql
//! create sequence s start 10;
//! select nextval('s'), nextval('s'), currval('s');  -- 10, 11, 11
//! ```

use datafusion::arrow::array::{Int64Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::cast::as_string_array;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sequences of a session, by name.
#[derive(Debug, Default)]
pub(crate) struct Sequences(Mutex<BTreeMap<String, Sequence>>);

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// The number that comes next; none after the last.
    pub next: Option<i64>,
    /// From one number to the next.
    pub step: i64,
    /// The least number.
    pub least: i64,
    /// The greatest number.
    pub greatest: i64,
    /// Whether the first number follows the last.
    pub cycle: bool,
    /// The number that was taken last.
    pub taken: Option<i64>,
}

impl Sequence {
    /// Takes the next number; `None` at the end of the sequence.
    fn take(&mut self) -> Option<i64> {
        let taken = self.next?;
        let first = if self.step > 0 { self.least } else { self.greatest };
        let next = taken.checked_add(self.step).filter(|n| (self.least..=self.greatest).contains(n));
        self.next = next.or(self.cycle.then_some(first));
        self.taken = Some(taken);
        self.taken
    }
}

impl Sequences {
    /// Whether there was none of this name.
    pub fn create(&self, name: &str, sequence: Sequence, replace: bool) -> bool {
        let mut all = self.all();
        let free = replace || !all.contains_key(name);
        if free {
            all.insert(name.to_string(), sequence);
        }
        free
    }

    /// Whether there was one of this name.
    pub fn take_away(&self, name: &str) -> bool {
        self.all().remove(name).is_some()
    }

    /// The sequences, locked.
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Sequence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next or the current number of a sequence.
    fn value(&self, name: &str, what: What) -> Result<i64> {
        let known = name.to_ascii_lowercase();
        let known = known.strip_prefix("main.").unwrap_or(&known).replace('"', "");
        let mut all = self.all();
        let Some(sequence) = all.get_mut(&known) else {
            return plan_err!("there is no sequence {name:?}; create sequence makes one");
        };
        let value = match what {
            What::Next => sequence.take(),
            What::Current => sequence.taken,
        };
        match (value, what) {
            (Some(value), _) => Ok(value),
            (None, What::Next) => exec_err!("sequence {name:?} has no more numbers"),
            (None, What::Current) => {
                exec_err!("sequence {name:?}: no number was taken of it yet; nextval does")
            }
        }
    }
}

/// Which number of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// The next number.
    Next,
    /// The number that was taken last.
    Current,
}

/// The functions of a session's sequences.
pub(crate) fn of(sequences: &Arc<Sequences>) -> Vec<Arc<ScalarUDF>> {
    let function = |what| {
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Volatile);
        Arc::new(ScalarUDF::from(Number { sequences: Arc::clone(sequences), what, signature }))
    };
    vec![function(What::Next), function(What::Current)]
}

/// `nextval` or `currval` as a function.
#[derive(Debug)]
struct Number {
    /// The sequences of the session.
    sequences: Arc<Sequences>,
    /// Which number it gives.
    what: What,
    /// The name of a sequence.
    signature: Signature,
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.what == other.what && Arc::ptr_eq(&self.sequences, &other.sequences)
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.what.hash(state);
    }
}

impl ScalarUDFImpl for Number {
    fn name(&self) -> &str {
        match self.what {
            What::Next => "nextval",
            What::Current => "currval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let Some(names) = args.args.into_iter().next() else {
            return plan_err!("{} takes the name of a sequence", self.name());
        };
        let names = cast(&names.into_array(rows)?, &DataType::Utf8)?;
        let names: &StringArray = as_string_array(&names)?;
        let values =
            names.iter().map(|name| name.map(|name| self.sequences.value(name, self.what)).transpose());
        Ok(ColumnarValue::Array(Arc::new(values.collect::<Result<Int64Array>>()?)))
    }
}
