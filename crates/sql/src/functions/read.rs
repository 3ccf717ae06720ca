//! Lists, structs and maps that are written as texts: `'[1, 2, null]'::int[]`, `'{a: 1}'::struct(a int)`, and
//! JSON of them.
//!
//! Invariant: what `text` writes is read back here as it was. Values are cast from their texts as others are.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options, concat};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Whether texts are read as values of a type here.
pub(crate) fn reads(kind: &DataType) -> bool {
    match kind {
        DataType::List(of) | DataType::LargeList(of) => is_known(of.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_known(field.data_type())),
        _ => false,
    }
}

/// Whether a type can be read from a string.
fn is_known(kind: &DataType) -> bool {
    !kind.is_nested() || reads(kind)
}

/// The cast of a text to such a type; `or_null`: what is not written as one is null.
pub(crate) fn cast_of_text(to: &DataType, or_null: bool) -> ScalarUDF {
    let name = format!(
        "{}cast_text_to_{}",
        if or_null { "try_" } else { "" },
        crate::functions::type_names::name(to)
    );
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(CastOfText { name, to: to.clone(), or_null, signature })
}

/// The cast of a string to a nested type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CastOfText {
    /// Its name in plans.
    name: String,
    /// The type that is read.
    to: DataType,
    /// Whether a string that cannot be read is null.
    or_null: bool,
    /// One string.
    signature: Signature,
}

impl CastOfText {
    /// The type that is read.
    pub fn to_type(&self) -> &DataType {
        &self.to
    }
}

impl ScalarUDFImpl for CastOfText {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts] = args.args.as_slice() else { return exec_err!("a cast is of one value") };
        let scalar = matches!(texts, ColumnarValue::Scalar(_));
        let texts = texts.to_array(if scalar { 1 } else { args.number_rows })?;
        let texts = cast(&texts, &DataType::Utf8)?;
        let of_text = |text: Option<&str>| match text.map(|text| self.read(text)) {
            None => ScalarValue::try_from(&self.to),
            Some(Err(_)) if self.or_null => ScalarValue::try_from(&self.to),
            Some(read) => ScalarValue::try_from_array(&read?, 0),
        };
        let values = texts.as_string::<i32>().iter().map(of_text).collect::<Result<Vec<_>>>()?;
        if values.is_empty() {
            return Ok(ColumnarValue::Array(new_null_array(&self.to, 0)));
        }
        match scalar {
            true => Ok(ColumnarValue::Scalar(values.into_iter().next().unwrap_or(ScalarValue::Null))),
            false => Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?)),
        }
    }
}

impl CastOfText {
    /// The value that a string has.
    fn read(&self, text: &str) -> Result<ArrayRef> {
        let mut written = Written { text, at: 0, levels: levels(&self.to) };
        let wrong = || {
            exec_datafusion_err!(
                "{text:?} is not written as {}",
                crate::functions::type_names::name(&self.to)
            )
        };
        let value = written.value().filter(|_| written.is_at_end()).ok_or_else(wrong)?;
        value.of_type(&self.to, self.or_null, &wrong)
    }
}

/// How many lists and structs stand inside one another in a type.
fn levels(kind: &DataType) -> usize {
    match kind {
        DataType::List(of) | DataType::LargeList(of) => 1 + levels(of.data_type()),
        DataType::Struct(fields) => {
            1 + fields.iter().map(|field| levels(field.data_type())).max().unwrap_or_default()
        }
        _ => 0,
    }
}

/// A value, as it is written.
enum Value {
    /// A string, or any other value before its cast.
    Text(String),
    /// A null.
    Null,
    /// A list.
    List(Vec<Value>),
    /// A struct or a map.
    Fields(Vec<(String, Value)>),
}

impl Value {
    /// An array of just this value; `or_null`: a part that is not of its type is null.
    fn of_type(
        &self,
        to: &DataType,
        or_null: bool,
        wrong: &impl Fn() -> DataFusionError,
    ) -> Result<ArrayRef> {
        match (self, to) {
            (Value::Null, to) => Ok(new_null_array(to, 1)),
            (Value::Text(text), to) if !to.is_nested() => {
                let options = CastOptions { safe: or_null, ..CastOptions::default() };
                Ok(cast_with_options(&StringArray::from(vec![text.as_str()]), to, &options)?)
            }
            (Value::List(values), DataType::List(of) | DataType::LargeList(of)) => {
                let values = values.iter().map(|value| value.of_type(of.data_type(), or_null, wrong));
                let list = list(of, &values.collect::<Result<Vec<_>>>()?)?;
                Ok(cast(&list, to)?)
            }
            (Value::Fields(written), DataType::Struct(fields)) => {
                let value = |field: &FieldRef| {
                    let named = |(name, _): &&(String, Value)| name.eq_ignore_ascii_case(field.name());
                    written.iter().find(named).map_or(&Value::Null, |(_, value)| value)
                };
                if written.iter().any(|(name, _)| !fields.iter().any(|f| f.name().eq_ignore_ascii_case(name)))
                {
                    return Err(wrong());
                }
                let columns =
                    fields.iter().map(|field| value(field).of_type(field.data_type(), or_null, wrong));
                let columns = columns.collect::<Result<Vec<_>>>()?;
                Ok(Arc::new(datafusion::arrow::array::StructArray::try_new(fields.clone(), columns, None)?))
            }
            _ => Err(wrong()),
        }
    }
}

/// One list of these values.
fn list(of: &FieldRef, values: &[ArrayRef]) -> Result<ArrayRef> {
    let values: Vec<&dyn Array> = values.iter().map(|value| value.as_ref()).collect();
    let items = match values.is_empty() {
        true => new_null_array(of.data_type(), 0),
        false => concat(&values)?,
    };
    let field = Arc::new(Field::new(of.name(), of.data_type().clone(), true));
    let ends = datafusion::arrow::buffer::OffsetBuffer::from_lengths([items.len()]);
    Ok(Arc::new(datafusion::arrow::array::ListArray::try_new(field, ends, items, None)?))
}

/// A text that is being read.
struct Written<'a> {
    /// The string.
    text: &'a str,
    /// The byte that is read next.
    at: usize,
    /// How many lists and structs may still stand inside one another: as many as in the type. A text can have
    /// more than the stack has room for.
    levels: usize,
}

impl Written<'_> {
    /// The text that was not read yet.
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Skips spaces.
    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Whether nothing but spaces is left.
    fn is_at_end(&mut self) -> bool {
        self.skip_spaces();
        self.rest().is_empty()
    }

    /// Whether this comes next; then it is read.
    fn takes(&mut self, sign: char) -> bool {
        self.skip_spaces();
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len_utf8() } else { 0 };
        is_next
    }

    /// Reads a value.
    fn value(&mut self) -> Option<Value> {
        if self.takes('[') {
            return self.nested(|inner| inner.parts(']', Written::value).map(Value::List));
        }
        if self.takes('{') {
            return self.nested(|inner| inner.parts('}', Written::field).map(Value::Fields));
        }
        match self.word(&[',', ']', '}'])? {
            (word, false) if word.eq_ignore_ascii_case("null") => Some(Value::Null),
            (word, _) => Some(Value::Text(word)),
        }
    }

    /// Reads what is one level below.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        self.levels = self.levels.checked_sub(1)?;
        let value = read(self);
        self.levels += 1;
        value
    }

    /// Reads a name and its value.
    fn field(&mut self) -> Option<(String, Value)> {
        let (name, _) = self.word(&[':', '=', ',', '}'])?;
        (self.takes(':') || self.takes('=')).then_some(())?;
        Some((name, self.value()?))
    }

    /// What stands between commas, up to the end.
    fn parts<T>(&mut self, end: char, mut part: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut parts = Vec::new();
        if self.takes(end) {
            return Some(parts);
        }
        loop {
            parts.push(part(self)?);
            if self.takes(end) {
                return Some(parts);
            }
            self.takes(',').then_some(())?;
        }
    }

    /// A text up to one of these signs, and whether it was in quotes.
    fn word(&mut self, ends: &[char]) -> Option<(String, bool)> {
        self.skip_spaces();
        for quote in ['"', '\''] {
            if self.takes(quote) {
                return self.quoted(quote).map(|word| (word, true));
            }
        }
        let rest = self.rest();
        let length = rest.find(|c| ends.contains(&c)).unwrap_or(rest.len());
        let word = rest[..length].trim_end().to_string();
        self.at += length;
        (!word.is_empty()).then_some((word, false))
    }

    /// Reads a string in quotes.
    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut word = String::new();
        let mut signs = self.text[self.at..].char_indices();
        while let Some((at, sign)) = signs.next() {
            match sign {
                '\\' => word.push(escaped(&mut signs)?),
                sign if sign == quote => {
                    self.at += at + quote.len_utf8();
                    return Some(word);
                }
                sign => word.push(sign),
            }
        }
        None
    }
}

/// What stands behind a backslash; as in JSON, and else for itself.
fn escaped(signs: &mut std::str::CharIndices) -> Option<char> {
    Some(match signs.next()?.1 {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => {
            let digits: String = (0..4).filter_map(|_| signs.next()).map(|(_, digit)| digit).collect();
            char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
        }
        sign => sign,
    })
}
