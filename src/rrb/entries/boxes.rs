//! Calls whose arguments are the arrays of boxes. They pass these arrays, on the host or on devices, to the collective
//! calls of `rrb::ranks`.

use crate::abi::handle::{Base, Handle, with};
use crate::abi::messages::{no_boxes, several_boxes};
use crate::abi::rrb_status;
use crate::abi::spaces::list_of;
use crate::abi::system::{Input, Output};
use crate::base::machine::Machine;
use crate::distributed::box_transfer::NAMES;
use crate::distributed::boxes::GridBox;
use crate::error::Result;
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{Backend, Options, opt};
use crate::rrb::domain::Domain;
use crate::rrb::entries::box_arrays::{BoxArrays, CallArrays, MemorySpaces};
use crate::rrb::entries::device_rows::{DeviceRows, MATRIX, VECTORS};
use crate::rrb::entries::handle::{factorize, make_backend, on_rank, rrb_handle};
use crate::rrb::ranks::{Ranks, Role};
use crate::rrb::{Rrb, machine};
use crate::stencil::matrix::StencilView;

/// Runs the body of `rrb_solve`, `rrb_apply` and `rrb_multiply`. On a distributed handle, this rank must have one box,
/// to which the arrays belong.
///
/// # Safety
/// `h` must be NULL or a live handle; the arrays must be NULL or hold the values of the grid, or of its box.
pub unsafe fn call(h: *mut rrb_handle, what: Function, input: Input, output: Output) -> rrb_status {
    let call = |h: &mut Handle<rrb_handle>| {
        if h.own.ranks.is_none() {
            // SAFETY: guaranteed by the caller.
            return unsafe { h.call(what, input, output) };
        }
        let ld = h.one_box();
        // SAFETY: guaranteed by the caller; each list has one array, for the only box.
        unsafe { h.call_boxes(what, slice(&ld), (input.0, &raw const input.1), (output.0, &raw const output.1)) }
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with(h, call) }
}

/// Runs the body of `rrb_solve_boxes`, `rrb_apply_boxes` and `rrb_multiply_boxes`, with one array per box.
///
/// # Safety
/// As for `rrb_solve_boxes`.
pub(super) unsafe fn call_boxes(
    h: *mut rrb_handle,
    what: Function,
    leading_dimensions: *const i64,
    input: (&'static str, *const *const f64),
    output: (&'static str, *const *mut f64),
) -> rrb_status {
    let call = |h: &mut Handle<rrb_handle>| {
        let count = h.boxes()?.len();
        // SAFETY: guaranteed by the caller.
        unsafe { h.call_boxes(what, leading(leading_dimensions, count), input, output) }
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with(h, call) }
}

/// Returns the leading dimensions; empty if the caller passed none.
///
/// # Safety
/// `given` must be NULL or hold one value for each of `count` boxes.
pub(super) unsafe fn leading<'a>(given: *const i64, count: usize) -> Result<&'a [i64]> {
    // SAFETY: guaranteed by the caller.
    unsafe { list_of("leading_dimensions", (!given.is_null()).then_some(given), count) }
}

fn slice(ld: &Result<[i64; 1]>) -> Result<&[i64]> {
    ld.as_ref().map(|ld| &ld[..]).map_err(Clone::clone)
}

impl Handle<rrb_handle> {
    /// Returns the boxes of this rank.
    pub(super) fn boxes(&self) -> Result<&[GridBox]> {
        self.own.ranks.as_ref().map(|ranks| ranks.own()).ok_or_else(no_boxes)
    }

    /// Returns the option `leading_dimension`, which applies to the only box. Returns an error if this rank has several
    /// boxes.
    fn one_box(&self) -> Result<[i64; 1]> {
        match self.boxes()?.len() {
            0 | 1 => Ok([self.base.layout()?.ld as i64]),
            count => Err(several_boxes(count)),
        }
    }

    /// # Safety
    /// The arrays must be NULL or hold the values of the one box of this rank.
    pub(super) unsafe fn factorize_box(&mut self, arrays: [*const f64; 5]) -> Result<()> {
        let corners = !(arrays[3].is_null() && arrays[4].is_null());
        let (ld, lists) = (self.one_box(), arrays.each_ref().map(|array| &raw const *array));
        // SAFETY: guaranteed by the caller.
        unsafe { self.factorize_boxes(corners, slice(&ld), lists) }
    }

    /// # Safety
    /// The lists must be NULL or have one array per box, which must be NULL or hold the values of the box.
    pub(super) unsafe fn factorize_boxes(
        &mut self,
        corners: bool,
        ld: Result<&[i64]>,
        lists: [*const *const f64; 5],
    ) -> Result<()> {
        let Self { base, own } = self;
        let ranks = own.ranks.as_deref_mut().ok_or_else(no_boxes)?;
        let count = ranks.own().len();
        let checked = ld.and_then(|ld| {
            let named = NAMES.into_iter().zip(lists).take(if corners { 5 } else { 3 });
            // SAFETY: guaranteed by the caller.
            let of =
                |(name, list): (_, *const *const f64)| unsafe { BoxArrays::of_list(name, list.cast(), count, false) };
            CallArrays::new(ranks.own(), ld, named.map(of).collect::<Result<_>>()?, memory_spaces(base))
        });
        let refused = checked.as_ref().err().cloned();
        // A rank without boxes has no arrays, so it does not know whether the stencil has 5 or 9 points.
        let corners = (!ranks.own().is_empty()).then_some(corners);
        let corners = ranks.open(None, &base.options, corners, false, refused)?;
        let mut call = checked?;
        let arrays = if corners { 5 } else { 3 };
        let prepared = ranks.prepare(arrays, &base.options).and_then(|changed| {
            if changed {
                own.device_rows = if ranks.root_has_all_rows() { Some(DeviceRows::new(ranks, arrays)?) } else { None };
            }
            Ok(changed)
        });
        let prepared = ranks.close(prepared);
        // If the call failed on one rank, no other rank may keep its previous factorization.
        if !matches!(prepared, Ok(false)) {
            base.core = None;
        }
        if prepared.is_err() {
            ranks.discard_plans();
            own.device_rows = None;
        }
        prepared?;
        let leaves_work_to_root = ranks.role().leaves_work_to_root();
        let on_device = match &mut own.device_rows {
            Some(rows) => rows.open_arrays(MATRIX, &call, first_device(&base.options), ranks)?,
            None => false,
        };
        let mut factorize = |a: &StencilView, domain: Option<&Domain>| {
            let machine = machine(&base.options, a.grid, base.threads(), 0);
            let make = |machine: Machine| match domain {
                Some(domain) if machine.backend == Backend::Cpu => Ok(on_rank(machine.threads, domain)?),
                _ => make_backend(machine),
            };
            factorize(base, &mut own.idle_options_logged, a, machine, &make)
        };
        let result = if let Some(rows) = own.device_rows.as_mut().filter(|_| on_device) {
            if leaves_work_to_root { Ok(()) } else { rows.matrix(arrays, |a| factorize(a, None)) }
        } else {
            ranks.prepare_host()?;
            // SAFETY: guaranteed by the caller; checked above.
            let values = unsafe { call.stage(false).and_then(|()| call.inputs()) };
            // Allocation may fail on one rank only.
            let mut values = ranks.close(values)?;
            // A rank without boxes needs as many (empty) lists of arrays as the other ranks.
            values.resize_with(arrays, Vec::new);
            if !ranks.is_alone() {
                ranks.spread_matrix(&values)?;
            }
            if leaves_work_to_root { Ok(()) } else { ranks.factorize(&values, factorize) }
        };
        let result = ranks.close(result);
        let result = result.and_then(|()| ranks.send_factorized(base.core.as_ref().filter(|_| !leaves_work_to_root)));
        if result.is_err() {
            // The factorization is discarded even without an error on this rank, because another rank may have an
            // error.
            base.core = None;
            base.begin_setup();
        }
        match result? {
            Some(results) => base.set_up(|_, _| Ok(results)),
            None => Ok(()),
        }
    }

    /// # Safety
    /// As for `factorize_boxes`.
    #[inline(never)]
    unsafe fn call_boxes(
        &mut self,
        what: Function,
        ld: Result<&[i64]>,
        input: (&'static str, *const *const f64),
        output: (&'static str, *const *mut f64),
    ) -> Result<i32> {
        let Self { base, own } = self;
        let ranks = own.ranks.as_deref_mut().ok_or_else(no_boxes)?;
        let count = ranks.own().len();
        let checked = base.check_fresh().and(ld).and_then(|ld| {
            // SAFETY: guaranteed by the caller.
            let arguments = unsafe {
                let input = BoxArrays::of_list(input.0, input.1.cast(), count, false)?;
                vec![input, BoxArrays::of_list(output.0, output.1, count, true)?]
            };
            CallArrays::new(ranks.own(), ld, arguments, memory_spaces(base))
        });
        let refused = checked.as_ref().err().cloned();
        ranks.open(Some(what), &base.options, None, base.has_monitor(), refused)?;
        let mut call = checked?;
        let (guess, input_name) = (what == Function::Solve, input.0);
        if let Some(rows) = &mut own.device_rows
            && rows.open_arrays(VECTORS, &call, first_device(&base.options), ranks)?
        {
            return call_on_device(base, ranks, rows, what, input_name);
        }
        ranks.prepare_host()?;
        // SAFETY: guaranteed by the caller; checked above.
        let staged = unsafe { call.stage(guess) };
        // A stream that rank 0 cannot use causes an error here, before the computation, in which the other ranks would
        // wait for rank 0.
        let staged = staged.and_then(|()| base.check_stream());
        // SAFETY: as above.
        let lists = staged.and_then(|()| unsafe { call.input_and_output() });
        let result = ranks.call(what, input_name, lists, |role, arrays, a| work(base, role, what, arrays, a))?;
        // SAFETY: as above.
        let back = unsafe { call.write_back() };
        if ranks.root_has_all_rows() {
            ranks.close(back)?
        } else {
            back?
        }
        Ok(result)
    }
}

/// A call on device arrays that rank 0 can read and write.
fn call_on_device(
    base: &mut Base<Rrb>,
    ranks: &mut Ranks,
    rows: &mut DeviceRows,
    what: Function,
    input_name: &'static str,
) -> Result<i32> {
    let (leaves_work_to_root, grid) = (ranks.role().leaves_work_to_root(), base.shape.plane());
    let arrays = if what == Function::Solve { 2 } else { 1 };
    let brought = if leaves_work_to_root { Ok(()) } else { rows.copy_from_boxes(VECTORS, arrays) };
    let address = |array| if leaves_work_to_root { 0 } else { rows.address(VECTORS, array) };
    let arrays = Arrays {
        input_name,
        input: &[],
        ld: grid.nx,
        plane: grid.nodes(),
        output: &mut [],
        device_input: address(0),
        device_output: address(1),
        len: grid.nodes(),
        first_row: 0,
    };
    // The stream is checked as for arrays that are transferred through the host.
    let ready = brought.and_then(|()| base.check_stream());
    let result = ranks.close(ready).and_then(|()| work(base, ranks.role(), what, arrays, None));
    // x is written if the solve succeeded on all ranks.
    let result = ranks.close(result);
    let back = if leaves_work_to_root || result.is_err() { Ok(()) } else { rows.copy_to_boxes(VECTORS, 1) };
    rows.close();
    let result = result?;
    ranks.close(back).map(|()| result)
}

/// Runs the computation of a call on the rows of this rank. `a` contains these rows of the matrix.
fn work(base: &mut Base<Rrb>, role: Role, what: Function, arrays: Arrays, a: Option<&StencilView>) -> Result<i32> {
    let leaves_work_to_root = role.leaves_work_to_root();
    let result = base.work(what, |core, options, observer| role.run(what, core, (arrays, a), options, observer));
    if !leaves_work_to_root && base.core.as_ref().is_some_and(Rrb::has_no_factorization) {
        base.begin_setup();
    }
    result
}

/// Returns the memory spaces in which arrays are allowed: the host and, if rank 0 solves on devices, devices.
fn memory_spaces(base: &Base<Rrb>) -> MemorySpaces {
    let on_devices = base.options.is(opt::BACKEND, Backend::Cuda);
    MemorySpaces { memory: on_devices.then(|| base.options.choice(opt::MEMORY)), stream: base.stream as usize }
}

/// Returns the ordinal of the first device in the options.
fn first_device(options: &Options) -> i64 {
    options.devices().ordinals().next().unwrap_or_else(|| options.int(opt::DEVICE))
}
