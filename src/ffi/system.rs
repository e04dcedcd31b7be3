//! Calls of the families that solve A x = b: the memory spaces of the caller's arrays, and the bodies of the entry
//! points. Pointers are borrowed for the call only.

use crate::backend::steps::solve::Arrays;
use crate::error::{Error, RRB_OK, Result};
use crate::ffi::guard::entry;
use crate::ffi::handle::{Base, Family, Handle, with};
use crate::ffi::rrb_status;
use crate::ffi::shape::Layout;
use crate::ffi::spaces::{Extent, check_array, check_on_host, on_device};
use crate::grid::outward::Outward;
use crate::options::{self, Memory, Options, opt};
use crate::report::{Nobody, Observer, Outcome};
use crate::solver::machine::{Core, Machine};
use crate::solver::solve::Function;

/// An array that is read.
pub enum Located<'a> {
    Host(&'a [f64]),
    /// Its address on the handle's device.
    Device(u64),
}

/// An array with its name.
pub type Input = (&'static str, *const f64);
/// One that is written.
pub type Output = (&'static str, *mut f64);

/// A family that solves A x = b.
pub trait Solving: Family {
    /// Runs the core on the caller's arrays.
    fn run(
        core: &mut Self::Core,
        own: &Self::Own,
        what: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome>;
}

impl<C: Core> Base<C> {
    /// The layout that the options say, checked.
    pub fn layout(&self) -> Result<Layout> {
        self.shape.layout(&self.options)
    }

    /// An array that is read, for a handle that will work, or does, on this machine: on a device, or the host.
    ///
    /// # Safety
    /// It must be NULL or hold `layout.len` values for as long as the call.
    pub unsafe fn located<'a>(&self, (name, array): Input, layout: &Layout, machine: Machine) -> Result<Located<'a>> {
        check_array(name, array)?;
        Ok(match self.device_address(name, array, machine)? {
            // SAFETY: not NULL, aligned, not on a device, and our caller promised the length.
            0 => Located::Host(unsafe { std::slice::from_raw_parts(array, layout.len) }),
            address => Located::Device(address),
        })
    }

    /// The arrays of a call on a factorized matrix.
    ///
    /// # Safety
    /// They must be NULL or hold the values of `layout` for as long as the call.
    unsafe fn arrays<'a>(&self, input: Input, (output_name, output): Output) -> Result<Arrays<'a>> {
        self.check_fresh()?;
        let Layout { ld, plane, len } = self.layout()?;
        check_pair(input, (output_name, output), len)?;
        let machine = self.machine();
        // SAFETY: as our caller promised.
        let (device_input, given) = match unsafe { self.located(input, &Layout { ld, plane, len }, machine)? } {
            Located::Host(values) => (0, values),
            Located::Device(address) => (address, &[][..]),
        };
        let device_output = self.device_address(output_name, output, machine)?;
        let written = match device_output {
            // SAFETY: not NULL, aligned, not on a device, of the promised length, and just seen to be apart.
            0 => unsafe { std::slice::from_raw_parts_mut(output, len) },
            _ => &mut [],
        };
        let input_name = input.0;
        Ok(Arrays {
            input_name,
            input: given,
            ld,
            plane,
            output: written,
            device_input,
            device_output,
            len,
            first_row: 0,
        })
    }

    /// Address of an array that lies on the handle's device; 0 for one on the host.
    fn device_address(&self, name: &'static str, array: *const f64, machine: Machine) -> Result<u64> {
        if self.family == options::Family::Sparse {
            return check_on_host(name, array as usize).map(|()| 0);
        }
        let memory = self.options.choice(opt::MEMORY);
        if !machine.is_device() && memory == Memory::Device {
            return Err(Error::Unsupported(format!(
                "memory=device needs a handle that works on a device (backend=cuda): {name} cannot be read on the host"
            )));
        }
        let Machine { device, devices, .. } = machine;
        let there = machine.is_device() && on_device(name.into(), array as usize, device, devices, memory)?;
        Ok(if there { array as u64 } else { 0 })
    }

    /// Runs a function of the core by `run`: a solve is observed, its time and outcome are results, and it may end
    /// without convergence.
    pub fn work(
        &mut self,
        what: Function,
        run: impl FnOnce(&mut C, &Options, &mut dyn Observer) -> Result<Outcome>,
    ) -> Result<i32> {
        match what {
            Function::Solve => self.solve(|core, options, watch| run(core, options, watch)),
            _ => self.run(|core, options, _| run(core, options, &mut Nobody)).map(|_| RRB_OK),
        }
    }

    /// Makes a core of the one before, and refuses or reports couplings that point out of the grid.
    pub fn factorize(
        &mut self,
        make: impl FnOnce(Option<C>, &Options, usize) -> Result<C>,
        outward: impl FnOnce(&mut C) -> Result<Outward>,
    ) -> Result<()> {
        self.set_up(|base, previous| {
            let mut core = make(previous, &base.options, base.stream as usize)?;
            match base.options.int(opt::CHECK_INPUT) {
                1 if !base.outward_seen => {
                    let outward = outward(&mut core)?;
                    base.outward_seen = !outward.is_empty();
                    if base.outward_seen {
                        base.say(0, format_args!("{outward}"));
                    }
                }
                2 => outward(&mut core)?.refuse()?,
                _ => {}
            }
            Ok(core)
        })
    }
}

/// Both are arrays of doubles, and the one that is written overlaps the other nowhere.
fn check_pair(input: Input, output: Output, len: usize) -> Result<()> {
    Extent::new(input.0, input.1, len, false)?.check_apart(&Extent::new(output.0, output.1, len, true)?)
}

impl<F: Solving> Handle<F> {
    /// Solves, or applies M^-1 or A.
    ///
    /// # Safety
    /// The arrays must be NULL or hold the values of the handle's layout.
    pub unsafe fn call(&mut self, what: Function, input: Input, output: Output) -> Result<i32> {
        // SAFETY: as our caller promised.
        let arrays = unsafe { self.base.arrays(input, output)? };
        let Self { base, own } = self;
        base.work(what, |core, options, observer| F::run(core, own, what, arrays, options, observer))
    }
}

/// The body of `solve`, `apply` and `multiply`.
///
/// # Safety
/// `h` must be NULL or a live handle of this thread; the arrays must be NULL or hold the values of its layout.
pub unsafe fn call<F: Solving>(h: *mut F, what: Function, input: Input, output: Output) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with(h, |h| h.call(what, input, output)) }
}

/// What `solve_once` is given beside the matrix.
pub struct Task {
    pub b: *const f64,
    pub x: *mut f64,
    pub rel_tol: f64,
    pub max_iter: i64,
    pub iterations: *mut i64,
}

/// The body of `solve_once`: a handle, its matrix and one solve. `matrix`: the arrays that `factorize` takes.
///
/// # Safety
/// The arrays must be NULL or hold the values of the handle's layout; `iterations` must be NULL or point to an i64.
pub unsafe fn solve_once<F: Solving>(
    make: impl FnOnce() -> Result<Handle<F>>,
    matrix: impl IntoIterator<Item = Input>,
    Task { b, x, rel_tol, max_iter, iterations }: Task,
    factorize: impl FnOnce(&mut Handle<F>) -> Result<()>,
) -> rrb_status {
    entry(|| {
        let mut h = make()?;
        h.base.set(|o| o.set_real(opt::REL_TOL, rel_tol).and_then(|()| o.set_int(opt::MAX_ITER, max_iter)))?;
        let len = h.base.layout()?.len;
        for input in [("b", b)].into_iter().chain(matrix) {
            check_pair(input, ("x", x), len)?;
        }
        factorize(&mut h)?;
        // SAFETY: as our caller promised.
        let status = unsafe { h.call(Function::Solve, ("b", b), ("x", x))? };
        if !iterations.is_null() {
            // SAFETY: not NULL, and the caller gave an int64_t.
            unsafe { *iterations = h.base.outcome.iterations as i64 };
        }
        Ok(status)
    })
}
