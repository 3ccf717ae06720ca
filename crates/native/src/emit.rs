//! An expression as instructions for one row.
//!
//! Instructions never trap: where an operation has no result, another one is computed in its place, and the
//! row is marked as failed.

use crate::expression::{Arithmetic, Comparison, Expression};
use crate::kind::Kind;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

/// A value of a row. Flags are bytes, 0 or 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub value: Value,
    /// Whether it is there; none: it always is. What stands under a null means nothing.
    pub valid: Option<Value>,
    /// Whether an operation had no result; none: all had.
    pub failed: Option<Value>,
}

impl Cell {
    fn of(value: Value) -> Cell {
        Cell { value, valid: None, failed: None }
    }
}

/// Emits the instructions of a row.
pub(crate) struct Emitter<'a, 'b> {
    pub builder: &'a mut FunctionBuilder<'b>,
    /// The values of the columns in this row.
    pub columns: Vec<Option<Cell>>,
}

impl Emitter<'_, '_> {
    /// The value of an expression; none if it has no kind.
    pub fn expression(&mut self, expression: &Expression) -> Option<Cell> {
        match expression {
            Expression::Column(number, _) => self.columns.get(*number).copied().flatten(),
            Expression::Constant(kind, value) => Some(self.constant(*kind, *value)),
            Expression::Arithmetic(operation, operands) => {
                let kind = operands[0].kind()?;
                let (left, right) = self.pair(operands)?;
                Some(self.arithmetic(*operation, kind, left, right))
            }
            Expression::Comparison(comparison, operands) => {
                let kind = operands[0].kind()?;
                let (left, right) = self.pair(operands)?;
                let value = self.comparison(*comparison, kind, left.value, right.value);
                Some(self.of_both(value, left, right))
            }
            Expression::And(operands) => self.logic(operands, true),
            Expression::Or(operands) => self.logic(operands, false),
            Expression::Not(of) => {
                let of = self.expression(of)?;
                Some(Cell { value: self.not(of.value), ..of })
            }
            Expression::IsNull(of) => {
                let of = self.expression(of)?;
                let value = match of.valid {
                    Some(valid) => self.not(valid),
                    None => self.flag(false),
                };
                Some(Cell { value, valid: None, failed: of.failed })
            }
            Expression::Negated(of) => {
                let of = self.expression(of)?;
                Some(Cell { value: self.builder.ins().fneg(of.value), ..of })
            }
            Expression::Canonical(of) => {
                let kind = of.kind()?;
                let of = self.expression(of)?;
                Some(Cell { value: self.canonical(kind, of.value), ..of })
            }
            Expression::Cast { of, to, or_null } => {
                let from = of.kind()?;
                let of = self.expression(of)?;
                Some(self.cast(of, from, *to, *or_null))
            }
            Expression::Case { branches, otherwise } => {
                let otherwise = self.expression(otherwise)?;
                branches.iter().rev().try_fold(otherwise, |rest, [condition, value]| {
                    let (condition, value) = (self.expression(condition)?, self.expression(value)?);
                    Some(self.choose(condition, value, rest))
                })
            }
        }
    }

    /// Both flags; none is a flag that is always set.
    pub fn both(&mut self, left: Option<Value>, right: Option<Value>) -> Option<Value> {
        match (left, right) {
            (Some(left), Some(right)) => Some(self.builder.ins().band(left, right)),
            (one, other) => one.or(other),
        }
    }

    /// Either flag; none is a flag that is never set.
    pub fn either(&mut self, left: Option<Value>, right: Option<Value>) -> Option<Value> {
        match (left, right) {
            (Some(left), Some(right)) => Some(self.builder.ins().bor(left, right)),
            (one, other) => one.or(other),
        }
    }

    fn pair(&mut self, operands: &[Expression; 2]) -> Option<(Cell, Cell)> {
        Some((self.expression(&operands[0])?, self.expression(&operands[1])?))
    }

    /// A value that is null if one of its operands is.
    fn of_both(&mut self, value: Value, left: Cell, right: Cell) -> Cell {
        let valid = self.both(left.valid, right.valid);
        let failed = self.either(left.failed, right.failed);
        Cell { value, valid, failed }
    }

    fn flag(&mut self, set: bool) -> Value {
        self.builder.ins().iconst(types::I8, i64::from(set))
    }

    fn not(&mut self, flag: Value) -> Value {
        self.builder.ins().bxor_imm_u(flag, 1)
    }

    fn constant(&mut self, kind: Kind, value: Option<u64>) -> Cell {
        let bits = value.unwrap_or(0);
        let constant = match kind {
            Kind::F32 => self.builder.ins().f32const(Ieee32::with_bits(bits as u32)),
            Kind::F64 => self.builder.ins().f64const(Ieee64::with_bits(bits)),
            kind => self.integer(kind.register(), bits),
        };
        let valid = value.is_none().then(|| self.flag(false));
        Cell { valid, ..Cell::of(constant) }
    }

    /// An integer of these bits; those that the register has no room for are left out.
    fn integer(&mut self, register: Type, bits: u64) -> Value {
        let unused = 64 - register.bits();
        self.builder.ins().iconst(register, ((bits << unused) >> unused) as i64)
    }

    fn arithmetic(&mut self, operation: Arithmetic, kind: Kind, left: Cell, right: Cell) -> Cell {
        let (value, failed) = match kind.is_float() {
            true => (self.of_floats(operation, left.value, right.value), None),
            false => {
                let (value, failed) = self.of_integers(operation, kind, left.value, right.value);
                (value, Some(failed))
            }
        };
        let cell = self.of_both(value, left, right);
        // What is computed of a null does not count.
        let own = failed.and_then(|failed| self.both(Some(failed), cell.valid));
        Cell { failed: self.either(cell.failed, own), ..cell }
    }

    fn of_floats(&mut self, operation: Arithmetic, left: Value, right: Value) -> Value {
        let ins = self.builder.ins();
        match operation {
            Arithmetic::Add => ins.fadd(left, right),
            Arithmetic::Subtract => ins.fsub(left, right),
            Arithmetic::Multiply => ins.fmul(left, right),
            Arithmetic::Divide | Arithmetic::Remainder => ins.fdiv(left, right),
        }
    }

    /// The result, and whether there is none.
    fn of_integers(
        &mut self,
        operation: Arithmetic,
        kind: Kind,
        left: Value,
        right: Value,
    ) -> (Value, Value) {
        if matches!(operation, Arithmetic::Divide | Arithmetic::Remainder) {
            return self.division(operation, kind, left, right);
        }
        if kind.bytes() == 8 {
            let ins = self.builder.ins();
            return match (operation, kind.is_signed()) {
                (Arithmetic::Add, true) => ins.sadd_overflow(left, right),
                (Arithmetic::Add, false) => ins.uadd_overflow(left, right),
                (Arithmetic::Subtract, true) => ins.ssub_overflow(left, right),
                (Arithmetic::Subtract, false) => ins.usub_overflow(left, right),
                (_, true) => ins.smul_overflow(left, right),
                (_, false) => ins.umul_overflow(left, right),
            };
        }
        // No result of two narrow numbers is too large for 64 bits.
        let (left, right) = (self.widened(kind, left), self.widened(kind, right));
        let ins = self.builder.ins();
        let wide = match operation {
            Arithmetic::Add => ins.iadd(left, right),
            Arithmetic::Subtract => ins.isub(left, right),
            _ => ins.imul(left, right),
        };
        self.narrowed(kind, wide)
    }

    /// A quotient or a remainder. A divisor that has none is replaced by one.
    fn division(&mut self, operation: Arithmetic, kind: Kind, left: Value, right: Value) -> (Value, Value) {
        let (left, right) = (self.widened(kind, left), self.widened(kind, right));
        let mut failed = self.builder.ins().icmp_imm_u(IntCC::Equal, right, 0);
        if kind.is_signed() {
            let is_least = self.builder.ins().icmp_imm_s(IntCC::Equal, left, i64::MIN);
            let is_minus_one = self.builder.ins().icmp_imm_s(IntCC::Equal, right, -1);
            let is_too_large = self.builder.ins().band(is_least, is_minus_one);
            failed = self.builder.ins().bor(failed, is_too_large);
        }
        let one = self.builder.ins().iconst(types::I64, 1);
        let right = self.builder.ins().select(failed, one, right);
        let ins = self.builder.ins();
        let wide = match (operation, kind.is_signed()) {
            (Arithmetic::Remainder, true) => ins.srem(left, right),
            (Arithmetic::Remainder, false) => ins.urem(left, right),
            (_, true) => ins.sdiv(left, right),
            (_, false) => ins.udiv(left, right),
        };
        let (value, is_too_large) = self.narrowed(kind, wide);
        (value, self.builder.ins().bor(failed, is_too_large))
    }

    /// An integer in 64 bits.
    fn widened(&mut self, kind: Kind, value: Value) -> Value {
        match (kind.bytes(), kind.is_signed()) {
            (8, _) => value,
            (_, true) => self.builder.ins().sextend(types::I64, value),
            (_, false) => self.builder.ins().uextend(types::I64, value),
        }
    }

    /// An integer of 64 bits in those of a kind, and whether it has no room there.
    fn narrowed(&mut self, kind: Kind, wide: Value) -> (Value, Value) {
        if kind.bytes() == 8 {
            return (wide, self.flag(false));
        }
        let value = self.builder.ins().ireduce(kind.register(), wide);
        let again = self.widened(kind, value);
        (value, self.builder.ins().icmp(IntCC::NotEqual, again, wide))
    }

    fn comparison(&mut self, comparison: Comparison, kind: Kind, left: Value, right: Value) -> Value {
        let (left, right) = (self.order(kind, left), self.order(kind, right));
        let code = match (comparison, kind.is_signed()) {
            (Comparison::Equal, _) => IntCC::Equal,
            (Comparison::NotEqual, _) => IntCC::NotEqual,
            (Comparison::Less, true) => IntCC::SignedLessThan,
            (Comparison::Less, false) => IntCC::UnsignedLessThan,
            (Comparison::LessOrEqual, true) => IntCC::SignedLessThanOrEqual,
            (Comparison::LessOrEqual, false) => IntCC::UnsignedLessThanOrEqual,
            (Comparison::Greater, true) => IntCC::SignedGreaterThan,
            (Comparison::Greater, false) => IntCC::UnsignedGreaterThan,
            (Comparison::GreaterOrEqual, true) => IntCC::SignedGreaterThanOrEqual,
            (Comparison::GreaterOrEqual, false) => IntCC::UnsignedGreaterThanOrEqual,
        };
        self.builder.ins().icmp(code, left, right)
    }

    /// An integer that is ordered as the value is: that of a negative float has its other bits inverted.
    fn order(&mut self, kind: Kind, value: Value) -> Value {
        if !kind.is_float() {
            return value;
        }
        let register = if kind == Kind::F32 { types::I32 } else { types::I64 };
        let bits = self.builder.ins().bitcast(register, MemFlagsData::new(), value);
        let sign = self.builder.ins().sshr_imm_u(bits, i64::from(register.bits() - 1));
        let inverted = self.builder.ins().ushr_imm_u(sign, 1);
        self.builder.ins().bxor(bits, inverted)
    }

    /// `and` if a false operand decides, `or` if a true one does.
    fn logic(&mut self, operands: &[Expression; 2], is_and: bool) -> Option<Cell> {
        let (left, right) = self.pair(operands)?;
        let value = match is_and {
            true => self.builder.ins().band(left.value, right.value),
            false => self.builder.ins().bor(left.value, right.value),
        };
        let cell = self.of_both(value, left, right);
        let Some(both) = cell.valid else { return Some(cell) };
        let mut decides = |of: Cell| {
            let value = if is_and { self.not(of.value) } else { of.value };
            self.both(Some(value), of.valid)
        };
        let (left, right) = (decides(left), decides(right));
        let decided = self.either(left, right);
        Some(Cell { valid: self.either(Some(both), decided), ..cell })
    }

    fn canonical(&mut self, kind: Kind, value: Value) -> Value {
        use cranelift_codegen::ir::condcodes::FloatCC;
        let (zero, nan) = match kind {
            Kind::F32 => (0, u64::from(f32::NAN.to_bits())),
            _ => (0, f64::NAN.to_bits()),
        };
        let (zero, nan) = (self.constant(kind, Some(zero)).value, self.constant(kind, Some(nan)).value);
        let sum = self.builder.ins().fadd(value, zero);
        let is_nan = self.builder.ins().fcmp(FloatCC::Unordered, value, value);
        self.builder.ins().select(is_nan, nan, sum)
    }

    fn cast(&mut self, of: Cell, from: Kind, to: Kind, or_null: bool) -> Cell {
        if from == Kind::F32 {
            return Cell { value: self.builder.ins().fpromote(types::F64, of.value), ..of };
        }
        let wide = self.widened(from, of.value);
        if to.is_float() {
            let value = match from {
                Kind::U64 => self.builder.ins().fcvt_from_uint(to.register(), wide),
                _ => self.builder.ins().fcvt_from_sint(to.register(), wide),
            };
            return Cell { value, ..of };
        }
        let (value, mut misfit) = self.narrowed(to, wide);
        // Of the 64 bits, one side takes the first for a sign.
        if (from == Kind::U64) != (to == Kind::U64) && (from == Kind::U64 || from.is_signed()) {
            let is_negative = self.builder.ins().icmp_imm_s(IntCC::SignedLessThan, wide, 0);
            misfit = self.builder.ins().bor(misfit, is_negative);
        }
        match or_null {
            true => {
                let fits = self.not(misfit);
                Cell { value, valid: self.both(of.valid, Some(fits)), failed: of.failed }
            }
            false => {
                let own = self.both(Some(misfit), of.valid);
                Cell { value, failed: self.either(of.failed, own), ..of }
            }
        }
    }

    /// The value if the condition is true, and the rest otherwise.
    fn choose(&mut self, condition: Cell, value: Cell, rest: Cell) -> Cell {
        let is_true = self.both(Some(condition.value), condition.valid).unwrap_or(condition.value);
        let chosen = self.builder.ins().select(is_true, value.value, rest.value);
        let mut flag = |of_value: Option<Value>, of_rest: Option<Value>, default: bool| {
            if of_value.is_none() && of_rest.is_none() {
                return None;
            }
            let default = self.flag(default);
            let (of_value, of_rest) = (of_value.unwrap_or(default), of_rest.unwrap_or(default));
            Some(self.builder.ins().select(is_true, of_value, of_rest))
        };
        let valid = flag(value.valid, rest.valid, true);
        let failed = flag(value.failed, rest.failed, false);
        Cell { value: chosen, valid, failed: self.either(condition.failed, failed) }
    }
}
