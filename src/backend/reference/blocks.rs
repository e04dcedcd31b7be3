//! Block relaxation as plain loops with dense inverses, one thread: the oracle of the other backends.

use crate::backend::blocks::{
    BadCell, BlockBackend, BlockProgram, BlockSteps, Blocks, Inverse, Method, PatchArrays, Swept, Watcher, Work,
    colour, colours,
};
use crate::error::{Error, Result, reset};
use crate::grid::block_inverse::{Shape, Stencil};
use crate::grid::patches::{Cut, Patch};

/// The `reference` backend of block smoothers.
#[derive(Default)]
pub struct ReferenceBlocks {
    inverses: Vec<(Shape, Vec<f64>)>,
    blocks: Option<Blocks>,
    /// New values of one patch, for Jacobi.
    new: Vec<f64>,
}

impl BlockBackend for ReferenceBlocks {
    fn has_inverse(&self, shape: Shape) -> bool {
        self.inverses.iter().any(|(s, _)| *s == shape)
    }

    fn add_inverse(&mut self, shape: Shape, inverse: Inverse) -> Result<()> {
        let Inverse::Dense(values) = inverse else {
            return Err(Error::Internal("the reference backend has dense inverses only".to_owned()));
        };
        self.inverses.push((shape, values));
        Ok(())
    }

    fn set_patches(&mut self, blocks: Blocks) -> Result<()> {
        let largest = blocks.list.patches.iter().map(Patch::cells).max().unwrap_or(0);
        reset(&mut self.new, largest, "new values of a patch")?;
        self.blocks = Some(blocks);
        Ok(())
    }

    fn prepare(&mut self, _: Method) -> Result<()> {
        Ok(())
    }

    fn blocks(&self) -> Option<&Blocks> {
        self.blocks.as_ref()
    }

    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        watcher: &mut dyn Watcher,
        work: &Work,
        program: BlockProgram,
    ) -> Result<Swept> {
        let blocks = self.blocks.as_ref().ok_or_else(|| Error::Internal("there are no patches".to_owned()))?;
        let mut one = One { blocks, inverses: &self.inverses, new: &mut self.new, arrays, watcher };
        Ok(program(&mut one, work))
    }

    fn bytes(&self) -> usize {
        let values: usize = self.inverses.iter().map(|(_, v)| v.len()).sum::<usize>() + self.new.len();
        values * size_of::<f64>() + self.blocks.as_ref().map_or(0, |b| b.list.bytes())
    }

    fn threads(&self) -> usize {
        1
    }
}

/// One thread's view of a call.
struct One<'a> {
    blocks: &'a Blocks,
    inverses: &'a [(Shape, Vec<f64>)],
    new: &'a mut [f64],
    arrays: &'a mut dyn PatchArrays,
    watcher: &'a mut dyn Watcher,
}

/// (A u)[p], in the order of the legs.
fn apply(stencil: &Stencil, u: &[f64], p: usize, (row, plane): (usize, usize)) -> f64 {
    let mut sum = 0.0;
    for (q, &value) in stencil.legs.iter().enumerate() {
        if value != 0.0 {
            sum += value * u[p + q / 9 * plane + q / 3 % 3 * row + q % 3 - plane - row - 1];
        }
    }
    sum
}

/// Blocks of a patch, x fastest: the global block index, the start in the patch, and the shape of each.
fn blocks_of(patch: &Patch, cut: &Cut) -> Vec<([i64; 3], [usize; 3], Shape)> {
    let ranges: [(i64, usize); 3] = std::array::from_fn(|d| cut.range(patch, d));
    let mut all = Vec::new();
    for mz in 0..ranges[2].1 {
        for my in 0..ranges[1].1 {
            for mx in 0..ranges[0].1 {
                let m = [mx, my, mz];
                let segment = |d: usize| cut.segment(patch, d, m[d]);
                all.push((
                    std::array::from_fn(|d| ranges[d].0 + m[d] as i64),
                    std::array::from_fn(|d| segment(d).start),
                    std::array::from_fn(|d| segment(d).len),
                ));
            }
        }
    }
    all
}

impl One<'_> {
    /// omega A_b^-1 (f - A u)_b of one block, with the places of its cells in u.
    fn correction(&self, p: usize, (start, shape): ([usize; 3], Shape), omega: f64) -> Vec<(usize, f64)> {
        let patch = &self.blocks.list.patches[p];
        let (u, f, strides) = (self.arrays.u(p), self.arrays.f(p), patch.strides());
        let mut places = Vec::new();
        let mut r = Vec::new();
        for k in start[2]..start[2] + shape[2] {
            for j in start[1]..start[1] + shape[1] {
                for i in start[0]..start[0] + shape[0] {
                    let place = (k + 1) * strides.1 + (j + 1) * strides.0 + i + 1;
                    places.push(place);
                    r.push(
                        f[(k * patch.size[1] + j) * patch.size[0] + i] - apply(&self.blocks.stencil, u, place, strides),
                    );
                }
            }
        }
        let inverse = self.inverses.iter().find(|(s, _)| *s == shape).map_or(&[][..], |(_, v)| v);
        let rows = inverse.chunks_exact(r.len());
        places.into_iter().zip(rows.map(|row| omega * row.iter().zip(&r).map(|(a, r)| a * r).sum::<f64>())).collect()
    }

    fn relax(&mut self, p: usize, block: ([usize; 3], Shape), omega: f64) {
        let correction = self.correction(p, block, omega);
        let u = self.arrays.u_mut(p);
        for (place, change) in correction {
            u[place] += change;
        }
    }

    fn patches(&self) -> std::ops::Range<usize> {
        0..self.blocks.list.patches.len()
    }
}

impl BlockSteps for One<'_> {
    fn bad_cell(&mut self) -> Option<BadCell> {
        for p in self.patches() {
            let patch = &self.blocks.list.patches[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            for (name, values) in [("u", self.arrays.u(p)), ("f", self.arrays.f(p))] {
                for c in 0..patch.cells() {
                    let cell = [c % nx, c / nx % ny, c / nx / ny];
                    let [i, j, k] = cell;
                    let value = if name == "u" { values[(k + 1) * plane + (j + 1) * row + i + 1] } else { values[c] };
                    if !value.is_finite() {
                        return Some(BadCell { name, value, patch: p, cell });
                    }
                }
            }
        }
        None
    }

    fn exchange(&mut self) {
        for copy in &self.blocks.list.copies {
            let (from, to) = (&self.blocks.list.patches[copy.from], &self.blocks.list.patches[copy.to]);
            let [x, y, z] = copy.cells.lower;
            for k in 0..copy.cells.size[2] as i64 {
                for j in 0..copy.cells.size[1] as i64 {
                    for i in 0..copy.cells.size[0] as i64 {
                        let cell = [x + i, y + j, z + k];
                        let value = self.arrays.u(copy.from)[from.place(cell)];
                        self.arrays.u_mut(copy.to)[to.place(cell)] = value;
                    }
                }
            }
        }
    }

    fn fill(&mut self, sweep: i32) -> bool {
        self.watcher.fills() && self.watcher.fill(sweep, self.arrays.pointers().u)
    }

    fn colours(&self) -> usize {
        colours(&self.blocks.stencil)
    }

    fn jacobi(&mut self, cut: &Cut, omega: f64) {
        for p in self.patches() {
            let patch = self.blocks.list.patches[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            for (_, start, shape) in blocks_of(&patch, cut) {
                for (place, change) in self.correction(p, (start, shape), omega) {
                    let (i, j, k) = (place % row - 1, place / row % (ny + 2) - 1, place / plane - 1);
                    self.new[(k * ny + j) * nx + i] = self.arrays.u(p)[place] + change;
                }
            }
            let u = self.arrays.u_mut(p);
            for (c, new) in self.new[..patch.cells()].iter().enumerate() {
                u[(c / nx / ny + 1) * plane + (c / nx % ny + 1) * row + c % nx + 1] = *new;
            }
        }
    }

    fn colour(&mut self, cut: &Cut, omega: f64, wanted: usize) {
        let count = self.colours();
        for p in self.patches() {
            for (global, start, shape) in blocks_of(&self.blocks.list.patches[p], cut) {
                if colour(count, global) == wanted {
                    self.relax(p, (start, shape), omega);
                }
            }
        }
    }

    /// In lexicographic order: the classical block Gauss-Seidel.
    fn chaotic(&mut self, cut: &Cut, omega: f64, reverse: bool) {
        for p in self.patches() {
            let mut all = blocks_of(&self.blocks.list.patches[p], cut);
            if reverse {
                all.reverse();
            }
            for (_, start, shape) in all {
                self.relax(p, (start, shape), omega);
            }
        }
    }

    fn residual(&mut self) -> f64 {
        let mut sum = 0.0;
        for p in self.patches() {
            let patch = &self.blocks.list.patches[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            for c in 0..patch.cells() {
                let place = (c / nx / ny + 1) * plane + (c / nx % ny + 1) * row + c % nx + 1;
                let r = self.arrays.f(p)[c] - apply(&self.blocks.stencil, self.arrays.u(p), place, (row, plane));
                sum += r * r;
                if let Some(out) = self.arrays.r_mut(p) {
                    out[c] = r;
                }
            }
        }
        sum.sqrt()
    }

    fn watched(&self) -> bool {
        self.watcher.watched()
    }

    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.watcher.show(sweep, relative_residual)
    }

    fn settle(&mut self) {}
}
