//! A JSON document as a tree. Fields keep their order, and of several of one name the first counts, as in
//! DuckDB.
//!
//! Whole numbers beyond 64 bits are read as floats.

use datafusion::common::{Result, exec_err};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt::{self, Display, Formatter};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer that is not negative.
    Natural(u64),
    /// A negative integer.
    Negative(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; its fields in order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text.
    ///
    /// # Errors
    /// `Execution` if the text is not JSON.
    pub fn read(text: &str) -> Result<Json> {
        match serde_json::from_str(text) {
            Ok(json) => Ok(json),
            Err(error) => {
                let shown: String = text.chars().take(60).collect();
                exec_err!(
                    "{shown:?} is not JSON: {error}; try_cast(x as json) gives null for it, and to_json(x) makes JSON of any value"
                )
            }
        }
    }

    /// The name of its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "NULL",
            Json::Boolean(_) => "BOOLEAN",
            Json::Natural(_) => "UBIGINT",
            Json::Negative(_) => "BIGINT",
            Json::Float(_) => "DOUBLE",
            Json::Text(_) => "VARCHAR",
            Json::List(_) => "ARRAY",
            Json::Object(_) => "OBJECT",
        }
    }

    /// What it is as a text: of a text, without quotes; of null, nothing.
    pub fn text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::Text(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// Without spaces.
impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Boolean(boolean) => write!(f, "{boolean}"),
            Json::Natural(number) => write!(f, "{number}"),
            Json::Negative(number) => write!(f, "{number}"),
            Json::Float(number) => f.write_str(&float(*number)),
            Json::Text(text) => f.write_str(&quoted(text)),
            Json::List(values) => {
                let values: Vec<String> = values.iter().map(Json::to_string).collect();
                write!(f, "[{}]", values.join(","))
            }
            Json::Object(fields) => {
                let field = |(name, value): &(String, Json)| format!("{}:{value}", quoted(name));
                write!(f, "{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// A float as JavaScript writes it, but a whole one with `.0`. JSON has no number for infinity and what is
/// none.
pub(super) fn float(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        "null".to_string()
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        format!("{number:e}")
    } else if number.fract() == 0.0 {
        format!("{number:.1}")
    } else {
        format!("{number}")
    }
}

/// A text between quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(input: D) -> std::result::Result<Json, D::Error> {
        input.deserialize_any(Reader)
    }
}

/// Reads a document.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, boolean: bool) -> std::result::Result<Json, E> {
        Ok(Json::Boolean(boolean))
    }

    fn visit_u64<E: Error>(self, number: u64) -> std::result::Result<Json, E> {
        Ok(Json::Natural(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> std::result::Result<Json, E> {
        Ok(Json::Negative(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> std::result::Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Json, E> {
        Ok(Json::Text(text.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> std::result::Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(Json::Object(object))
    }
}
