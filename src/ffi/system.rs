//! What handles have whose families solve A x = b on a grid: its extents, the layout of the caller's arrays and where
//! these lie, the results of a solve, and the bodies of the entry points about these.
//!
//! Arrays are `a[k * plane + j * ld + i]`, i fastest; a 2D grid is one plane. Pointers are borrowed for the call only.

use crate::backend::steps::solve::Arrays;
use crate::error::{Error, Result};
use crate::ffi::ending::Ending;
use crate::ffi::guard::entry;
use crate::ffi::handle::{Base, Handle, with, with_ok};
use crate::ffi::rrb_status;
use crate::ffi::spaces::{Extent, check_array, on_device};
use crate::ffi::watch::{Watch, Words};
use crate::grid::cells::Cells;
use crate::grid::levels::Grid;
use crate::grid::outward::Outward;
use crate::options::{Memory, Options, ResultEntry, opt};
use crate::report::{Nobody, Observer, Outcome};
use crate::solver::machine::{Core, Machine};
use std::fmt;

/// A part of every such handle.
pub struct System<C> {
    pub base: Base<C>,
    pub cells: Cells,
    /// Extents of the caller's arrays: those of the grid, but for a rank that has a part of it.
    pub arrays: Cells,
    /// 2 or 3.
    dimensions: usize,
    ending: Ending,
    /// Couplings that point out of the grid were logged.
    outward_seen: bool,
}

/// More nodes than this are refused: node numbers are 32 bits wide.
const MOST_NODES: i128 = u32::MAX as i128;

/// Where values of an array stand.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Values from one row to the next.
    pub ld: usize,
    /// Values from one plane to the next.
    pub plane: usize,
    /// Values of the array: (nz - 1) * plane + (ny - 1) * ld + nx.
    pub len: usize,
}

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
/// What a core does with the caller's arrays.
pub type Call<C, T> = fn(&mut C, Arrays, &Options, &mut dyn Observer) -> Result<T>;

impl<C: Core> System<C> {
    /// A grid of these extents, x first, before anything is set.
    pub fn new(words: &'static Words, extents: &[(&'static str, i64)]) -> Result<Self> {
        for (name, extent) in extents {
            if *extent < 1 {
                return Err(Error::Dimension(format!("{name} must be at least 1, got {extent}")));
            }
        }
        let product = extents.iter().try_fold(1, |product: i128, (_, extent)| product.checked_mul((*extent).into()));
        if product.is_none_or(|nodes| nodes > MOST_NODES) {
            let names = extents.iter().map(|e| e.0).collect::<Vec<_>>().join(" * ");
            let given = extents.iter().map(|e| e.1.to_string()).collect::<Vec<_>>().join(" * ");
            return Err(Error::Dimension(format!("{names} must be at most {MOST_NODES}, got {given}")));
        }
        let extent = |direction: usize| extents.get(direction).map_or(1, |e| e.1 as usize);
        let cells = Cells { nx: extent(0), ny: extent(1), nz: extent(2) };
        Ok(Self {
            base: Base::new(words),
            cells,
            arrays: cells,
            dimensions: extents.len(),
            ending: Ending::default(),
            outward_seen: false,
        })
    }

    /// A plane of it.
    pub fn grid(&self) -> Grid {
        Grid { nx: self.cells.nx, ny: self.cells.ny }
    }

    /// The layout that the options say, checked.
    pub fn layout(&self) -> Result<Layout> {
        let Cells { nx, ny, nz } = self.arrays;
        let chosen = |key, otherwise| match self.base.options.int(key) {
            0 => otherwise,
            set => set as usize,
        };
        let ld = chosen(opt::LEADING_DIMENSION, nx);
        let plane = chosen(opt::LEADING_PLANE, ny.saturating_mul(ld));
        let rows = (ny - 1).checked_mul(ld).and_then(|n| n.checked_add(nx));
        let planes = (nz - 1).checked_mul(plane);
        let len = rows.zip(planes).and_then(|(rows, planes)| planes.checked_add(rows));
        match len.filter(|&n| n <= isize::MAX as usize / size_of::<f64>()) {
            Some(len) => Ok(Layout { ld, plane, len }),
            None if self.dimensions == 2 => Err(Error::Dimension(format!(
                "(ny - 1) * leading_dimension + nx overflows with ny = {ny}, leading_dimension = {ld}"
            ))),
            None => Err(Error::Dimension(format!(
                "(nz - 1) * leading_plane + (ny - 1) * leading_dimension + nx overflows with nz = {nz}, \
                 leading_plane = {plane}, ny = {ny}, leading_dimension = {ld}"
            ))),
        }
    }

    /// Rows and planes that are asked for do not overlap.
    fn check_layout(&self, asked: &Options) -> Result<()> {
        let Cells { nx, ny, .. } = self.arrays;
        let ld = asked.int(opt::LEADING_DIMENSION);
        if ld != 0 && ld < nx as i64 {
            return Err(Error::range("leading_dimension", ld, format!("be 0 or at least nx = {nx}")));
        }
        let plane = asked.int(opt::LEADING_PLANE);
        let rows = ny as i128 * i128::from(ld.max(nx as i64));
        if plane != 0 && i128::from(plane) < rows {
            let allowed = format!("be 0 or at least ny * leading_dimension = {rows}");
            return Err(Error::range("leading_plane", plane, allowed));
        }
        Ok(())
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
        self.base.check_fresh()?;
        let layout = self.layout()?;
        check_pair(input, (output_name, output), layout.len)?;
        let machine = self.base.core.as_ref().map_or(Machine::HOST, Core::machine);
        // SAFETY: as our caller promised.
        let (device_input, given) = match unsafe { self.located(input, &layout, machine)? } {
            Located::Host(values) => (0, values),
            Located::Device(address) => (address, &[][..]),
        };
        let device_output = self.device_address(output_name, output, machine)?;
        let written = match device_output {
            // SAFETY: not NULL, aligned, not on a device, of the promised length, and just seen to be apart.
            0 => unsafe { std::slice::from_raw_parts_mut(output, layout.len) },
            _ => &mut [],
        };
        let Layout { ld, plane, len } = layout;
        Ok(Arrays {
            input_name: input.0,
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
        let memory = self.base.options.choice(opt::MEMORY);
        if !machine.is_device() && memory == Memory::Device {
            return Err(Error::Unsupported(format!(
                "memory=device needs a handle that works on a device (backend=cuda): {name} cannot be read on the host"
            )));
        }
        let Machine { device, devices, .. } = machine;
        let there = machine.is_device() && on_device(name.into(), array as usize, device, devices, memory)?;
        Ok(if there { array as u64 } else { 0 })
    }

    /// Solves, with history, log and monitor; `in_use` is told in the log.
    fn solve(&mut self, arrays: Arrays, call: Call<C, Outcome>, in_use: fn(&C) -> [&'static str; 2]) -> Result<i32> {
        self.solve_by(|core, options, watch| call(core, arrays, options, watch), in_use)
    }

    /// The same by any call.
    pub fn solve_by(
        &mut self,
        call: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<Outcome>,
        in_use: fn(&C) -> [&'static str; 2],
    ) -> Result<i32> {
        let extents = Extents(self.cells, self.dimensions);
        self.ending.solve(&mut self.base, call, extents, in_use)
    }

    /// Makes a core of the one before and heeds what points out of the grid.
    pub fn set_up(
        &mut self,
        make: impl FnOnce(Option<C>, &Options, usize) -> Result<C>,
        outward: impl FnOnce(&mut C) -> Result<Outward>,
    ) -> Result<()> {
        let seen = &mut self.outward_seen;
        self.base.set_up(|base, previous| {
            let mut core = make(previous, &base.options, base.stream as usize)?;
            heed_outward(base, || outward(&mut core), seen)?;
            Ok(core)
        })
    }
}

/// Couplings that point out of the grid are refused, or said to be ignored, the first time, or passed over.
fn heed_outward<C>(base: &mut Base<C>, find: impl FnOnce() -> Result<Outward>, seen: &mut bool) -> Result<()> {
    match base.options.int(opt::CHECK_INPUT) {
        1 if !*seen => {
            let outward = find()?;
            *seen = !outward.is_empty();
            if *seen {
                base.log.line(0, format_args!("{}: {outward}", base.words.name));
            }
            Ok(())
        }
        2 => find()?.refuse(),
        _ => Ok(()),
    }
}

/// nx x ny, or nx x ny x nz.
struct Extents(Cells, usize);

impl fmt::Display for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(Cells { nx, ny, nz }, dimensions) = self;
        write!(f, "{nx} x {ny}")?;
        if *dimensions > 2 { write!(f, " x {nz}") } else { Ok(()) }
    }
}

/// Both are arrays of doubles, and the one that is written overlaps the other nowhere.
fn check_pair(input: Input, output: Output, len: usize) -> Result<()> {
    Extent::new(input.0, input.1, len, false)?.check_apart(&Extent::new(output.0, output.1, len, true)?)
}

/// A handle of such a family.
pub trait SystemHandle {
    type Core: Core;
    fn system(&self) -> &System<Self::Core>;
    fn system_mut(&mut self) -> &mut System<Self::Core>;

    /// What the line of a solve tells of the core: formats and methods in use.
    fn in_use(core: &Self::Core) -> [&'static str; 2];

    /// A result of `factorize`, 0 for a key that is none.
    fn result_of(core: &Self::Core, key: i32) -> f64;

    /// Bytes beside those of the core.
    fn own_bytes(&self) -> usize {
        0
    }

    /// The same on devices.
    fn own_device_bytes(&self) -> usize {
        0
    }

    /// A result that is neither of the core nor of the end of a solve.
    fn own_result_of(&self, _key: i32) -> Option<f64> {
        None
    }
}

impl<H: SystemHandle> Handle for H {
    type Core = H::Core;

    fn base(&self) -> &Base<H::Core> {
        &self.system().base
    }

    fn base_mut(&mut self) -> &mut Base<H::Core> {
        &mut self.system_mut().base
    }

    fn check(&self, asked: &Options) -> Result<()> {
        self.system().check_layout(asked)
    }

    fn prepare(&mut self, next: &Options, _: bool) -> Result<()> {
        self.base_mut().history.reserve(next.int(opt::MAX_ITER) as usize)
    }

    fn bytes(&self) -> usize {
        self.own_bytes()
    }

    fn device_bytes(&self) -> usize {
        self.own_device_bytes()
    }

    fn own_result(&self, entry: &ResultEntry) -> Result<f64> {
        let System { base, ending, .. } = self.system();
        let of_core = || base.core.as_ref().map_or(0.0, |core| H::result_of(core, entry.key));
        let own = || self.own_result_of(entry.key);
        Ok(ending.result(entry.key, &base.history).or_else(own).unwrap_or_else(of_core))
    }
}

/// The body of `solve`.
///
/// # Safety
/// `h` must be NULL or a live handle of this thread; the arrays must be NULL or hold the values of its layout.
pub unsafe fn solve<H: SystemHandle>(h: *mut H, b: Input, x: Output, call: Call<H::Core, Outcome>) -> rrb_status {
    let solve = |h: &mut H| {
        // SAFETY: as our caller promised.
        let arrays = unsafe { h.system().arrays(b, x)? };
        h.system_mut().solve(arrays, call, H::in_use)
    };
    // SAFETY: as our caller promised.
    unsafe { with(h, solve) }
}

/// The body of `apply` and `multiply`.
///
/// # Safety
/// As for `solve`.
pub unsafe fn run<H: SystemHandle>(h: *mut H, input: Input, output: Output, call: Call<H::Core, ()>) -> rrb_status {
    let work = |h: &mut H| {
        // SAFETY: as our caller promised.
        let arrays = unsafe { h.system().arrays(input, output)? };
        h.base_mut().run(|core, options, _| call(core, arrays, options, &mut Nobody))
    };
    // SAFETY: as our caller promised.
    unsafe { with_ok(h, work) }
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
pub unsafe fn solve_once<H: SystemHandle>(
    make: impl FnOnce() -> Result<H>,
    matrix: impl IntoIterator<Item = Input>,
    task: Task,
    factorize: impl FnOnce(&mut H) -> Result<()>,
    call: Call<H::Core, Outcome>,
) -> rrb_status {
    entry(|| {
        let mut h = make()?;
        let Task { b, x, rel_tol, max_iter, iterations } = task;
        h.set(|o| o.set_real(opt::REL_TOL, rel_tol).and_then(|()| o.set_int(opt::MAX_ITER, max_iter)))?;
        let len = h.system().layout()?.len;
        for input in [("b", b)].into_iter().chain(matrix) {
            check_pair(input, ("x", x), len)?;
        }
        factorize(&mut h)?;
        // SAFETY: as our caller promised.
        let arrays = unsafe { h.system().arrays(("b", b), ("x", x))? };
        let status = h.system_mut().solve(arrays, call, H::in_use)?;
        if !iterations.is_null() {
            // SAFETY: not NULL, and the caller gave an int64_t.
            unsafe { *iterations = h.system().ending.iterations() as i64 };
        }
        Ok(status)
    })
}
