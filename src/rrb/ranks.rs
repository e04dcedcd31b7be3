//! Handles whose domain is distributed over several ranks: the boxes of all ranks, and the protocol of collective
//! calls. A collective call begins with one exchange, in which each rank sends the function, the options, and its
//! status. After this exchange, either all ranks compute, or all ranks return the same status.

pub use crate::rrb::gathered::ROOT;

use super::{Rrb, grids_to_share};
use crate::base::heap::Counted;
use crate::distributed::box_transfer::{BoxInput, BoxOutput, BoxTransfer, Boxes, NAMES, Slabs, rows_of};
use crate::distributed::boxes::{GridBox, find_overlap};
use crate::distributed::error_messages::error_of_rank;
use crate::distributed::rows;
use crate::distributed::rows::{Rows, SharedRows};
use crate::distributed::strips::Strips;
use crate::distributed::vtable::rrbsolver_comm;
use crate::distributed::{Comm, Gather, Maximum};
use crate::error::{Error, Result, collected, extend, push};
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{Backend, Options, opt};
use crate::report::{Event, Observer, Outcome};
use crate::rrb::domain::Domain;
use crate::rrb::gathered::{RootSolve, any_stops};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::{StencilView, View};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the memory in error messages about failed allocations.
const BOXES: &str = "boxes of ranks";

/// Number that denotes a factorization. The numbers of other calls are those of [`Function`].
const FACTORIZE: i32 = 1;

/// Returns the name of a collective call, without the suffix `_boxes`.
fn name_of(number: f64) -> &'static str {
    match number as i32 {
        FACTORIZE => "rrb_factorize",
        2 => "rrb_solve",
        3 => "rrb_apply",
        _ => "rrb_multiply",
    }
}

/// Timeout in seconds for a rank that could not create its options.
const FIRST_TIMEOUT: f64 = 60.0;

/// Options that may differ between ranks; they do not change results.
const RANK_OPTIONS: [i32; 7] =
    [opt::THREADS, opt::VERBOSITY, opt::MEMORY, opt::DEVICE, opt::LEADING_DIMENSION, opt::COMM_TIMEOUT, opt::LOG];

/// Number of values that must be equal on all ranks. Each rank sends every value and its negative, and the exchange
/// returns the maxima. The maximum of the negatives is minus the minimum; the value is equal if minimum = maximum.
const EQUAL_VALUES: usize = 6;
/// Indices of some of the values. All values are: number of the call, function, two halves of the hash of the options,
/// handle number, and whether there are corner couplings.
const FUNCTION: usize = 1;
const HANDLE: usize = 4;
const HAS_CORNERS: usize = EQUAL_VALUES - 1;
/// Number of values that a rank sends at the beginning of a call. The last two are whether this rank has a monitor, and
/// minus its status.
const OPENING_VALUES: usize = 2 * EQUAL_VALUES + 2;

/// Data of a handle whose domain is distributed among ranks.
pub struct Ranks {
    comm: Counted<Comm>,
    boxes: Counted<Boxes>,
    /// Exchange at the beginning of a call.
    opening: Maximum,
    /// Exchange of the status at the end of a call, of the number of the rank that reports an error, and of other
    /// values of which all ranks need the maximum.
    closing: Maximum,
    /// Exchange of the stop requests of the monitors.
    stop: Maximum,
    /// Number of collective calls so far.
    calls: u64,
    /// Number of the handle. It is equal on all ranks, and differs from the numbers of other handles.
    number: f64,
    /// Messages between boxes and rows. `None` if none are planned yet, or if the rows are in shared memory.
    spread: Option<BoxTransfer>,
    /// Distribution of the rows of the first grids among the ranks. `None` if every rank, or only rank 0, stores the
    /// whole system.
    domain: Option<Domain>,
    /// Exchange of events and results if rank 0 solves the whole system; otherwise `None`.
    root: Option<RootSolve>,
    /// Exchange that finds out whether all ranks are on one host and can share memory. It is needed only if rank 0
    /// solves the whole system, until [`Ranks::prepare_host`] has used it; otherwise `None`.
    address_plan: Option<Gather>,
    /// Number of arrays of the matrix.
    arrays: usize,
    /// Rows of the matrix, and rows of the input and output vectors, that this rank stores.
    matrix: Rows,
    vectors: Rows,
    /// Whether any rank has a monitor.
    monitored: bool,
    /// Numbers of messages and bytes sent before the last call.
    before: [u64; 2],
}

/// Indices of the plans of a [`BoxTransfer`]: for the matrix, for input and output vector together, and for the input
/// vector alone.
const MATRIX: usize = 0;
const BOTH: usize = 1;
const INPUT: usize = 2;

impl Ranks {
    /// Creates the data of this rank. Collective.
    ///
    /// `given` contains the grid and the timeout in seconds; `None` if this rank could not create its options. `boxes`
    /// contains the lower corners and sizes of the boxes of this rank, counted from 0, or the error of this rank. If
    /// any rank has an error, or the grids differ, or the boxes overlap, all ranks return an error.
    pub fn new(table: &rrbsolver_comm, given: Option<(Grid, f64)>, boxes: Result<[&[[i64; 2]]; 2]>) -> Result<Self> {
        let comm = Comm::new(table)?;
        let (grid, timeout) = given.unwrap_or((Grid { nx: 1, ny: 1 }, FIRST_TIMEOUT));
        comm.set_timeout(timeout);
        let own = boxes.and_then(|[lower, size]| {
            let mut words = Vec::new();
            for (number, (&lower, &size)) in lower.iter().zip(size).enumerate() {
                let GridBox { lower, upper } = GridBox::new(grid, lower, size, number)?;
                extend(&mut words, [lower, upper].concat().into_iter().map(|v| v as f64), BOXES)?;
            }
            Ok(words)
        });
        // Each rank sends the extents of the grid, which must be equal on all ranks. It also sends the number of words
        // that describe its boxes (four words per box), its status, and a handle number.
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let words = own.as_ref().map_or(0, Vec::len);
        let status = own.as_ref().err().map_or(0, Error::status);
        let created = CREATED.fetch_add(1, Ordering::Relaxed);
        let values = [grid.nx as f64, grid.ny as f64, words as f64, status.into(), created as f64];
        const WORDS: usize = 5;
        let mut first = Gather::new(&comm, &collected((0..comm.size()).map(|_| WORDS), BOXES)?)?;
        let values = first.run(|to| to.copy_from_slice(&values))?;
        let of = |k: usize| values.iter().skip(k).step_by(WORDS).copied();
        if let Some(rank) = of(3).position(|status| status != 0.0) {
            return Err(error_of_rank(&comm, rank, values[WORDS * rank + 3] as i32, own.as_ref().err())?);
        }
        if let Some(rank) = of(0).zip(of(1)).position(|extents| extents != (values[0], values[1])) {
            return Err(Error::Argument(format!(
                "all ranks must pass the same nx and ny: rank 0 passed {} x {}, rank {rank} passed {} x {}",
                values[0],
                values[1],
                values[WORDS * rank],
                values[WORDS * rank + 1]
            )));
        }
        let number = values[4];
        let lengths = collected(of(2).map(|words| words as usize), BOXES)?;
        let own = own?;
        let mut second = Gather::new(&comm, &lengths)?;
        let words = second.run(|to| to.copy_from_slice(&own))?;
        let node = |words: &[f64]| [words[0] as usize, words[1] as usize];
        let a_box = |words: &[f64]| GridBox { lower: node(words), upper: node(&words[2..]) };
        let all = collected(words.chunks_exact(4).map(a_box), BOXES)?;
        check_boxes(&all, &lengths)?;
        let counts = collected(lengths.iter().map(|words| words / 4), BOXES)?;
        Ok(Self {
            opening: Maximum::new(&comm, OPENING_VALUES)?,
            closing: Maximum::new(&comm, 2)?,
            stop: Maximum::new(&comm, 1)?,
            boxes: Counted::new(Boxes::new(grid, all, &counts)?, BOXES)?,
            comm,
            calls: 0,
            number,
            spread: None,
            domain: None,
            root: None,
            address_plan: None,
            arrays: 0,
            matrix: Rows::NONE,
            vectors: Rows::NONE,
            monitored: false,
            before: [0; 2],
        })
    }

    /// Returns the boxes of this rank.
    pub fn own(&self) -> &[GridBox] {
        self.boxes.of(self.comm.rank())
    }

    /// Returns whether this is the only rank and its single box is the whole grid. Its arrays are then used in place.
    pub fn is_alone(&self) -> bool {
        self.comm.size() == 1 && matches!(self.own(), [one] if one.extents() == self.boxes.grid)
    }

    /// Returns the numbers of messages and bytes that this rank sent in the last call.
    pub fn sent(&self) -> [u64; 2] {
        let sent = self.comm.sent();
        [0, 1].map(|k| sent[k] - self.before[k])
    }

    pub fn bytes(&self) -> usize {
        self.matrix.bytes() + self.vectors.bytes() + self.spread.as_ref().map_or(0, BoxTransfer::bytes)
    }

    /// Returns the communicator and the boxes of all ranks.
    pub fn parts(&self) -> (&Counted<Comm>, &Counted<Boxes>) {
        (&self.comm, &self.boxes)
    }

    /// Begins a collective call of `what`, or a factorization if `what` is `None`. `corners` states whether this rank
    /// passed corner couplings; it is `None` if the call has no matrix, or this rank no boxes. `monitored` states
    /// whether this rank has a monitor. `refused` is the error of this rank, if it has one. Returns whether the matrix
    /// has corner couplings, which a rank without boxes does not know. Returns an error on all ranks if any rank has an
    /// error, or if the calls, the options or the presence of corner couplings differ.
    pub fn open(
        &mut self,
        what: Option<Function>,
        options: &Options,
        corners: Option<bool>,
        monitored: bool,
        refused: Option<Error>,
    ) -> Result<bool> {
        self.comm.check()?;
        self.comm.set_timeout(options.real(opt::COMM_TIMEOUT));
        self.before = self.comm.sent();
        self.calls += 1;
        let hash = options.fingerprint(&RANK_OPTIONS);
        let same: [f64; EQUAL_VALUES] = [
            self.calls as f64,
            f64::from(what.map_or(FACTORIZE, |what| what as i32)),
            (hash >> 32) as f64,
            (hash & u64::from(u32::MAX)) as f64,
            self.number,
            0.0,
        ];
        let mut values = [0.0; OPENING_VALUES];
        for (k, value) in same.into_iter().enumerate() {
            (values[2 * k], values[2 * k + 1]) = (value, -value);
        }
        let has = |value: f64| corners.map_or(f64::NEG_INFINITY, |corners| if corners { value } else { 0.0 });
        (values[2 * HAS_CORNERS], values[2 * HAS_CORNERS + 1]) = (has(1.0), has(-1.0));
        values[2 * EQUAL_VALUES] = f64::from(u8::from(monitored));
        values[2 * EQUAL_VALUES + 1] = -f64::from(refused.as_ref().map_or(0, Error::status));
        let values: [f64; OPENING_VALUES] = self.opening.run(&values)?.try_into().expect("as many as were given");
        self.monitored = values[2 * EQUAL_VALUES] > 0.0;
        let range = |k: usize| (-values[2 * k + 1], values[2 * k]);
        let differs = |k: usize| range(k).0 != range(k).1;
        if differs(0) || differs(FUNCTION) || differs(HANDLE) {
            let (first, last) = range(FUNCTION);
            let [first, last] = [first, last].map(name_of);
            let whose = if differs(HANDLE) { " of another handle" } else { "" };
            return Err(Error::State(format!(
                "all ranks must make the same calls in the same order: one calls {first}, another calls {last}{whose}"
            )));
        }
        if let Some(status) = Some(-values[2 * EQUAL_VALUES + 1] as i32).filter(|&status| status != 0) {
            return Err(self.common_error(status, refused)?);
        }
        if differs(2) || differs(3) {
            let message = "options differ between ranks: all but threads, verbosity, log, leading_dimension, \
                            memory, device and comm_timeout must be the same on all ranks";
            return Err(Error::Argument(message.to_owned()));
        }
        if differs(HAS_CORNERS) && values[2 * HAS_CORNERS].is_finite() {
            let message = "northeast and northwest are NULL on some ranks only: all ranks must pass them, or none";
            return Err(Error::Argument(message.to_owned()));
        }
        Ok(values[2 * HAS_CORNERS] > 0.0)
    }

    /// Returns the error of a failed call, on all ranks. The first rank that has an error with this status supplies the
    /// message.
    fn common_error(&mut self, status: i32, own: Option<Error>) -> Result<Error> {
        let mine = own.filter(|error| error.status() == status && !matches!(error, Error::OtherRanks { .. }));
        let this = self.comm.rank();
        let candidate = if mine.is_some() { -(this as f64) } else { f64::NEG_INFINITY };
        let first = self.closing.run(&[candidate, 0.0])?[0];
        // If no rank has an error with this status, there is a defect in this library; rank 0 then reports it.
        let rank = if first.is_finite() { -first as usize } else { 0 };
        error_of_rank(&self.comm, rank, status, mine.as_ref())
    }

    /// Ends a collective call. Returns `result` if all ranks succeeded, and otherwise an error on all ranks.
    pub fn close<T>(&mut self, result: Result<T>) -> Result<T> {
        self.comm.check()?;
        let status = result.as_ref().err().map_or(0, Error::status);
        let worst = -self.closing.run(&[-f64::from(status), 0.0])?[0] as i32;
        if worst == 0 {
            return result;
        }
        Err(self.common_error(worst, result.err())?)
    }

    /// Returns whether `own` is true on any rank. Collective.
    pub fn any(&mut self, own: bool) -> Result<bool> {
        Ok(self.closing.run(&[f64::from(u8::from(own)), 0.0])?[0] > 0.0)
    }

    /// Allocates memory for `arrays` arrays of a matrix, and plans the messages. On the CPU, the rows of the first
    /// grids may be distributed among the ranks; each rank stores the other grids completely. If rank 0 solves on
    /// devices, it stores all rows, and [`Ranks::prepare_host`] allocates the memory when it is needed. Returns `false`
    /// if the previous memory and plans still apply.
    pub fn prepare(&mut self, arrays: usize, options: &Options) -> Result<bool> {
        let (grid, size) = (self.boxes.grid, self.comm.size());
        let (grids, reproducible, root) = match options.choice(opt::BACKEND) {
            Backend::Reference => (0, true, false),
            Backend::Cuda => (0, true, true),
            _ => (grids_to_share(options, grid), options.on(opt::REPRODUCIBLE), false),
        };
        let strips = Strips::new(grid, size, grids)?;
        let like = |domain: &Domain| strips.as_ref() == Some(&*domain.strips) && reproducible == domain.reproducible;
        let same = self.domain.as_ref().map_or(strips.is_none(), like) && root == self.root.is_some();
        if same && self.arrays == arrays {
            return Ok(false);
        }
        self.discard_plans();
        if root {
            self.root = Some(RootSolve::new(&self.comm)?);
            self.address_plan = Some(rows::address_plan(&self.comm)?);
            self.arrays = arrays;
            return Ok(true);
        }
        let slabs = match &strips {
            Some(strips) => Slabs::strips(strips, Domain::slab)?,
            None => Slabs::whole(grid, size)?,
        };
        self.plan_messages(slabs, arrays)?;
        if let Some(strips) = strips {
            self.domain = Some(Domain::new(&self.comm, &Counted::new(strips, BOXES)?, reproducible)?);
        }
        self.arrays = arrays;
        Ok(true)
    }

    /// Discards all plans and their memory.
    pub fn discard_plans(&mut self) {
        (self.spread, self.domain, self.arrays) = (None, None, 0);
        (self.root, self.address_plan) = (None, None);
        (self.matrix, self.vectors) = (Rows::NONE, Rows::NONE);
    }

    fn plan_messages(&mut self, slabs: Slabs, arrays: usize) -> Result<()> {
        let spread = BoxTransfer::new(&self.comm, &self.boxes, &Counted::new(slabs, BOXES)?, &[arrays, 2, 1])?;
        if !self.is_alone() {
            self.vectors = Rows::Own(rows_of(&spread, 2)?);
            self.matrix = Rows::Own(rows_of(&spread, arrays)?);
        }
        self.spread = Some(spread);
        Ok(())
    }

    /// Prepares transfers through host memory, if rank 0 stores all rows. The first call allocates shared memory or
    /// plans messages. Collective.
    pub fn prepare_host(&mut self) -> Result<()> {
        let Some(address_plan) = self.address_plan.as_mut().filter(|_| self.root.is_some()) else { return Ok(()) };
        let (grid, arrays) = (self.boxes.grid, self.arrays);
        let is_alone = self.comm.size() == 1;
        // Ranks on one host share memory and need no messages.
        let found = if is_alone {
            None
        } else {
            rows::shared_rows(&self.comm, address_plan, &mut self.closing, [arrays, 2], grid.nodes())?
        };
        if let Some([matrix, vectors]) = found {
            (self.matrix, self.vectors) = (Rows::SharedRows(matrix), Rows::SharedRows(vectors));
        } else {
            let planned = Slabs::first(grid, self.comm.size()).and_then(|slabs| self.plan_messages(slabs, arrays));
            let planned = self.close(planned);
            if planned.is_err() {
                self.spread = None;
                (self.matrix, self.vectors) = (Rows::NONE, Rows::NONE);
                return planned;
            }
        }
        self.address_plan = None;
        Ok(())
    }

    /// Returns whether rank 0 computes and this rank does not.
    pub fn leaves_work_to_root(&self) -> bool {
        self.root.as_ref().is_some_and(|root| !root.is_root())
    }

    /// Sends the results of a factorization from rank 0 to the other ranks. On each of these ranks, returns an [`Rrb`]
    /// that represents this factorization. Returns `None` on rank 0, and if rank 0 does not solve the whole system.
    pub fn send_factorized(&mut self, core: Option<&Rrb>) -> Result<Option<Rrb>> {
        let Some(root) = &mut self.root else { return Ok(None) };
        match core {
            Some(core) if root.is_root() => root.send_factorized(core).map(|()| None),
            _ => root.receive_factorized().map(Some),
        }
    }

    /// Returns whether rank 0 stores all rows.
    pub fn root_has_all_rows(&self) -> bool {
        self.root.is_some()
    }

    /// Returns the role of this rank in a call.
    pub fn role(&mut self) -> Role<'_> {
        Role { root: self.root.as_mut(), stop: self.monitored.then_some(&mut self.stop) }
    }

    /// Returns the natural rows that this rank stores.
    fn rows(&self) -> Range<usize> {
        match &self.spread {
            Some(spread) => spread.rows(),
            None if self.leaves_work_to_root() => 0..0,
            None => 0..self.boxes.grid.ny,
        }
    }

    /// Transfers the matrix from the boxes of all ranks to the rows that each rank stores, and sets the nodes outside
    /// all boxes. `given` contains center, east, north and, with 9 points, both corner arrays. Collective.
    pub fn spread_matrix(&mut self, given: &[Vec<BoxInput>]) -> Result<()> {
        match (&mut self.spread, &mut self.matrix) {
            (Some(spread), rows) => spread.send_to_rows(MATRIX, given, &mut rows.arrays_mut()[..given.len()])?,
            (None, Rows::SharedRows(rows)) => copy_to_shared(&self.boxes, self.comm.rank(), given, rows),
            _ => return Err(no_spread()),
        }
        // Nodes outside all boxes (land) receive the smallest positive center of all ranks, so that the range of the
        // centers does not change. The storage format depends on this range.
        let own = given[0].iter().zip(self.boxes.of(self.comm.rank()));
        let centers = own.flat_map(|(given, b)| {
            let Grid { nx, ny } = b.extents();
            (0..ny).flat_map(move |j| &given.values[j * given.ld..][..nx])
        });
        let smallest = centers.copied().filter(|c| *c > 0.0 && c.is_finite()).fold(f64::INFINITY, f64::min);
        let smallest = -self.closing.run(&[-smallest, 0.0])?[0];
        let (own, center) = (self.rows(), if smallest.is_finite() { smallest } else { 1.0 });
        let land = self.boxes.set_land(own, center, &mut self.matrix.arrays_mut()[..self.arrays]);
        self.close(land)
    }

    /// Calls `work`, which factorizes the rows that this rank received. If [`Ranks::is_alone`] holds, `work` instead
    /// receives the caller's arrays.
    pub fn factorize(
        &self,
        values: &[Vec<BoxInput>],
        work: impl FnOnce(&StencilView, Option<&Domain>) -> Result<()>,
    ) -> Result<()> {
        let (grid, first, alone) = (self.boxes.grid, self.rows().start, self.is_alone());
        let view = |k: usize| match values.get(k).and_then(|boxes| boxes.first()).filter(|_| alone) {
            Some(given) => View::new(NAMES[k], given.values, grid, given.ld),
            None => View::of_rows(NAMES[k], self.matrix.array(k), grid, first),
        };
        let corners = (values.len() > 3).then(|| (view(3), view(4)));
        let a = StencilView { grid, center: view(0), east: view(1), north: view(2), corners };
        work(&a, self.domain.as_ref())
    }

    /// Copies the input of all boxes to rows (for a solve, also the output, which contains the initial guess), and
    /// calls `work` with the rows of this rank. If all ranks succeed, copies the output to the boxes. `lists` contains
    /// input and output of the boxes of this rank, or its error.
    pub fn call<T>(
        &mut self,
        what: Function,
        input_name: &'static str,
        lists: Result<(Vec<BoxInput>, Vec<BoxOutput>)>,
        work: impl FnOnce(Role, Arrays, Option<&StencilView>) -> Result<T>,
    ) -> Result<T> {
        let (alone, grid) = (self.is_alone(), self.boxes.grid);
        if !alone {
            let own = lists.as_ref().map(|(inputs, outputs)| (&inputs[..], &outputs[..]));
            self.spread_vectors(own.map_err(Clone::clone), what == Function::Solve)?;
        }
        let (inputs, mut outputs) = lists?;
        let (first_row, leaves_work_to_root) = (self.rows().start, self.leaves_work_to_root());
        let Self { vectors, matrix, root, stop, monitored, .. } = &mut *self;
        let [from, to, ..] = vectors.arrays_mut();
        let (ld, input, output) = match (&inputs[..], &mut outputs[..]) {
            ([from], [to]) if alone => (from.ld, from.values, &mut *to.values),
            _ => (grid.nx, &*from, to),
        };
        let (plane, len) = (grid.ny.saturating_mul(ld), grid.nodes());
        let arrays = Arrays { input_name, input, ld, plane, output, device_input: 0, device_output: 0, len, first_row };
        let view = |k: usize| View::of_rows(NAMES[k], matrix.array(k), grid, first_row);
        // The matrix is needed only if a solve continues with CG in double precision (`Rrb::solve_over_ranks`). This
        // applies to 5-point matrices only. It is not passed if a single rank has all rows, because its factorization
        // contains the matrix, or if this rank does not compute.
        let a = (!alone && !leaves_work_to_root).then(|| StencilView {
            grid,
            center: view(0),
            east: view(1),
            north: view(2),
            corners: None,
        });
        let role = Role { root: root.as_mut(), stop: monitored.then_some(stop) };
        let result = work(role, arrays, a.as_ref());
        let result = self.close(result)?;
        if !alone {
            self.collect(&mut outputs)?;
        }
        Ok(result)
    }

    /// Transfers the input of all boxes to rows; with `guess`, also the output. Returns an error on all ranks if `own`
    /// is an error on any rank.
    fn spread_vectors(&mut self, own: Result<(&[BoxInput], &[BoxOutput])>, guess: bool) -> Result<()> {
        let given = own.and_then(|(input, output)| {
            let mut given = collected([collected(input.iter().copied(), BOXES)?], BOXES)?;
            if guess {
                let output = output.iter().map(|b| BoxInput { values: b.values, ld: b.ld });
                push(&mut given, collected(output, BOXES)?, BOXES)?;
            }
            Ok(given)
        });
        let given = self.close(given)?;
        let plan = if guess { BOTH } else { INPUT };
        match (&mut self.spread, &mut self.vectors) {
            (Some(spread), rows) => spread.send_to_rows(plan, &given, &mut rows.arrays_mut()[..given.len()]),
            (None, Rows::SharedRows(rows)) => {
                copy_to_shared(&self.boxes, self.comm.rank(), &given, rows);
                // Waits until all ranks have written their values.
                self.close(Ok(()))
            }
            _ => Err(no_spread()),
        }
    }

    /// Transfers the output from rows to all boxes. The caller must have called `close` before: then all ranks have
    /// succeeded, and the rows are complete.
    fn collect(&mut self, output: &mut [BoxOutput]) -> Result<()> {
        match (&mut self.spread, &self.vectors) {
            (Some(spread), rows) => spread.send_to_boxes(rows.array(1), output),
            (None, Rows::SharedRows(rows)) => {
                for (b, output_box) in self.boxes.of(self.comm.rank()).iter().zip(output) {
                    let nx = b.columns().len();
                    for (j, at) in self.boxes.rows_of(b) {
                        rows.get(1, at, &mut output_box.values[j * output_box.ld..][..nx]);
                    }
                }
                Ok(())
            }
            _ => Err(no_spread()),
        }
    }
}

/// Copies the values of the boxes of this rank to rows in shared memory. For each array, `given` contains one entry per
/// box.
fn copy_to_shared(boxes: &Boxes, rank: usize, given: &[Vec<BoxInput>], rows: &SharedRows) {
    for (k, array) in given.iter().enumerate() {
        for (b, given) in boxes.of(rank).iter().zip(array) {
            let nx = b.columns().len();
            for (j, at) in boxes.rows_of(b) {
                rows.put(k, at, &given.values[j * given.ld..][..nx]);
            }
        }
    }
}

fn no_spread() -> Error {
    Error::Internal("rows of a domain that was not factorized".to_owned())
}

/// Returns an error if there are no boxes, or if boxes overlap. `words` contains, for each rank, four times the number
/// of its boxes.
fn check_boxes(all: &[GridBox], words: &[usize]) -> Result<()> {
    if all.is_empty() {
        return Err(Error::Argument("no rank has a box: there is nothing to solve".to_owned()));
    }
    let Some((first, second)) = find_overlap(all)? else { return Ok(()) };
    let box_name = |number: usize| {
        let mut left = 4 * number;
        let mut rank = 0;
        while left >= words[rank] {
            left -= words[rank];
            rank += 1;
        }
        format!("box {} of rank {rank}", left / 4)
    };
    Err(Error::Argument(format!("{} and {} must not overlap", box_name(first), box_name(second))))
}

/// Role of a rank in a call.
pub struct Role<'a> {
    root: Option<&'a mut RootSolve>,
    /// Exchange of stop requests, if any rank has a monitor.
    stop: Option<&'a mut Maximum>,
}

impl Role<'_> {
    /// Returns whether rank 0 computes and this rank does not.
    pub fn leaves_work_to_root(&self) -> bool {
        self.root.as_ref().is_some_and(|root| !root.is_root())
    }

    /// Runs the function `what` of `core` on the rows of this rank. `a` contains these rows of the matrix (see
    /// [`Rrb::solve_over_ranks`]). A solve stops on all ranks if the observer of any rank requests it. A rank that
    /// leaves the work to rank 0 only receives the events and the result of a solve.
    pub fn run(
        self,
        what: Function,
        core: &mut Rrb,
        (arrays, a): (Arrays, Option<&StencilView>),
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        match (what, self.root) {
            (Function::Solve, Some(root)) => {
                let solve = |core: &mut Rrb, o: &mut dyn Observer| core.solve_over_ranks(arrays, a, options, o);
                root.solve(core, observer, self.stop, solve)
            }
            (Function::Solve, None) => {
                let mut agreed = AgreeingObserver { observer, stop: self.stop, failed: None };
                let outcome = core.solve_over_ranks(arrays, a, options, &mut agreed);
                agreed.failed.map_or(outcome, Err)
            }
            (_, Some(root)) if !root.is_root() => Ok(Outcome::default()),
            _ => core.call(what, arrays, options, observer),
        }
    }
}

/// Observer that requests a stop if the observer of any rank does.
struct AgreeingObserver<'a> {
    observer: &'a mut dyn Observer,
    stop: Option<&'a mut Maximum>,
    failed: Option<Error>,
}

impl Observer for AgreeingObserver<'_> {
    fn receive(&mut self, event: Event) -> bool {
        let own = self.observer.receive(event);
        match (event, &mut self.stop) {
            (Event::Iteration(..), Some(stop)) => any_stops(stop, own, &mut self.failed),
            _ => own,
        }
    }

    fn may_stop(&self) -> bool {
        self.stop.is_some()
    }
}
