//! Calls on boxes over ranks: creation of the handle, collective factorizations and solves, and their arrays.

use crate::backend::steps::solve::Arrays;
use crate::error::RRB_OK;
use crate::error::{Error, Result};
use crate::ffi::box_arrays::{BoxArrays, Places, Staged, arrays_of, check, given, leading_dimensions, taken};
use crate::ffi::device_rows::{self, Offer};
use crate::ffi::handle::{Base, with};
use crate::ffi::ranks::{Function, Ranks, Sharing};
use crate::ffi::rrb::handle::{NAMES, make_backend, on_rank, rrb_handle, threads};
use crate::ffi::rrb_status;
use crate::ffi::spaces::list_of;
use crate::ffi::system::{Input, Output, System, SystemHandle};
use crate::grid::boxes::GridBox;
use crate::grid::outward::Outward;
use crate::grid::stencil::{StencilView, View};
use crate::options::{Backend, opt};
use crate::report::{Nobody, Observer};
use crate::solver::boxes::Given;
use crate::solver::machine::Machine;
use crate::solver::rrb::{Rrb, grids_to_share, machine};

const NO_BOXES: &str = "a handle of rrb_create has no boxes: call the function without _boxes";

pub(super) fn non_null<T>(list: *const T) -> Option<*const T> {
    (!list.is_null()).then_some(list)
}

/// # Safety
/// As for `rrb_factorize_boxes`.
pub(super) unsafe fn call_boxes(
    h: *mut rrb_handle,
    function: Function,
    leading_dimensions: *const i64,
    (input_name, input): (&'static str, *const *const f64),
    (output_name, output): (&'static str, *const *mut f64),
) -> rrb_status {
    let call = |h: &mut rrb_handle| {
        let count = h.boxes()?.len();
        let read = || {
            // SAFETY: as our caller promised.
            unsafe {
                let ld = list_of("leading_dimensions", non_null(leading_dimensions), count)?;
                Ok((ld, arrays_of(input_name, input, count)?, arrays_of(output_name, output, count)?))
            }
        };
        // SAFETY: as our caller promised.
        unsafe { h.call(function, read()) }
    };
    // SAFETY: as our caller promised.
    unsafe { with(h, call) }
}

/// A call without `_boxes` on a distributed handle: the arrays of its one box, or of none.
///
/// # Safety
/// `h` must be a live handle with ranks; the arrays must be NULL or hold the values of its box.
#[inline(never)]
pub unsafe fn call_box(h: *mut rrb_handle, function: Function, input: Input, output: Output) -> rrb_status {
    let call = |h: &mut rrb_handle| {
        let read = h.one_box().map(|(count, ld)| {
            let input = BoxArrays { name: input.0, arrays: vec![input.1; count] };
            (ld, input, BoxArrays { name: output.0, arrays: vec![output.1; count] })
        });
        // SAFETY: as our caller promised.
        unsafe {
            h.call(function, read.as_ref().map(|(ld, i, o)| (&ld[..], i.clone(), o.clone())).map_err(Clone::clone))
        }
    };
    // SAFETY: as our caller promised.
    unsafe { with(h, call) }
}

/// Leading dimensions, and arrays of a call that reads and writes.
type ReadAndWritten<'a> = Result<(&'a [i64], BoxArrays<*const f64>, BoxArrays<*mut f64>)>;

impl rrb_handle {
    /// The boxes of this rank.
    pub(super) fn boxes(&self) -> Result<&[GridBox]> {
        self.ranks.as_ref().map(|ranks| ranks.own()).ok_or_else(|| Error::State(NO_BOXES.to_owned()))
    }

    /// One box, or none, and the leading dimension of the options.
    fn one_box(&self) -> Result<(usize, [i64; 1])> {
        let count = self.boxes()?.len();
        if count > 1 {
            let sentence = format!("this rank has {count} boxes: call the function whose name ends in _boxes");
            return Err(Error::State(sentence));
        }
        Ok((count, [self.system.layout()?.ld as i64]))
    }

    /// # Safety
    /// The arrays must be NULL or hold the values of the one box of this rank.
    pub(super) unsafe fn factorize_box(&mut self, arrays: [*const f64; 5]) -> Result<()> {
        let corners = !(arrays[3].is_null() && arrays[4].is_null());
        let one = self.one_box();
        let read = one.as_ref().map_err(Clone::clone).map(|(count, ld)| {
            let named = NAMES.into_iter().zip(arrays).take(if corners { 5 } else { 3 });
            let list = named.map(|(name, array)| BoxArrays { name, arrays: vec![array; *count] });
            (&ld[..], list.collect::<Vec<_>>())
        });
        // SAFETY: as our caller promised.
        unsafe { self.factorize_boxes(corners, read) }
    }

    /// # Safety
    /// The arrays must be NULL or hold the values of their boxes.
    pub(super) unsafe fn factorize_boxes(
        &mut self,
        corners: bool,
        read: Result<(&[i64], Vec<BoxArrays<*const f64>>)>,
    ) -> Result<()> {
        let Some(ranks) = &mut self.ranks else { return Err(Error::State(NO_BOXES.to_owned())) };
        let base = &self.system.base;
        let (places, ordinal) = (places(base), first_device(base));
        let checked = read.and_then(|(ld, arrays)| {
            let ld = leading_dimensions(ranks.own(), ld)?;
            check(ranks.own(), &ld, &arrays, None, &places)?;
            Ok((ld, arrays))
        });
        let refused = checked.as_ref().err().cloned();
        // A rank without boxes has no array to tell 5 from 9 points by.
        let corners = (!ranks.own().is_empty()).then_some(corners);
        let corners = ranks.open(Function::Factorize, &base.options, corners, false, refused)?;
        let (ld, list) = checked?;
        let sharing = match base.options.choice(opt::BACKEND) {
            Backend::Reference => Sharing::Grids { most: 0, reproducible: true },
            Backend::Cuda => Sharing::First,
            _ => Sharing::Grids {
                most: grids_to_share(&base.options, self.system.grid()),
                reproducible: base.options.on(opt::REPRODUCIBLE),
            },
        };
        let arrays = if corners { 5 } else { 3 };
        let prepared = ranks.prepare(arrays, sharing);
        let prepared = ranks.close(prepared);
        // If it failed on one rank, no other rank may keep its previous factorization.
        if !matches!(prepared, Ok(false)) {
            self.system.base.core = None;
        }
        if prepared.is_err() {
            ranks.forget();
        }
        prepared?;
        let offer = Offer { arrays: &list, ld: &ld, places, ordinal };
        let follows = ranks.follows();
        let result = if ranks.offer(device_rows::MATRIX, &offer)? {
            if follows { Ok(()) } else { self.factorize_device_rows(arrays) }
        } else {
            ranks.prepare_host()?;
            // SAFETY: as our caller promised; checked above.
            let staged = list.iter().map(|array| unsafe { Staged::new(ranks.own(), &ld, array, &places, true) });
            let staged = staged.collect::<Result<Vec<_>>>();
            // SAFETY: as above.
            let of = |(array, staged): (&BoxArrays<_>, _)| unsafe { given(ranks.own(), &ld, &array.arrays, staged) };
            let values = staged.as_ref().map_err(Clone::clone);
            let values = values.and_then(|staged| list.iter().zip(staged).map(of).collect::<Result<Vec<_>>>());
            // Allocation may fail on one rank only.
            let mut values = ranks.close(values)?;
            // A rank without boxes has the same number of arrays as the others.
            values.resize_with(arrays, Vec::new);
            let alone = ranks.is_alone();
            if !alone {
                ranks.spread_matrix(&values)?;
            }
            if follows { Ok(()) } else { self.factorize_rows(&values, alone) }
        };
        let Some(ranks) = &mut self.ranks else { return result };
        let result = ranks.close(result);
        let result = result.and_then(|()| ranks.tell_factorized(self.system.base.core.as_ref().filter(|_| !follows)));
        if result.is_err() {
            // Also without an error on this rank: the others do not know what it found.
            self.system.base.core = None;
            self.system.base.begin_setup();
        }
        match result? {
            Some(told) => self.system.set_up(|_, _, _| Ok(told), |_| Ok(Outward::default())),
            None => Ok(()),
        }
    }

    /// Factorizes arrays on devices that rank 0 can read.
    fn factorize_device_rows(&mut self, arrays: usize) -> Result<()> {
        let grid = self.system.grid();
        let machine = machine(&self.system.base.options, grid, threads(&self.system), 0);
        let Some(ranks) = &mut self.ranks else { return Err(Error::State(NO_BOXES.to_owned())) };
        let rows = ranks.device_rows()?;
        let brought = rows.bring(device_rows::MATRIX, arrays);
        rows.close();
        brought?;
        let address: Vec<u64> = (0..arrays).map(|k| rows.address(device_rows::MATRIX, k)).collect();
        let view = |k: usize| View::on_device(NAMES[k], address[k], grid, grid.nx, grid.nodes());
        let corners = (arrays > 3).then(|| (view(3), view(4)));
        let a = StencilView { grid, center: view(0), east: view(1), north: view(2), corners };
        self.factorize_view(&a, machine, &make_backend)
    }

    /// Factorizes the rows that the ranks have sent here, or the arrays of the only rank.
    fn factorize_rows(&mut self, values: &[Vec<Given>], alone: bool) -> Result<()> {
        let Some(ranks) = &mut self.ranks else { return Err(Error::State(NO_BOXES.to_owned())) };
        let grid = self.system.grid();
        let machine = machine(&self.system.base.options, grid, threads(&self.system), 0);
        // The rows are borrowed for the call.
        let (rows, first, domain) = (ranks.take_matrix(), ranks.first_row(), ranks.domain());
        let view = |k: usize| match values.get(k).and_then(|boxes| boxes.first()).filter(|_| alone) {
            Some(given) => View::new(NAMES[k], given.values, grid, given.ld),
            None => View::of_rows(NAMES[k], rows.array(k), grid, first),
        };
        let corners = (values.len() > 3).then(|| (view(3), view(4)));
        let a = StencilView { grid, center: view(0), east: view(1), north: view(2), corners };
        let make = |machine: Machine| match &domain {
            Some(domain) if machine.backend == Backend::Cpu => Ok(on_rank(machine.threads, domain)?),
            _ => make_backend(machine),
        };
        let result = self.factorize_view(&a, machine, &make);
        if let Some(ranks) = &mut self.ranks {
            ranks.give_matrix(rows);
        }
        result
    }

    /// # Safety
    /// The arrays must be NULL or hold the values of their boxes.
    unsafe fn call(&mut self, function: Function, read: ReadAndWritten) -> Result<i32> {
        let Some(ranks) = &mut self.ranks else { return Err(Error::State(NO_BOXES.to_owned())) };
        let base = &self.system.base;
        let places = places(base);
        let checked = base.check_fresh().and(read).and_then(|(ld, input, output)| {
            let ld = leading_dimensions(ranks.own(), ld)?;
            check(ranks.own(), &ld, std::slice::from_ref(&input), Some(&output), &places)?;
            Ok((ld, input, output))
        });
        let refused = checked.as_ref().err().cloned();
        ranks.open(function, &base.options, None, base.has_monitor(), refused)?;
        let (ld, input, output) = checked?;
        let written = output.as_read();
        let offer = [input.clone(), written.clone()];
        let offer = Offer { arrays: &offer, ld: &ld, places, ordinal: first_device(base) };
        if ranks.offer(device_rows::VECTORS, &offer)? {
            return self.call_on_device_rows(function, input.name);
        }
        ranks.prepare_host()?;
        let guess = function == Function::Solve;
        // SAFETY: as our caller promised; checked above.
        let staged = unsafe {
            let of = |arrays, read| Staged::new(ranks.own(), &ld, arrays, &places, read);
            of(&input, true).and_then(|input| Ok((input, of(&written, guess)?)))
        };
        // A stream that rank 0 cannot use is refused before the computation, in which the other ranks wait.
        let mut staged = staged.and_then(|staged| self.system.base.check_stream().map(|()| staged));
        let lists = staged.as_mut().map_err(|error| error.clone()).and_then(|(from, to)| {
            // SAFETY: as above.
            unsafe {
                let given = given(ranks.own(), &ld, &input.arrays, from)?;
                Ok((given, taken(ranks.own(), &ld, &output.arrays, to)?))
            }
        });
        let (alone, grid) = (ranks.is_alone(), self.system.grid());
        if !alone {
            let own = lists.as_ref().map(|(given, taken)| (&given[..], &taken[..]));
            ranks.spread_vectors(own.map_err(Clone::clone), guess)?;
        }
        let (given, mut taken) = lists?;
        let mut vectors = ranks.take_vectors();
        let [from, to, ..] = vectors.arrays_mut();
        let (row, from, to) = match (&given[..], &mut taken[..]) {
            ([from], [to]) if alone => (from.ld, from.values, &mut *to.values),
            _ => (grid.nx, &*from, to),
        };
        let arrays = Arrays {
            input_name: input.name,
            input: from,
            ld: row,
            plane: grid.ny.saturating_mul(row),
            output: to,
            device_input: 0,
            device_output: 0,
            len: grid.nodes(),
            first_row: ranks.first_row(),
        };
        let matrix = ranks.take_matrix();
        let view = |k: usize| View::of_rows(NAMES[k], matrix.array(k), grid, arrays.first_row);
        // A single rank has the matrix in its factorization; a matrix with 9 points is not needed.
        let a = (!alone && !ranks.follows()).then(|| StencilView {
            grid,
            center: view(0),
            east: view(1),
            north: view(2),
            corners: None,
        });
        let result = Self::work(&mut self.system, ranks, function, arrays, a.as_ref());
        ranks.give_matrix(matrix);
        ranks.give_vectors(vectors);
        let result = ranks.close(result)?;
        if !alone {
            ranks.collect(&mut taken)?;
        }
        // SAFETY: as above.
        let back = staged.and_then(|(_, to)| unsafe { to.write_back(ranks.own(), &ld, &output, &places) });
        ranks.agree_where_led(back)?;
        Ok(result)
    }

    /// The same on device arrays that rank 0 can read and write.
    fn call_on_device_rows(&mut self, function: Function, input_name: &'static str) -> Result<i32> {
        let Some(ranks) = &mut self.ranks else { return Err(Error::State(NO_BOXES.to_owned())) };
        let (follows, grid) = (ranks.follows(), self.system.grid());
        let guess = function == Function::Solve;
        let rows = ranks.device_rows()?;
        let brought = if follows { Ok(()) } else { rows.bring(device_rows::VECTORS, if guess { 2 } else { 1 }) };
        let address = |array| if follows { 0 } else { rows.address(device_rows::VECTORS, array) };
        let (device_input, device_output) = (address(0), address(1));
        // As for arrays that are transferred through the host.
        let ready = brought.and_then(|()| self.system.base.check_stream());
        let result = ranks.close(ready).and_then(|()| {
            let arrays = Arrays {
                input_name,
                input: &[],
                ld: grid.nx,
                plane: grid.nodes(),
                output: &mut [],
                device_input,
                device_output,
                len: grid.nodes(),
                first_row: 0,
            };
            Self::work(&mut self.system, ranks, function, arrays, None)
        });
        // x is written if the solve succeeded on all ranks.
        let result = ranks.close(result);
        let rows = ranks.device_rows()?;
        let back = if follows || result.is_err() { Ok(()) } else { rows.bring_back(device_rows::VECTORS, 1) };
        rows.close();
        let result = result?;
        ranks.close(back).map(|()| result)
    }

    /// The computation of a call on the rows of this rank, whose matrix is `a`.
    fn work(
        system: &mut System<Rrb>,
        ranks: &mut Ranks,
        function: Function,
        arrays: Arrays,
        a: Option<&StencilView>,
    ) -> Result<i32> {
        match function {
            Function::Solve => {
                let follows = ranks.follows();
                let result = system.solve_by(
                    |core, options, watch| {
                        let solve = |core: &mut Rrb, o: &mut dyn Observer| core.solve_over_ranks(arrays, a, options, o);
                        ranks.solve(core, watch, solve)
                    },
                    Self::in_use,
                );
                if !follows && system.base.core.as_ref().is_some_and(Rrb::is_lost) {
                    system.base.begin_setup();
                }
                result
            }
            _ if ranks.follows() => Ok(RRB_OK),
            _ => {
                let call = if function == Function::Apply { Rrb::apply } else { Rrb::multiply };
                system.base.run(|core, options, _| call(core, arrays, options, &mut Nobody)).map(|()| RRB_OK)
            }
        }
    }
}

/// Arrays of ranks reside on the host, or also on devices if rank 0 solves on devices.
fn places(base: &Base<Rrb>) -> Places {
    let on_devices = base.options.is(opt::BACKEND, Backend::Cuda);
    Places { memory: on_devices.then(|| base.options.choice(opt::MEMORY)), stream: base.stream as usize }
}

/// Ordinal of the first device in the options.
fn first_device(base: &Base<Rrb>) -> i64 {
    base.options.devices().ordinals().next().unwrap_or_else(|| base.options.int(opt::DEVICE))
}
