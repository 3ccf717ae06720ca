//! A loop over rows as a function in memory, and its calls.
//!
//! Invariant: what a function reads and writes lies within the arrays and buffers of its call. Its columns
//! have the kinds and the rows that it was compiled for, which is checked before each call.

use crate::emit::{Cell, Emitter};
use crate::expression::Expression;
use crate::kind::Kind;
use arrow::array::{Array, ArrayData, ArrayRef, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::DataType;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AbiParam, BlockArg, Function as Code, InstBuilder, MemFlagsData, Value, types};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};
use std::mem::offset_of;
use std::sync::Mutex;

/// Where a column is, for a function. Bitmaps begin at a bit of their first byte or a later one.
#[repr(C)]
struct ColumnPointers {
    values: *const u8,
    /// The number of the first bit, if values are bits.
    first_value: i64,
    /// Which rows are there; read only if the function was compiled for a column with nulls.
    valid: *const u8,
    first_valid: i64,
}

/// Memory of a table of pointers.
const TRUSTED: MemFlagsData = MemFlagsData::trusted();

/// Memory of columns, of which some point into the middle of a file.
const UNALIGNED: MemFlagsData = MemFlagsData::new().with_notrap();

/// The pointers of a column in registers.
struct LoadedPointers {
    kind: Kind,
    values: Value,
    first_value: Value,
    /// The bitmap and its first bit, if the column has nulls.
    valid: Option<(Value, Value)>,
}

/// The columns, how many rows they have, and where values and whether they are there are written, a byte each
/// for truth values. Returns 0 if all operations had a result.
type Entry = extern "C" fn(*const ColumnPointers, i64, *mut u8, *mut u8) -> i8;

/// A function of columns, which is run over batches of rows.
pub(crate) struct Function {
    entry: Entry,
    /// The kind of each column that it reads, and whether it has nulls.
    columns: Vec<Option<(Kind, bool)>>,
    result: Kind,
    /// Whether a result may be null.
    may_be_null: bool,
    /// The memory of the code.
    module: Mutex<Option<JITModule>>,
}

impl Function {
    /// Compiles an expression for columns with and without nulls; none if this machine cannot.
    pub fn compile(expression: &Expression, with_nulls: &[bool]) -> Option<Function> {
        let result = expression.kind()?;
        let kinds = expression.columns().into_iter();
        let columns: Vec<_> = kinds.zip(with_nulls).map(|(kind, nulls)| Some((kind?, *nulls))).collect();
        let mut module = new_module()?;
        let (id, may_be_null) = define(&mut module, expression, &columns)?;
        module.finalize_definitions().ok()?;
        let code = module.get_finalized_function(id);
        #[expect(unsafe_code, reason = "machine code is called by its address")]
        // SAFETY: the address is that of a function that was defined with the signature of `Entry`.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code) };
        Some(Function { entry, columns, result, may_be_null, module: Mutex::new(Some(module)) })
    }

    /// Computes the results for all rows of these columns; none if an operation had no result, or the columns
    /// are others.
    pub fn run(&self, columns: &[ArrayRef], rows: usize, to: &DataType) -> Option<ArrayRef> {
        let datas: Vec<ArrayData> = columns.iter().map(|column| column.to_data()).collect();
        let pointers = self.pointers(&datas, rows)?;
        let mut values = MutableBuffer::from_len_zeroed(rows * self.result.bytes());
        let mut valid = MutableBuffer::from_len_zeroed(if self.may_be_null { rows } else { 0 });
        let count = i64::try_from(rows).ok()?;
        let failed = (self.entry)(pointers.as_ptr(), count, values.as_mut_ptr(), valid.as_mut_ptr());
        if failed != 0 || Kind::of(to) != Some(self.result) {
            return None;
        }
        let values = match self.result {
            Kind::Bool => bits(&values),
            _ => Buffer::from(values),
        };
        let nulls = self.may_be_null.then(|| NullBuffer::new(BooleanBuffer::new(bits(&valid), 0, rows)));
        let data = ArrayData::builder(to.clone()).len(rows).add_buffer(values);
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        data.nulls(nulls).build().ok().map(make_array)
    }

    /// Where the columns are; none if they are not those that the function was compiled for.
    fn pointers(&self, columns: &[ArrayData], rows: usize) -> Option<Vec<ColumnPointers>> {
        if columns.len() != self.columns.len() {
            return None;
        }
        let pointers = columns.iter().zip(&self.columns).map(|(column, expected)| {
            let Some((kind, nulls)) = expected else { return Some(ColumnPointers::none()) };
            let is_expected = Kind::of(column.data_type()) == Some(*kind)
                && column.len() == rows
                && *nulls == (column.null_count() > 0);
            is_expected.then(|| ColumnPointers::of(column, *kind))?
        });
        pointers.collect()
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        if let Ok(module) = self.module.get_mut()
            && let Some(module) = module.take()
        {
            #[expect(unsafe_code, reason = "the memory of machine code is given back")]
            // SAFETY: only `run` calls the code, and nobody can any more.
            unsafe {
                module.free_memory();
            }
        }
    }
}

impl ColumnPointers {
    fn none() -> ColumnPointers {
        ColumnPointers { values: std::ptr::null(), first_value: 0, valid: std::ptr::null(), first_valid: 0 }
    }

    fn of(column: &ArrayData, kind: Kind) -> Option<ColumnPointers> {
        let values = column.buffers().first()?;
        let (values, first_value) = match kind {
            Kind::Bool => (values.as_ptr(), i64::try_from(column.offset()).ok()?),
            kind => (values.get(column.offset() * kind.bytes()..)?.as_ptr(), 0),
        };
        let (valid, first_valid) = match column.nulls() {
            Some(nulls) => (nulls.buffer().as_ptr(), i64::try_from(nulls.offset()).ok()?),
            None => (std::ptr::null(), 0),
        };
        Some(ColumnPointers { values, first_value, valid, first_valid })
    }
}

/// Bytes that are 0 or 1 as bits.
fn bits(bytes: &[u8]) -> Buffer {
    BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0).into_inner()
}

/// A module for code of this machine.
fn new_module() -> Option<JITModule> {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").ok()?;
    flags.set("enable_verifier", "false").ok()?;
    let isa = cranelift_native::builder().ok()?.finish(settings::Flags::new(flags)).ok()?;
    Some(JITModule::new(JITBuilder::with_isa(isa, default_libcall_names())))
}

/// Defines the function of an expression; its number, and whether results may be null.
fn define(
    module: &mut JITModule,
    expression: &Expression,
    columns: &[Option<(Kind, bool)>],
) -> Option<(FuncId, bool)> {
    let pointer = module.target_config().pointer_type();
    if pointer != types::I64 {
        return None;
    }
    let mut context = module.make_context();
    let parameters = [pointer, types::I64, pointer, pointer].map(AbiParam::new);
    context.func.signature.params.extend(parameters);
    context.func.signature.returns.push(AbiParam::new(types::I8));
    let id = module.declare_anonymous_function(&context.func.signature).ok()?;
    let mut memory = FunctionBuilderContext::new();
    let may_be_null = {
        let mut emitted = RowLoop::begin(&mut context.func, &mut memory);
        let may_be_null = emitted.emit(expression, columns)?;
        emitted.builder.finalize(module.target_config());
        may_be_null
    };
    module.define_function(id, &mut context).ok()?;
    Some((id, may_be_null))
}

/// A loop over rows that is being emitted.
struct RowLoop<'a> {
    builder: FunctionBuilder<'a>,
}

impl<'a> RowLoop<'a> {
    fn begin(code: &'a mut Code, memory: &'a mut FunctionBuilderContext) -> RowLoop<'a> {
        RowLoop { builder: FunctionBuilder::new(code, memory) }
    }

    /// Emits the loop; whether results may be null.
    fn emit(&mut self, expression: &Expression, columns: &[Option<(Kind, bool)>]) -> Option<bool> {
        let builder = &mut self.builder;
        let [entry, head, body, exit] = std::array::from_fn(|_| builder.create_block());
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let [table, rows, values, valid] = *builder.block_params(entry) else { return None };
        let columns = self.load_pointers(table, columns);
        let builder = &mut self.builder;
        let (row, failed) =
            (builder.append_block_param(head, types::I64), builder.append_block_param(head, types::I8));
        let (first, nothing) = (builder.ins().iconst(types::I64, 0), builder.ins().iconst(types::I8, 0));
        builder.ins().jump(head, &[BlockArg::from(first), BlockArg::from(nothing)]);
        builder.switch_to_block(head);
        let is_row = builder.ins().icmp(IntCC::SignedLessThan, row, rows);
        builder.ins().brif(is_row, body, &[], exit, &[]);
        builder.switch_to_block(body);
        let cells = columns.iter().map(|column| column.as_ref().map(|column| self.load(column, row)));
        let columns = cells.collect();
        let mut emitter = Emitter { builder: &mut self.builder, columns };
        let result = emitter.expression(expression)?;
        let failed_so_far = emitter.either(Some(failed), result.failed).unwrap_or(failed);
        let kind = expression.kind()?;
        self.store(values, row, kind.bytes(), result.value);
        if let Some(flag) = result.valid {
            self.store(valid, row, 1, flag);
        }
        let builder = &mut self.builder;
        let next = builder.ins().iadd_imm_s(row, 1);
        builder.ins().jump(head, &[BlockArg::from(next), BlockArg::from(failed_so_far)]);
        builder.switch_to_block(exit);
        builder.ins().return_(&[failed]);
        builder.seal_all_blocks();
        Some(result.valid.is_some())
    }

    /// Loads where the columns are that are read.
    fn load_pointers(
        &mut self,
        table: Value,
        columns: &[Option<(Kind, bool)>],
    ) -> Vec<Option<LoadedPointers>> {
        let mut load = |number: usize, field: usize| {
            let offset = (number * size_of::<ColumnPointers>() + field) as i32;
            self.builder.ins().load(types::I64, TRUSTED, table, offset)
        };
        let of = |(number, column): (usize, &Option<(Kind, bool)>)| {
            let (kind, has_nulls) = (*column)?;
            Some(LoadedPointers {
                kind,
                values: load(number, offset_of!(ColumnPointers, values)),
                first_value: load(number, offset_of!(ColumnPointers, first_value)),
                valid: has_nulls.then(|| {
                    let valid = load(number, offset_of!(ColumnPointers, valid));
                    (valid, load(number, offset_of!(ColumnPointers, first_valid)))
                }),
            })
        };
        columns.iter().enumerate().map(of).collect()
    }

    /// Loads the value of a column in a row.
    fn load(&mut self, column: &LoadedPointers, row: Value) -> Cell {
        let value = match column.kind {
            Kind::Bool => self.load_bit(column.values, column.first_value, row),
            kind => {
                let address = self.address(column.values, row, kind.bytes());
                self.builder.ins().load(kind.register(), UNALIGNED, address, 0)
            }
        };
        let valid = column.valid.map(|(bitmap, first)| self.load_bit(bitmap, first, row));
        Cell { value, valid, failed: None }
    }

    /// Loads a bit of a bitmap, as a byte.
    fn load_bit(&mut self, bitmap: Value, first: Value, row: Value) -> Value {
        let ins = self.builder.ins();
        let bit = ins.iadd(row, first);
        let byte = self.builder.ins().ushr_imm_u(bit, 3);
        let address = self.builder.ins().iadd(bitmap, byte);
        let byte = self.builder.ins().load(types::I8, UNALIGNED, address, 0);
        let within = self.builder.ins().band_imm_u(bit, 7);
        let shifted = self.builder.ins().ushr(byte, within);
        self.builder.ins().band_imm_u(shifted, 1)
    }

    fn store(&mut self, values: Value, row: Value, bytes: usize, value: Value) {
        let address = self.address(values, row, bytes);
        self.builder.ins().store(UNALIGNED, value, address, 0);
    }

    /// Where the value of a row is.
    fn address(&mut self, values: Value, row: Value, bytes: usize) -> Value {
        let offset = self.builder.ins().ishl_imm_u(row, i64::from(bytes.trailing_zeros()));
        self.builder.ins().iadd(values, offset)
    }
}
