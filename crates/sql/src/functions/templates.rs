//! `format('{} {:.2f}', …)` and `printf('%d %5.2f', …)`: values in a text.
//!
//! Known are `d`, `i`, `u`, `s`, `f`, `e`, `x`, `X`, a width, a precision, and the flags `-`, `0`, `+`, and
//! `,` between thousands.
//!
//! ```sql
//! select format('{} has {:.2f}', 'x', 1.5);  -- x has 1.50
//! select printf('%05d', 42);                 -- 00042
//! ```

use super::{Mapped, text};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarUDF, Signature, Volatility};
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

/// The functions of this module.
pub(super) fn all() -> Vec<Arc<ScalarUDF>> {
    let any = || Signature::variadic_any(Volatility::Immutable);
    vec![
        Mapped::function("format", any(), |_| Ok(DataType::Utf8), |args| filled(args, braces)),
        Mapped::function("printf", any(), |_| Ok(DataType::Utf8), |args| filled(args, percents)),
    ]
}

/// The template of each row with the values of the row; null if any of them is.
fn filled(args: &[ArrayRef], fill: fn(&str, &[String]) -> Result<String>) -> Result<ArrayRef> {
    let Some((templates, values)) = args.split_first() else { return exec_err!("format takes a template") };
    let templates = cast(templates, &DataType::Utf8)?;
    let templates = templates.as_string::<i32>();
    let row = |at: usize| {
        if args.iter().any(|column| column.is_null(at)) {
            return Ok(None);
        }
        let values = values.iter().map(|column| text::value(column, at)).collect::<Result<Vec<_>>>()?;
        fill(templates.value(at), &values).map(Some)
    };
    Ok(Arc::new((0..templates.len()).map(row).collect::<Result<StringArray>>()?))
}

/// How wide a value can be, and how many digits it can have.
const MOST_CHARACTERS: usize = 65_535;

/// How a value is written.
#[derive(Debug, Default)]
struct Form {
    /// Whether the value is at the left of its width.
    left: bool,
    /// Whether zeros fill the width.
    zeros: bool,
    /// Whether a plus sign is written.
    sign: bool,
    /// Whether commas stand between thousands.
    thousands: bool,
    /// The least width.
    width: usize,
    /// The number of digits after the point.
    precision: Option<usize>,
    /// The letter of the form.
    kind: Option<char>,
}

impl Form {
    /// Reads a form from a template.
    fn read(chars: &mut Peekable<Chars<'_>>) -> Result<Form> {
        let mut form = Form::default();
        while let Some(flag) = chars.next_if(|c| "-<>0+,".contains(*c)) {
            match flag {
                '-' | '<' => form.left = true,
                '0' => form.zeros = true,
                '+' => form.sign = true,
                ',' => form.thousands = true,
                _ => {}
            }
        }
        form.width = number(chars)?.unwrap_or(0);
        if chars.next_if_eq(&',').is_some() {
            form.thousands = true;
        }
        if chars.next_if_eq(&'.').is_some() {
            form.precision = Some(number(chars)?.unwrap_or(0));
        }
        // What C says of the size of a number does not matter here.
        while chars.next_if(|c| "lhz".contains(*c)).is_some() {}
        form.kind = chars.next_if(char::is_ascii_alphabetic);
        Ok(form)
    }

    /// Writes a value in this form.
    fn write(&self, value: &str) -> Result<String> {
        let wrong = || exec_err!("format: {value:?} is not a number");
        let mut text = match self.kind {
            Some('d' | 'i' | 'u') => match value.parse::<i128>() {
                Ok(number) => number.to_string(),
                Err(_) => return wrong(),
            },
            Some(kind @ ('x' | 'X')) => match value.parse::<i64>() {
                Ok(number) if kind == 'x' => format!("{number:x}"),
                Ok(number) => format!("{number:X}"),
                Err(_) => return wrong(),
            },
            Some(kind @ ('f' | 'e')) => match value.parse::<f64>() {
                Ok(number) if kind == 'f' => format!("{number:.0$}", self.precision.unwrap_or(6)),
                Ok(number) => scientific(number, self.precision.unwrap_or(6)),
                Err(_) => return wrong(),
            },
            None | Some('s' | 'g') => match (self.precision, self.kind) {
                (Some(length), Some('s')) => value.chars().take(length).collect(),
                _ => value.to_string(),
            },
            Some(other) => return exec_err!("format: there is no {other:?}; there are d, s, f, e and x"),
        };
        if self.thousands {
            text = grouped(&text);
        }
        if self.sign && !text.starts_with('-') {
            text.insert(0, '+');
        }
        let missing = self.width.saturating_sub(text.chars().count());
        let number = !matches!(self.kind, None | Some('s'));
        Ok(match (self.left, self.zeros && number) {
            (true, _) => text + &" ".repeat(missing),
            (false, true) => {
                let sign = text.len() - text.trim_start_matches(['-', '+']).len();
                text.insert_str(sign, &"0".repeat(missing));
                text
            }
            (false, false) => " ".repeat(missing) + &text,
        })
    }
}

/// A width, or a number of digits, if there is one.
fn number(chars: &mut Peekable<Chars<'_>>) -> Result<Option<usize>> {
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    match digits.parse::<usize>() {
        Ok(number) if number <= MOST_CHARACTERS => Ok(Some(number)),
        _ if digits.is_empty() => Ok(None),
        _ => exec_err!("format: {digits} characters are too many; a value can be {MOST_CHARACTERS} wide"),
    }
}

/// `1.5e+00`, as C writes it.
fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// Commas between thousands.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let digits = whole.trim_start_matches('-');
    let mut out = whole[..whole.len() - digits.len()].to_string();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// The value with this number.
fn value(values: &[String], at: usize) -> Result<&String> {
    match values.get(at) {
        Some(value) => Ok(value),
        None => exec_err!("format: there are {} values, and the template asks for more", values.len()),
    }
}

/// A template of `printf`.
fn percents(template: &str, values: &[String]) -> Result<String> {
    let mut out = String::new();
    let mut next = 0;
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            out.push(c);
            continue;
        }
        out += &Form::read(&mut chars)?.write(value(values, next)?)?;
        next += 1;
    }
    Ok(out)
}

/// A template of `format`.
fn braces(template: &str, values: &[String]) -> Result<String> {
    let mut out = String::new();
    let mut next = 0;
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        let doubled = matches!(c, '{' | '}') && chars.next_if_eq(&c).is_some();
        if c != '{' || doubled {
            out.push(c);
            continue;
        }
        let at = number(&mut chars)?.unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        let form = match chars.next_if_eq(&':') {
            Some(_) => Form::read(&mut chars)?,
            None => Form::default(),
        };
        if chars.next() != Some('}') {
            return exec_err!("format: {template:?} has a bracket that is not closed");
        }
        out += &form.write(value(values, at)?)?;
    }
    Ok(out)
}
