//! Multithreaded multigrid with vertex coarsening (Dendy 1982). The method, its formulas and its terms are those of
//! `backend::reference::dpcg::vertex`.
//!
//! Each module uses only modules listed before it:
//!
//! - `layout`: array layouts
//! - `loops`: loops over half rows
//! - `transfer`: interpolation
//! - `grid`: coarse grids
//! - `finest`: the finest grid, in two passes per cycle
//! - `weights`, `product` and `load`: setup
//!
//! Each thread writes only planes of its own, and reads other planes only after a barrier. All results are bitwise
//! identical for any number of threads.
//!
//! The grids of this module are coarsened in all directions. Thread 0 solves on the remaining grids with the reference
//! implementation. These begin with the first grid with a direction that is not coarsened, or with the coarsest grid.

mod finest;
mod grid;
mod layout;
mod load;
mod loops;
mod product;
#[cfg(test)]
mod tests;
mod transfer;
mod weights;

use crate::backend::reference::dpcg::vertex::stencil::{CUBE, FACES, HIERARCHY, Stencil};
use crate::backend::reference::dpcg::vertex::transfer::directions;
use crate::backend::reference::dpcg::vertex::{self as reference, Bounds, Grids, inverse_power};
use crate::error::{Error, Result, push, reset};
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;
use crate::runtime::reduce::{Noted, max_abs};
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;
use finest::{Finest, Passes, Room};
use grid::{Below, Grid};
use layout::{Natural, coarse};
use load::Seen;
use product::{Cube, Sums};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weights::Types;

/// Index tables that depend on the offsets of a stencil only.
struct Shape {
    types: Types,
    cube: Cube,
}

impl Shape {
    fn new(offsets: &[layout::Offset]) -> Result<Self> {
        Ok(Self { types: Types::new(offsets)?, cube: Cube::new(offsets)? })
    }
}

/// Results of a setup that all threads need.
#[derive(Clone, Copy, Default)]
struct Plan {
    /// Power of two by which the matrix is multiplied.
    scale: f64,
    /// Number of coarse grids that the team smooths. The next grid is the first of the reference implementation.
    grids: usize,
    /// Whether a direction of the finest grid is not coarsened, so that the reference implementation does the whole
    /// cycle.
    whole: bool,
}

/// Grids of the reference implementation, which thread 0 uses alone.
struct Rest<T: Real> {
    plan: Plan,
    grids: Option<Grids<T>>,
    whole: Option<reference::Vertex<T>>,
    /// Right-hand side and solution on the first of these grids, in natural order.
    x: Vec<T>,
    failure: Option<Error>,
}

/// The preconditioner.
pub struct Vertex<T: Real + Number> {
    cells: Cells,
    sweeps: usize,
    bounds: Bounds,
    finest: Finest<T>,
    grids: Vec<Grid<T>>,
    /// Workspace of each thread.
    rooms: Vec<(Room<T>, Sums)>,
    /// Index tables for the 7-point and the 27-point stencil.
    shapes: [Shape; 2],
    noted: Noted,
    rest: Mutex<Rest<T>>,
}

impl<T: Real + Number> Vertex<T> {
    /// Allocates a preconditioner for a box of cells and a team of `members` threads. `sweeps` (1 or 2): smoothing
    /// steps before and after the coarse-grid correction.
    pub fn new(cells: Cells, sweeps: usize, members: usize) -> Result<Self> {
        Self::with(cells, sweeps, members, Bounds::default())
    }

    fn with(cells: Cells, sweeps: usize, members: usize, bounds: Bounds) -> Result<Self> {
        let mut grids = Vec::new();
        let mut next = coarse(cells);
        push(&mut grids, Grid::new(next)?, HIERARCHY)?;
        while next.count() > bounds.coarsest {
            next = coarse(next);
            push(&mut grids, Grid::new(next)?, HIERARCHY)?;
        }
        let mut rooms = Vec::new();
        for _ in 0..members {
            let sums = Sums::new(&Natural::new(coarse(cells)))?;
            push(&mut rooms, (Room::new(cells, sweeps)?, sums), HIERARCHY)?;
        }
        Ok(Self {
            cells,
            sweeps,
            bounds,
            finest: Finest::new(cells)?,
            grids,
            rooms,
            shapes: [Shape::new(&FACES)?, Shape::new(&CUBE)?],
            noted: Noted::new(cells.nz, size_of::<Seen>() / 8)?,
            rest: Mutex::new(Rest { plan: Plan::default(), grids: None, whole: None, x: Vec::new(), failure: None }),
        })
    }

    /// Returns whether the allocation suits this box, number of sweeps and number of threads.
    pub fn fits(&self, cells: Cells, sweeps: usize, members: usize) -> bool {
        (self.cells, self.sweeps, self.rooms.len()) == (cells, sweeps, members)
    }

    fn rest(&self) -> MutexGuard<'_, Rest<T>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes all grids of a matrix; all threads call it.
    pub fn setup(&self, me: Me, a: &SevenPoints) -> Result<()> {
        assert_eq!(a.cells, self.cells);
        let scale = inverse_power(self.largest(me, a));
        let mut plan = Plan { scale, ..Plan::default() };
        let seen = self.sum(me, 1, a.cells.nz, |k| {
            let sums = &self.rooms[me.index].1;
            // SAFETY: a plane and the workspace of this thread.
            unsafe { load::load(&self.finest, a, k, scale, sums.room()) }
        });
        plan.whole = self.is_semicoarsened(a.cells, seen);
        if !plan.whole {
            let Finest { a, weights, .. } = &self.finest;
            self.coarsen(me, &self.shapes[0], a, weights, &self.grids[0].a, seen[4] > 0.0);
            while self.setup_grid(me, plan.grids) {
                plan.grids += 1;
            }
        }
        if me.index == 0 {
            let mut rest = self.rest();
            rest.plan = plan;
            rest.failure = self.setup_rest(&mut rest, a).err();
        }
        me.barrier();
        self.rest().failure.clone().map_or(Ok(()), Err)
    }

    /// Completes a coarse grid. Returns false if it is the first grid of the reference implementation.
    fn setup_grid(&self, me: Me, l: usize) -> bool {
        let grid = &self.grids[l];
        let cells = grid.a.split.cells;
        // SAFETY: a plane of this thread; the conductances were written before a barrier.
        let seen = self.sum(me, l, cells.nz, |k| unsafe { load::finish(grid, k) });
        let next = match self.grids.get(l + 1) {
            Some(next) if cells.count() > self.bounds.coarsest && !self.is_semicoarsened(cells, seen) => next,
            _ => return false,
        };
        self.coarsen(me, &self.shapes[1], &grid.a, &grid.weights, &next.a, seen[4] > 0.0);
        true
    }

    /// Computes the interpolation weights of a grid, and the matrix of the next coarser grid.
    fn coarsen(
        &self,
        me: Me,
        shape: &Shape,
        a: &grid::Stencil<T>,
        weights: &transfer::Weights<T>,
        next: &grid::Stencil<T>,
        has_excess: bool,
    ) {
        for order in 1..=3 {
            weights::make(me, &shape.types, a, weights, order);
            me.barrier();
        }
        product::make(me, &shape.cube, a, weights, &self.rooms[me.index].1, next, has_excess);
        me.barrier();
    }

    /// Returns whether the coupling strengths exclude a direction with more than one point from coarsening.
    fn is_semicoarsened(&self, cells: Cells, seen: Seen) -> bool {
        let rows = f64::max(seen[3], 1.0);
        let strength = [0, 1, 2].map(|d| seen[d] / rows);
        let coarsened = directions(cells, strength, self.bounds.semi);
        (0..3).any(|d| cells.size()[d] > 1 && !coarsened[d])
    }

    /// Returns the largest diagonal entry.
    fn largest(&self, me: Me, a: &SevenPoints) -> f64 {
        let plane = a.cells.plane();
        let noted = self.noted.reduce::<1>(0, a.cells.nz);
        for k in me.share(a.cells.nz) {
            // SAFETY: a plane of this thread.
            unsafe { noted.note(k, [max_abs(&a.center[k * plane..][..plane])]) };
        }
        max_abs(noted.all(Some(me))[0])
    }

    /// Returns the sums of `of(k)` over planes. Successive calls must pass values of `turn` with different parity.
    fn sum(&self, me: Me, turn: usize, planes: usize, mut of: impl FnMut(usize) -> Seen) -> Seen {
        let noted = self.noted.reduce(turn, planes);
        for k in me.share(planes) {
            // SAFETY: a plane of this thread.
            unsafe { noted.note(k, of(k)) };
        }
        noted.sum(Some(me))
    }

    fn setup_rest(&self, rest: &mut Rest<T>, a: &SevenPoints) -> Result<()> {
        (rest.whole, rest.grids) = (None, None);
        if rest.plan.whole {
            rest.whole = Some(reference::Vertex::with(a, self.sweeps, self.bounds)?);
            return Ok(());
        }
        let from = &self.grids[rest.plan.grids].a;
        let mut natural = Stencil::zeroed(from.split.cells, &CUBE)?;
        let n = natural.cells.count();
        reset(&mut rest.x, n, HIERARCHY)?;
        for (k, c) in natural.c.chunks_exact_mut(n).enumerate() {
            self.read(c, &from.c, k * from.split.len(), rest.plan.grids);
        }
        self.read(&mut rest.x, &from.excess, 0, rest.plan.grids);
        natural.excess.iter_mut().zip(&rest.x).for_each(|(to, from)| *to = from.wide());
        rest.grids = Some(Grids::new(natural, self.sweeps, self.bounds)?);
        Ok(())
    }

    /// Copies values of grid l to natural order; only thread 0 calls it.
    fn read(&self, to: &mut [T], from: &Shared<T>, start: usize, l: usize) {
        let split = &self.grids[l].a.split;
        for (row, to) in to.chunks_exact_mut(split.cells.nx).enumerate() {
            let (j, k) = ((row % split.cells.ny) as isize, (row / split.cells.ny) as isize);
            // SAFETY: only thread 0 works, so no thread writes these values.
            let half = |half| unsafe { from.slice(start + split.at(half, j, k), split.points(half)) };
            loops::merge_alike(to, half(0), half(1));
        }
    }

    /// Computes z = M^-1 r in natural order; all threads call it. `magnitude`: any norm of r. `z(cells)` returns cells
    /// of the calling thread for writing. Begins and ends with a barrier. Returns <r, z>, which needs no extra pass.
    pub fn apply<'z>(&self, me: Me, r: &[f64], magnitude: f64, z: impl Fn(Range<usize>) -> &'z mut [f64]) -> f64 {
        me.barrier();
        let plan = self.rest().plan;
        let products = self.noted.reduce(0, self.cells.nz);
        if plan.whole {
            if let (0, Some(whole)) = (me.index, &mut self.rest().whole) {
                let (z, plane) = (z(0..r.len()), self.cells.plane());
                whole.cycle(r, z);
                for (k, (r, z)) in r.chunks_exact(plane).zip(z.chunks_exact(plane)).enumerate() {
                    // SAFETY: no other thread stores partial results.
                    unsafe { products.note(k, [loops::dot(r, z)]) };
                }
            }
            return products.sum(Some(me))[0];
        }
        let scale = inverse_power(magnitude);
        let room = &self.rooms[me.index].0;
        let passes = Passes { finest: &self.finest, room, sweeps: self.sweeps, r, scale };
        let below = |l: usize| Below { split: &self.grids[l].a.split, r: &self.grids[l].r };
        passes.descend(me, &below(0));
        me.barrier();
        for l in 0..plan.grids {
            // SAFETY: the workspace of this thread.
            self.grids[l].descend(me, self.sweeps, &below(l + 1), unsafe { room.row() });
        }
        if me.index == 0 {
            self.solve_rest(plan);
        }
        me.barrier();
        for l in (0..plan.grids).rev() {
            self.grids[l].ascend(me, self.sweeps, self.correction(l));
        }
        passes.ascend(me, plan.scale / scale, z, &products);
        products.sum(Some(me))[0]
    }

    /// Returns the array that receives the solution of grid l: the correction for the next finer grid.
    fn correction(&self, l: usize) -> &Shared<T> {
        if l == 0 { &self.finest.correction } else { &self.grids[l - 1].correction }
    }

    fn solve_rest(&self, plan: Plan) {
        let Rest { grids: Some(grids), x, .. } = &mut *self.rest() else { return };
        self.read(x, &self.grids[plan.grids].r, 0, plan.grids);
        grids.solve(x);
        let natural = Natural::new(self.grids[plan.grids].a.split.cells);
        let Cells { nx, ny, .. } = natural.cells;
        for (row, x) in x.chunks_exact(nx).enumerate() {
            // SAFETY: only thread 0 works, so no other thread uses the correction.
            let to = unsafe { self.correction(plan.grids).slice_mut(natural.at(row % ny, row / ny), nx) };
            to.copy_from_slice(x);
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let rest = self.rest();
        self.finest.bytes()
            + self.grids.iter().map(Grid::bytes).sum::<usize>()
            + self.rooms.iter().map(|(room, sums)| room.bytes() + sums.bytes()).sum::<usize>()
            + rest.grids.as_ref().map_or(0, Grids::bytes)
            + rest.whole.as_ref().map_or(0, reference::Vertex::bytes)
    }
}
