//! Functions of lists that treat nulls as DuckDB does: `list_distinct`, `list_intersect`, `list_has_any`,
//! `list_has_all`, `list_sort`, `list_reverse_sort`, `list_concat`.
//!
//! Invariants: a null is not a member of a set. Both zeros are equal, and so are all NaN. The planner casts
//! the lists of a call to one type; a float and a decimal together are floats.

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

/// The functions of this module.
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
        Arc::new(ScalarUDF::from(ListFunction { name, aliases, operation, signature }))
    };
    named.map(function).into()
}

/// What a function does with its lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    /// The different values.
    Distinct,
    /// The values of both lists.
    Intersect,
    /// Whether a value of one list is in the other.
    HasAny,
    /// Whether all values of one list are in the other.
    HasAll,
    /// The values in order.
    Sort,
    /// The values in descending order.
    ReverseSort,
    /// The values of all lists.
    Concat,
}

impl Operation {
    /// How many lists it takes, and how many texts after them.
    fn arity(self) -> (Range<usize>, Range<usize>) {
        match self {
            Operation::Distinct => (1..2, 0..1),
            Operation::Intersect | Operation::HasAny | Operation::HasAll => (2..3, 0..1),
            Operation::Sort => (1..2, 0..3),
            Operation::ReverseSort => (1..2, 0..2),
            Operation::Concat => (1..usize::MAX, 0..1),
        }
    }
}

/// A function of lists.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ListFunction {
    /// Its name.
    name: &'static str,
    /// Its other names.
    aliases: Vec<String>,
    /// What it does.
    operation: Operation,
    /// Its arguments.
    signature: Signature,
}

impl ScalarUDFImpl for ListFunction {
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
        let (lists, texts) = self.operation.arity();
        let count = types.len().min(lists.end - 1);
        if !lists.contains(&count) || !texts.contains(&(types.len() - count)) {
            return plan_err!("{} does not take {} arguments", self.name, types.len());
        }
        let mut of = DataType::Null;
        for kind in &types[..count] {
            let values = element_type(kind, self.name)?;
            let Some(both) = common_type(&of, values) else {
                return plan_err!(
                    "{}: the values of one list are {} and those of another {}; cast one of the lists",
                    self.name,
                    type_name(&of),
                    type_name(values)
                );
            };
            of = both;
        }
        let list = DataType::new_list(of, true);
        Ok((0..types.len()).map(|at| if at < count { list.clone() } else { DataType::Utf8 }).collect())
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
        let (count, _) = self.operation.arity();
        let (lists, texts) = arrays.split_at(arrays.len().min(count.end - 1));
        let lists: Vec<&ListArray> = lists.iter().map(|list| list.as_list::<i32>()).collect();
        let result: ArrayRef = match (self.operation, lists.as_slice()) {
            (Operation::Distinct, [list]) => Arc::new(distinct(list)?),
            (Operation::Intersect, [left, right]) => Arc::new(intersect(left, right)?),
            (Operation::HasAny, [left, right]) => {
                Arc::new(contains(left, right, |mut found| found.any(|is| is))?)
            }
            (Operation::HasAll, [left, right]) => {
                Arc::new(contains(left, right, |mut found| found.all(|is| is))?)
            }
            (Operation::Sort, [list]) => Arc::new(sort(list, &Order::of(texts, false, rows)?)?),
            (Operation::ReverseSort, [list]) => Arc::new(sort(list, &Order::of(texts, true, rows)?)?),
            (Operation::Concat, lists) => Arc::new(concat(lists, rows)?),
            _ => return exec_err!("{} does not take these lists", self.name),
        };
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(result),
        })
    }
}

/// The type of the values of a list.
fn element_type<'a>(kind: &'a DataType, function: &str) -> Result<&'a DataType> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Ok(field.data_type())
        }
        DataType::Null => Ok(kind),
        other => plan_err!("{function} takes lists, and not {}", type_name(other)),
    }
}

/// The name of a type in a message.
fn type_name(data_type: &DataType) -> String {
    type_names::name(data_type).to_lowercase()
}

/// The type that values of these two types are cast to; none, if they have nothing in common.
fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeList, Float32, Float64, LargeList, List, Null};
    match (left, right) {
        (Null, other) | (other, Null) => Some(other.clone()),
        (
            List(left) | LargeList(left) | FixedSizeList(left, _),
            List(right) | LargeList(right) | FixedSizeList(right, _),
        ) => Some(DataType::new_list(common_type(left.data_type(), right.data_type())?, true)),
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

/// The values of lists, encoded so that their bytes compare as they do.
struct Values {
    /// The values in a comparable form.
    rows: Rows,
    /// Which values are null.
    nulls: Option<NullBuffer>,
}

impl Values {
    /// The values of lists, comparable across all of them.
    fn of(lists: &[&ListArray], options: SortOptions) -> Result<Vec<Values>> {
        let Some(first) = lists.first() else { return Ok(vec![]) };
        let field = SortField::new_with_options(first.value_type(), options);
        let converter = RowConverter::new(vec![field])?;
        let of = |list: &&ListArray| {
            let values = canonical_values(list.values());
            // An array of type null has no other mask.
            let nulls = values.logical_nulls();
            Ok(Values { rows: converter.convert_columns(&[values])?, nulls })
        };
        lists.iter().map(of).collect()
    }

    /// The values at these places that are not null, and where they are.
    fn at(&self, places: Range<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        let valid = |at: &usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
        places.filter(valid).map(|at| (at, self.rows.row(at).data()))
    }
}

/// Where the values of one list are among the values of all lists.
fn places(lists: &ListArray, row: usize) -> Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// Builds lists from values of other lists.
struct ListBuilder {
    /// For each value, the input it is from and its place there.
    values: Vec<(usize, usize)>,
    /// The length of each list.
    lengths: Vec<usize>,
    /// Which lists are null.
    nulls: NullBufferBuilder,
}

impl ListBuilder {
    /// A builder for so many rows.
    fn with_capacity(rows: usize) -> ListBuilder {
        ListBuilder { values: vec![], lengths: Vec::with_capacity(rows), nulls: NullBufferBuilder::new(rows) }
    }

    /// Adds a list of values, or null.
    fn push(&mut self, list: Option<impl IntoIterator<Item = (usize, usize)>>) {
        self.nulls.append(list.is_some());
        let before = self.values.len();
        self.values.extend(list.into_iter().flatten());
        self.lengths.push(self.values.len() - before);
    }

    /// The lists that were added.
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

/// The distinct values of each list, in order of their first appearance.
fn distinct(lists: &ListArray) -> Result<ListArray> {
    let values = Values::of(&[lists], SortOptions::default())?;
    let mut builder = ListBuilder::with_capacity(lists.len());
    for row in 0..lists.len() {
        let mut seen = HashSet::new();
        let first = |(at, value)| seen.insert(value).then_some((0, at));
        builder.push(lists.is_valid(row).then(|| values[0].at(places(lists, row)).filter_map(first)));
    }
    builder.finish(&[lists])
}

/// The distinct values that are in both lists, in the order of the longer one; of equally long ones, in that
/// of the second. A null as the second list has no values.
fn intersect(left: &ListArray, right: &ListArray) -> Result<ListArray> {
    let lists = [left, right];
    let values = Values::of(&lists, SortOptions::default())?;
    let mut builder = ListBuilder::with_capacity(left.len());
    for row in 0..left.len() {
        let places = [places(left, row), if right.is_valid(row) { places(right, row) } else { 0..0 }];
        let (longer, shorter) = if places[0].len() > places[1].len() { (0, 1) } else { (1, 0) };
        let mut wanted: HashSet<&[u8]> =
            values[shorter].at(places[shorter].clone()).map(|(_, value)| value).collect();
        let both = values[longer].at(places[longer].clone());
        let both = both.filter_map(|(at, value)| wanted.remove(value).then_some((longer, at)));
        builder.push(left.is_valid(row).then_some(both));
    }
    builder.finish(&lists)
}

/// Whether the first list contains the values of the second: `decide` sees for each of these if it does.
/// Null, if a list is null.
fn contains(
    left: &ListArray,
    right: &ListArray,
    decide: impl Fn(Box<dyn Iterator<Item = bool> + '_>) -> bool,
) -> Result<BooleanArray> {
    let values = Values::of(&[left, right], SortOptions::default())?;
    let of_row = |row: usize| {
        let both = left.is_valid(row) && right.is_valid(row);
        both.then(|| {
            let set: HashSet<&[u8]> = values[0].at(places(left, row)).map(|(_, value)| value).collect();
            decide(Box::new(values[1].at(places(right, row)).map(|(_, value)| set.contains(value))))
        })
    };
    Ok((0..left.len()).map(of_row).collect())
}

/// The lists of a row, concatenated. Lists that are null are left out; of nothing else the result is null.
fn concat(lists: &[&ListArray], rows: usize) -> Result<ListArray> {
    let mut builder = ListBuilder::with_capacity(rows);
    for row in 0..rows {
        let there = lists.iter().enumerate().filter(|(_, list)| list.is_valid(row));
        let values = there.clone().flat_map(|(of, list)| places(list, row).map(move |at| (of, at)));
        builder.push((there.clone().next().is_some()).then_some(values));
    }
    builder.finish(lists)
}

/// The order that a call sorts by.
enum Order {
    /// The same for all rows.
    Same(SortOptions),
    /// One for each row; null gives null.
    OfRows(Vec<Option<SortOptions>>),
}

impl Order {
    /// `texts`: the order, unless it is count by the function, and where nulls are.
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
                    true => options.descending = parse_direction(text.value(row))?,
                    false => options.nulls_first = parse_null_order(text.value(row))?,
                }
            }
            Ok(Some(options))
        };
        Ok(Order::OfRows((0..rows).map(of_row).collect::<Result<_>>()?))
    }

    /// The order of a row; `None` where an argument is null.
    fn of_row(&self, row: usize) -> Option<SortOptions> {
        match self {
            Order::Same(options) => Some(*options),
            Order::OfRows(rows) => rows[row],
        }
    }
}

/// Whether the order is descending.
fn parse_direction(order: &str) -> Result<bool> {
    match order.to_ascii_uppercase().as_str() {
        "ASC" | "ASCENDING" | "DEFAULT" => Ok(false),
        "DESC" | "DESCENDING" => Ok(true),
        _ => exec_err!("a list is sorted 'ASC' or 'DESC', and not {order:?}"),
    }
}

/// Whether nulls come first.
fn parse_null_order(order: &str) -> Result<bool> {
    match order.to_ascii_uppercase().as_str() {
        "NULLS FIRST" => Ok(true),
        "NULLS LAST" | "DEFAULT" => Ok(false),
        _ => exec_err!("nulls are sorted 'NULLS FIRST' or 'NULLS LAST', and not {order:?}"),
    }
}

/// Sorts each list.
fn sort(lists: &ListArray, order: &Order) -> Result<ListArray> {
    let mut encoded: Vec<(SortOptions, Vec<Values>)> = Vec::new();
    let mut builder = ListBuilder::with_capacity(lists.len());
    for row in 0..lists.len() {
        let Some(options) = order.of_row(row).filter(|_| lists.is_valid(row)) else {
            builder.push(None::<[_; 0]>);
            continue;
        };
        let at = match encoded.iter().position(|(other, _)| *other == options) {
            Some(at) => at,
            None => {
                encoded.push((options, Values::of(&[lists], options)?));
                encoded.len() - 1
            }
        };
        let rows = &encoded[at].1[0].rows;
        let mut places: Vec<usize> = places(lists, row).collect();
        places.sort_by_key(|at| rows.row(*at));
        builder.push(Some(places.into_iter().map(|at| (0, at))));
    }
    builder.finish(&[lists])
}
