//! Transfer of arrays from the boxes of the ranks to rows of the whole grid, and back. A rank stores consecutive rows
//! with all their columns, and computes some of them. In the rows, nodes that are in no box become land: they have a
//! positive center, no couplings, and zeros in vectors.

use crate::base::heap::Counted;
use crate::distributed::boxes::{GridBox, gaps};
use crate::distributed::strips::Strips;
use crate::distributed::{Comm, Exchange, Part};
use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result, collected, push, zeroed};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Names of the arrays of a matrix.
pub const NAMES: [&str; 5] = ["center", "east", "north", "northeast", "northwest"];

/// Name of the data in error messages.
const BOXES: &str = "boxes of ranks";

/// Boxes of all ranks.
pub struct Boxes {
    pub grid: Grid,
    /// All boxes, ordered by rank.
    all: Vec<GridBox>,
    /// Index of the first box of each rank, and the total number of boxes.
    start: Vec<usize>,
}

impl Boxes {
    /// Creates the list from all boxes, ordered by rank, and the number of boxes of each rank (`counts`).
    pub fn new(grid: Grid, all: Vec<GridBox>, counts: &[usize]) -> Result<Self> {
        let mut start = collected([0], BOXES)?;
        let mut sum = 0;
        for count in counts {
            sum += count;
            push(&mut start, sum, BOXES)?;
        }
        Ok(Self { grid, all, start })
    }

    /// Returns the boxes of a rank.
    pub fn of(&self, rank: usize) -> &[GridBox] {
        &self.all[self.start[rank]..self.start[rank + 1]]
    }

    pub fn ranks(&self) -> usize {
        self.start.len() - 1
    }

    /// Returns the number of nodes of the boxes of a rank in the given grid rows.
    fn nodes_in(&self, rank: usize, rows: &Range<usize>) -> usize {
        self.of(rank).iter().map(|b| b.rows_in(rows).len() * b.columns().len()).sum()
    }

    /// Returns the rows of a box: the index of the row in the box, and the index of its first node in the whole grid.
    pub fn rows_of(&self, b: &GridBox) -> impl Iterator<Item = (usize, usize)> {
        let (nx, x) = (self.grid.nx, b.lower[0]);
        b.rows().enumerate().map(move |(j, row)| (j, row * nx + x))
    }

    /// Returns whether every grid node is in a box.
    pub fn is_whole(&self) -> bool {
        self.all.iter().map(|b| b.extents().nodes()).sum::<usize>() == self.grid.nodes()
    }

    /// Stores `center` at the nodes of the grid rows `own` that are in no box. Returns an error if `rows` has a nonzero
    /// coupling to such a node. `rows` contains the arrays center, east, north and, with 9 points, northeast and
    /// northwest, each for the rows `own`.
    pub fn set_land(&self, own: Range<usize>, center: f64, rows: &mut [&mut [f64]]) -> Result<()> {
        let nx = self.grid.nx;
        if self.is_whole() {
            return Ok(());
        }
        for j in own.clone() {
            for gap in gaps(&self.all, self.grid, j)? {
                let here = (j - own.start) * nx;
                rows[0][here..][gap.clone()].fill(center);
                let below = here.checked_sub(nx);
                let west = (gap.start > 0).then(|| gap.start - 1);
                // For each array: its index in `rows` (1: east, 2: north, and so on); the start of row j, or of row j -
                // 1 for couplings to row j; the columns of this row whose coupling connects to a node of the gap.
                let into = [
                    (1, Some(here), west.map_or(0..0, |west| west..gap.start)),
                    (2, below, gap.clone()),
                    (3, below, west.unwrap_or(0)..gap.end - 1),
                    (4, below, gap.start + 1..(gap.end + 1).min(nx)),
                ];
                for (k, row, columns) in into.into_iter().filter(|(k, ..)| *k < rows.len()) {
                    let Some(row) = row else { continue };
                    if let Some(i) = columns.clone().find(|&i| rows[k][row + i] != 0.0) {
                        let value = rows[k][row + i];
                        return Err(Error::at(
                            RRB_ERR_ARGUMENT,
                            format!("{} is {value:e} at ", NAMES[k]),
                            Place::node(0, i, own.start + row / nx),
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

/// Rows of all ranks.
pub struct Slabs {
    /// For each rank, the range of rows that it stores and the range that it computes.
    rows: Vec<[Range<usize>; 2]>,
}

impl Slabs {
    /// Returns the rows for the case that every rank stores and computes all rows.
    pub fn whole(grid: Grid, ranks: usize) -> Result<Self> {
        let all = || 0..grid.ny;
        Ok(Self { rows: collected((0..ranks).map(|_| [all(), all()]), BOXES)? })
    }

    /// Returns the rows for the case that rank 0 stores and computes all rows.
    pub fn first(grid: Grid, ranks: usize) -> Result<Self> {
        let of = |rank: usize| [0, 1].map(|_| if rank == 0 { 0..grid.ny } else { 0..0 });
        Ok(Self { rows: collected((0..ranks).map(of), BOXES)? })
    }

    /// Returns the rows for the case that every rank computes a strip, and stores the rows that `slab` returns for this
    /// rank.
    pub fn strips(strips: &Strips, slab: impl Fn(&Strips, usize) -> Range<usize>) -> Result<Self> {
        let of = |rank: usize| [slab(strips, rank), strips.natural(rank)];
        Ok(Self { rows: collected((0..strips.ranks()).map(of), BOXES)? })
    }

    /// Returns those of `rows` that rank `from` computes and sends to rank `to`. The range is empty if `to` itself
    /// computes all of `rows`.
    fn given(&self, from: usize, to: usize, rows: Range<usize>) -> Range<usize> {
        let [own, other] = [to, from].map(|rank| &self.rows[rank][1]);
        if rows.start >= own.start && rows.end <= own.end {
            return rows.start..rows.start;
        }
        let start = rows.start.max(other.start);
        start..rows.end.min(other.end).max(start)
    }
}

/// Communication plans of the transfers. Each plan in `send_to_rows` transfers a fixed number of arrays from boxes to
/// rows. The plan `send_to_boxes` transfers one array from rows to boxes.
pub struct BoxTransfer {
    boxes: Counted<Boxes>,
    slabs: Counted<Slabs>,
    rank: usize,
    send_to_rows: Vec<Exchange>,
    send_to_boxes: Exchange,
    /// For each other rank, its parts of a transfer of one array: to rows, and to boxes.
    parts: Vec<[Part; 2]>,
}

impl BoxTransfer {
    /// Creates one plan to rows for each number of arrays in `counts`, and the plan to boxes.
    pub fn new(comm: &Counted<Comm>, boxes: &Counted<Boxes>, slabs: &Counted<Slabs>, counts: &[usize]) -> Result<Self> {
        let rank = comm.rank();
        let others = (0..boxes.ranks()).filter(|&peer| peer != rank);
        let mut parts = Vec::new();
        let mut at = [[0; 2]; 2];
        for peer in others {
            let lengths = [
                // To rows: nodes of this rank's boxes in the peer's rows, and nodes of the peer's boxes in this rank's
                // rows.
                [boxes.nodes_in(rank, &slabs.rows[peer][0]), boxes.nodes_in(peer, &slabs.rows[rank][0])],
                // To boxes: nodes that this rank computes for the peer, and nodes that the peer computes for this rank.
                [Self::nodes_sent(boxes, slabs, rank, peer), Self::nodes_sent(boxes, slabs, peer, rank)],
            ];
            let mut part = |way: usize| {
                let [send, receive] = [0, 1].map(|k| {
                    let start = at[way][k];
                    at[way][k] += lengths[way][k];
                    start..at[way][k]
                });
                Part { peer, send, receive }
            };
            push(&mut parts, [part(0), part(1)], BOXES)?;
        }
        let is_none = |part: &Part| part.send.is_empty() && part.receive.is_empty();
        let plan = |tag: usize, way: usize, arrays: usize| {
            let times = |range: &Range<usize>| arrays * range.start..arrays * range.end;
            let of_way = parts.iter().map(|part: &[Part; 2]| &part[way]).filter(|part| !is_none(part));
            let list = of_way.map(|p| Part { peer: p.peer, send: times(&p.send), receive: times(&p.receive) });
            Exchange::new(comm, tag as i32, &collected(list, BOXES)?)
        };
        let mut send_to_rows = Vec::new();
        for (tag, &count) in counts.iter().enumerate() {
            push(&mut send_to_rows, plan(tag, 0, count)?, BOXES)?;
        }
        let send_to_boxes = plan(counts.len(), 1, 1)?;
        Ok(Self { boxes: boxes.clone(), slabs: slabs.clone(), rank, send_to_rows, send_to_boxes, parts })
    }

    /// Returns the number of nodes in boxes of rank `to` that rank `from` computes and sends to rank `to`.
    fn nodes_sent(boxes: &Boxes, slabs: &Slabs, from: usize, to: usize) -> usize {
        let nodes = |b: &GridBox| slabs.given(from, to, b.rows()).len() * b.columns().len();
        boxes.of(to).iter().map(nodes).sum()
    }

    /// Returns the rows that this rank stores.
    pub fn rows(&self) -> Range<usize> {
        self.slabs.rows[self.rank][0].clone()
    }

    /// Returns the number of values in the rows of this rank.
    pub fn len(&self) -> usize {
        self.rows().len() * self.boxes.grid.nx
    }

    /// Transfers the values of all boxes to the rows that the ranks store, with plan `k`. For each array, `given`
    /// contains one entry per box of this rank, and `rows` the rows of this rank. Nodes that are in no box keep their
    /// values.
    pub fn send_to_rows(&mut self, k: usize, given: &[Vec<BoxInput>], rows: &mut [&mut [f64]]) -> Result<()> {
        let (boxes, slabs, rank, own) = (&*self.boxes, &*self.slabs, self.rank, self.rows());
        let arrays = given.len();
        let plan = &mut self.send_to_rows[k];
        plan.check()?;
        for [Part { peer, send, .. }, _] in &self.parts {
            let mut to = plan.outgoing()[arrays * send.start..arrays * send.end].iter_mut();
            for array in given {
                for (b, given) in boxes.of(rank).iter().zip(array) {
                    for j in b.rows_in(&slabs.rows[*peer][0]) {
                        let row = given.row(j - b.lower[1], b.columns().len());
                        row.iter().zip(to.by_ref()).for_each(|(&value, to)| *to = value);
                    }
                }
            }
        }
        plan.run()?;
        let nx = boxes.grid.nx;
        let range = |b: &GridBox, j: usize| {
            let start = (j - own.start) * nx;
            start + b.lower[0]..start + b.upper[0]
        };
        for (array, rows) in given.iter().zip(rows.iter_mut()) {
            for (b, given) in boxes.of(rank).iter().zip(array) {
                for j in b.rows_in(&own) {
                    rows[range(b, j)].copy_from_slice(given.row(j - b.lower[1], b.columns().len()));
                }
            }
        }
        for [Part { peer, receive, .. }, _] in &self.parts {
            let mut from = &plan.received()[arrays * receive.start..arrays * receive.end];
            for rows in rows.iter_mut() {
                for b in boxes.of(*peer) {
                    for j in b.rows_in(&own) {
                        let row;
                        (row, from) = from.split_at(b.columns().len());
                        rows[range(b, j)].copy_from_slice(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Transfers the computed rows to the boxes of all ranks. `rows` are the rows that this rank stores. `outputs` has
    /// one entry per box of this rank.
    pub fn send_to_boxes(&mut self, rows: &[f64], outputs: &mut [BoxOutput]) -> Result<()> {
        let (boxes, slabs, rank, own) = (&*self.boxes, &*self.slabs, self.rank, self.rows());
        let nx = boxes.grid.nx;
        let range = |b: &GridBox, j: usize| {
            let start = (j - own.start) * nx;
            start + b.lower[0]..start + b.upper[0]
        };
        self.send_to_boxes.check()?;
        for [_, Part { peer, send, .. }] in &self.parts {
            let mut to = &mut self.send_to_boxes.outgoing()[send.clone()];
            for b in boxes.of(*peer) {
                for j in slabs.given(rank, *peer, b.rows()) {
                    let row;
                    (row, to) = std::mem::take(&mut to).split_at_mut(b.columns().len());
                    row.copy_from_slice(&rows[range(b, j)]);
                }
            }
        }
        self.send_to_boxes.run()?;
        let computed = slabs.rows[rank][1].clone();
        for (b, output) in boxes.of(rank).iter().zip(outputs.iter_mut()) {
            for j in b.rows_in(&computed) {
                let row = &mut output.values[(j - b.lower[1]) * output.ld..][..b.columns().len()];
                row.copy_from_slice(&rows[range(b, j)]);
            }
        }
        for [_, Part { peer, receive, .. }] in &self.parts {
            let mut from = &self.send_to_boxes.received()[receive.clone()];
            for (b, output) in boxes.of(rank).iter().zip(outputs.iter_mut()) {
                for j in slabs.given(*peer, rank, b.rows()) {
                    let row;
                    (row, from) = from.split_at(b.columns().len());
                    output.values[(j - b.lower[1]) * output.ld..][..row.len()].copy_from_slice(row);
                }
            }
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.send_to_rows.iter().map(Exchange::bytes).sum::<usize>() + self.send_to_boxes.bytes()
    }
}

/// Allocates zeroed rows for `arrays` arrays.
pub fn rows_of(transfer: &BoxTransfer, arrays: usize) -> Result<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    for _ in 0..arrays {
        push(&mut rows, zeroed(transfer.len(), "rows of the whole grid")?, BOXES)?;
    }
    Ok(rows)
}
