//! Lists as sets, in order, and one behind the other, as in DuckDB: `list_distinct`, `list_intersect`, `list_has_any`,
//! `list_has_all`, `list_sort`, `list_reverse_sort`, `list_concat`.
//!
//! Invariants: a null is no value of a set. Floats are equal as they are everywhere: both zeros, and all NaN. The lists of
//! a call are of one type by now: a float beside a decimal makes floats of both.

use super::type_names;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, NullBufferBuilder, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{SortOptions, cast, interleave};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use whimbrel_plan::canonical_values;

pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let named = [
        (Operation::Distinct, "array_distinct", vec!["list_distinct"]),
        (Operation::Intersect, "array_intersect", vec!["list_intersect"]),
        (Operation::HasAny, "array_has_any", vec!["list_has_any", "arrays_overlap"]),
        (Operation::HasAll, "array_has_all", vec!["list_has_all"]),
        (Operation::Sort, "array_sort", vec!["list_sort"]),
        (Operation::ReverseSort, "array_reverse_sort", vec!["list_reverse_sort"]),
        (Operation::Concat, "array_concat", vec!["array_cat", "list_concat", "list_cat"]),
    ];
    let function = |(operation, name, aliases): (Operation, &'static str, Vec<&str>)| {
        let aliases = aliases.into_iter().map(str::to_string).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(OfLists { name, aliases, operation, signature }))
    };
    named.map(function).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Distinct,
    Intersect,
    HasAny,
    HasAll,
    Sort,
    ReverseSort,
    Concat,
}

impl Operation {
    /// How many lists, and how many texts behind them, it takes.
    fn takes(self) -> (Range<usize>, Range<usize>) {
        match self {
            Operation::Distinct => (1..2, 0..1),
            Operation::Intersect | Operation::HasAny | Operation::HasAll => (2..3, 0..1),
            Operation::Sort => (1..2, 0..3),
            Operation::ReverseSort => (1..2, 0..2),
            Operation::Concat => (1..usize::MAX, 0..1),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLists {
    name: &'static str,
    aliases: Vec<String>,
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for OfLists {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (lists, texts) = self.operation.takes();
        let given = types.len().min(lists.end - 1);
        if !lists.contains(&given) || !texts.contains(&(types.len() - given)) {
            return plan_err!("{} does not take {} arguments", self.name, types.len());
        }
        let mut of = DataType::Null;
        for kind in &types[..given] {
            let values = values_of(kind, self.name)?;
            let Some(both) = common(&of, values) else {
                return plan_err!(
                    "{}: the values of one list are {} and those of another {}; cast one of the lists",
                    self.name,
                    type_names::name(&of),
                    type_names::name(values)
                );
            };
            of = both;
        }
        let list = DataType::new_list(of, true);
        Ok((0..types.len()).map(|at| if at < given { list.clone() } else { DataType::Utf8 }).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.operation {
            Operation::HasAny | Operation::HasAll => Ok(DataType::Boolean),
            _ => Ok(types[0].clone()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| arg.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let (given, _) = self.operation.takes();
        let (lists, texts) = arrays.split_at(arrays.len().min(given.end - 1));
        let lists: Vec<&ListArray> = lists.iter().map(|list| list.as_list::<i32>()).collect();
        let result: ArrayRef = match (self.operation, lists.as_slice()) {
            (Operation::Distinct, [list]) => Arc::new(distinct(list)?),
            (Operation::Intersect, [left, right]) => Arc::new(intersection(left, right)?),
            (Operation::HasAny, [left, right]) => Arc::new(has(left, right, |mut found| found.any(|is| is))?),
            (Operation::HasAll, [left, right]) => Arc::new(has(left, right, |mut found| found.all(|is| is))?),
            (Operation::Sort, [list]) => Arc::new(sorted(list, &Order::of(texts, false, rows)?)?),
            (Operation::ReverseSort, [list]) => Arc::new(sorted(list, &Order::of(texts, true, rows)?)?),
            (Operation::Concat, lists) => Arc::new(concatenated(lists, rows)?),
            _ => return exec_err!("{} does not take these lists", self.name),
        };
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// The type of a list's values.
fn values_of<'a>(kind: &'a DataType, function: &str) -> Result<&'a DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Ok(field.data_type())
        }
        DataType::Null => Ok(kind),
        other => plan_err!("{function} takes lists, and not {}", type_names::name(other)),
    }
}

/// What values of these types are together.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, Float32, Float64, LargeList, List, Null};
    match (left, right) {
        (Null, other) | (other, Null) => Some(other.clone()),
        (
            List(left) | LargeList(left) | FixedSizeList(left, _),
            List(right) | LargeList(right) | FixedSizeList(right, _),
        ) => Some(DataType::new_list(common(left.data_type(), right.data_type())?, true)),
        (float @ (Float32 | Float64), decimal) | (decimal, float @ (Float32 | Float64))
            if decimal.is_decimal() =>
        {
            Some(float.clone())
        }
        (left, right) if left == right => Some(left.clone()),
        (left, right) if left.is_string() != right.is_string() => None,
        (left, right) => type_union_resolution(&[left.clone(), right.clone()]),
    }
}

/// The values of lists, so that they can be compared by their bytes.
struct Values {
    rows: Rows,
    nulls: Option<NullBuffer>,
}

impl Values {
    fn of(lists: &[&ListArray], options: SortOptions) -> Result<Vec<Values>> {
        let Some(first) = lists.first() else { return Ok(vec![]) };
        let field = SortField::new_with_options(first.value_type(), options);
        let converter = RowConverter::new(vec![field])?;
        let of = |list: &&ListArray| {
            let values = canonical_values(list.values());
            // Of an array of nothing but nulls there is no other word of them.
            let nulls = values.logical_nulls();
            Ok(Values { rows: converter.convert_columns(&[values])?, nulls })
        };
        lists.iter().map(of).collect()
    }

    /// The values at these places that are not null, each with its place.
    fn at(&self, places: Range<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        let valid = |at: &usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
        places.filter(valid).map(|at| (at, self.rows.row(at).data()))
    }
}

/// Where the values of a list stand among those of all.
fn places(lists: &ListArray, row: usize) -> Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// Lists that are put together of values of others.
struct Built {
    /// Which of the others a value is of, and its place there.
    values: Vec<(usize, usize)>,
    lengths: Vec<usize>,
    nulls: NullBufferBuilder,
}

impl Built {
    fn with_room(rows: usize) -> Built {
        Built { values: vec![], lengths: Vec::with_capacity(rows), nulls: NullBufferBuilder::new(rows) }
    }

    fn push(&mut self, list: Option<impl IntoIterator<Item = (usize, usize)>>) {
        self.nulls.append(list.is_some());
        let before = self.values.len();
        self.values.extend(list.into_iter().flatten());
        self.lengths.push(self.values.len() - before);
    }

    fn finish(mut self, of: &[&ListArray]) -> Result<ListArray> {
        let kind = of.first().map_or(DataType::Null, |list| list.value_type());
        let arrays: Vec<&dyn Array> = of.iter().map(|list| list.values().as_ref()).collect();
        let values = match self.values.is_empty() {
            true => new_empty_array(&kind),
            false => interleave(&arrays, &self.values)?,
        };
        let field: FieldRef = Arc::new(Field::new_list_field(kind, true));
        let offsets = OffsetBuffer::from_lengths(self.lengths);
        Ok(ListArray::try_new(field, offsets, values, self.nulls.finish())?)
    }
}

/// The different values of each list, in the order in which they come first.
fn distinct(lists: &ListArray) -> Result<ListArray> {
    let values = Values::of(&[lists], SortOptions::default())?;
    let mut built = Built::with_room(lists.len());
    for row in 0..lists.len() {
        let mut seen = HashSet::new();
        let first = |(at, value)| seen.insert(value).then_some((0, at));
        built.push(lists.is_valid(row).then(|| values[0].at(places(lists, row)).filter_map(first)));
    }
    built.finish(&[lists])
}

/// The different values that both lists have, in the order of the longer one, or else of the second. A second list that is
/// null has no values.
fn intersection(left: &ListArray, right: &ListArray) -> Result<ListArray> {
    let lists = [left, right];
    let values = Values::of(&lists, SortOptions::default())?;
    let mut built = Built::with_room(left.len());
    for row in 0..left.len() {
        let places = [places(left, row), if right.is_valid(row) { places(right, row) } else { 0..0 }];
        let (longer, shorter) = if places[0].len() > places[1].len() { (0, 1) } else { (1, 0) };
        let mut wanted: HashSet<&[u8]> =
            values[shorter].at(places[shorter].clone()).map(|(_, value)| value).collect();
        let both = values[longer].at(places[longer].clone());
        let both = both.filter_map(|(at, value)| wanted.remove(value).then_some((longer, at)));
        built.push(left.is_valid(row).then_some(both));
    }
    built.finish(&lists)
}

/// What is said of the values of the second list, each of which is found in the first one or not; null where a list is.
fn has(
    left: &ListArray,
    right: &ListArray,
    decide: impl Fn(Box<dyn Iterator<Item = bool> + '_>) -> bool,
) -> Result<BooleanArray> {
    let values = Values::of(&[left, right], SortOptions::default())?;
    let of_row = |row: usize| {
        let known = left.is_valid(row) && right.is_valid(row);
        known.then(|| {
            let set: HashSet<&[u8]> = values[0].at(places(left, row)).map(|(_, value)| value).collect();
            decide(Box::new(values[1].at(places(right, row)).map(|(_, value)| set.contains(value))))
        })
    };
    Ok((0..left.len()).map(of_row).collect())
}

/// The lists of a row, one behind the other; those that are null are none.
fn concatenated(lists: &[&ListArray], rows: usize) -> Result<ListArray> {
    let mut built = Built::with_room(rows);
    for row in 0..rows {
        let there = lists.iter().enumerate().filter(|(_, list)| list.is_valid(row));
        let values = there.clone().flat_map(|(of, list)| places(list, row).map(move |at| (of, at)));
        built.push((there.clone().next().is_some()).then_some(values));
    }
    built.finish(lists)
}

/// In which order the lists of a call are.
enum Order {
    /// All in one.
    Same(SortOptions),
    /// Each row in its own, or null.
    OfRows(Vec<Option<SortOptions>>),
}

impl Order {
    /// `texts`: the order, unless it is given by the function, and where nulls are.
    fn of(texts: &[ArrayRef], reverse: bool, rows: usize) -> Result<Order> {
        let least_first = SortOptions { descending: reverse, nulls_first: false };
        if texts.is_empty() {
            return Ok(Order::Same(least_first));
        }
        let texts = texts.iter().map(|text| Ok(cast(text, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
        let of_row = |row: usize| {
            let mut options = least_first;
            for (at, text) in texts.iter().enumerate() {
                let text = text.as_string::<i32>();
                if text.is_null(row) {
                    return Ok(None);
                }
                match at == 0 && !reverse {
                    true => options.descending = descends(text.value(row))?,
                    false => options.nulls_first = begins_with_nulls(text.value(row))?,
                }
            }
            Ok(Some(options))
        };
        Ok(Order::OfRows((0..rows).map(of_row).collect::<Result<_>>()?))
    }

    fn of_row(&self, row: usize) -> Option<SortOptions> {
        match self {
            Order::Same(options) => Some(*options),
            Order::OfRows(rows) => rows[row],
        }
    }
}

fn descends(order: &str) -> Result<bool> {
    match order.to_ascii_uppercase().as_str() {
        "ASC" | "ASCENDING" | "DEFAULT" => Ok(false),
        "DESC" | "DESCENDING" => Ok(true),
        _ => exec_err!("a list is sorted 'ASC' or 'DESC', and not {order:?}"),
    }
}

fn begins_with_nulls(order: &str) -> Result<bool> {
    match order.to_ascii_uppercase().as_str() {
        "NULLS FIRST" => Ok(true),
        "NULLS LAST" | "DEFAULT" => Ok(false),
        _ => exec_err!("nulls are sorted 'NULLS FIRST' or 'NULLS LAST', and not {order:?}"),
    }
}

/// The values of each list in order.
fn sorted(lists: &ListArray, order: &Order) -> Result<ListArray> {
    let mut known: Vec<(SortOptions, Vec<Values>)> = Vec::new();
    let mut built = Built::with_room(lists.len());
    for row in 0..lists.len() {
        let Some(options) = order.of_row(row).filter(|_| lists.is_valid(row)) else {
            built.push(None::<[_; 0]>);
            continue;
        };
        let at = match known.iter().position(|(other, _)| *other == options) {
            Some(at) => at,
            None => {
                known.push((options, Values::of(&[lists], options)?));
                known.len() - 1
            }
        };
        let rows = &known[at].1[0].rows;
        let mut places: Vec<usize> = places(lists, row).collect();
        places.sort_by_key(|at| rows.row(*at));
        built.push(Some(places.into_iter().map(|at| (0, at))));
    }
    built.finish(&[lists])
}
