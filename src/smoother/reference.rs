//! Block relaxation as plain loops with dense inverses on one thread. The tests compare the other backends with this
//! backend.

use crate::base::engine::Engine;
use crate::error::{Error, Result, push, reset};
use crate::smoother::block_inverse::{BlockShape, Stencil};
use crate::smoother::patches::{BlockPartition, Patch};
use crate::smoother::steps::{
    Callbacks, Inverse, NonfiniteCell, PatchArrays, PatchSystem, SmootherBackend, SmootherProgram, SmootherSteps,
    SweepParameters, SweepResult, colour_count, colour_of,
};

/// The `reference` backend of block smoothers.
#[derive(Default)]
pub struct Reference {
    inverses: Vec<(BlockShape, Vec<f64>)>,
    patch_system: Option<PatchSystem>,
    /// New values of one patch, for block Jacobi.
    new_values: Vec<f64>,
}

impl SmootherBackend for Reference {
    fn has_inverse(&self, shape: BlockShape) -> bool {
        self.inverses.iter().any(|(s, _)| *s == shape)
    }

    fn inverse_count(&self) -> usize {
        self.inverses.len()
    }

    fn add_inverse(&mut self, shape: BlockShape, inverse: Inverse) -> Result<()> {
        let Inverse::Dense(values) = inverse else {
            return Err(Error::Internal("the reference backend has dense inverses only".to_owned()));
        };
        push(&mut self.inverses, (shape, values), "block inverses")
    }

    fn set_patches(&mut self, patch_system: PatchSystem) -> Result<()> {
        let largest_patch = patch_system.patch_list.patches.iter().map(Patch::cell_count).max().unwrap_or(0);
        reset(&mut self.new_values, largest_patch, "new values of a patch")?;
        self.patch_system = Some(patch_system);
        Ok(())
    }

    fn prepare(&mut self, _: &SweepParameters) -> Result<()> {
        Ok(())
    }

    fn patch_system(&self) -> Option<&PatchSystem> {
        self.patch_system.as_ref()
    }

    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        parameters: &SweepParameters,
        program: SmootherProgram,
    ) -> Result<SweepResult> {
        let patch_system =
            self.patch_system.as_ref().ok_or_else(|| Error::Internal("there are no patches".to_owned()))?;
        let mut call = ReferenceCall {
            patch_system,
            inverses: &self.inverses,
            new_values: &mut self.new_values,
            arrays,
            callbacks,
        };
        Ok(program(&mut call, parameters))
    }
}

impl Engine for Reference {
    fn bytes(&self) -> [usize; 2] {
        let values: usize = self.inverses.iter().map(|(_, v)| v.len()).sum::<usize>() + self.new_values.len();
        [values * size_of::<f64>() + self.patch_system.as_ref().map_or(0, |b| b.patch_list.bytes()), 0]
    }
}

/// State of one call on one thread.
struct ReferenceCall<'a> {
    patch_system: &'a PatchSystem,
    inverses: &'a [(BlockShape, Vec<f64>)],
    new_values: &'a mut [f64],
    arrays: &'a mut dyn PatchArrays,
    callbacks: &'a mut dyn Callbacks,
}

/// Computes (A u)[p] = sum_q s_q u[p + offset_q], in the order of the stencil entries s_q. `row` and `plane` are the
/// strides of u.
fn apply_stencil(stencil: &Stencil, u: &[f64], p: usize, (row, plane): (usize, usize)) -> f64 {
    let mut sum = 0.0;
    for (q, &value) in stencil.entries.iter().enumerate() {
        if value != 0.0 {
            sum += value * u[p + q / 9 * plane + q / 3 % 3 * row + q % 3 - plane - row - 1];
        }
    }
    sum
}

/// A block of a patch.
struct Block {
    /// Global block index.
    global_index: [i64; 3],
    /// First cell, relative to the patch.
    start: [usize; 3],
    shape: BlockShape,
}

/// Returns the blocks of a patch in lexicographic order, x fastest.
fn blocks_of(patch: Patch, partition: BlockPartition) -> impl DoubleEndedIterator<Item = Block> {
    let ranges: [(i64, usize); 3] = [0, 1, 2].map(|d| partition.block_range(&patch, d));
    let [x, y, z] = ranges.map(|r| r.1);
    (0..x * y * z).map(move |b| {
        let m = [b % x, b / x % y, b / x / y];
        let segments = [0, 1, 2].map(|d| partition.segment(&patch, d, m[d]));
        Block {
            global_index: [0, 1, 2].map(|d| ranges[d].0 + m[d] as i64),
            start: segments.map(|s| s.start),
            shape: segments.map(|s| s.len),
        }
    })
}

/// Largest number of cells of a block, 8 x 8 x 8.
const MAX_BLOCK_CELLS: usize = 512;

/// New values of a block's cells, and the indices of the cells in u.
struct BlockUpdate {
    indices: [usize; MAX_BLOCK_CELLS],
    values: [f64; MAX_BLOCK_CELLS],
    cell_count: usize,
}

impl ReferenceCall<'_> {
    /// Computes u_b + omega A_b^-1 (f - A u)_b for one block.
    fn compute_update(&self, patch_index: usize, block: &Block, omega: f64) -> BlockUpdate {
        let patch = &self.patch_system.patch_list.patches[patch_index];
        let (u, f, strides) = (self.arrays.u(patch_index), self.arrays.f(patch_index), patch.strides());
        let ([bx, by, bz], [x, y, z]) = (block.shape, block.start);
        let mut update =
            BlockUpdate { indices: [0; MAX_BLOCK_CELLS], values: [0.0; MAX_BLOCK_CELLS], cell_count: bx * by * bz };
        let mut r = [0.0; MAX_BLOCK_CELLS];
        for (c, r) in r.iter_mut().enumerate().take(update.cell_count) {
            let (i, j, k) = (x + c % bx, y + c / bx % by, z + c / bx / by);
            let index = (k + 1) * strides.1 + (j + 1) * strides.0 + i + 1;
            update.indices[c] = index;
            *r = f[(k * patch.size[1] + j) * patch.size[0] + i]
                - apply_stencil(&self.patch_system.stencil, u, index, strides);
        }
        let inverse = self.inverses.iter().find(|(s, _)| *s == block.shape).map_or(&[][..], |(_, v)| v);
        for (c, row) in inverse.chunks_exact(update.cell_count).enumerate() {
            let product: f64 = row.iter().zip(&r).map(|(a, r)| a * r).sum();
            update.values[c] = u[update.indices[c]] + omega * product;
        }
        update
    }

    /// Replaces u_b by u_b + omega A_b^-1 (f - A u)_b for one block.
    fn relax_block(&mut self, patch_index: usize, block: &Block, omega: f64) {
        let update = self.compute_update(patch_index, block, omega);
        let u = self.arrays.u_mut(patch_index);
        for (&index, &value) in update.indices.iter().zip(&update.values).take(update.cell_count) {
            u[index] = value;
        }
    }

    /// Returns the indices of all patches.
    fn patch_indices(&self) -> std::ops::Range<usize> {
        0..self.patch_system.patch_list.patches.len()
    }
}

impl SmootherSteps for ReferenceCall<'_> {
    fn find_nonfinite_cell(&mut self) -> Option<NonfiniteCell> {
        for p in self.patch_indices() {
            let patch = &self.patch_system.patch_list.patches[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            for (name, values) in [("u", self.arrays.u(p)), ("f", self.arrays.f(p))] {
                for c in 0..patch.cell_count() {
                    let cell = [c % nx, c / nx % ny, c / nx / ny];
                    let [i, j, k] = cell;
                    let value = if name == "u" { values[(k + 1) * plane + (j + 1) * row + i + 1] } else { values[c] };
                    if !value.is_finite() {
                        return Some(NonfiniteCell { name, value, patch: p, cell });
                    }
                }
            }
        }
        None
    }

    fn exchange_ghosts(&mut self) {
        for copy in &self.patch_system.patch_list.ghost_copies {
            let (source, target) = (
                &self.patch_system.patch_list.patches[copy.source_patch],
                &self.patch_system.patch_list.patches[copy.target_patch],
            );
            let [x, y, z] = copy.cell_box.lower;
            for k in 0..copy.cell_box.size[2] as i64 {
                for j in 0..copy.cell_box.size[1] as i64 {
                    for i in 0..copy.cell_box.size[0] as i64 {
                        let cell = [x + i, y + j, z + k];
                        let value = self.arrays.u(copy.source_patch)[source.index_of(cell)];
                        self.arrays.u_mut(copy.target_patch)[target.index_of(cell)] = value;
                    }
                }
            }
        }
    }

    fn fill_ghosts(&mut self, sweep: i32) -> bool {
        self.callbacks.has_ghost_fill() && self.callbacks.fill_ghosts(sweep, self.arrays.pointers().u)
    }

    fn colour_count(&self) -> usize {
        colour_count(&self.patch_system.stencil)
    }

    fn sweep_jacobi(&mut self, partition: &BlockPartition, omega: f64) {
        for p in self.patch_indices() {
            let patch = self.patch_system.patch_list.patches[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            for block in blocks_of(patch, *partition) {
                let update = self.compute_update(p, &block, omega);
                for (&index, &value) in update.indices.iter().zip(&update.values).take(update.cell_count) {
                    let (i, j, k) = (index % row - 1, index / row % (ny + 2) - 1, index / plane - 1);
                    self.new_values[(k * ny + j) * nx + i] = value;
                }
            }
            let u = self.arrays.u_mut(p);
            for (c, new_value) in self.new_values[..patch.cell_count()].iter().enumerate() {
                u[(c / nx / ny + 1) * plane + (c / nx % ny + 1) * row + c % nx + 1] = *new_value;
            }
        }
    }

    fn relax_colour(&mut self, partition: &BlockPartition, omega: f64, colour: usize) {
        let colours = self.colour_count();
        for p in self.patch_indices() {
            for block in blocks_of(self.patch_system.patch_list.patches[p], *partition) {
                if colour_of(colours, block.global_index) == colour {
                    self.relax_block(p, &block, omega);
                }
            }
        }
    }

    /// Relaxes the blocks in lexicographic order: classical block Gauss-Seidel.
    fn sweep_chaotic(&mut self, partition: &BlockPartition, omega: f64, reverse: bool) {
        for p in self.patch_indices() {
            let blocks = blocks_of(self.patch_system.patch_list.patches[p], *partition);
            if reverse {
                blocks.rev().for_each(|block| self.relax_block(p, &block, omega));
            } else {
                blocks.for_each(|block| self.relax_block(p, &block, omega));
            }
        }
    }

    fn compute_residual_norm(&mut self, scale: f64) -> f64 {
        let mut sum = 0.0;
        for p in self.patch_indices() {
            let patch = &self.patch_system.patch_list.patches[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            for c in 0..patch.cell_count() {
                let index = (c / nx / ny + 1) * plane + (c / nx % ny + 1) * row + c % nx + 1;
                let r = self.arrays.f(p)[c]
                    - apply_stencil(&self.patch_system.stencil, self.arrays.u(p), index, (row, plane));
                sum += (scale * r) * (scale * r);
                if let Some(out) = self.arrays.r_mut(p) {
                    out[c] = r;
                }
            }
        }
        sum.sqrt()
    }

    fn has_monitor(&self) -> bool {
        self.callbacks.has_monitor()
    }

    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.callbacks.report_residual(sweep, relative_residual)
    }

    fn store_result(&mut self) {}
}
