//! Factorization on the device (docs/theory/rrb.md, factorization, row-sum form and coarsest system). Kernels:
//! kernels/rrb/setup.cuh and kernels/rrb/coarsest.cuh.
//!
//! Tile: the rectangle of indices (I, J) that a thread block of a sweep processes at a time (kernels/rrb/levels.cuh).

use super::aggregated;
use super::aggregated::AggregationPreconditioner;
use super::inspection::HostMatrix;
use super::packed::{CoarsestArrays, CoarsestSolver, Level, Packed};
use super::program::Programs;
use super::projection::Projection;
use super::source::Source;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CoarseArgs, Findings, Geometry, Grid, LevelArgs, LinesArgs, MAX_BLOCKS, MAX_TESTED_GRIDS, PivotRules,
    SchurCenterArgs, StartCouplingsArgs, StorageFormat, UniformArgs,
};
use crate::error::{Error, Result, collected, zeroed};
use crate::rrb::backend::{Aggregation, PivotContext, Setup};
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::levels::Embedding;
use crate::stencil::matrix::{StencilView, ring_index, ring_stride};
use std::mem::offset_of;

/// Limit for the truncation of the hierarchy. Let A_l be the matrix that remains after a grid, with diagonal entries
/// c_i. If sum_{j != i} |a_ij| <= MAX_WEAK_RATIO c_i in all rows of A_l, then D = diag(A_l) replaces A_l in M. By
/// Gershgorin's theorem, the eigenvalues of D^-1 A_l are then between 1 - MAX_WEAK_RATIO and 1 + MAX_WEAK_RATIO. With
/// this limit, the river problems of docs/benchmarks/gpu.md need as many iterations as with all levels. With a limit of
/// 0.6, they need up to 9 instead of 7 iterations.
const MAX_WEAK_RATIO: f64 = 0.3;

/// Sweeps test for tiles with equal rows if at least this fraction of a grid's tiles have equal rows. On grids without
/// such tiles, the test takes 3 % of the time of a solve. If all tiles have equal rows, a solve is 20 to 33 % faster.
const MIN_UNIFORM_FRACTION: f64 = 0.25;

/// Upper limit of (largest entry of the inverse of the coarsest matrix) x (largest pivot). Up to this limit, sweeps in
/// f32 store the inverse in f32. Rounding the n x n entries of the inverse (n <= 992) adds a matrix whose norm is about
/// 2^-24 sqrt(n) times the largest entry. This norm must be small compared with the smallest eigenvalue of the inverse,
/// which is about 1 / (largest pivot). Otherwise M may be indefinite. The product is about 10 for Poisson's equation
/// and somewhat below the limit for contrasts of 1e4. It is at least 1e7 for contrasts of 1e6 and for nearly closed
/// basins.
const MAX_RATIO_FOR_F32: f64 = 131_072.0;

/// Returns whether the environment variable `RRBSOLVER_CUDA_UNIFORM` has the value `required_value`. With `off`, sweeps
/// read all rows of all grids. With `all`, sweeps use tiles with equal rows even if there are few of them.
fn uniform_option_is(required_value: &str) -> bool {
    std::env::var_os("RRBSOLVER_CUDA_UNIFORM").is_some_and(|value| value == required_value)
}

/// Returns the pivot rules of a level on a grid. `embedding` maps the nodes of this grid to the finest grid.
fn rules_of_level(rules: &PivotRules, level: usize, embedding: &Embedding) -> PivotRules {
    PivotRules {
        level: level as i32,
        x0: embedding.x0 as i32,
        y0: embedding.y0 as i32,
        step: embedding.step as i32,
        ..*rules
    }
}

impl Packed {
    /// Factorizes level by level. Queues all kernels, waits, and then reads their findings.
    pub fn factorize(
        &mut self,
        stream: &Stream,
        source: &mut Source,
        a: &StencilView,
        setup: &Setup,
        components: &Components,
    ) -> Result<()> {
        let mut label_memory = None;
        if let Some(labels) = components.labels_to_refuse(a.grid)? {
            let memory = Memory::zeroed(stream.device(), stream, 4 * labels.len(), "component labels")?;
            stream.send(memory.address, &labels)?;
            stream.wait()?;
            label_memory = Some(memory);
        }
        (self.storage_unit, self.zero_row_sum) = (setup.storage_unit, setup.zero_row_sum);
        self.clear_transient(stream)?;
        source.findings.reset_factorization();
        stream.send_prefix(source.findings_address, &source.findings, size_of::<Findings>())?;
        // In a second factorization of the same matrix, with another format or cycle, the row sums must be recomputed,
        // because the first factorization has overwritten them.
        if !std::mem::take(&mut source.has_row_sums) {
            source.compute_row_sums(stream, setup.zero_row_sum)?;
            source.has_row_sums = false;
        }
        let rules = PivotRules {
            one_minus_omega: setup.one_minus_omega(),
            kept_fraction: setup.kept_fraction(),
            fine_nx: a.grid.nx as i32,
            fine_ny: a.grid.ny as i32,
            fine_geometry: source.g,
            center: source.m.center,
            label: label_memory.as_ref().map_or(0, |m| m.address),
            findings: source.findings_address,
            format: self.format(),
            ..PivotRules::default()
        };
        if self.shape.uses_aggregation {
            return self.factorize_by_aggregation(stream, source, &rules, components);
        }
        if self.aggregated.take().is_some() {
            self.recorded_loops = None;
        }
        self.may_aggregate = matches!(setup.aggregation, Aggregation::IfSlow(_));
        self.eliminate(stream, source, &rules, setup.compensates_positive_couplings)?;
        if label_memory.is_none() && !uniform_option_is("off") {
            self.find_uniform_tiles(stream, source.findings_address)?;
        }
        if matches!(self.coarsest_solver, CoarsestSolver::Inverse) {
            self.invert_coarsest(stream, &rules, setup.levels + 1)?;
        }
        self.scalars.per_unit = self.storage_unit.recip();
        self.scalars.send(stream, size_of::<f64>())?;
        stream.fetch_prefix(&mut source.findings, source.findings_address, size_of::<Findings>())?;
        stream.wait()?;
        if source.findings.bad_pivot != u64::MAX {
            return Err(self.rejected_pivot_error(stream, source.findings.bad_pivot, a.grid.nx)?);
        }
        let extremes_on_device = [source.findings.coarsest_inverse, source.findings.coarsest_pivot].map(f64::from_bits);
        let extremes_on_host = self.factorize_on_host(stream, a, setup, components)?;
        self.clear_transient(stream)?;
        let [largest_inverse_entry, largest_pivot] = extremes_on_host.unwrap_or(extremes_on_device);
        self.decide_execution(
            stream,
            &source.findings,
            largest_inverse_entry * largest_pivot > MAX_RATIO_FOR_F32,
            components,
        )?;
        if !self.prepare_cycle(stream, &setup.cycle)? {
            self.recorded_loops = None;
        }
        // This wait is needed, because the next solve may use another stream.
        stream.wait()
    }

    /// Computes S1 if CG runs on S1, and the aggregation preconditioner of S1 or of A.
    fn factorize_by_aggregation(
        &mut self,
        stream: &Stream,
        source: &mut Source,
        rules: &PivotRules,
        components: &Components,
    ) -> Result<()> {
        if self.shape.uses_schur {
            self.eliminate_first(stream, source, rules)?;
        }
        self.scalars.per_unit = 1.0;
        self.scalars.send(stream, size_of::<f64>())?;
        stream.fetch_prefix(&mut source.findings, source.findings_address, size_of::<Findings>())?;
        stream.wait()?;
        if source.findings.bad_pivot != u64::MAX {
            return Err(self.rejected_pivot_error(stream, source.findings.bad_pivot, source.shape.grid.nx)?);
        }
        self.clear_transient(stream)?;
        self.prepare_projection(stream, components)?;
        self.build_aggregation(stream, source)?;
        // This wait is needed, because the next solve may use another stream.
        stream.wait()
    }

    /// Builds the multigrid method by aggregation for the matrix on which CG runs. Reuses the memory of the previous
    /// hierarchy.
    fn build_aggregation(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        let k = self.grids[0].k;
        let cg_matrix = aggregated::CgMatrix {
            g: k.g,
            nodes: source.shape.grid.nodes(),
            m: source.m,
            schur_couplings: self.shape.uses_schur.then_some([k.d, k.far_couplings]),
            row_sums: source.row_sums,
            center_max: f64::from_bits(source.findings.center_max),
        };
        let previous = self.aggregated.take();
        let (aggregated, recordings_are_valid) =
            AggregationPreconditioner::new(stream, &cg_matrix, self.sweeps_in_f32(), previous)?;
        if !recordings_are_valid {
            self.recorded_loops = None;
        }
        self.aggregated = Some(aggregated);
        Ok(())
    }

    /// Replaces the levels by aggregation, for a solve that converges slowly with the levels. S1 is recomputed, because
    /// the later levels have overwritten the row sums.
    pub fn replace_levels_by_aggregation(&mut self, stream: &Stream, source: &mut Source) -> Result<()> {
        let rules = PivotRules {
            fine_nx: source.g.nx,
            fine_ny: source.g.ny,
            fine_geometry: source.g,
            center: source.m.center,
            findings: source.findings_address,
            format: self.format(),
            ..PivotRules::default()
        };
        source.compute_row_sums(stream, self.zero_row_sum)?;
        source.has_row_sums = false;
        if self.shape.uses_schur {
            self.eliminate_first(stream, source, &rules)?;
        }
        self.build_aggregation(stream, source)?;
        self.recorded_loops = None;
        self.record_loops(stream, source)
    }

    /// Eliminates the red nodes of the first grid (level 1) and computes S1.
    fn eliminate_first(&self, stream: &Stream, source: &Source, rules: &PivotRules) -> Result<()> {
        let level = &self.grids[0];
        let rules = PivotRules { level: 1, ..rules_of_level(rules, 1, &level.embedding) };
        let odd_args =
            LevelArgs { k: level.k, rules, exact_centers: source.m.center, has_corners: 0, has_black_couplings: 0 };
        launch::eliminate_reds(stream, &odd_args)?;
        launch::form_skew(stream, &odd_args)?;
        let schur_args = SchurCenterArgs { k: level.k, center: source.m.center, schur: self.schur_arrays.center };
        launch::schur_center(stream, &schur_args)
    }

    /// Eliminates the levels of all grids.
    fn eliminate(&self, stream: &Stream, source: &Source, rules: &PivotRules, compensate: bool) -> Result<()> {
        let (schur, m, nine_points) = (self.shape.uses_schur, source.m, source.shape.nine_points);
        if !schur {
            let (k, format) = (self.grids[0].k, rules.format);
            let (nine_points, compensate) = (i32::from(nine_points), i32::from(compensate));
            launch::start_couplings(stream, &StartCouplingsArgs { k, m, format, nine_points, compensate })?;
        }
        for (q, level) in self.grids.iter().enumerate() {
            // The first elimination of a 5-point matrix drops no couplings, so it uses the couplings and centers of A.
            let exact_centers = if q == 0 && schur { m.center } else { 0 };
            let has_black_couplings = i32::from(q > 0 || nine_points);
            let (k, even_rules) = (level.k, rules_of_level(rules, 2 * q + 2, &level.embedding));
            let odd_args = LevelArgs {
                k,
                rules: PivotRules { level: even_rules.level - 1, ..even_rules },
                exact_centers,
                has_corners: has_black_couplings,
                has_black_couplings,
            };
            launch::eliminate_reds(stream, &odd_args)?;
            launch::form_skew(stream, &odd_args)?;
            launch::eliminate_dropped(stream, &LevelArgs { rules: even_rules, ..odd_args })?;
            let next_grid = self.grids.get(q + 1).map_or(Grid::default(), |level| level.k);
            let natural = if q + 1 < self.grids.len() { 0 } else { self.coarsest.natural_matrix };
            let (nx, ny) = (level.sweep.kept_nodes.nx, level.sweep.kept_nodes.ny);
            let ratio_index = if self.may_truncate_after(q) { q as i32 } else { -1 };
            launch::form_coarse(
                stream,
                &CoarseArgs { k, rules: even_rules, next: next_grid, natural, nx, ny, ratio_index },
            )?;
        }
        if schur {
            let (k, center, schur) = (self.grids[0].k, m.center, self.schur_arrays.center);
            launch::schur_center(stream, &SchurCenterArgs { k, center, schur })?;
        }
        Ok(())
    }

    /// Computes the inverse of the coarsest matrix. An error for a rejected pivot names `level`.
    fn invert_coarsest(&self, stream: &Stream, rules: &PivotRules, level: usize) -> Result<()> {
        let (grid, last_grid) = (self.coarsest_grid, &self.grids[self.grids.len() - 1]);
        let rules = rules_of_level(rules, level, &last_grid.embedding.coarse(last_grid.layout.grid));
        // The pivots of the coarsest system remain in double precision.
        let rules = PivotRules { format: StorageFormat::new(Storage::F64, 1.0), ..rules };
        let (nx, ny, n) = (grid.nx as i32, grid.ny as i32, grid.nodes() as i32);
        let CoarsestArrays { natural_matrix: natural, lines, .. } = self.coarsest;
        let arguments = LinesArgs { rules, natural, nx, ny, n, step: 1, arrays: lines, unit: self.storage_unit };
        let step_exponents = 0..=arguments.lines().ilog2();
        let args_with_step = |k: u32| LinesArgs { step: 1 << k, ..arguments };
        step_exponents.clone().try_for_each(|k| launch::eliminate_lines(stream, &args_with_step(k)))?;
        step_exponents.rev().try_for_each(|k| launch::invert_lines(stream, &args_with_step(k)))
    }

    /// Decides from the findings of the eliminations how solves are executed, and prepares the means over singular
    /// components. `inverse_is_large`: whether the inverse of the coarsest matrix must not be stored in f32, because
    /// its entries are too large (`MAX_RATIO_FOR_F32`).
    fn decide_execution(
        &mut self,
        stream: &Stream,
        findings: &Findings,
        inverse_is_large: bool,
        components: &Components,
    ) -> Result<()> {
        if self.select_uniform_tiles(findings) {
            self.recorded_loops = None;
        }
        let has_f64_inverse = self.sweeps_in_f32() && inverse_is_large;
        let is_weak =
            |q: &usize| self.may_truncate_after(*q) && f64::from_bits(findings.coupling[*q]) <= MAX_WEAK_RATIO;
        let grids_in_use = (0..self.grids.len()).find(is_weak).map_or(self.grids.len(), |q| q + 1);
        let needs_projection = self.needs_projection(components);
        // The grouping of the steps into kernels depends on these values.
        if has_f64_inverse != self.has_f64_inverse || grids_in_use != self.grids_in_use || needs_projection {
            self.recorded_loops = None;
            self.programs = Programs::default();
        }
        (self.has_f64_inverse, self.grids_in_use) = (has_f64_inverse, grids_in_use);
        self.prepare_projection(stream, components)
    }

    /// Returns whether means over singular components are needed for this matrix, or were needed for the previous
    /// matrix.
    fn needs_projection(&self, components: &Components) -> bool {
        !(self.projection.is_empty() && components.projected_count() == 0)
    }

    /// Prepares the computation of means over singular components.
    fn prepare_projection(&mut self, stream: &Stream, components: &Components) -> Result<()> {
        if self.needs_projection(components) {
            // Recorded launches contain the addresses of the old means.
            self.recorded_loops = None;
            let (layout, g) = (&self.grids[0].layout, self.grids[0].k.g);
            self.projection = Projection::default();
            self.projection = Projection::new(stream, layout, g, components, self.shape.uses_schur)?;
        }
        Ok(())
    }

    /// Finds the tiles whose rows are equal. This function must not be called if pivots depend on the labels of
    /// components.
    fn find_uniform_tiles(&self, stream: &Stream, findings: Address) -> Result<()> {
        let tested_grids = self.grids.iter().take(MAX_TESTED_GRIDS).take_while(|level| level.may_be_uniform()).count();
        let grids = &self.grids[..tested_grids];
        for (q, level) in grids.iter().enumerate() {
            let (next_geometry, next_equal_rows) =
                grids.get(q + 1).map_or((Geometry::default(), 0), |next_level| (next_level.k.g, next_level.equal_rows));
            let count_address = findings + (offset_of!(Findings, uniform) + q * size_of::<u64>()) as u64;
            let Level { equal_rows, uniform, k, .. } = *level;
            launch::find_uniform_tiles(
                stream,
                &UniformArgs {
                    g: k.g,
                    equal_rows,
                    uniform,
                    count: count_address,
                    next: next_geometry,
                    next_equal_rows,
                },
            )?;
        }
        Ok(())
    }

    /// Lets sweeps read one row per tile with equal rows, on grids where this is faster. Returns whether the setting of
    /// a grid has changed.
    fn select_uniform_tiles(&mut self, findings: &Findings) -> bool {
        let mut has_changed = false;
        for (q, level) in self.grids.iter_mut().enumerate() {
            let (tile_count, uniform_tiles) =
                (level.k.g.tiles_and_patches().0, findings.uniform.get(q).copied().unwrap_or(0));
            let min_fraction = if uniform_option_is("all") { 0.0 } else { MIN_UNIFORM_FRACTION };
            let flags_address = if uniform_tiles > 0 && uniform_tiles as f64 >= min_fraction * tile_count as f64 {
                level.uniform
            } else {
                0
            };
            has_changed |= level.k.g.uniform != flags_address;
            (level.k.g.uniform, level.sweep.g.uniform) = (flags_address, flags_address);
        }
        self.schur_arrays.g.uniform = self.grids[0].k.g.uniform;
        has_changed
    }

    /// Factorizes the coarsest system on the host if the host solves or inverts it. Returns the largest entry of the
    /// inverse (0 if the host solves without an inverse), and the largest center of the coarsest matrix. Returns `None`
    /// if the device computes the inverse.
    fn factorize_on_host(
        &mut self,
        stream: &Stream,
        a: &StencilView,
        setup: &Setup,
        components: &Components,
    ) -> Result<Option<[f64; 2]>> {
        let (grid, coarsest_arrays) = (self.coarsest_grid, self.coarsest);
        let (natural, needs_inverse) = match &mut self.coarsest_solver {
            CoarsestSolver::Inverse => return Ok(None),
            CoarsestSolver::InverseFromHost(natural) => (natural, true),
            CoarsestSolver::Host(natural) => (natural, false),
        };
        let n = grid.nodes();
        let mut values: Vec<f64> = zeroed(5 * n, "the coarsest system")?;
        stream.fetch(&mut values, coarsest_arrays.natural_matrix)?;
        stream.wait()?;
        let input_matrix = natural.input_matrix();
        let targets = [
            &mut input_matrix.diagonal,
            &mut input_matrix.east,
            &mut input_matrix.north,
            &mut input_matrix.northeast,
            &mut input_matrix.northwest,
        ];
        for (target, array_values) in targets.into_iter().zip(values.chunks_exact(n)) {
            for (j, row) in array_values.chunks_exact(grid.nx).enumerate() {
                target[ring_index(grid.nx, 0, j)..][..grid.nx].copy_from_slice(row);
            }
        }
        // Largest center c_i = s_i - sum_j a_ij; the fetched diagonal contains the row sums s_i.
        let (mut largest_inverse_entry, mut center_max) = (0.0f64, 0.0f64);
        for (i, j) in (0..n).map(|k| (k % grid.nx, k / grid.nx)) {
            let (c, stride) = (ring_index(grid.nx, i, j), ring_stride(grid.nx));
            let axis_sum = (input_matrix.east[c] + input_matrix.east[c - 1])
                + (input_matrix.north[c] + input_matrix.north[c - stride]);
            let northeast_sum = input_matrix.northeast[c] + input_matrix.northeast[c - stride - 1];
            let northwest_sum = input_matrix.northwest[c] + input_matrix.northwest[c - stride + 1];
            center_max = center_max.max(input_matrix.diagonal[c] - axis_sum - (northeast_sum + northwest_sum));
        }
        let host_matrix = HostMatrix::new(stream, a)?;
        let host_view = host_matrix.as_ref().map(|matrix| matrix.view(a));
        let context = PivotContext::new(host_view.as_ref().unwrap_or(a), components);
        natural.factorize(setup, &context, None)?;
        if needs_inverse {
            let mut inverse: Vec<f64> = zeroed(n * n, "the inverse of the coarsest system")?;
            // Column k is the solution for unit vector k. The largest entry of the inverse is on its diagonal, because
            // the inverse is positive definite.
            for (k, column) in inverse.chunks_exact_mut(n).enumerate() {
                let z = &mut natural.grids[0].z;
                z.fill(0.0);
                z[ring_index(grid.nx, k % grid.nx, k / grid.nx)] = 1.0;
                natural.apply();
                remove_ring(&natural.grids[0].z, grid.nx, column);
                largest_inverse_entry = largest_inverse_entry.max(column[k]);
                column.iter_mut().for_each(|v| *v *= setup.storage_unit);
            }
            // The computed columns are used as rows, because the inverse is symmetric.
            stream.send(coarsest_arrays.lines.inverse, &inverse)?;
            if coarsest_arrays.lines.inverse_f32 != 0 {
                let inverse_f32 = collected(inverse.iter().map(|v| *v as f32), "the inverse of the coarsest system")?;
                stream.send(coarsest_arrays.lines.inverse_f32, &inverse_f32)?;
                stream.wait()?;
            }
            stream.wait()?;
        }
        Ok(Some([largest_inverse_entry, center_max]))
    }

    /// Returns the error for the rejected pivot with the given key (`Findings::bad_pivot`). At the node of this pivot,
    /// the kernels have stored the pivot instead of the inverse of the pivot, and the center instead of the row sum
    /// (kernels/rrb/setup.cuh). In the coarsest system, only the pivot is stored, and the error also reports the pivot
    /// as the center.
    fn rejected_pivot_error(&self, stream: &Stream, key: u64, nx: usize) -> Result<Error> {
        let (level, node) = ((key >> 40) as usize, (key & ((1 << 40) - 1)) as usize);
        let (i, j) = (node % nx, node / nx);
        let (mut d, mut center) = ([f64::NAN], [f64::NAN]);
        if let Some(level_data) = self.grids.get((level - 1) / 2) {
            let (colour, index) = level_data.colour_and_index_of(i, j);
            let entry = 8 * (colour as usize * level_data.k.g.plane as usize + index) as u64;
            stream.fetch(&mut d, level_data.k.h + entry)?;
            stream.fetch(&mut center, level_data.k.row_sums + entry)?;
            stream.wait()?;
        } else {
            let last_grid = &self.grids[self.grids.len() - 1];
            let embedding = last_grid.embedding.coarse(last_grid.layout.grid);
            let (coarse_i, coarse_j) = ((i - embedding.x0) / embedding.step, (j - embedding.y0) / embedding.step);
            let grid = self.coarsest_grid;
            let node_number =
                if grid.nx <= grid.ny { coarse_j * grid.nx + coarse_i } else { coarse_i * grid.ny + coarse_j };
            stream.fetch(&mut d, self.coarsest.lines.inverse_pivot + 8 * node_number as u64)?;
            stream.wait()?;
            center = d;
        }
        if self.sweeps_in_f32() && d[0] > f64::EPSILON * center[0] && d[0].is_finite() {
            return Ok(crate::rrb::backend::underflowing_pivot(d[0], self.storage_unit, level, i, j));
        }
        Ok(crate::rrb::backend::rejected_pivot(d[0], center[0], level, i, j))
    }
}

impl Level {
    /// Returns whether `find_uniform_tiles` tests this grid. Tiles with equal rows save no time on a grid with at most
    /// one tile per thread block.
    fn may_be_uniform(&self) -> bool {
        self.k.g.tiles_and_patches().0 > MAX_BLOCKS as usize || uniform_option_is("all")
    }

    /// Returns the colour of a node, and the index of the node in the plane of this colour. (i, j) is the node on the
    /// finest grid.
    fn colour_and_index_of(&self, i: usize, j: usize) -> (Colour, usize) {
        let embedding = &self.embedding;
        colour_and_index(
            &self.layout,
            self.k.g.stride as usize,
            (i - embedding.x0) / embedding.step,
            (j - embedding.y0) / embedding.step,
        )
    }
}

/// Returns the colour of node (i, j) and its index in the plane of this colour. `stride` is the distance between rows
/// in values.
pub fn colour_and_index(layout: &Layout, stride: usize, i: usize, j: usize) -> (Colour, usize) {
    let (shifted_i, shifted_j) = (i + layout.shift_x, j + layout.shift_y);
    let colour = match (shifted_i % 2, shifted_j % 2) {
        (1, 1) => Colour::B2,
        (0, 1) => Colour::R1,
        (1, 0) => Colour::R2,
        _ => Colour::B1,
    };
    (colour, (shifted_j / 2 + 1) * stride + layout.compute_block + shifted_i / 2)
}

/// Copies values from an array with a ring of zeros to an array without a ring.
fn remove_ring(ringed_values: &[f64], nx: usize, values: &mut [f64]) {
    for (j, row) in values.chunks_exact_mut(nx).enumerate() {
        row.copy_from_slice(&ringed_values[ring_index(nx, 0, j)..][..nx]);
    }
}
