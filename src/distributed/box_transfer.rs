//! Transfer of arrays from the boxes of the ranks to rows of the whole grid, and back. A rank stores consecutive rows
//! with all their columns, and computes some of them. In the rows, nodes that are in no box become land: they have a
//! positive center, no couplings, and zeros in vectors.

use crate::base::heap::FallibleArc;
use crate::distributed::boxes::{GridBox, uncovered_columns};
use crate::distributed::strips::Strips;
use crate::distributed::{Comm, Exchange, PeerRanges};
use crate::error::{Error, Location, RRB_ERR_ARGUMENT, Result, collected, push, zeroed};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Names of the arrays of a matrix.
pub const MATRIX_ARRAY_NAMES: [&str; 5] = ["center", "east", "north", "northeast", "northwest"];

/// Name of the data in error messages.
const ALLOCATION_NAME: &str = "boxes of ranks";

/// Boxes of all ranks.
pub struct Boxes {
    pub grid: Grid,
    /// All boxes, ordered by rank.
    all_boxes: Vec<GridBox>,
    /// Index of the first box of each rank, and the total number of boxes.
    first_box: Vec<usize>,
}

impl Boxes {
    /// Creates the list from all boxes, ordered by rank, and the number of boxes of each rank (`counts`).
    pub fn new(grid: Grid, all_boxes: Vec<GridBox>, counts: &[usize]) -> Result<Self> {
        let mut first_box = collected([0], ALLOCATION_NAME)?;
        let mut box_count = 0;
        for count in counts {
            box_count += count;
            push(&mut first_box, box_count, ALLOCATION_NAME)?;
        }
        Ok(Self { grid, all_boxes, first_box })
    }

    /// Returns the boxes of a rank.
    pub fn of_rank(&self, rank: usize) -> &[GridBox] {
        &self.all_boxes[self.first_box[rank]..self.first_box[rank + 1]]
    }

    pub fn rank_count(&self) -> usize {
        self.first_box.len() - 1
    }

    /// Returns the number of nodes that are in boxes of rank `rank` and in the grid rows `rows`.
    fn count_nodes(&self, rank: usize, rows: &Range<usize>) -> usize {
        self.of_rank(rank).iter().map(|b| b.rows_in(rows).len() * b.columns().len()).sum()
    }

    /// For each row of a box, returns the index of the row in the box, and the index of the row's first node in the
    /// whole grid.
    pub fn row_starts(&self, b: &GridBox) -> impl Iterator<Item = (usize, usize)> {
        let (nx, x) = (self.grid.nx, b.lower[0]);
        b.rows().enumerate().map(move |(j, row)| (j, row * nx + x))
    }

    /// Returns whether every grid node is in a box.
    pub fn covers_grid(&self) -> bool {
        self.all_boxes.iter().map(|b| b.extents().nodes()).sum::<usize>() == self.grid.nodes()
    }

    /// Stores `center` at the nodes of the grid rows `stored_rows` that are in no box. Returns an error if `arrays` has
    /// a nonzero coupling to such a node. `arrays` contains the arrays center, east, north and, with 9 points,
    /// northeast and northwest, each for the rows `stored_rows`.
    pub fn set_land(&self, stored_rows: Range<usize>, center: f64, arrays: &mut [&mut [f64]]) -> Result<()> {
        let nx = self.grid.nx;
        if self.covers_grid() {
            return Ok(());
        }
        for j in stored_rows.clone() {
            for gap in uncovered_columns(&self.all_boxes, self.grid, j)? {
                let row_start = (j - stored_rows.start) * nx;
                arrays[0][row_start..][gap.clone()].fill(center);
                let previous_row_start = row_start.checked_sub(nx);
                let west_column = (gap.start > 0).then(|| gap.start - 1);
                // For each array: its index in `arrays` (1: east, 2: north, and so on); the start of the row whose
                // entries are checked, which is row j for east, and the row before j for the other arrays; the columns
                // of that row whose coupling connects to a node of the gap.
                let couplings_into_gap = [
                    (1, Some(row_start), west_column.map_or(0..0, |west_column| west_column..gap.start)),
                    (2, previous_row_start, gap.clone()),
                    (3, previous_row_start, west_column.unwrap_or(0)..gap.end - 1),
                    (4, previous_row_start, gap.start + 1..(gap.end + 1).min(nx)),
                ];
                for (k, start, columns) in couplings_into_gap.into_iter().filter(|(k, ..)| *k < arrays.len()) {
                    let Some(start) = start else { continue };
                    if let Some(i) = columns.clone().find(|&i| arrays[k][start + i] != 0.0) {
                        let value = arrays[k][start + i];
                        return Err(Error::at(
                            RRB_ERR_ARGUMENT,
                            format!("{} is {value:e} at ", MATRIX_ARRAY_NAMES[k]),
                            Location::node(0, i, stored_rows.start + start / nx),
                            ", which couples to a point in no box: it must be 0",
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Caller's input array for one of its boxes.
#[derive(Clone, Copy)]
pub struct BoxInput<'a> {
    pub values: &'a [f64],
    /// Leading dimension, in values.
    pub ld: usize,
}

impl<'a> BoxInput<'a> {
    fn row(&self, row: usize, nx: usize) -> &'a [f64] {
        &self.values[row * self.ld..][..nx]
    }
}

/// Caller's output array for one of its boxes.
pub struct BoxOutput<'a> {
    pub values: &'a mut [f64],
    pub ld: usize,
}

/// For each rank, the rows of the whole grid that the rank stores, and the rows that the rank computes.
pub struct Slabs {
    /// For each rank, the range of rows that it stores, and the range of rows that it computes.
    stored_and_computed: Vec<[Range<usize>; 2]>,
}

impl Slabs {
    /// Returns the rows for the case that every rank stores and computes all rows.
    pub fn replicated(grid: Grid, ranks: usize) -> Result<Self> {
        let all_rows = || 0..grid.ny;
        Ok(Self { stored_and_computed: collected((0..ranks).map(|_| [all_rows(), all_rows()]), ALLOCATION_NAME)? })
    }

    /// Returns the rows for the case that rank 0 stores and computes all rows.
    pub fn on_rank_0(grid: Grid, ranks: usize) -> Result<Self> {
        let rows_of_rank = |rank: usize| [0, 1].map(|_| if rank == 0 { 0..grid.ny } else { 0..0 });
        Ok(Self { stored_and_computed: collected((0..ranks).map(rows_of_rank), ALLOCATION_NAME)? })
    }

    /// Returns the rows for the case that every rank computes a strip, and stores the rows that `stored_rows` returns
    /// for this rank.
    pub fn from_strips(strips: &Strips, stored_rows: impl Fn(&Strips, usize) -> Range<usize>) -> Result<Self> {
        let rows_of_rank = |rank: usize| [stored_rows(strips, rank), strips.natural_rows(rank)];
        Ok(Self { stored_and_computed: collected((0..strips.rank_count()).map(rows_of_rank), ALLOCATION_NAME)? })
    }

    /// Returns those of `rows` that rank `from` computes and sends to rank `to`. The range is empty if `to` itself
    /// computes all of `rows`.
    fn sent_rows(&self, from: usize, to: usize, rows: Range<usize>) -> Range<usize> {
        let [receiver_rows, sender_rows] = [to, from].map(|rank| &self.stored_and_computed[rank][1]);
        if rows.start >= receiver_rows.start && rows.end <= receiver_rows.end {
            return rows.start..rows.start;
        }
        let start = rows.start.max(sender_rows.start);
        start..rows.end.min(sender_rows.end).max(start)
    }
}

/// Communication plans of the transfers. Each plan in `plans_to_rows` transfers a fixed number of arrays from boxes to
/// rows. The plan `plan_to_boxes` transfers one array from rows to boxes.
pub struct BoxTransfer {
    boxes: FallibleArc<Boxes>,
    slabs: FallibleArc<Slabs>,
    rank: usize,
    plans_to_rows: Vec<Exchange>,
    plan_to_boxes: Exchange,
    /// For each other rank, the ranges of the send and receive buffers in a transfer of one array: first to rows, then
    /// to boxes.
    peer_ranges: Vec<[PeerRanges; 2]>,
}

impl BoxTransfer {
    /// Creates one plan to rows for each number of arrays in `counts`, and the plan to boxes.
    pub fn new(
        comm: &FallibleArc<Comm>,
        boxes: &FallibleArc<Boxes>,
        slabs: &FallibleArc<Slabs>,
        counts: &[usize],
    ) -> Result<Self> {
        let rank = comm.rank();
        let peers = (0..boxes.rank_count()).filter(|&peer| peer != rank);
        let mut peer_ranges = Vec::new();
        let mut range_ends = [[0; 2]; 2];
        for peer in peers {
            let range_lengths = [
                // To rows: nodes of this rank's boxes in the peer's rows, and nodes of the peer's boxes in this rank's
                // rows.
                [
                    boxes.count_nodes(rank, &slabs.stored_and_computed[peer][0]),
                    boxes.count_nodes(peer, &slabs.stored_and_computed[rank][0]),
                ],
                // To boxes: nodes that this rank computes for the peer, and nodes that the peer computes for this rank.
                [Self::count_sent_nodes(boxes, slabs, rank, peer), Self::count_sent_nodes(boxes, slabs, peer, rank)],
            ];
            let mut ranges_to = |target: usize| {
                let [send, receive] = [0, 1].map(|side| {
                    let start = range_ends[target][side];
                    range_ends[target][side] += range_lengths[target][side];
                    start..range_ends[target][side]
                });
                PeerRanges { peer, send, receive }
            };
            push(&mut peer_ranges, [ranges_to(0), ranges_to(1)], ALLOCATION_NAME)?;
        }
        let is_empty = |ranges: &PeerRanges| ranges.send.is_empty() && ranges.receive.is_empty();
        let create_plan = |tag: usize, target: usize, array_count: usize| {
            let scale_range = |range: &Range<usize>| array_count * range.start..array_count * range.end;
            let nonempty_ranges =
                peer_ranges.iter().map(|ranges: &[PeerRanges; 2]| &ranges[target]).filter(|ranges| !is_empty(ranges));
            let scaled_ranges = nonempty_ranges.map(|ranges| PeerRanges {
                peer: ranges.peer,
                send: scale_range(&ranges.send),
                receive: scale_range(&ranges.receive),
            });
            Exchange::new(comm, tag as i32, &collected(scaled_ranges, ALLOCATION_NAME)?)
        };
        let mut plans_to_rows = Vec::new();
        for (tag, &count) in counts.iter().enumerate() {
            push(&mut plans_to_rows, create_plan(tag, 0, count)?, ALLOCATION_NAME)?;
        }
        let plan_to_boxes = create_plan(counts.len(), 1, 1)?;
        Ok(Self { boxes: boxes.clone(), slabs: slabs.clone(), rank, plans_to_rows, plan_to_boxes, peer_ranges })
    }

    /// Returns the number of nodes in boxes of rank `to` that rank `from` computes and sends to rank `to`.
    fn count_sent_nodes(boxes: &Boxes, slabs: &Slabs, from: usize, to: usize) -> usize {
        let sent_nodes = |b: &GridBox| slabs.sent_rows(from, to, b.rows()).len() * b.columns().len();
        boxes.of_rank(to).iter().map(sent_nodes).sum()
    }

    /// Returns the rows that this rank stores.
    pub fn rows(&self) -> Range<usize> {
        self.slabs.stored_and_computed[self.rank][0].clone()
    }

    /// Returns the number of values in the rows of this rank.
    pub fn len(&self) -> usize {
        self.rows().len() * self.boxes.grid.nx
    }

    /// Transfers the values of all boxes to the rows that the ranks store, with plan `plan_index`. For each array,
    /// `inputs` contains one entry per box of this rank, and `rows` the rows of this rank. Nodes that are in no box
    /// keep their values.
    pub fn send_to_rows(&mut self, plan_index: usize, inputs: &[Vec<BoxInput>], rows: &mut [&mut [f64]]) -> Result<()> {
        let (boxes, slabs, rank, own_rows) = (&*self.boxes, &*self.slabs, self.rank, self.rows());
        let array_count = inputs.len();
        let plan = &mut self.plans_to_rows[plan_index];
        plan.check_not_failed()?;
        for [PeerRanges { peer, send, .. }, _] in &self.peer_ranges {
            let mut unwritten_values = plan.send_buffer()[array_count * send.start..array_count * send.end].iter_mut();
            for array_inputs in inputs {
                for (b, input) in boxes.of_rank(rank).iter().zip(array_inputs) {
                    for j in b.rows_in(&slabs.stored_and_computed[*peer][0]) {
                        let row = input.row(j - b.lower[1], b.columns().len());
                        row.iter().zip(unwritten_values.by_ref()).for_each(|(&value, target)| *target = value);
                    }
                }
            }
        }
        plan.run()?;
        let nx = boxes.grid.nx;
        let box_row = |b: &GridBox, j: usize| {
            let start = (j - own_rows.start) * nx;
            start + b.lower[0]..start + b.upper[0]
        };
        for (array_inputs, rows) in inputs.iter().zip(rows.iter_mut()) {
            for (b, input) in boxes.of_rank(rank).iter().zip(array_inputs) {
                for j in b.rows_in(&own_rows) {
                    rows[box_row(b, j)].copy_from_slice(input.row(j - b.lower[1], b.columns().len()));
                }
            }
        }
        for [PeerRanges { peer, receive, .. }, _] in &self.peer_ranges {
            let mut unread_values = &plan.receive_buffer()[array_count * receive.start..array_count * receive.end];
            for rows in rows.iter_mut() {
                for b in boxes.of_rank(*peer) {
                    for j in b.rows_in(&own_rows) {
                        let row;
                        (row, unread_values) = unread_values.split_at(b.columns().len());
                        rows[box_row(b, j)].copy_from_slice(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Transfers the computed rows to the boxes of all ranks. `rows` are the rows that this rank stores. `outputs` has
    /// one entry per box of this rank.
    pub fn send_to_boxes(&mut self, rows: &[f64], outputs: &mut [BoxOutput]) -> Result<()> {
        let (boxes, slabs, rank, own_rows) = (&*self.boxes, &*self.slabs, self.rank, self.rows());
        let nx = boxes.grid.nx;
        let box_row = |b: &GridBox, j: usize| {
            let start = (j - own_rows.start) * nx;
            start + b.lower[0]..start + b.upper[0]
        };
        self.plan_to_boxes.check_not_failed()?;
        for [_, PeerRanges { peer, send, .. }] in &self.peer_ranges {
            let mut unwritten_values = &mut self.plan_to_boxes.send_buffer()[send.clone()];
            for b in boxes.of_rank(*peer) {
                for j in slabs.sent_rows(rank, *peer, b.rows()) {
                    let row;
                    (row, unwritten_values) = std::mem::take(&mut unwritten_values).split_at_mut(b.columns().len());
                    row.copy_from_slice(&rows[box_row(b, j)]);
                }
            }
        }
        self.plan_to_boxes.run()?;
        let computed_rows = slabs.stored_and_computed[rank][1].clone();
        for (b, output) in boxes.of_rank(rank).iter().zip(outputs.iter_mut()) {
            for j in b.rows_in(&computed_rows) {
                let row = &mut output.values[(j - b.lower[1]) * output.ld..][..b.columns().len()];
                row.copy_from_slice(&rows[box_row(b, j)]);
            }
        }
        for [_, PeerRanges { peer, receive, .. }] in &self.peer_ranges {
            let mut unread_values = &self.plan_to_boxes.receive_buffer()[receive.clone()];
            for (b, output) in boxes.of_rank(rank).iter().zip(outputs.iter_mut()) {
                for j in slabs.sent_rows(*peer, rank, b.rows()) {
                    let row;
                    (row, unread_values) = unread_values.split_at(b.columns().len());
                    output.values[(j - b.lower[1]) * output.ld..][..row.len()].copy_from_slice(row);
                }
            }
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.plans_to_rows.iter().map(Exchange::bytes).sum::<usize>() + self.plan_to_boxes.bytes()
    }
}

/// Allocates zeroed rows for `array_count` arrays.
pub fn zeroed_rows(transfer: &BoxTransfer, array_count: usize) -> Result<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    for _ in 0..array_count {
        push(&mut rows, zeroed(transfer.len(), "rows of the whole grid")?, ALLOCATION_NAME)?;
    }
    Ok(rows)
}
