//! The cells of the matrix: red-black Gauss-Seidel and the transfer to the first coarse grid, each in one pass.
//!
//! Sweeps before the coarse grid start from zero and end with black cells: the residual is zero there, and at red cells
//! it is what the last change of black ones makes, sum of c (change). Sweeps after it start with black cells, whose
//! values before do not matter: only red ones are corrected. Red: (i + j + k) even, the colour of all coarse points.
//!
//! A pass goes through planes upwards: when plane k gets its first colour, plane k - 1 gets the second, and so on, from
//! a few planes that each member keeps for itself, the last ones before and behind its own too: members do not wait for
//! each other, and every cell gets the same bits whoever computes it. Red cells are kept from one pass to the next.
//!
//! Bytes a cell and pass in single precision: right-hand side in f64 8, conductances 12, 1/D 4, weights 6, red cells 2;
//! z 8.

use super::grid::{Below, Stencil};
use super::layout::{Natural, Split, coarse};
use super::loops::{dot, gather, merge, over, relax, relax_noting, split};
use super::transfer::Weights;
use crate::backend::reference::dpcg::vertex::stencil::FACES;
use crate::error::Result;
use crate::grid::cells::Cells;
use crate::runtime::number::Real;
use crate::runtime::reduce::Reduce;
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;
use std::ops::Range;

const RED: usize = 0;
const BLACK: usize = 1;

/// The grid of the matrix with the way to the first coarse one.
pub struct Finest<T> {
    pub a: Stencil<T>,
    /// 1 / D.
    pub inverse: Shared<T>,
    pub weights: Weights<T>,
    pub correction: Shared<T>,
    /// From a point of each half to its conductances: to east, west, north, south, top and bottom.
    beside: [[isize; 6]; 2],
}

impl<T: Real + Number> Finest<T> {
    pub fn new(cells: Cells) -> Result<Self> {
        let a = Stencil::new(cells, &FACES)?;
        let next = Natural::new(coarse(cells));
        let inverse = Shared::zeroed(a.split.len())?;
        let beside = [0, 1].map(|half| {
            std::array::from_fn(|t| {
                let back = if t % 2 == 1 { a.split.step(half, FACES[t / 2].map(|o| -o)) } else { 0 };
                (t / 2 * a.split.len()) as isize + back
            })
        });
        Ok(Self { a, inverse, weights: Weights::new(next)?, correction: Shared::zeroed(next.len())?, beside })
    }

    /// Red cells after the sweeps before the coarse grid, where the even ones of their row stand.
    fn red(&self) -> &Shared<T> {
        &self.a.excess
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        let arrays = [&self.a.c, &self.a.excess, &self.inverse, &self.correction];
        arrays.iter().map(|array| array.bytes()).sum::<usize>() + self.weights.bytes()
    }
}

/// A few planes of a split grid, a member's own: plane k stands where k modulo their number, a power of two, says.
struct Planes<T> {
    values: Shared<T>,
    split: Split,
    count: usize,
}

impl<T: Number> Planes<T> {
    /// At least `count`.
    fn new(split: Split, count: usize) -> Result<Self> {
        let planes = Self { values: Shared::zeroed(0)?, split, count: count.next_power_of_two() };
        Ok(Self { values: Shared::zeroed(2 * planes.count * planes.half())?, ..planes })
    }

    /// Values of half a plane, with a row of zeros before and behind it.
    fn half(&self) -> usize {
        self.split.row * (self.split.cells.ny + 2) + 1
    }

    /// Place of the first point of a half row.
    fn at(&self, half: usize, j: isize, k: isize) -> usize {
        let slot = k as usize & (self.count - 1);
        (2 * slot + half) * self.half() + ((j + 1) as usize) * self.split.row + 1
    }

    /// A half row from `before` values before its first point on.
    ///
    /// # Safety
    /// Not while it is written.
    unsafe fn row(&self, half: usize, j: isize, k: isize, before: usize, n: usize) -> &[T] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.at(half, j, k) - before, n) }
    }

    /// The points of a half row, to write.
    ///
    /// # Safety
    /// Not while it is read.
    #[expect(clippy::mut_from_ref, reason = "rows of one thread, each written while others are read")]
    unsafe fn row_mut(&self, half: usize, j: usize, k: isize) -> &mut [T] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(self.at(half, j as isize, k), self.split.points(half)) }
    }

    /// Plane k is zero.
    ///
    /// # Safety
    /// Not while it is read.
    unsafe fn clear(&self, k: isize)
    where
        T: Default,
    {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(self.at(0, -1, k) - 1, 2 * self.half()) }.fill(T::default());
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// What a member needs for its passes.
pub struct Room<T> {
    r: Planes<T>,
    x: Planes<T>,
    /// At black cells the last change, at red ones the residual.
    residual: Planes<T>,
    /// A row of the first coarse grid.
    row: Shared<T>,
}

impl<T: Real + Number> Room<T> {
    pub fn new(cells: Cells, sweeps: usize) -> Result<Self> {
        let split = Split::new(cells);
        // From the first plane of a pass to the last one that is read: that below the last sweep, for the residual that
        // below a coarse plane.
        let planes = |more| Planes::new(split, 2 * sweeps + more);
        Ok(Self { r: planes(2)?, x: planes(2)?, residual: planes(3)?, row: Shared::zeroed(cells.nx.div_ceil(2))? })
    }

    /// # Safety
    /// By the member that has the room, one at a time.
    #[expect(clippy::mut_from_ref, reason = "of one thread")]
    pub unsafe fn row(&self) -> &mut [T] {
        // SAFETY: as the caller promised.
        unsafe { self.row.slice_mut(0, self.row.len()) }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.r.bytes() + self.x.bytes() + self.residual.bytes() + self.row.bytes()
    }
}

/// One member's passes over the right-hand side `r`, times `scale`.
pub struct Passes<'a, T> {
    pub finest: &'a Finest<T>,
    pub room: &'a Room<T>,
    pub sweeps: usize,
    pub r: &'a [f64],
    pub scale: f64,
}

impl<T: Real + Number> Passes<'_, T> {
    fn split(&self) -> &Split {
        &self.finest.a.split
    }

    /// Whether plane k is there.
    fn has(&self, k: isize) -> bool {
        (0..self.split().cells.nz as isize).contains(&k)
    }

    /// The half in which the cells of a colour are.
    fn half(j: usize, k: isize, colour: usize) -> usize {
        (j + k as usize + colour) % 2
    }

    /// Reads plane k; zero outside of the grid.
    fn load(&self, k: isize) {
        let (room, Cells { nx, ny, .. }) = (self.room, self.split().cells);
        if !self.has(k) {
            // SAFETY: planes of this member.
            unsafe {
                room.x.clear(k);
                room.residual.clear(k);
            }
            return;
        }
        for j in 0..ny {
            let row = &self.r[(k as usize * ny + j) * nx..][..nx];
            // SAFETY: a row of this member.
            unsafe { split(room.r.row_mut(0, j, k), room.r.row_mut(1, j, k), row, self.scale) };
        }
    }

    /// Red cells of plane k from zero.
    fn first(&self, k: isize) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let half = Self::half(j, k, RED);
            let (start, n) = (self.split().at(half, j as isize, k), self.split().points(half));
            // SAFETY: a row of this member; nobody writes 1/D.
            unsafe {
                let r = self.room.r.row(half, j as isize, k, 0, n);
                over(self.room.x.row_mut(half, j, k), r, self.finest.inverse.slice(start, n));
            }
        }
    }

    /// Conductances around the points of a half row.
    fn conductances(&self, half: usize, range: &Range<usize>) -> [&[T]; 6] {
        // SAFETY: nobody writes the matrix during a cycle.
        let c = |step| unsafe { self.finest.a.c.slice(range.start.wrapping_add_signed(step), range.len()) };
        self.finest.beside[half].map(c)
    }

    /// Values of a few planes at the neighbours of the points of a half row.
    ///
    /// # Safety
    /// Not while those are written.
    unsafe fn near(values: &Planes<T>, half: usize, j: usize, k: isize, n: usize) -> [&[T]; 6] {
        let (other, j) = (1 - half, j as isize);
        // SAFETY: as the caller promised.
        unsafe {
            // East of an odd column stands the next even one.
            let beside = values.row(other, j, k, other, n + 1);
            [
                &beside[1..],
                &beside[..n],
                values.row(half, j + 1, k, 0, n),
                values.row(half, j - 1, k, 0, n),
                values.row(half, j, k + 1, 0, n),
                values.row(half, j, k - 1, 0, n),
            ]
        }
    }

    /// Calls `f` with the half rows of a colour in plane k: row, half, its points, their conductances.
    fn each_row(&self, k: isize, colour: usize, mut f: impl FnMut(usize, usize, Range<usize>, &[&[T]; 6])) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let half = Self::half(j, k, colour);
            let start = self.split().at(half, j as isize, k);
            let range = start..start + self.split().points(half);
            f(j, half, range.clone(), &self.conductances(half, &range));
        }
    }

    /// A colour of plane k; `note`: with its change.
    fn relax(&self, k: isize, colour: usize, note: bool) {
        let room = self.room;
        self.each_row(k, colour, |j, half, range, c| {
            // SAFETY: writes a half row of this member, reads those of the other colour.
            unsafe {
                let r = room.r.row(half, j as isize, k, 0, range.len());
                let near = Self::near(&room.x, half, j, k, range.len());
                let (x, inverse) = (room.x.row_mut(half, j, k), self.finest.inverse.slice(range.start, range.len()));
                if note {
                    relax_noting(x, room.residual.row_mut(half, j, k), r, inverse, c, &near);
                } else {
                    relax(x, r, inverse, c, &near);
                }
            }
        });
    }

    /// The residual at red cells of plane k.
    fn residual(&self, k: isize) {
        let room = self.room;
        let change = if self.sweeps == 1 { &room.x } else { &room.residual };
        self.each_row(k, RED, |j, half, range, c| {
            // SAFETY: writes red cells, reads black ones.
            unsafe { gather(room.residual.row_mut(half, j, k), c, &Self::near(change, half, j, k, range.len())) };
        });
    }

    /// Sweeps from zero, and the restriction of the residual to the first coarse grid.
    pub fn descend(&self, me: Me, next: &Below<T>) {
        let share = me.share(next.split.cells.nz);
        if share.is_empty() {
            return;
        }
        let reach = 2 * self.sweeps as isize;
        let (first, last) = (2 * share.start as isize - 1, 2 * share.end as isize - 1);
        for k in first - reach..=last + reach {
            self.load(k);
            self.first(k);
            self.relax(k - 1, BLACK, false);
            if self.sweeps > 1 {
                self.relax(k - 2, RED, false);
                self.relax(k - 3, BLACK, true);
            }
            let red = k - reach + 2;
            if first < red && red <= last {
                self.keep(red);
            }
            self.residual(k - reach);
            // The plane above coarse plane K is 2 K + 1.
            let above = k - reach;
            if above > first && above % 2 != 0 {
                self.restrict(next, (above / 2) as usize);
            }
        }
    }

    /// A coarse plane.
    fn restrict(&self, next: &Below<T>, k: usize) {
        let (residual, n) = (&self.room.residual, self.split().row + 1);
        for j in 0..next.split.cells.ny {
            let fine = |half: usize, j: isize, k: isize| {
                let red = (half as isize + j + k) % 2 == 0;
                // SAFETY: written before.
                red.then(|| unsafe { residual.row(half, j, k, 1, n) })
            };
            // SAFETY: nobody writes weights; a row of the next grid that is this member's.
            unsafe {
                let row = &mut self.room.row()[..next.split.cells.nx];
                next.set(j, k, row, |out| self.finest.weights.restrict(out, j, k, fine));
            }
        }
    }

    /// The half of row j of plane k in which red cells are, where those are kept, and how many.
    fn red_of(&self, j: usize, k: isize) -> (usize, usize, usize) {
        let half = Self::half(j, k, RED);
        (half, self.split().at(0, j as isize, k), self.split().points(half))
    }

    /// Keeps red cells of plane k.
    fn keep(&self, k: isize) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let (half, at, n) = self.red_of(j, k);
            // SAFETY: a plane of this member, which no other reads in this pass.
            unsafe { self.finest.red().slice_mut(at, n).copy_from_slice(self.room.x.row(half, j as isize, k, 0, n)) };
        }
    }

    /// Red cells of plane k, corrected.
    fn correct(&self, k: isize) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let (half, at, n) = self.red_of(j, k);
            // SAFETY: a row of this member; nobody writes what is kept, weights and the correction.
            unsafe {
                let x = self.room.x.row_mut(half, j, k);
                x.copy_from_slice(self.finest.red().slice(at, n));
                let rows = if half == 0 { [Some(x), None] } else { [None, Some(x)] };
                self.finest.weights.prolong(rows, j, k as usize, &self.finest.correction);
            }
        }
    }

    /// Corrects, and sweeps: z, times `back`, in rows of this member's planes, of which r' z is noted.
    pub fn ascend<'z>(&self, me: Me, back: f64, z: impl Fn(Range<usize>) -> &'z mut [f64], products: &Reduce<1>) {
        let share = me.share(self.split().cells.nz);
        if share.is_empty() {
            return;
        }
        let reach = 2 * self.sweeps as isize;
        for k in share.start as isize - reach..share.end as isize + reach {
            self.load(k);
            self.correct(k);
            for sweep in 0..self.sweeps as isize {
                self.relax(k - 2 * sweep - 1, BLACK, false);
                self.relax(k - 2 * sweep - 2, RED, false);
            }
            let done = k - reach;
            if done >= share.start as isize {
                let product = self.give(done, back, &z);
                // SAFETY: a plane of this member.
                unsafe { products.note(done as usize, [product]) };
            }
        }
    }

    /// Gives plane k to z; returns r' z.
    fn give<'z>(&self, k: isize, back: f64, z: &impl Fn(Range<usize>) -> &'z mut [f64]) -> f64 {
        let Cells { nx, ny, .. } = self.split().cells;
        let mut product = 0.0;
        for j in 0..ny {
            let start = (k as usize * ny + j) * nx;
            let z = z(start..start + nx);
            // SAFETY: a row of this member.
            unsafe {
                let row = |half| self.room.x.row(half, j as isize, k, 0, self.split().points(half));
                merge(z, row(0), row(1), back);
            }
            product += dot(&self.r[start..][..nx], z);
        }
        product
    }
}
