//! From the boxes that ranks have to rows of the whole grid, and back. A rank works on rows [start, end) with all their
//! columns; points that are in no box are land there: a center of its own, no coupling, zeros.

use crate::comm::{Comm, Exchange, Part};
use crate::error::{Error, Place, RRB_ERR_ARGUMENT, Result, collected, push, zeroed};
use crate::grid::boxes::{GridBox, gaps};
use crate::grid::levels::Grid;
use crate::grid::strips::Strips;
use crate::runtime::heap::Counted;
use std::ops::Range;

/// The arrays of a matrix.
pub const NAMES: [&str; 5] = ["center", "east", "north", "northeast", "northwest"];

/// For errors.
const BOXES: &str = "boxes of ranks";

/// The boxes of all ranks.
pub struct Boxes {
    pub grid: Grid,
    /// All, rank by rank.
    all: Vec<GridBox>,
    /// Where those of each rank begin, and the end.
    start: Vec<usize>,
}

impl Boxes {
    /// `counts`: of every rank.
    pub fn new(grid: Grid, all: Vec<GridBox>, counts: &[usize]) -> Result<Self> {
        let mut start = collected([0], BOXES)?;
        let mut sum = 0;
        for count in counts {
            sum += count;
            push(&mut start, sum, BOXES)?;
        }
        Ok(Self { grid, all, start })
    }

    /// Those of a rank.
    pub fn of(&self, rank: usize) -> &[GridBox] {
        &self.all[self.start[rank]..self.start[rank + 1]]
    }

    pub fn ranks(&self) -> usize {
        self.start.len() - 1
    }

    /// Nodes in rows of boxes of a rank.
    fn nodes_in(&self, rank: usize, rows: &Range<usize>) -> usize {
        self.of(rank).iter().map(|b| b.rows_in(rows).len() * b.columns().len()).sum()
    }

    /// The rows of a box: their number in it, and where they begin in the rows of the whole grid.
    pub fn rows_of(&self, b: &GridBox) -> impl Iterator<Item = (usize, usize)> {
        let (nx, x) = (self.grid.nx, b.lower[0]);
        b.rows().enumerate().map(move |(j, row)| (j, row * nx + x))
    }

    /// Every node is in a box.
    pub fn is_whole(&self) -> bool {
        self.all.iter().map(|b| b.extents().nodes()).sum::<usize>() == self.grid.nodes()
    }

    /// Puts `center` in rows `own` where no box is, and refuses couplings to there. `rows`: center, east, north and,
    /// with 9 points, northeast and northwest.
    pub fn make_land(&self, own: Range<usize>, center: f64, rows: &mut [&mut [f64]]) -> Result<()> {
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
                // Array, where its rows begin, and columns of nodes with couplings into the gap.
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

/// An array of the caller for one of its boxes.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub values: &'a [f64],
    /// Values from one row to the next.
    pub ld: usize,
}

impl<'a> Given<'a> {
    fn row(&self, row: usize, nx: usize) -> &'a [f64] {
        &self.values[row * self.ld..][..nx]
    }
}

/// The same, written.
pub struct Taken<'a> {
    pub values: &'a mut [f64],
    pub ld: usize,
}

/// The rows of every rank.
pub struct Slabs {
    /// That it has, and that it computes.
    rows: Vec<[Range<usize>; 2]>,
}

impl Slabs {
    /// Every rank has all rows, and computes them for itself.
    pub fn whole(grid: Grid, ranks: usize) -> Result<Self> {
        let all = || 0..grid.ny;
        Ok(Self { rows: collected((0..ranks).map(|_| [all(), all()]), BOXES)? })
    }

    /// The first rank has all rows, and computes them for all.
    pub fn first(grid: Grid, ranks: usize) -> Result<Self> {
        let of = |rank: usize| [0, 1].map(|_| if rank == 0 { 0..grid.ny } else { 0..0 });
        Ok(Self { rows: collected((0..ranks).map(of), BOXES)? })
    }

    /// Every rank computes a strip, and has the rows that `slab` says of those around it.
    pub fn strips(strips: &Strips, slab: impl Fn(&Strips, usize) -> Range<usize>) -> Result<Self> {
        let of = |rank: usize| [slab(strips, rank), strips.natural(rank)];
        Ok(Self { rows: collected((0..strips.ranks()).map(of), BOXES)? })
    }

    /// Rows that rank `from` gives to `to` of what it has computed: none where `to` computes them itself.
    fn given(&self, from: usize, to: usize, rows: Range<usize>) -> Range<usize> {
        let [own, other] = [to, from].map(|rank| &self.rows[rank][1]);
        if rows.start >= own.start && rows.end <= own.end {
            return rows.start..rows.start;
        }
        let start = rows.start.max(other.start);
        start..rows.end.min(other.end).max(start)
    }
}

/// Plans that bring values of some arrays from boxes to rows, and of one from rows to boxes.
pub struct Spread {
    boxes: Counted<Boxes>,
    slabs: Counted<Slabs>,
    rank: usize,
    to_rows: Vec<Exchange>,
    to_boxes: Exchange,
    parts: Vec<[Part; 2]>,
}

impl Spread {
    /// Of this many arrays at a time: a plan for each of `counts`.
    pub fn new(comm: &Counted<Comm>, boxes: &Counted<Boxes>, slabs: &Counted<Slabs>, counts: &[usize]) -> Result<Self> {
        let rank = comm.rank();
        let others = (0..boxes.ranks()).filter(|&peer| peer != rank);
        let mut parts = Vec::new();
        let mut at = [[0; 2]; 2];
        for peer in others {
            let lengths = [
                // To rows: of my boxes what the other has as rows, of its boxes what I have.
                [boxes.nodes_in(rank, &slabs.rows[peer][0]), boxes.nodes_in(peer, &slabs.rows[rank][0])],
                // To boxes.
                [Self::nodes_given(boxes, slabs, rank, peer), Self::nodes_given(boxes, slabs, peer, rank)],
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
        let mut to_rows = Vec::new();
        for (tag, &count) in counts.iter().enumerate() {
            push(&mut to_rows, plan(tag, 0, count)?, BOXES)?;
        }
        let to_boxes = plan(counts.len(), 1, 1)?;
        Ok(Self { boxes: boxes.clone(), slabs: slabs.clone(), rank, to_rows, to_boxes, parts })
    }

    /// Nodes of boxes of rank `to` that rank `from` computes for it.
    fn nodes_given(boxes: &Boxes, slabs: &Slabs, from: usize, to: usize) -> usize {
        let nodes = |b: &GridBox| slabs.given(from, to, b.rows()).len() * b.columns().len();
        boxes.of(to).iter().map(nodes).sum()
    }

    /// Rows that this rank has.
    pub fn rows(&self) -> Range<usize> {
        self.slabs.rows[self.rank][0].clone()
    }

    /// Values of its rows.
    pub fn len(&self) -> usize {
        self.rows().len() * self.boxes.grid.nx
    }

    /// The values of all boxes to the rows of this rank: `given` has for each array one for each of this rank's boxes,
    /// by plan `k`. What is in no box stays as it is.
    pub fn bring_rows(&mut self, k: usize, given: &[Vec<Given>], rows: &mut [&mut [f64]]) -> Result<()> {
        let (boxes, slabs, rank, own) = (&*self.boxes, &*self.slabs, self.rank, self.rows());
        let arrays = given.len();
        let plan = &mut self.to_rows[k];
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
        let place = |b: &GridBox, j: usize| {
            let start = (j - own.start) * nx;
            start + b.lower[0]..start + b.upper[0]
        };
        for (array, rows) in given.iter().zip(rows.iter_mut()) {
            for (b, given) in boxes.of(rank).iter().zip(array) {
                for j in b.rows_in(&own) {
                    rows[place(b, j)].copy_from_slice(given.row(j - b.lower[1], b.columns().len()));
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
                        rows[place(b, j)].copy_from_slice(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Computed rows to the boxes of this rank.
    pub fn bring_boxes(&mut self, rows: &[f64], taken: &mut [Taken]) -> Result<()> {
        let (boxes, slabs, rank, own) = (&*self.boxes, &*self.slabs, self.rank, self.rows());
        let nx = boxes.grid.nx;
        let place = |b: &GridBox, j: usize| {
            let start = (j - own.start) * nx;
            start + b.lower[0]..start + b.upper[0]
        };
        self.to_boxes.check()?;
        for [_, Part { peer, send, .. }] in &self.parts {
            let mut to = &mut self.to_boxes.outgoing()[send.clone()];
            for b in boxes.of(*peer) {
                for j in slabs.given(rank, *peer, b.rows()) {
                    let row;
                    (row, to) = std::mem::take(&mut to).split_at_mut(b.columns().len());
                    row.copy_from_slice(&rows[place(b, j)]);
                }
            }
        }
        self.to_boxes.run()?;
        let computed = slabs.rows[rank][1].clone();
        for (b, taken) in boxes.of(rank).iter().zip(taken.iter_mut()) {
            for j in b.rows_in(&computed) {
                let row = &mut taken.values[(j - b.lower[1]) * taken.ld..][..b.columns().len()];
                row.copy_from_slice(&rows[place(b, j)]);
            }
        }
        for [_, Part { peer, receive, .. }] in &self.parts {
            let mut from = &self.to_boxes.received()[receive.clone()];
            for (b, taken) in boxes.of(rank).iter().zip(taken.iter_mut()) {
                for j in slabs.given(*peer, rank, b.rows()) {
                    let row;
                    (row, from) = from.split_at(b.columns().len());
                    taken.values[(j - b.lower[1]) * taken.ld..][..row.len()].copy_from_slice(row);
                }
            }
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.to_rows.iter().map(Exchange::bytes).sum::<usize>() + self.to_boxes.bytes()
    }
}

/// Room for rows of some arrays.
pub fn rows_of(spread: &Spread, arrays: usize) -> Result<Vec<Vec<f64>>> {
    let mut rows = Vec::new();
    for _ in 0..arrays {
        push(&mut rows, zeroed(spread.len(), "rows of the whole grid")?, BOXES)?;
    }
    Ok(rows)
}
