//! Calls on distributed handles. Their arguments are the arrays of the boxes that this rank owns, on the host or on
//! devices. This module passes the arrays to the collective functions of `rrb::ranks`.

use crate::abi::handle::{Base, Handle, with_handle};
use crate::abi::messages::{no_boxes, several_boxes};
use crate::abi::rrb_status;
use crate::abi::spaces::caller_list;
use crate::abi::system::{InputArray, OutputArray};
use crate::base::machine::Machine;
use crate::distributed::box_transfer::MATRIX_ARRAY_NAMES;
use crate::distributed::boxes::GridBox;
use crate::error::Result;
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{Backend, Options, opt};
use crate::rrb::domain::Domain;
use crate::rrb::entries::box_arrays::{BoxArrays, CallArrays, MemorySpaces};
use crate::rrb::entries::device_rows::{DeviceRows, MATRIX_ARRAYS, VECTOR_ARRAYS};
use crate::rrb::entries::handle::{factorize, make_backend, make_rank_backend, rrb_handle};
use crate::rrb::ranks::{Ranks, Role};
use crate::rrb::{Rrb, choose_machine};
use crate::stencil::matrix::StencilView;

/// Runs the body of `rrb_solve`, `rrb_apply` and `rrb_multiply`. On a distributed handle, this rank must have one box,
/// to which the arrays belong.
///
/// # Safety
/// `h` must be NULL or a live handle. The arrays must be NULL or hold the values of the grid. On a distributed handle,
/// they must be NULL or hold the values of the only box of this rank.
pub unsafe fn run_function(
    h: *mut rrb_handle,
    function: Function,
    input: InputArray,
    output: OutputArray,
) -> rrb_status {
    let run = |h: &mut Handle<rrb_handle>| {
        if h.family_parts.ranks.is_none() {
            // SAFETY: guaranteed by the caller.
            return unsafe { h.call(function, input, output) };
        }
        let ld = h.leading_dimension_of_only_box();
        // SAFETY: guaranteed by the caller; each list has one array, for the only box.
        unsafe {
            h.run_on_boxes(function, as_slice(&ld), (input.0, &raw const input.1), (output.0, &raw const output.1))
        }
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle(h, run) }
}

/// Runs the body of `rrb_solve_boxes`, `rrb_apply_boxes` and `rrb_multiply_boxes`, with one array per box.
///
/// # Safety
/// As for `rrb_solve_boxes`.
pub(super) unsafe fn run_on_boxes(
    h: *mut rrb_handle,
    function: Function,
    leading_dimensions: *const i64,
    input: (&'static str, *const *const f64),
    output: (&'static str, *const *mut f64),
) -> rrb_status {
    let run = |h: &mut Handle<rrb_handle>| {
        let box_count = h.boxes()?.len();
        // SAFETY: guaranteed by the caller.
        unsafe { h.run_on_boxes(function, leading_dimensions_of(leading_dimensions, box_count), input, output) }
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle(h, run) }
}

/// Returns the leading dimensions; empty if the caller passed none.
///
/// # Safety
/// `leading_dimensions` must be NULL or hold one value for each of `box_count` boxes.
pub(super) unsafe fn leading_dimensions_of<'a>(leading_dimensions: *const i64, box_count: usize) -> Result<&'a [i64]> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        caller_list("leading_dimensions", (!leading_dimensions.is_null()).then_some(leading_dimensions), box_count)
    }
}

fn as_slice(ld: &Result<[i64; 1]>) -> Result<&[i64]> {
    ld.as_ref().map(|ld| &ld[..]).map_err(Clone::clone)
}

impl Handle<rrb_handle> {
    /// Returns the boxes of this rank.
    pub(super) fn boxes(&self) -> Result<&[GridBox]> {
        self.family_parts.ranks.as_ref().map(|ranks| ranks.own_boxes()).ok_or_else(no_boxes)
    }

    /// Returns the option `leading_dimension`, which applies to the only box. Returns an error if this rank has several
    /// boxes.
    fn leading_dimension_of_only_box(&self) -> Result<[i64; 1]> {
        match self.boxes()?.len() {
            0 | 1 => Ok([self.base.layout()?.ld as i64]),
            box_count => Err(several_boxes(box_count)),
        }
    }

    /// Factorizes the matrix whose arrays belong to the only box of this rank. A rank without boxes passes NULL.
    ///
    /// # Safety
    /// The arrays must be NULL or hold the values of the one box of this rank.
    pub(super) unsafe fn factorize_box(&mut self, arrays: [*const f64; 5]) -> Result<()> {
        let has_corners = !(arrays[3].is_null() && arrays[4].is_null());
        let (ld, array_lists) =
            (self.leading_dimension_of_only_box(), arrays.each_ref().map(|array| &raw const *array));
        // SAFETY: guaranteed by the caller.
        unsafe { self.factorize_boxes(has_corners, as_slice(&ld), array_lists) }
    }

    /// Factorizes the matrix. `array_lists` contains one list per coefficient, and each list has one array per box.
    ///
    /// # Safety
    /// The lists must be NULL or have one array per box, which must be NULL or hold the values of the box.
    pub(super) unsafe fn factorize_boxes(
        &mut self,
        has_corners: bool,
        ld: Result<&[i64]>,
        array_lists: [*const *const f64; 5],
    ) -> Result<()> {
        let Self { base, family_parts } = self;
        let ranks = family_parts.ranks.as_deref_mut().ok_or_else(no_boxes)?;
        let box_count = ranks.own_boxes().len();
        let checked_arrays = ld.and_then(|ld| {
            let named_lists = MATRIX_ARRAY_NAMES.into_iter().zip(array_lists).take(if has_corners { 5 } else { 3 });
            // SAFETY: guaranteed by the caller.
            let box_arrays = |(name, array_list): (_, *const *const f64)| unsafe {
                BoxArrays::of_list(name, array_list.cast(), box_count, false)
            };
            CallArrays::new(
                ranks.own_boxes(),
                ld,
                named_lists.map(box_arrays).collect::<Result<_>>()?,
                memory_spaces(base),
            )
        });
        let check_error = checked_arrays.as_ref().err().cloned();
        // A rank without boxes has no arrays, so it does not know whether the stencil has 5 or 9 points.
        let has_corners = (!ranks.own_boxes().is_empty()).then_some(has_corners);
        let has_corners = ranks.begin_call(None, &base.options, has_corners, false, check_error)?;
        let mut call_arrays = checked_arrays?;
        let array_count = if has_corners { 5 } else { 3 };
        let preparation = ranks.prepare_rows(array_count, &base.options).and_then(|has_changed| {
            if has_changed {
                family_parts.device_rows =
                    if ranks.root_has_all_rows() { Some(DeviceRows::new(ranks, array_count)?) } else { None };
            }
            Ok(has_changed)
        });
        let preparation = ranks.end_call(preparation);
        // The previous factorization is discarded if the memory or the plans have changed. All ranks also discard their
        // previous factorization if the preparation has failed on one rank.
        if !matches!(preparation, Ok(false)) {
            base.core = None;
        }
        if preparation.is_err() {
            ranks.discard_plans();
            family_parts.device_rows = None;
        }
        preparation?;
        let leaves_work_to_root = ranks.role().leaves_work_to_root();
        let is_on_device = match &mut family_parts.device_rows {
            Some(rows) => rows.open_arrays(MATRIX_ARRAYS, &call_arrays, first_device_ordinal(&base.options), ranks)?,
            None => false,
        };
        let mut factorize = |a: &StencilView, domain: Option<&Domain>| {
            let machine = choose_machine(&base.options, a.grid, base.threads(), 0);
            let make_backend_of_domain = |machine: Machine| match domain {
                Some(domain) if machine.backend == Backend::Cpu => Ok(make_rank_backend(machine.threads, domain)?),
                _ => make_backend(machine),
            };
            factorize(base, &mut family_parts.idle_options_logged, a, machine, &make_backend_of_domain)
        };
        let result = if let Some(rows) = family_parts.device_rows.as_mut().filter(|_| is_on_device) {
            if leaves_work_to_root { Ok(()) } else { rows.with_matrix(array_count, |a| factorize(a, None)) }
        } else {
            ranks.prepare_host()?;
            // SAFETY: the caller guarantees that the arrays hold the values of their boxes. `CallArrays::new` has
            // checked that the arrays are aligned, not NULL, and in an allowed memory space.
            let values = unsafe { call_arrays.stage_arrays(false).and_then(|()| call_arrays.inputs()) };
            // An allocation or a copy may fail on one rank only, so the ranks exchange their status.
            let mut values = ranks.end_call(values)?;
            // A rank without boxes needs as many (empty) lists of arrays as the other ranks.
            values.resize_with(array_count, Vec::new);
            if !ranks.uses_arrays_in_place() {
                ranks.spread_matrix(&values)?;
            }
            if leaves_work_to_root { Ok(()) } else { ranks.factorize(&values, factorize) }
        };
        let result = ranks.end_call(result);
        let sent_results =
            result.and_then(|()| ranks.send_factorization(base.core.as_ref().filter(|_| !leaves_work_to_root)));
        if sent_results.is_err() {
            // The factorization is discarded even without an error on this rank, because another rank may have an
            // error.
            base.core = None;
            base.begin_setup();
        }
        match sent_results? {
            Some(results) => base.set_up(|_, _| Ok(results)),
            None => Ok(()),
        }
    }

    /// Computes `function` with one input array and one output array per box.
    ///
    /// # Safety
    /// As for `factorize_boxes`.
    #[inline(never)]
    unsafe fn run_on_boxes(
        &mut self,
        function: Function,
        ld: Result<&[i64]>,
        input: (&'static str, *const *const f64),
        output: (&'static str, *const *mut f64),
    ) -> Result<i32> {
        let Self { base, family_parts } = self;
        let ranks = family_parts.ranks.as_deref_mut().ok_or_else(no_boxes)?;
        let box_count = ranks.own_boxes().len();
        let checked_arrays = base.check_current().and(ld).and_then(|ld| {
            // SAFETY: guaranteed by the caller.
            let arguments = unsafe {
                let input = BoxArrays::of_list(input.0, input.1.cast(), box_count, false)?;
                vec![input, BoxArrays::of_list(output.0, output.1, box_count, true)?]
            };
            CallArrays::new(ranks.own_boxes(), ld, arguments, memory_spaces(base))
        });
        let check_error = checked_arrays.as_ref().err().cloned();
        ranks.begin_call(Some(function), &base.options, None, base.has_monitor(), check_error)?;
        let mut call_arrays = checked_arrays?;
        let (needs_guess, input_name) = (function == Function::Solve, input.0);
        if let Some(rows) = &mut family_parts.device_rows
            && rows.open_arrays(VECTOR_ARRAYS, &call_arrays, first_device_ordinal(&base.options), ranks)?
        {
            return run_on_device_rows(base, ranks, rows, function, input_name);
        }
        ranks.prepare_host()?;
        // SAFETY: the caller guarantees that the arrays hold the values of their boxes. `CallArrays::new` has checked
        // that the arrays are aligned, not NULL, and in an allowed memory space, and that no output overlaps another
        // array.
        let staging = unsafe { call_arrays.stage_arrays(needs_guess) };
        // The caller's stream is checked before the computation. If rank 0 detected an unusable stream during the
        // computation, the other ranks would wait for rank 0.
        let staging = staging.and_then(|()| base.check_stream());
        // SAFETY: as above.
        let input_and_output = staging.and_then(|()| unsafe { call_arrays.input_and_output() });
        let result = ranks.run_on_rows(function, input_name, input_and_output, |role, arrays, a| {
            run_on_own_rows(base, role, function, arrays, a)
        })?;
        // SAFETY: as above.
        let write_back_result = unsafe { call_arrays.write_back() };
        if ranks.root_has_all_rows() {
            ranks.end_call(write_back_result)?
        } else {
            write_back_result?
        }
        Ok(result)
    }
}

/// Computes `function` on device arrays that rank 0 can read and write.
fn run_on_device_rows(
    base: &mut Base<Rrb>,
    ranks: &mut Ranks,
    rows: &mut DeviceRows,
    function: Function,
    input_name: &'static str,
) -> Result<i32> {
    let (leaves_work_to_root, grid) = (ranks.role().leaves_work_to_root(), base.shape.plane());
    let array_count = if function == Function::Solve { 2 } else { 1 };
    let gathered = if leaves_work_to_root { Ok(()) } else { rows.copy_from_boxes(VECTOR_ARRAYS, array_count) };
    let address_on_root = |array| if leaves_work_to_root { 0 } else { rows.address(VECTOR_ARRAYS, array) };
    let arrays = Arrays {
        input_name,
        input: &[],
        ld: grid.nx,
        plane: grid.nodes(),
        output: &mut [],
        device_input: address_on_root(0),
        device_output: address_on_root(1),
        len: grid.nodes(),
        first_row: 0,
    };
    // As in calls that transfer the arrays through the host, the stream is checked before the computation.
    let readiness = gathered.and_then(|()| base.check_stream());
    let result = ranks.end_call(readiness).and_then(|()| run_on_own_rows(base, ranks.role(), function, arrays, None));
    // The output arrays are written only if the call succeeded on all ranks.
    let result = ranks.end_call(result);
    let copied_back =
        if leaves_work_to_root || result.is_err() { Ok(()) } else { rows.copy_to_boxes(VECTOR_ARRAYS, 1) };
    rows.close();
    let result = result?;
    ranks.end_call(copied_back).map(|()| result)
}

/// Runs the computation of a call on the rows of this rank. `a` contains these rows of the matrix.
fn run_on_own_rows(
    base: &mut Base<Rrb>,
    role: Role,
    function: Function,
    arrays: Arrays,
    a: Option<&StencilView>,
) -> Result<i32> {
    let leaves_work_to_root = role.leaves_work_to_root();
    let result =
        base.run_function(function, |core, options, observer| role.run(function, core, (arrays, a), options, observer));
    if !leaves_work_to_root && base.core.as_ref().is_some_and(Rrb::has_no_factorization) {
        base.begin_setup();
    }
    result
}

/// Returns the memory spaces in which arrays are allowed: the host and, if rank 0 solves on devices, devices.
fn memory_spaces(base: &Base<Rrb>) -> MemorySpaces {
    let allows_devices = base.options.is(opt::BACKEND, Backend::Cuda);
    MemorySpaces { memory: allows_devices.then(|| base.options.choice(opt::MEMORY)), stream: base.stream as usize }
}

/// Returns the ordinal of the first device in the options.
fn first_device_ordinal(options: &Options) -> i64 {
    options.devices().ordinals().next().unwrap_or_else(|| options.int(opt::DEVICE))
}
