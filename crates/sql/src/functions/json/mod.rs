//! JSON, which is a text here: what is in it, and how values are written as it. The words of the language
//! (`->`, casts, which arguments are JSON already) are in `words::json`.
//!
//! Null gives null, and so does a place that is not there; a text that is not JSON is an error.

mod document;
mod path;
mod values;

pub(crate) use path::Path;

use super::Mapped;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{ScalarUDF, Signature, TypeSignature, Volatility};
use document::{Json, quoted};
use std::sync::Arc;

/// Takes every place of a path with `*`, as a list.
pub(crate) const EVERY: &str = "json_extract_every";
/// The same, as texts without quotes.
pub(crate) const EVERY_STRING: &str = "json_extract_every_string";
/// A value as JSON: a text has to be JSON already.
pub(crate) const CAST: &str = "cast_to_json";
/// The same; null if it is not.
pub(crate) const TRY_CAST: &str = "try_cast_to_json";
/// JSON texts of a list, as one list in JSON.
pub(crate) const LIST: &str = "json_list";
/// JSON objects of a list, as one object.
pub(crate) const MERGED: &str = "json_fields";

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    [places(), facts(), written()].into_iter().flatten().collect()
}

/// What is at a place.
fn places() -> Vec<Arc<ScalarUDF>> {
    let two = || Signature::any(2, Volatility::Immutable);
    vec![
        Mapped::function("json_extract", two(), document, |args| texts(args, |json| Some(json.to_string()))),
        Mapped::function("json_extract_string", two(), document, |args| texts(args, Json::text)),
        Mapped::function("json_value", two(), document, |args| {
            texts(args, |json| match json {
                Json::List(_) | Json::Object(_) => None,
                scalar => Some(scalar.to_string()),
            })
        }),
        Mapped::function(EVERY, two(), document_to_texts, |args| every(args, |json| Some(json.to_string()))),
        Mapped::function(EVERY_STRING, two(), document_to_texts, |args| every(args, Json::text)),
    ]
}

/// What a document is, whole or at a place.
fn facts() -> Vec<Arc<ScalarUDF>> {
    let one = || Signature::any(1, Volatility::Immutable);
    let two = || Signature::any(2, Volatility::Immutable);
    let or_place =
        || Signature::one_of(vec![TypeSignature::Any(1), TypeSignature::Any(2)], Volatility::Immutable);
    vec![
        Mapped::function("json_type", or_place(), document, |args| {
            texts(args, |json| Some(json.kind().to_string()))
        }),
        Mapped::function(
            "json_array_length",
            or_place(),
            |args| document(args).map(|_| DataType::Int64),
            |args| {
                let length = |json: &Json| match json {
                    Json::List(values) => Some(values.len() as i64),
                    _ => Some(0),
                };
                Ok(Arc::new(Int64Array::from(at_places(args, length)?)))
            },
        ),
        Mapped::function("json_keys", or_place(), document_to_texts, |args| {
            lists(at_places(args, |json| match json {
                Json::Object(fields) => Some(fields.iter().map(|(name, _)| Some(name.clone())).collect()),
                _ => Some(vec![]),
            })?)
        }),
        Mapped::function("json_valid", one(), boolean, |args| {
            let texts = documents(&args[0])?;
            let valid = texts.as_string::<i32>().iter().map(|text| text.map(|text| Json::read(text).is_ok()));
            Ok(Arc::new(valid.collect::<BooleanArray>()))
        }),
        Mapped::function("json_exists", two(), boolean, exists),
    ]
}

/// Documents that are written.
fn written() -> Vec<Arc<ScalarUDF>> {
    let one = || Signature::any(1, Volatility::Immutable);
    let any =
        || Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], Volatility::Immutable);
    let text = |_: &[DataType]| Ok(DataType::Utf8);
    vec![
        Mapped::function("to_json", one(), text, |args| to_json(&args[0])),
        Mapped::function(CAST, one(), text, |args| checked(&args[0], false)),
        Mapped::function(TRY_CAST, one(), text, |args| checked(&args[0], true)),
        Mapped::function("json", one(), document, |args| {
            let whole = [Arc::clone(&args[0])];
            texts(&whole, |json| Some(json.to_string()))
        }),
        Mapped::function("json_array", any(), text, array),
        Mapped::function("json_object", any(), pairs, object),
        Mapped::function(LIST, one(), text, |args| {
            joined(&args[0], |values| format!("[{}]", values.join(",")))
        }),
        Mapped::function(MERGED, one(), text, |args| {
            // Each is an object of one field.
            joined(&args[0], |objects| {
                let fields: Vec<&str> = objects.iter().filter_map(|o| o.get(1..o.len().max(2) - 1)).collect();
                format!("{{{}}}", fields.join(","))
            })
        }),
    ]
}

/// The first argument is JSON, or a value that is easily made JSON of; the result is a text.
fn document(arguments: &[DataType]) -> Result<DataType> {
    match arguments.first() {
        Some(kind) if kind.is_string() || kind.is_null() || kind.is_nested() => Ok(DataType::Utf8),
        Some(DataType::Dictionary(_, kind)) => document(&[kind.as_ref().clone()]),
        Some(kind) => plan_err!(
            "a function of JSON takes a text, and not {}; to_json(x) makes JSON of any value",
            crate::functions::type_names::name(kind)
        ),
        None => plan_err!("a function of JSON takes a text"),
    }
}

/// The type of functions that give a list of strings.
fn document_to_texts(arguments: &[DataType]) -> Result<DataType> {
    Ok(DataType::List(Arc::new(Field::new_list_field(document(arguments)?, true))))
}

/// The type of functions that give a condition.
fn boolean(arguments: &[DataType]) -> Result<DataType> {
    document(arguments).map(|_| DataType::Boolean)
}

/// Names, which are texts, and values in turn.
fn pairs(arguments: &[DataType]) -> Result<DataType> {
    if !arguments.len().is_multiple_of(2) {
        return plan_err!("json_object takes names and values in turn: json_object('a', 1, 'b', 2)");
    }
    match arguments.iter().step_by(2).find(|name| !name.is_string()) {
        Some(kind) => plan_err!(
            "the names in json_object are texts, and not {}; cast them",
            crate::functions::type_names::name(kind)
        ),
        None => Ok(DataType::Utf8),
    }
}

/// The texts of documents.
fn documents(column: &ArrayRef) -> Result<ArrayRef> {
    if column.data_type().is_nested() { to_json(column) } else { strings(column) }
}

/// A column as strings.
fn strings(column: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(column, &DataType::Utf8)?)
}

/// The path of a row, of texts or of places in a list.
fn path(paths: &ArrayRef, row: usize) -> Result<Path> {
    if paths.data_type().is_integer() {
        let place = cast(&paths.slice(row, 1), &DataType::Int64)?;
        return Ok(Path::at(place.as_primitive::<Int64Type>().value(0)));
    }
    Path::read(paths.as_string::<i32>().value(row))
}

/// What is made of each row's document and the path in it.
fn rows<T>(args: &[ArrayRef], of: impl Fn(&Json, &Path) -> Result<Option<T>>) -> Result<Vec<Option<T>>> {
    let documents = documents(&args[0])?;
    let paths = match args.get(1) {
        Some(paths) if paths.data_type().is_integer() => Some(Arc::clone(paths)),
        Some(paths) => Some(strings(paths)?),
        None => None,
    };
    let row = |(row, text): (usize, Option<&str>)| {
        let Some(text) = text else { return Ok(None) };
        let path = match &paths {
            Some(paths) if paths.is_null(row) => return Ok(None),
            Some(paths) => path(paths, row)?,
            None => Path::read("$")?,
        };
        of(&Json::read(text)?, &path)
    };
    documents.as_string::<i32>().iter().enumerate().map(row).collect()
}

/// What is made of the one place of a path.
fn at_places<T>(args: &[ArrayRef], of: impl Fn(&Json) -> Option<T>) -> Result<Vec<Option<T>>> {
    rows(args, |document, path| match path.is_many() {
        true => exec_err!(
            "a path with * leads to many places; json_extract takes it, where it is written as a literal"
        ),
        false => Ok(path.all(document).first().and_then(|json| of(json))),
    })
}

/// A string for each document and path.
fn texts(args: &[ArrayRef], of: impl Fn(&Json) -> Option<String>) -> Result<ArrayRef> {
    Ok(Arc::new(StringArray::from(at_places(args, of)?)))
}

/// A list of strings for each document and path.
fn every(args: &[ArrayRef], of: impl Fn(&Json) -> Option<String>) -> Result<ArrayRef> {
    lists(rows(args, |document, path| Ok(Some(path.all(document).into_iter().map(&of).collect())))?)
}

/// A column of lists of strings.
fn lists(rows: Vec<Option<Vec<Option<String>>>>) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    rows.into_iter().for_each(|row| lists.append_option(row));
    Ok(Arc::new(lists.finish()))
}

/// Whether each document has something at the path.
fn exists(args: &[ArrayRef]) -> Result<ArrayRef> {
    let found = rows(args, |document, path| Ok(Some(!path.all(document).is_empty())))?;
    Ok(Arc::new(BooleanArray::from(found)))
}

/// Each value as JSON.
fn to_json(values: &ArrayRef) -> Result<ArrayRef> {
    let json = |at| (!values::is_null(values, at)).then(|| values::json(values, at)).transpose();
    Ok(Arc::new((0..values.len()).map(json).collect::<Result<StringArray>>()?))
}

/// A text as it is, if it is JSON.
fn checked(values: &ArrayRef, or_null: bool) -> Result<ArrayRef> {
    if !values.data_type().is_string() {
        return to_json(values);
    }
    let texts = strings(values)?;
    let checked = texts.as_string::<i32>().iter().map(|text| {
        let Some(text) = text else { return Ok(None) };
        match Json::read(text) {
            Ok(_) => Ok(Some(text)),
            Err(_) if or_null => Ok(None),
            Err(error) => Err(error),
        }
    });
    Ok(Arc::new(checked.collect::<Result<StringArray>>()?))
}

/// A JSON text of a row, without spaces; of null, JSON's.
fn part(texts: &ArrayRef, row: usize) -> Result<String> {
    match texts.is_null(row) {
        true => Ok("null".to_string()),
        false => Ok(Json::read(texts.as_string::<i32>().value(row))?.to_string()),
    }
}

/// How many rows there are; of no argument, one.
fn length(args: &[ArrayRef]) -> usize {
    args.first().map_or(1, |first| first.len())
}

/// `json_array` of each row.
fn array(args: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = args.iter().map(strings).collect::<Result<Vec<_>>>()?;
    let row = |at| {
        let values = columns.iter().map(|column| part(column, at)).collect::<Result<Vec<_>>>()?;
        Ok(Some(format!("[{}]", values.join(","))))
    };
    Ok(Arc::new((0..length(args)).map(row).collect::<Result<StringArray>>()?))
}

/// `json_object` of each row.
fn object(args: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = args.iter().map(strings).collect::<Result<Vec<_>>>()?;
    let field = |pair: &[ArrayRef], at: usize| {
        if pair[0].is_null(at) {
            return exec_err!("json_object: the name of a field is null");
        }
        Ok(format!("{}:{}", quoted(pair[0].as_string::<i32>().value(at)), part(&pair[1], at)?))
    };
    let row = |at| {
        let fields = columns.chunks_exact(2).map(|pair| field(pair, at)).collect::<Result<Vec<_>>>()?;
        Ok(Some(format!("{{{}}}", fields.join(","))))
    };
    Ok(Arc::new((0..length(args)).map(row).collect::<Result<StringArray>>()?))
}

/// What is made of the JSON texts of each list.
fn joined(lists: &ArrayRef, join: impl Fn(&[String]) -> String) -> Result<ArrayRef> {
    if lists.data_type().is_null() {
        return Ok(Arc::new(StringArray::new_null(lists.len())));
    }
    let Some(lists) = lists.as_list_opt::<i32>() else { return plan_err!("this function takes a list") };
    let row = |values: Option<ArrayRef>| {
        let Some(values) = values else { return Ok(None) };
        let values = strings(&values)?;
        let parts = (0..values.len()).map(|at| part(&values, at)).collect::<Result<Vec<_>>>()?;
        Ok(Some(join(&parts)))
    };
    Ok(Arc::new(lists.iter().map(row).collect::<Result<StringArray>>()?))
}
