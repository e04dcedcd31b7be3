//! Handles whose domain is distributed over several ranks: the boxes of all ranks, and the protocol of collective
//! calls. A collective call begins with one exchange, in which each rank sends the function, the options, and its
//! status. After this exchange, either all ranks compute, or all ranks return the same status.

pub use crate::rrb::gathered::ROOT;

use super::{Rrb, grids_to_share};
use crate::base::heap::FallibleArc;
use crate::distributed::box_transfer::{
    BoxInput, BoxOutput, BoxTransfer, Boxes, MATRIX_ARRAY_NAMES, Slabs, zeroed_rows,
};
use crate::distributed::boxes::{GridBox, find_overlap};
use crate::distributed::error_messages::error_of_rank;
use crate::distributed::rows;
use crate::distributed::rows::{Rows, SharedRows};
use crate::distributed::strips::Strips;
use crate::distributed::vtable::rrbsolver_comm;
use crate::distributed::{Comm, Gather, MaximumOverRanks};
use crate::error::{Error, Result, collected, extend, push};
use crate::krylov::solve::Function;
use crate::krylov::solve_steps::Arrays;
use crate::options::{Backend, Options, opt};
use crate::report::{Event, Observer, Outcome};
use crate::rrb::domain::Domain;
use crate::rrb::gathered::{RootMessages, any_rank_stops};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::{GridArray, StencilView};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "boxes of ranks";

/// Number that denotes a factorization. The numbers of other calls are those of [`Function`].
const FACTORIZE_NUMBER: i32 = 1;

/// Returns the name of a collective call, without the suffix `_boxes`.
fn call_name(function_number: f64) -> &'static str {
    match function_number as i32 {
        FACTORIZE_NUMBER => "rrb_factorize",
        2 => "rrb_solve",
        3 => "rrb_apply",
        _ => "rrb_multiply",
    }
}

/// Timeout in seconds that a rank uses if it could not create its options.
const DEFAULT_TIMEOUT: f64 = 60.0;

/// Options that may differ between ranks; they do not change results.
const RANK_OPTIONS: [i32; 7] =
    [opt::THREADS, opt::VERBOSITY, opt::MEMORY, opt::DEVICE, opt::LEADING_DIMENSION, opt::COMM_TIMEOUT, opt::LOG];

/// Number of values that must be equal on all ranks. Each rank sends every value and its negative, and the exchange
/// returns the maxima. The maximum of the negatives is the negative of the minimum. A value is equal on all ranks if
/// its minimum equals its maximum.
const EQUAL_VALUES: usize = 6;
/// Indices of some of these values. The values are, in this order: number of the call, function, two halves of the hash
/// of the options, handle number, and whether there are corner couplings.
const FUNCTION_INDEX: usize = 1;
const HANDLE_INDEX: usize = 4;
const HAS_CORNERS_INDEX: usize = EQUAL_VALUES - 1;
/// Number of values that a rank sends at the beginning of a call. The second to last value is 1 if this rank has a
/// monitor, otherwise 0. The last value is the negative of the status of this rank.
const OPENING_VALUES: usize = 2 * EQUAL_VALUES + 2;

/// Data of a handle whose domain is distributed among ranks.
pub struct Ranks {
    comm: FallibleArc<Comm>,
    boxes: FallibleArc<Boxes>,
    /// Exchange at the beginning of a call.
    opening_exchange: MaximumOverRanks,
    /// Exchange that returns maxima over all ranks: of the status at the end of a call, of the number of the rank that
    /// reports an error, and of other values.
    closing_exchange: MaximumOverRanks,
    /// Exchange of the stop requests of the monitors.
    stop_exchange: MaximumOverRanks,
    /// Number of collective calls so far.
    call_count: u64,
    /// Number of the handle. It is equal on all ranks, and differs from the numbers of other handles.
    handle_number: f64,
    /// Messages between boxes and rows. `None` if none are planned yet, or if the rows are in shared memory.
    box_transfer: Option<BoxTransfer>,
    /// Distribution of the rows of the first grids among the ranks. `None` if every rank, or only rank 0, stores the
    /// whole system.
    domain: Option<Domain>,
    /// Exchange of events and results if rank 0 solves the whole system; otherwise `None`.
    root_messages: Option<RootMessages>,
    /// Exchange that finds out whether all ranks are on one host and can share memory. `None` if rank 0 does not solve
    /// the whole system, and after [`Ranks::prepare_host`] has used the exchange.
    address_plan: Option<Gather>,
    /// Number of arrays of the matrix.
    array_count: usize,
    /// Rows of the matrix, and rows of the input and output vectors, that this rank stores.
    matrix_rows: Rows,
    vector_rows: Rows,
    /// Whether any rank has a monitor.
    has_monitor: bool,
    /// Numbers of messages and bytes sent before the last call.
    sent_before_call: [u64; 2],
}

/// Indices of the plans of a [`BoxTransfer`]: for the matrix, for input and output vector together, and for the input
/// vector alone.
const MATRIX_PLAN: usize = 0;
const BOTH_VECTORS_PLAN: usize = 1;
const INPUT_PLAN: usize = 2;

impl Ranks {
    /// Creates the data of this rank. Collective.
    ///
    /// `grid_and_timeout` contains the grid and the timeout in seconds; `None` if this rank could not create its
    /// options. `boxes` contains the lower corners and sizes of the boxes of this rank, counted from 0, or the error of
    /// this rank. If any rank has an error, or the grids differ, or the boxes overlap, all ranks return an error.
    pub fn new(
        table: &rrbsolver_comm,
        grid_and_timeout: Option<(Grid, f64)>,
        boxes: Result<[&[[i64; 2]]; 2]>,
    ) -> Result<Self> {
        let comm = Comm::new(table)?;
        let (grid, timeout) = grid_and_timeout.unwrap_or((Grid { nx: 1, ny: 1 }, DEFAULT_TIMEOUT));
        comm.set_timeout(timeout);
        let own_words = boxes.and_then(|[lower, size]| {
            let mut box_corners = Vec::new();
            for (number, (&lower, &size)) in lower.iter().zip(size).enumerate() {
                let GridBox { lower, upper } = GridBox::new(grid, lower, size, number)?;
                extend(
                    &mut box_corners,
                    [lower, upper].concat().into_iter().map(|coordinate| coordinate as f64),
                    ALLOCATION_NAME,
                )?;
            }
            Ok(box_corners)
        });
        // Each rank sends the extents of the grid, which must be equal on all ranks. It also sends the number of words
        // that describe its boxes (four words per box), its status, and a handle number.
        static HANDLE_COUNT: AtomicU64 = AtomicU64::new(0);
        let word_count = own_words.as_ref().map_or(0, Vec::len);
        let status = own_words.as_ref().err().map_or(0, Error::status);
        let handle_number = HANDLE_COUNT.fetch_add(1, Ordering::Relaxed);
        let own_values = [grid.nx as f64, grid.ny as f64, word_count as f64, status.into(), handle_number as f64];
        const VALUES_PER_RANK: usize = 5;
        let mut header_gather =
            Gather::new(&comm, &collected((0..comm.size()).map(|_| VALUES_PER_RANK), ALLOCATION_NAME)?)?;
        let values = header_gather.run(|buffer| buffer.copy_from_slice(&own_values))?;
        let values_at = |k: usize| values.iter().skip(k).step_by(VALUES_PER_RANK).copied();
        if let Some(rank) = values_at(3).position(|status| status != 0.0) {
            return Err(error_of_rank(
                &comm,
                rank,
                values[VALUES_PER_RANK * rank + 3] as i32,
                own_words.as_ref().err(),
            )?);
        }
        if let Some(rank) = values_at(0).zip(values_at(1)).position(|extents| extents != (values[0], values[1])) {
            return Err(Error::Argument(format!(
                "all ranks must pass the same nx and ny: rank 0 passed {} x {}, rank {rank} passed {} x {}",
                values[0],
                values[1],
                values[VALUES_PER_RANK * rank],
                values[VALUES_PER_RANK * rank + 1]
            )));
        }
        let handle_number = values[4];
        let word_counts = collected(values_at(2).map(|words| words as usize), ALLOCATION_NAME)?;
        let own_words = own_words?;
        let mut box_gather = Gather::new(&comm, &word_counts)?;
        let words = box_gather.run(|buffer| buffer.copy_from_slice(&own_words))?;
        let node_of = |words: &[f64]| [words[0] as usize, words[1] as usize];
        let decode_box = |words: &[f64]| GridBox { lower: node_of(words), upper: node_of(&words[2..]) };
        let all_boxes = collected(words.chunks_exact(4).map(decode_box), ALLOCATION_NAME)?;
        check_boxes(&all_boxes, &word_counts)?;
        let box_counts = collected(word_counts.iter().map(|words| words / 4), ALLOCATION_NAME)?;
        Ok(Self {
            opening_exchange: MaximumOverRanks::new(&comm, OPENING_VALUES)?,
            closing_exchange: MaximumOverRanks::new(&comm, 2)?,
            stop_exchange: MaximumOverRanks::new(&comm, 1)?,
            boxes: FallibleArc::new(Boxes::new(grid, all_boxes, &box_counts)?, ALLOCATION_NAME)?,
            comm,
            call_count: 0,
            handle_number,
            box_transfer: None,
            domain: None,
            root_messages: None,
            address_plan: None,
            array_count: 0,
            matrix_rows: Rows::EMPTY,
            vector_rows: Rows::EMPTY,
            has_monitor: false,
            sent_before_call: [0; 2],
        })
    }

    /// Returns the boxes of this rank.
    pub fn own_boxes(&self) -> &[GridBox] {
        self.boxes.of_rank(self.comm.rank())
    }

    /// Returns whether this is the only rank and its single box is the whole grid. The caller's arrays are then used in
    /// place.
    pub fn uses_arrays_in_place(&self) -> bool {
        self.comm.size() == 1 && matches!(self.own_boxes(), [own_box] if own_box.extents() == self.boxes.grid)
    }

    /// Returns the numbers of messages and bytes that this rank sent in the last call.
    pub fn sent_in_last_call(&self) -> [u64; 2] {
        let sent_totals = self.comm.sent_totals();
        [0, 1].map(|k| sent_totals[k] - self.sent_before_call[k])
    }

    pub fn bytes(&self) -> usize {
        self.matrix_rows.bytes() + self.vector_rows.bytes() + self.box_transfer.as_ref().map_or(0, BoxTransfer::bytes)
    }

    /// Returns the communicator and the boxes of all ranks.
    pub fn comm_and_boxes(&self) -> (&FallibleArc<Comm>, &FallibleArc<Boxes>) {
        (&self.comm, &self.boxes)
    }

    /// Begins a collective call of `function`, or a factorization if `function` is `None`. `has_corners` states whether
    /// this rank passed corner couplings. `has_corners` is `None` if the call has no matrix, or if this rank has no
    /// boxes. `has_monitor` states whether this rank has a monitor. `own_error` is the error of this rank, if it has
    /// one. Returns whether the matrix has corner couplings, which a rank without boxes does not know before.
    ///
    /// Returns an error on all ranks in these cases:
    /// - any rank has an error;
    /// - the calls or the options of the ranks differ;
    /// - some ranks with boxes passed corner couplings, and others did not.
    pub fn begin_call(
        &mut self,
        function: Option<Function>,
        options: &Options,
        has_corners: Option<bool>,
        has_monitor: bool,
        own_error: Option<Error>,
    ) -> Result<bool> {
        self.comm.check_not_failed()?;
        self.comm.set_timeout(options.real(opt::COMM_TIMEOUT));
        self.sent_before_call = self.comm.sent_totals();
        self.call_count += 1;
        let hash = options.hash_values(&RANK_OPTIONS);
        let equal_values: [f64; EQUAL_VALUES] = [
            self.call_count as f64,
            f64::from(function.map_or(FACTORIZE_NUMBER, |function| function as i32)),
            (hash >> 32) as f64,
            (hash & u64::from(u32::MAX)) as f64,
            self.handle_number,
            0.0,
        ];
        let mut own_values = [0.0; OPENING_VALUES];
        for (k, value) in equal_values.into_iter().enumerate() {
            (own_values[2 * k], own_values[2 * k + 1]) = (value, -value);
        }
        let corner_value =
            |value: f64| has_corners.map_or(f64::NEG_INFINITY, |has_corners| if has_corners { value } else { 0.0 });
        (own_values[2 * HAS_CORNERS_INDEX], own_values[2 * HAS_CORNERS_INDEX + 1]) =
            (corner_value(1.0), corner_value(-1.0));
        own_values[2 * EQUAL_VALUES] = f64::from(u8::from(has_monitor));
        own_values[2 * EQUAL_VALUES + 1] = -f64::from(own_error.as_ref().map_or(0, Error::status));
        let values: [f64; OPENING_VALUES] =
            self.opening_exchange.run(&own_values)?.try_into().expect("as many as were given");
        self.has_monitor = values[2 * EQUAL_VALUES] > 0.0;
        let value_range = |k: usize| (-values[2 * k + 1], values[2 * k]);
        let differs = |k: usize| value_range(k).0 != value_range(k).1;
        if differs(0) || differs(FUNCTION_INDEX) || differs(HANDLE_INDEX) {
            let (first_name, last_name) = value_range(FUNCTION_INDEX);
            let [first_name, last_name] = [first_name, last_name].map(call_name);
            let handle_suffix = if differs(HANDLE_INDEX) { " of another handle" } else { "" };
            return Err(Error::State(format!(
                "all ranks must make the same calls in the same order: one calls {first_name}, another calls \
                 {last_name}{handle_suffix}"
            )));
        }
        if let Some(status) = Some(-values[2 * EQUAL_VALUES + 1] as i32).filter(|&status| status != 0) {
            return Err(self.common_error(status, own_error)?);
        }
        if differs(2) || differs(3) {
            let message = "options differ between ranks: all but threads, verbosity, log, leading_dimension, \
                            memory, device and comm_timeout must be the same on all ranks";
            return Err(Error::Argument(message.to_owned()));
        }
        if differs(HAS_CORNERS_INDEX) && values[2 * HAS_CORNERS_INDEX].is_finite() {
            let message = "northeast and northwest are NULL on some ranks only: all ranks must pass them, or none";
            return Err(Error::Argument(message.to_owned()));
        }
        Ok(values[2 * HAS_CORNERS_INDEX] > 0.0)
    }

    /// Returns the error of a failed call, on all ranks. The first rank that has an error with this status supplies the
    /// message.
    fn common_error(&mut self, status: i32, own_error: Option<Error>) -> Result<Error> {
        let reported_error =
            own_error.filter(|error| error.status() == status && !matches!(error, Error::OtherRanks { .. }));
        let own_rank = self.comm.rank();
        let candidate = if reported_error.is_some() { -(own_rank as f64) } else { f64::NEG_INFINITY };
        let first_rank = self.closing_exchange.run(&[candidate, 0.0])?[0];
        // If no rank has an error with this status, there is a defect in this library; rank 0 then reports it.
        let rank = if first_rank.is_finite() { -first_rank as usize } else { 0 };
        error_of_rank(&self.comm, rank, status, reported_error.as_ref())
    }

    /// Ends a collective call. Returns `result` if all ranks succeeded, and otherwise an error on all ranks.
    pub fn end_call<T>(&mut self, result: Result<T>) -> Result<T> {
        self.comm.check_not_failed()?;
        let status = result.as_ref().err().map_or(0, Error::status);
        let worst_status = -self.closing_exchange.run(&[-f64::from(status), 0.0])?[0] as i32;
        if worst_status == 0 {
            return result;
        }
        Err(self.common_error(worst_status, result.err())?)
    }

    /// Returns whether `own_value` is true on any rank. Collective.
    pub fn any_rank(&mut self, own_value: bool) -> Result<bool> {
        Ok(self.closing_exchange.run(&[f64::from(u8::from(own_value)), 0.0])?[0] > 0.0)
    }

    /// Allocates memory for `array_count` arrays of a matrix, and plans the messages. On the CPU, the rows of the first
    /// grids may be distributed among the ranks; each rank stores the other grids completely. If rank 0 solves on
    /// devices, it stores all rows, and [`Ranks::prepare_host`] allocates the memory when it is needed. Returns `false`
    /// if the previous memory and plans still apply.
    pub fn prepare_rows(&mut self, array_count: usize, options: &Options) -> Result<bool> {
        let (grid, rank_count) = (self.boxes.grid, self.comm.size());
        let (distributed_grids, reproducible, uses_root) = match options.choice(opt::BACKEND) {
            Backend::Reference => (0, true, false),
            Backend::Cuda => (0, true, true),
            _ => (grids_to_share(options, grid), options.is_on(opt::REPRODUCIBLE), false),
        };
        let strips = Strips::new(grid, rank_count, distributed_grids)?;
        let is_same_division =
            |domain: &Domain| strips.as_ref() == Some(&*domain.strips) && reproducible == domain.reproducible;
        let is_same_domain = self.domain.as_ref().map_or(strips.is_none(), is_same_division)
            && uses_root == self.root_messages.is_some();
        if is_same_domain && self.array_count == array_count {
            return Ok(false);
        }
        self.discard_plans();
        if uses_root {
            self.root_messages = Some(RootMessages::new(&self.comm)?);
            self.address_plan = Some(rows::create_address_plan(&self.comm)?);
            self.array_count = array_count;
            return Ok(true);
        }
        let slabs = match &strips {
            Some(strips) => Slabs::from_strips(strips, Domain::rows_with_halo)?,
            None => Slabs::replicated(grid, rank_count)?,
        };
        self.plan_messages(slabs, array_count)?;
        if let Some(strips) = strips {
            self.domain = Some(Domain::new(&self.comm, &FallibleArc::new(strips, ALLOCATION_NAME)?, reproducible)?);
        }
        self.array_count = array_count;
        Ok(true)
    }

    /// Discards all plans and their memory.
    pub fn discard_plans(&mut self) {
        (self.box_transfer, self.domain, self.array_count) = (None, None, 0);
        (self.root_messages, self.address_plan) = (None, None);
        (self.matrix_rows, self.vector_rows) = (Rows::EMPTY, Rows::EMPTY);
    }

    fn plan_messages(&mut self, slabs: Slabs, array_count: usize) -> Result<()> {
        let box_transfer = BoxTransfer::new(
            &self.comm,
            &self.boxes,
            &FallibleArc::new(slabs, ALLOCATION_NAME)?,
            &[array_count, 2, 1],
        )?;
        if !self.uses_arrays_in_place() {
            self.vector_rows = Rows::OwnArrays(zeroed_rows(&box_transfer, 2)?);
            self.matrix_rows = Rows::OwnArrays(zeroed_rows(&box_transfer, array_count)?);
        }
        self.box_transfer = Some(box_transfer);
        Ok(())
    }

    /// Prepares transfers through host memory, if rank 0 stores all rows. The first call allocates shared memory or
    /// plans messages. Collective.
    pub fn prepare_host(&mut self) -> Result<()> {
        let Some(address_plan) = self.address_plan.as_mut().filter(|_| self.root_messages.is_some()) else {
            return Ok(());
        };
        let (grid, array_count) = (self.boxes.grid, self.array_count);
        let is_single_rank = self.comm.size() == 1;
        // Ranks on one host share memory and need no messages.
        let shared_rows = if is_single_rank {
            None
        } else {
            rows::allocate_shared_rows(
                &self.comm,
                address_plan,
                &mut self.closing_exchange,
                [array_count, 2],
                grid.nodes(),
            )?
        };
        if let Some([matrix_rows, vector_rows]) = shared_rows {
            (self.matrix_rows, self.vector_rows) = (Rows::SharedRows(matrix_rows), Rows::SharedRows(vector_rows));
        } else {
            let plan_result =
                Slabs::on_rank_0(grid, self.comm.size()).and_then(|slabs| self.plan_messages(slabs, array_count));
            let plan_result = self.end_call(plan_result);
            if plan_result.is_err() {
                self.box_transfer = None;
                (self.matrix_rows, self.vector_rows) = (Rows::EMPTY, Rows::EMPTY);
                return plan_result;
            }
        }
        self.address_plan = None;
        Ok(())
    }

    /// Returns whether rank 0 computes and this rank does not.
    pub fn leaves_work_to_root(&self) -> bool {
        self.root_messages.as_ref().is_some_and(|root| !root.is_root())
    }

    /// Sends the results of a factorization from rank 0 to the other ranks. On each of these ranks, returns an [`Rrb`]
    /// that represents this factorization. Returns `None` on rank 0, and if rank 0 does not solve the whole system.
    pub fn send_factorization(&mut self, core: Option<&Rrb>) -> Result<Option<Rrb>> {
        let Some(root_messages) = &mut self.root_messages else { return Ok(None) };
        match core {
            Some(core) if root_messages.is_root() => root_messages.send_factorization(core).map(|()| None),
            _ => root_messages.receive_factorization().map(Some),
        }
    }

    /// Returns whether rank 0 stores all rows.
    pub fn root_has_all_rows(&self) -> bool {
        self.root_messages.is_some()
    }

    /// Returns the role of this rank in a call.
    pub fn role(&mut self) -> Role<'_> {
        Role {
            root_messages: self.root_messages.as_mut(),
            stop_exchange: self.has_monitor.then_some(&mut self.stop_exchange),
        }
    }

    /// Returns the natural rows that this rank stores.
    fn rows(&self) -> Range<usize> {
        match &self.box_transfer {
            Some(transfer) => transfer.rows(),
            None if self.leaves_work_to_root() => 0..0,
            None => 0..self.boxes.grid.ny,
        }
    }

    /// Transfers the matrix from the boxes of all ranks to the rows that each rank stores, and sets the matrix at nodes
    /// outside all boxes. `box_arrays` contains center, east, north and, with 9 points, both corner arrays. Collective.
    pub fn spread_matrix(&mut self, box_arrays: &[Vec<BoxInput>]) -> Result<()> {
        match (&mut self.box_transfer, &mut self.matrix_rows) {
            (Some(transfer), rows) => {
                transfer.send_to_rows(MATRIX_PLAN, box_arrays, &mut rows.arrays_mut()[..box_arrays.len()])?
            }
            (None, Rows::SharedRows(rows)) => copy_to_shared(&self.boxes, self.comm.rank(), box_arrays, rows),
            _ => return Err(missing_rows_error()),
        }
        // Nodes outside all boxes (land) receive the smallest positive center of all ranks, so that the range of the
        // centers does not change. The storage format depends on this range.
        let own_boxes = box_arrays[0].iter().zip(self.boxes.of_rank(self.comm.rank()));
        let centers = own_boxes.flat_map(|(box_input, grid_box)| {
            let Grid { nx, ny } = grid_box.extents();
            (0..ny).flat_map(move |j| &box_input.values[j * box_input.ld..][..nx])
        });
        let smallest_center = centers.copied().filter(|c| *c > 0.0 && c.is_finite()).fold(f64::INFINITY, f64::min);
        let smallest_center = -self.closing_exchange.run(&[-smallest_center, 0.0])?[0];
        let (own_rows, center) = (self.rows(), if smallest_center.is_finite() { smallest_center } else { 1.0 });
        let land_result = self.boxes.set_land(own_rows, center, &mut self.matrix_rows.arrays_mut()[..self.array_count]);
        self.end_call(land_result)
    }

    /// Calls `factorize_rows`, which factorizes the rows that this rank received. If [`Ranks::uses_arrays_in_place`]
    /// holds, `factorize_rows` instead receives the caller's arrays.
    pub fn factorize(
        &self,
        box_arrays: &[Vec<BoxInput>],
        factorize_rows: impl FnOnce(&StencilView, Option<&Domain>) -> Result<()>,
    ) -> Result<()> {
        let (grid, first_row, uses_arrays_in_place) = (self.boxes.grid, self.rows().start, self.uses_arrays_in_place());
        let row_view =
            |k: usize| match box_arrays.get(k).and_then(|boxes| boxes.first()).filter(|_| uses_arrays_in_place) {
                Some(box_input) => GridArray::new(MATRIX_ARRAY_NAMES[k], box_input.values, grid, box_input.ld),
                None => GridArray::of_rows(MATRIX_ARRAY_NAMES[k], self.matrix_rows.array(k), grid, first_row),
            };
        let corners = (box_arrays.len() > 3).then(|| (row_view(3), row_view(4)));
        let a = StencilView { grid, center: row_view(0), east: row_view(1), north: row_view(2), corners };
        factorize_rows(&a, self.domain.as_ref())
    }

    /// Copies the input of all boxes to rows (for a solve, also the output, which contains the initial guess), and
    /// calls `run_function` with the rows of this rank. If all ranks succeed, copies the output to the boxes.
    /// `box_vectors` contains input and output of the boxes of this rank, or the error of this rank.
    pub fn run_on_rows<T>(
        &mut self,
        function: Function,
        input_name: &'static str,
        box_vectors: Result<(Vec<BoxInput>, Vec<BoxOutput>)>,
        run_function: impl FnOnce(Role, Arrays, Option<&StencilView>) -> Result<T>,
    ) -> Result<T> {
        let (uses_arrays_in_place, grid) = (self.uses_arrays_in_place(), self.boxes.grid);
        if !uses_arrays_in_place {
            let own_vectors = box_vectors.as_ref().map(|(inputs, outputs)| (&inputs[..], &outputs[..]));
            self.spread_vectors(own_vectors.map_err(Clone::clone), function == Function::Solve)?;
        }
        let (inputs, mut outputs) = box_vectors?;
        let (first_row, leaves_work_to_root) = (self.rows().start, self.leaves_work_to_root());
        let Self { vector_rows, matrix_rows, root_messages, stop_exchange, has_monitor, .. } = &mut *self;
        let [input_rows, output_rows, ..] = vector_rows.arrays_mut();
        let (ld, input, output) = match (&inputs[..], &mut outputs[..]) {
            ([input_box], [output_box]) if uses_arrays_in_place => {
                (input_box.ld, input_box.values, &mut *output_box.values)
            }
            _ => (grid.nx, &*input_rows, output_rows),
        };
        let (plane, len) = (grid.ny.saturating_mul(ld), grid.nodes());
        let arrays = Arrays { input_name, input, ld, plane, output, device_input: 0, device_output: 0, len, first_row };
        let row_view = |k: usize| GridArray::of_rows(MATRIX_ARRAY_NAMES[k], matrix_rows.array(k), grid, first_row);
        // The matrix is needed only if a solve continues with CG in double precision (`Rrb::solve_over_ranks`). Only
        // solves with 5-point matrices continue in this way. The matrix is not passed in two cases: if a single rank
        // has all rows, because the factorization then contains the matrix, and if this rank does not compute.
        let a = (!uses_arrays_in_place && !leaves_work_to_root).then(|| StencilView {
            grid,
            center: row_view(0),
            east: row_view(1),
            north: row_view(2),
            corners: None,
        });
        let role = Role { root_messages: root_messages.as_mut(), stop_exchange: has_monitor.then_some(stop_exchange) };
        let result = run_function(role, arrays, a.as_ref());
        let result = self.end_call(result)?;
        if !uses_arrays_in_place {
            self.collect_output(&mut outputs)?;
        }
        Ok(result)
    }

    /// Transfers the input of all boxes to rows; with `has_guess`, also the output, which contains the initial guess.
    /// Returns an error on all ranks if `own_vectors` is an error on any rank.
    fn spread_vectors(&mut self, own_vectors: Result<(&[BoxInput], &[BoxOutput])>, has_guess: bool) -> Result<()> {
        let box_arrays = own_vectors.and_then(|(input, output)| {
            let mut box_arrays = collected([collected(input.iter().copied(), ALLOCATION_NAME)?], ALLOCATION_NAME)?;
            if has_guess {
                let output = output.iter().map(|output_box| BoxInput { values: output_box.values, ld: output_box.ld });
                push(&mut box_arrays, collected(output, ALLOCATION_NAME)?, ALLOCATION_NAME)?;
            }
            Ok(box_arrays)
        });
        let box_arrays = self.end_call(box_arrays)?;
        let plan = if has_guess { BOTH_VECTORS_PLAN } else { INPUT_PLAN };
        match (&mut self.box_transfer, &mut self.vector_rows) {
            (Some(transfer), rows) => {
                transfer.send_to_rows(plan, &box_arrays, &mut rows.arrays_mut()[..box_arrays.len()])
            }
            (None, Rows::SharedRows(rows)) => {
                copy_to_shared(&self.boxes, self.comm.rank(), &box_arrays, rows);
                // Waits until all ranks have written their values.
                self.end_call(Ok(()))
            }
            _ => Err(missing_rows_error()),
        }
    }

    /// Transfers the output from rows to all boxes. The caller must have called `end_call` before: then all ranks have
    /// succeeded, and the rows are complete.
    fn collect_output(&mut self, output: &mut [BoxOutput]) -> Result<()> {
        match (&mut self.box_transfer, &self.vector_rows) {
            (Some(transfer), rows) => transfer.send_to_boxes(rows.array(1), output),
            (None, Rows::SharedRows(rows)) => {
                for (grid_box, output_box) in self.boxes.of_rank(self.comm.rank()).iter().zip(output) {
                    let nx = grid_box.columns().len();
                    for (j, position) in self.boxes.row_starts(grid_box) {
                        rows.read(1, position, &mut output_box.values[j * output_box.ld..][..nx]);
                    }
                }
                Ok(())
            }
            _ => Err(missing_rows_error()),
        }
    }
}

/// Copies the values of the boxes of this rank to rows in shared memory. For each array, `box_arrays` contains one
/// entry per box.
fn copy_to_shared(boxes: &Boxes, rank: usize, box_arrays: &[Vec<BoxInput>], rows: &SharedRows) {
    for (k, box_inputs) in box_arrays.iter().enumerate() {
        for (grid_box, box_input) in boxes.of_rank(rank).iter().zip(box_inputs) {
            let nx = grid_box.columns().len();
            for (j, position) in boxes.row_starts(grid_box) {
                rows.write(k, position, &box_input.values[j * box_input.ld..][..nx]);
            }
        }
    }
}

fn missing_rows_error() -> Error {
    Error::Internal("rows of a domain that was not factorized".to_owned())
}

/// Returns an error if there are no boxes, or if boxes overlap. `word_counts` contains, for each rank, four times the
/// number of its boxes.
fn check_boxes(boxes: &[GridBox], word_counts: &[usize]) -> Result<()> {
    if boxes.is_empty() {
        return Err(Error::Argument("no rank has a box: there is nothing to solve".to_owned()));
    }
    let Some((first_box, second_box)) = find_overlap(boxes)? else { return Ok(()) };
    let describe_box = |box_number: usize| {
        let mut remaining_words = 4 * box_number;
        let mut rank = 0;
        while remaining_words >= word_counts[rank] {
            remaining_words -= word_counts[rank];
            rank += 1;
        }
        format!("box {} of rank {rank}", remaining_words / 4)
    };
    Err(Error::Argument(format!("{} and {} must not overlap", describe_box(first_box), describe_box(second_box))))
}

/// Role of a rank in a call: it computes, or leaves the work to rank 0. `root_messages` is `Some` if rank 0 solves the
/// whole system.
pub struct Role<'a> {
    root_messages: Option<&'a mut RootMessages>,
    /// Exchange of stop requests, if any rank has a monitor.
    stop_exchange: Option<&'a mut MaximumOverRanks>,
}

impl Role<'_> {
    /// Returns whether rank 0 computes and this rank does not.
    pub fn leaves_work_to_root(&self) -> bool {
        self.root_messages.as_ref().is_some_and(|root| !root.is_root())
    }

    /// Runs `function` with the solver object `core` on the rows of this rank. `a` contains these rows of the matrix
    /// (see [`Rrb::solve_over_ranks`]). A solve stops on all ranks if the observer of any rank requests it. A rank that
    /// leaves the work to rank 0 only receives the events and the result of a solve.
    pub fn run(
        self,
        function: Function,
        core: &mut Rrb,
        (arrays, a): (Arrays, Option<&StencilView>),
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        match (function, self.root_messages) {
            (Function::Solve, Some(root_messages)) => {
                let run_solve =
                    |core: &mut Rrb, observer: &mut dyn Observer| core.solve_over_ranks(arrays, a, options, observer);
                root_messages.solve(core, observer, self.stop_exchange, run_solve)
            }
            (Function::Solve, None) => {
                let mut agreeing_observer =
                    AgreeingObserver { observer, stop_exchange: self.stop_exchange, communication_error: None };
                let outcome = core.solve_over_ranks(arrays, a, options, &mut agreeing_observer);
                agreeing_observer.communication_error.map_or(outcome, Err)
            }
            (_, Some(root_messages)) if !root_messages.is_root() => Ok(Outcome::default()),
            _ => core.run_function(function, arrays, options, observer),
        }
    }
}

/// Observer that requests a stop if the observer of any rank does.
struct AgreeingObserver<'a> {
    observer: &'a mut dyn Observer,
    stop_exchange: Option<&'a mut MaximumOverRanks>,
    communication_error: Option<Error>,
}

impl Observer for AgreeingObserver<'_> {
    fn receive(&mut self, event: Event) -> bool {
        let requests_stop = self.observer.receive(event);
        match (event, &mut self.stop_exchange) {
            (Event::Iteration(..), Some(stop_exchange)) => {
                any_rank_stops(stop_exchange, requests_stop, &mut self.communication_error)
            }
            _ => requests_stop,
        }
    }

    fn may_stop(&self) -> bool {
        self.stop_exchange.is_some()
    }
}
