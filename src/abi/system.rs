//! Calls of the families that solve A x = b: the memory spaces of the caller's arrays, and the bodies of the entry
//! points. Pointers are borrowed only for the duration of the call.

use crate::abi::guard::entry;
use crate::abi::handle::{Base, Family, Handle, with_handle};
use crate::abi::rrb_status;
use crate::abi::shape::Layout;
use crate::abi::spaces::{AddressRange, check_array, check_on_host, is_on_device};
use crate::base::machine::{Core, Machine};
use crate::error::{Error, RRB_OK, Result};
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{self, Memory, Options, opt};
use crate::report::{NoObserver, Observer, Outcome};
use crate::stencil::outward::OutwardCouplings;

/// An input array: the values in host memory, or the address on a device.
pub enum ArrayLocation<'a> {
    Host(&'a [f64]),
    /// Address on the handle's device.
    Device(u64),
}

/// An array that is read, with its name.
pub type InputArray = (&'static str, *const f64);
/// An array that is written, with its name.
pub type OutputArray = (&'static str, *mut f64);

/// A family that solves A x = b.
pub trait SolverFamily: Family {
    /// Executes `function` (solve, z = M^-1 r or y = A x) on the caller's arrays. `core` is the solver object of the
    /// handle.
    fn run(
        core: &mut Self::Core,
        family_parts: &Self::FamilyParts,
        function: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome>;
}

impl<C: Core> Base<C> {
    /// Returns the layout of the caller's arrays that the options select. Returns an error if the length of an array
    /// overflows.
    pub fn layout(&self) -> Result<Layout> {
        self.shape.layout(&self.options)
    }

    /// Checks an input array, and returns it as host or device memory. `machine`: resources of the solver object, or of
    /// the solver object that this call will create.
    ///
    /// # Safety
    /// The array must be NULL or hold `layout.len` values for the duration of the call.
    pub unsafe fn locate_input<'a>(
        &self,
        (name, array): InputArray,
        layout: &Layout,
        machine: Machine,
    ) -> Result<ArrayLocation<'a>> {
        check_array(name, array)?;
        Ok(match self.device_address(name, array, machine)? {
            // SAFETY: not NULL, aligned, not on a device; the caller guarantees the length.
            0 => ArrayLocation::Host(unsafe { std::slice::from_raw_parts(array, layout.len) }),
            address => ArrayLocation::Device(address),
        })
    }

    /// Checks the input and output arrays of a call on a factorized matrix, and returns them.
    ///
    /// # Safety
    /// The arrays must be NULL or hold the values of the layout for the duration of the call.
    unsafe fn arrays<'a>(&self, input: InputArray, (output_name, output): OutputArray) -> Result<Arrays<'a>> {
        self.check_current()?;
        let Layout { ld, plane, len } = self.layout()?;
        check_pair(input, (output_name, output), len)?;
        let machine = self.machine();
        // SAFETY: guaranteed by the caller.
        let (device_input, input_values) =
            match unsafe { self.locate_input(input, &Layout { ld, plane, len }, machine)? } {
                ArrayLocation::Host(values) => (0, values),
                ArrayLocation::Device(address) => (address, &[][..]),
            };
        let device_output = self.device_address(output_name, output, machine)?;
        let output_values = match device_output {
            // SAFETY: not NULL, aligned, not on a device, without overlap, as checked; the caller guarantees the
            // length.
            0 => unsafe { std::slice::from_raw_parts_mut(output, len) },
            _ => &mut [],
        };
        let input_name = input.0;
        Ok(Arrays {
            input_name,
            input: input_values,
            ld,
            plane,
            output: output_values,
            device_input,
            device_output,
            len,
            first_row: 0,
        })
    }

    /// Returns the address of an array on the handle's device; 0 for an array in host memory.
    pub fn device_address(&self, name: &'static str, array: *const f64, machine: Machine) -> Result<u64> {
        let memory = self.options.choice(opt::MEMORY);
        if !machine.is_device() && memory == Memory::Device {
            return Err(Error::Unsupported(format!(
                "memory=device needs a handle that works on a device (backend=cuda): {name} cannot be read on the host"
            )));
        }
        if !machine.is_device() && self.family == options::Family::Sparse {
            return check_on_host(name, array as usize).map(|()| 0);
        }
        let Machine { device, devices, .. } = machine;
        let is_on_handle_device =
            machine.is_device() && is_on_device(name.into(), array as usize, device, devices, memory)?;
        Ok(if is_on_handle_device { array as u64 } else { 0 })
    }

    /// Calls `run_core`, which executes `function` with the solver object. Only `Function::Solve` reports to the
    /// observer, sets the results for time and outcome, and may end without convergence.
    pub fn run_function(
        &mut self,
        function: Function,
        run_core: impl FnOnce(&mut C, &Options, &mut dyn Observer) -> Result<Outcome>,
    ) -> Result<i32> {
        match function {
            Function::Solve => self.solve(|core, options, watch| run_core(core, options, watch)),
            _ => self.run(|core, options, _| run_core(core, options, &mut NoObserver)).map(|_| RRB_OK),
        }
    }

    /// Creates a solver object from the previous one with `create_core`. `find_outward` finds the couplings that point
    /// out of the grid. If there are any, returns an error with `check_input=2`; with `check_input=1`, logs one line
    /// per handle.
    pub fn factorize(
        &mut self,
        create_core: impl FnOnce(Option<C>, &Options, usize) -> Result<C>,
        find_outward: impl FnOnce(&mut C) -> Result<OutwardCouplings>,
    ) -> Result<()> {
        self.set_up(|base, previous_core| {
            let mut core = create_core(previous_core, &base.options, base.stream as usize)?;
            match base.options.int(opt::CHECK_INPUT) {
                1 if !base.has_logged_outward_couplings => {
                    let outward = find_outward(&mut core)?;
                    base.has_logged_outward_couplings = !outward.is_empty();
                    if base.has_logged_outward_couplings {
                        base.log_line(0, format_args!("{outward}"));
                    }
                }
                2 => find_outward(&mut core)?.check_empty()?,
                _ => {}
            }
            Ok(core)
        })
    }
}

/// Checks that both arrays are aligned and that the output does not overlap the input.
fn check_pair(input: InputArray, output: OutputArray, len: usize) -> Result<()> {
    AddressRange::new(input.0, input.1, len, false)?
        .check_no_overlap(&AddressRange::new(output.0, output.1, len, true)?)
}

impl<F: SolverFamily> Handle<F> {
    /// Executes `function` (solve, z = M^-1 r or y = A x) on the caller's arrays.
    ///
    /// # Safety
    /// The arrays must be NULL or hold the values of the handle's layout.
    pub unsafe fn call(&mut self, function: Function, input: InputArray, output: OutputArray) -> Result<i32> {
        // SAFETY: guaranteed by the caller.
        let arrays = unsafe { self.base.arrays(input, output)? };
        let Self { base, family_parts } = self;
        base.run_function(function, |core, options, observer| {
            F::run(core, family_parts, function, arrays, options, observer)
        })
    }
}

/// Runs the body of the entry points `*_solve`, `*_apply` and `*_multiply` of a family.
///
/// # Safety
/// `h` must be NULL or a live handle that no other thread uses; the arrays must be NULL or hold the values of its
/// layout.
pub unsafe fn call<F: SolverFamily>(
    h: *mut F,
    function: Function,
    input: InputArray,
    output: OutputArray,
) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle(h, |h| h.call(function, input, output)) }
}

/// Arguments of the entry points `*_solve_once` except the matrix.
pub struct SolveOnceArguments {
    pub b: *const f64,
    pub x: *mut f64,
    pub rel_tol: f64,
    pub max_iter: i64,
    pub iterations: *mut i64,
}

/// Runs the body of the entry points `*_solve_once`: creates a handle, factorizes its matrix and solves once. `matrix`
/// contains the arrays that `factorize` reads.
///
/// # Safety
/// The arrays must be NULL or hold the values of the handle's layout; `iterations` must be NULL or point to an i64.
pub unsafe fn solve_once<F: SolverFamily>(
    create_handle: impl FnOnce() -> Result<Handle<F>>,
    matrix: impl IntoIterator<Item = InputArray>,
    SolveOnceArguments { b, x, rel_tol, max_iter, iterations }: SolveOnceArguments,
    factorize: impl FnOnce(&mut Handle<F>) -> Result<()>,
) -> rrb_status {
    entry(|| {
        let mut handle = create_handle()?;
        handle
            .base
            .set_options(|o| o.set_real(opt::REL_TOL, rel_tol).and_then(|()| o.set_int(opt::MAX_ITER, max_iter)))?;
        let len = handle.base.layout()?.len;
        for input in [("b", b)].into_iter().chain(matrix) {
            check_pair(input, ("x", x), len)?;
        }
        factorize(&mut handle)?;
        // SAFETY: guaranteed by the caller.
        let status = unsafe { handle.call(Function::Solve, ("b", b), ("x", x))? };
        if !iterations.is_null() {
            // SAFETY: not NULL; the caller guarantees a pointer to an int64_t.
            unsafe { *iterations = handle.base.outcome.iterations as i64 };
        }
        Ok(status)
    })
}
