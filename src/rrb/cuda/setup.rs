//! Factorization on the device (docs/theory/rrb.md, factorization, row-sum form and coarsest system), and inspection of
//! the matrix. Kernels: kernels/rrb/setup.cuh and kernels/rrb/coarsest.cuh.

use super::aggregated;
use super::aggregated::Aggregated;
use super::packed::{CoarsestArrays, CoarsestSolver, Level, Packed};
use super::program::Programs;
use super::projection::Projection;
use super::source::Source;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CoarseArgs, CopyArgs, Findings, Format, Geometry, Grid, LevelArgs, LinesArgs, MOST_BLOCKS,
    MOST_TESTED_GRIDS, RowSumArgs, Rules, SchurCenterArgs, StartCouplingsArgs, UniformArgs, WindowArgs,
};
use crate::cuda::staging::{Copies, Job};
use crate::error::{Error, Place, Result, collected, push, reserve, zeroed};
use crate::rrb::anisotropy::{has_windows, percentile};
use crate::rrb::backend::{Aggregation, InspectionSetup, PivotContext, Setup};
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection;
use crate::stencil::inspection::Inspection;
use crate::stencil::levels::Embedding;
use crate::stencil::matrix::{StencilView, View, ring_index, ring_stride};
use crate::stencil::outward::{Entry, Outward};
use std::mem::offset_of;

/// Names of the arrays of a matrix, in the order in which kernels number them.
const NAMES: [&str; 5] = ["center", "east", "north", "northeast", "northwest"];

/// Limit for the truncation of the hierarchy. Let A_l be the matrix that remains after a grid. If all rows of A_l have
/// sum_j |a_ij| <= MAX_WEAK_RATIO c_i, then D = diag(A_l) replaces A_l in M. By Gershgorin's theorem, the eigenvalues
/// of D^-1 A_l are then between 1 - MAX_WEAK_RATIO and 1 + MAX_WEAK_RATIO. With this limit, the river problems of
/// docs/benchmarks/gpu.md need as many iterations as with all levels. With a limit of 0.6, they need up to 9 instead of
/// 7 iterations.
const MAX_WEAK_RATIO: f64 = 0.3;

/// Sweeps test for tiles with equal rows if at least this fraction of a grid's tiles have equal rows. On grids without
/// such tiles, the test takes 3 % of the time of a solve. If all tiles have equal rows, a solve is 20 to 33 % faster.
const MIN_UNIFORM_FRACTION: f64 = 0.25;

/// Upper limit of (largest entry of the inverse of the coarsest matrix) x (largest pivot). Up to this limit, sweeps in
/// f32 store the inverse in f32. Rounding the inverse's n x n entries, n <= 992, adds a matrix of norm about 2^-24
/// sqrt(n) times the largest entry. This norm must be small compared with the smallest eigenvalue of the inverse, which
/// is about 1 / (largest pivot). Otherwise M may be indefinite. The product is about 10 for Poisson's equation and
/// somewhat below the limit for contrasts of 1e4. It is at least 1e7 for contrasts of 1e6 and for nearly closed basins.
const MAX_RATIO_FOR_SHORT: f64 = 131_072.0;

/// Returns whether the environment variable `RRBSOLVER_CUDA_UNIFORM` has the value `wanted`. With `off`, sweeps read
/// all rows of all grids. With `all`, sweeps use tiles with equal rows even if there are few of them.
fn uniform_option_is(wanted: &str) -> bool {
    std::env::var_os("RRBSOLVER_CUDA_UNIFORM").is_some_and(|value| value == wanted)
}

/// Name of the memory in error messages about failed allocations.
const ARRAYS: &str = "the list of arrays";

/// Host copies of all arrays of a matrix of which at least one is on the device.
pub struct HostCopies {
    arrays: Vec<Vec<f64>>,
}

impl HostCopies {
    /// Copies all arrays of `a`. Returns `None` if all of them are in host memory.
    pub fn new(stream: &Stream, a: &StencilView) -> Result<Option<Self>> {
        let views = views(a)?;
        if views.iter().all(|v| v.device_address().is_none()) {
            return Ok(None);
        }
        let mut arrays = Vec::new();
        for view in views {
            let mut values: Vec<f64> = zeroed(view.count(), "a copy of the matrix")?;
            match view.device_address() {
                Some(address) => stream.fetch(&mut values, address)?,
                None => values.copy_from_slice(view.values()),
            }
            push(&mut arrays, values, ARRAYS)?;
        }
        stream.wait()?;
        Ok(Some(Self { arrays }))
    }

    /// Returns the matrix as a view of the copies.
    pub fn view<'a>(&'a self, a: &StencilView) -> StencilView<'a> {
        let of = |k: usize| View::new(NAMES[k], &self.arrays[k], a.grid, a.center.ld());
        StencilView {
            grid: a.grid,
            center: of(0),
            east: of(1),
            north: of(2),
            corners: a.corners.map(|_| (of(3), of(4))),
        }
    }
}

/// Returns the arrays of `a` in the order of `NAMES`.
fn views<'a>(a: &StencilView<'a>) -> Result<Vec<View<'a>>> {
    let corners = a.corners.iter().flat_map(|&(ne, nw)| [ne, nw]);
    collected([a.center, a.east, a.north].into_iter().chain(corners), ARRAYS)
}

impl Source {
    /// Copies A to the device's storage, computes its row sums and inspects it. `staging` contains the device buffer
    /// for host arrays and the state of their copies. `spare` is the address of four unused planes, or 0.
    pub fn examine(
        &mut self,
        stream: &Stream,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        staging: (Option<&Memory>, &mut Copies),
        spare: Address,
        inspection: &mut Inspection,
    ) -> Result<()> {
        *self.findings = Findings::NONE;
        self.summed = false;
        stream.send_prefix(self.findings_at, &self.findings, size_of::<Findings>())?;
        self.copy(stream, a, staging)?;
        self.sum_rows(stream, inspection_setup.checks.zero_row_sum)?;
        self.compute_windows(stream)?;
        stream.fetch_prefix(&mut self.findings, self.findings_at, size_of::<Findings>())?;
        stream.wait()?;
        let found = *self.findings;
        let nx = a.grid.nx as u64;
        if inspection_setup.checks.finite && found.not_finite != u64::MAX {
            let (array, i, j) = place_of(found.not_finite, nx);
            let view = views(a)?[array];
            return Err(Error::not_finite(NAMES[array], value(stream, &view, i, j)?, Place::node(0, i, j)));
        }
        if found.bad_center != u64::MAX {
            let (i, j) = ((found.bad_center % nx) as usize, (found.bad_center / nx) as usize);
            let refused = inspection::refused_center(value(stream, &a.center, i, j)?, i, j);
            let fetched = HostCopies::new(stream, a)?;
            return Err(inspection::all_negative_error(&fetched.as_ref().map_or(*a, |f| f.view(a)), 0..a.grid.ny)
                .unwrap_or(refused));
        }
        let findings = inspection::Findings {
            positive_couplings: found.positive as usize,
            center_min: f64::from_bits(found.center_min),
            center_max: f64::from_bits(found.center_max),
            coupling_max: f64::from_bits(found.coupling_max),
        };
        if found.zero_couplings == 0 {
            return inspection.set_whole(a.grid, findings, found.has_nonzero_row_sum != 0, inspection_setup.project);
        }
        // Some couplings between neighbours are zero, as on land, so the components must be counted.
        if let Some(count) = self.count_regular(stream, spare)? {
            inspection.set_regular(findings, count, inspection_setup.project);
            return Ok(());
        }
        // A component is singular, or the grid is too large for `count_regular`. The host determines the components.
        let fetched = HostCopies::new(stream, a)?;
        let host = fetched.as_ref().map_or(*a, |f| f.view(a));
        inspection.start(1)?;
        inspection.inspect(0, &host, 0..a.grid.ny, &inspection_setup.checks);
        inspection.finish(&host, inspection_setup.project)
    }

    /// Returns the couplings that point out of the grid. They were counted when `a` was copied.
    pub fn outward(&self, stream: &Stream, a: &StencilView) -> Result<Outward> {
        let (counts, first) = (self.findings.outward.map(|count| count as usize), self.findings.first_outward);
        if first == u64::MAX {
            return Ok(Outward::default());
        }
        let (array, i, j) = place_of(first, a.grid.nx as u64);
        let entry = Entry { array: array - 1, value: value(stream, &views(a)?[array], i, j)?, i, j, k: None };
        Ok(Outward { counts, first: Some(entry), ..Outward::default() })
    }

    /// Computes the row sums of M, which eliminations overwrite later. A row sum whose magnitude is at most
    /// `zero_row_sum` times the center becomes zero. Also determines in which patches all rows are equal (`same`).
    fn sum_rows(&mut self, stream: &Stream, zero_row_sum: f64) -> Result<()> {
        self.summed = true;
        stream.fill(self.equal_rows, 1, self.g.tiles_and_patches().1)?;
        launch::row_sums(
            stream,
            &RowSumArgs {
                g: self.g,
                m: self.m,
                row_sums: self.row_sums,
                zero_row_sum,
                nine_points: i32::from(self.shape.nine_points),
                findings: self.findings_at,
                equal_rows: self.equal_rows,
            },
        )
    }

    /// Computes the anisotropy of all windows of the grid, which `anisotropy` reads.
    fn compute_windows(&self, stream: &Stream) -> Result<()> {
        if !has_windows(self.shape.grid) {
            return Ok(());
        }
        let (nine_points, findings) = (i32::from(self.shape.nine_points), self.findings_at);
        launch::windows(stream, &WindowArgs { g: self.g, m: self.m, row_sums: self.row_sums, nine_points, findings })
    }

    /// Returns the anisotropy of the inspected matrix: the 90th percentile, over windows of the grid, of the ratio of
    /// the two directions' conductances.
    pub fn anisotropy(&self) -> f64 {
        percentile(bytemuck::cast(self.findings.window))
    }

    /// Copies A to the storage by colour. Each launch copies as many rows as fit into the staging buffer.
    fn copy(&self, stream: &Stream, a: &StencilView, (staging, copies): (Option<&Memory>, &mut Copies)) -> Result<()> {
        let views = views(a)?;
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let on_host = views.iter().filter(|v| v.device_address().is_none()).count();
        let chunk = match staging {
            Some(memory) if on_host > 0 => (memory.bytes / (8 * nx * on_host)).clamp(1, ny),
            _ => ny,
        };
        for first_row in (0..ny).step_by(chunk) {
            let rows = chunk.min(ny - first_row);
            let mut arrays = [0; 5];
            let mut ld = [nx as i64; 5];
            let mut address = staging.map_or(0, |m| m.address);
            let mut jobs = Vec::new();
            reserve(&mut jobs, on_host, ARRAYS)?;
            for ((array, ld), view) in arrays.iter_mut().zip(&mut ld).zip(&views) {
                *array = match view.device_address() {
                    Some(address) => {
                        *ld = view.ld() as i64;
                        address + 8 * (first_row * view.ld()) as u64
                    }
                    None => {
                        let values = &view.values()[first_row * view.ld()..];
                        jobs.push(Job::from_host(values, (view.ld(), nx, rows), address));
                        let here = address;
                        address += 8 * (nx * rows) as u64;
                        here
                    }
                };
            }
            copies.send(stream, &jobs)?;
            let [center, east, north, northeast, northwest] = arrays;
            let arguments = CopyArgs {
                g: self.g,
                m: self.m,
                center,
                east,
                north,
                northeast,
                northwest,
                ld,
                first_row: first_row as i32,
                rows: rows as i32,
                findings: self.findings_at,
            };
            launch::copy(stream, &arguments)?;
        }
        Ok(())
    }
}

/// Returns array, column i and row j for the index (5 j + array) nx + i.
fn place_of(key: u64, nx: u64) -> (usize, usize, usize) {
    let (i, line) = (key % nx, key / nx);
    ((line % 5) as usize, i as usize, (line / 5) as usize)
}

/// Returns entry (i, j) of an array.
fn value(stream: &Stream, view: &View, i: usize, j: usize) -> Result<f64> {
    match view.device_address() {
        None => Ok(view.row(j)[i]),
        Some(address) => {
            let mut value = [0.0];
            stream.fetch(&mut value, address + 8 * (j * view.ld() + i) as u64)?;
            stream.wait()?;
            Ok(value[0])
        }
    }
}

/// Returns the rules of a level on a grid whose position on the finest grid is `e`.
fn on_level(rules: &Rules, level: usize, e: &Embedding) -> Rules {
    Rules { level: level as i32, x0: e.x0 as i32, y0: e.y0 as i32, step: e.step as i32, ..*rules }
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
        let mut labels = None;
        if let Some(values) = components.labels_to_refuse(a.grid)? {
            let memory = Memory::zeroed(stream.device(), stream, 4 * values.len(), "component labels")?;
            stream.send(memory.address, &values)?;
            stream.wait()?;
            labels = Some(memory);
        }
        (self.unit, self.zero_row_sum) = (setup.unit, setup.zero_row_sum);
        self.clear_transient(stream)?;
        source.findings.reset_factorization();
        stream.send_prefix(source.findings_at, &source.findings, size_of::<Findings>())?;
        // In a second factorization of the same matrix, with another format or cycle, the row sums must be recomputed,
        // because the first one has overwritten them.
        if !std::mem::take(&mut source.summed) {
            source.sum_rows(stream, setup.zero_row_sum)?;
            source.summed = false;
        }
        let rules = Rules {
            one_minus_omega: setup.one_minus_omega(),
            kept_fraction: setup.kept_fraction(),
            fine_nx: a.grid.nx as i32,
            fine_ny: a.grid.ny as i32,
            fine: source.g,
            center: source.m.center,
            label: labels.as_ref().map_or(0, |m| m.address),
            findings: source.findings_at,
            format: self.format(),
            ..Rules::default()
        };
        if self.shape.aggregates {
            return self.aggregate(stream, source, &rules, components);
        }
        if self.aggregated.take().is_some() {
            self.recorded = None;
        }
        self.may_aggregate = matches!(setup.aggregation, Aggregation::IfSlow(_));
        self.eliminate(stream, source, &rules, setup.compensate)?;
        if labels.is_none() && !uniform_option_is("off") {
            self.find_uniform(stream, source.findings_at)?;
        }
        if matches!(self.coarsest_solver, CoarsestSolver::Inverse) {
            self.invert_coarsest(stream, &rules, setup.levels + 1)?;
        }
        self.scalars.per_unit = self.unit.recip();
        self.scalars.send(stream, size_of::<f64>())?;
        stream.fetch_prefix(&mut source.findings, source.findings_at, size_of::<Findings>())?;
        stream.wait()?;
        if source.findings.bad_pivot != u64::MAX {
            return Err(self.bad_pivot(stream, source.findings.bad_pivot, a.grid.nx)?);
        }
        let of_device = [source.findings.coarsest_inverse, source.findings.coarsest_pivot].map(f64::from_bits);
        let of_host = self.factorize_on_host(stream, a, setup, components)?;
        self.clear_transient(stream)?;
        let [inverse, pivot] = of_host.unwrap_or(of_device);
        self.decide_execution(stream, &source.findings, inverse * pivot > MAX_RATIO_FOR_SHORT, components)?;
        if !self.prepare_cycle(stream, &setup.cycle)? {
            self.recorded = None;
        }
        // This wait is needed, because the next solve may use another stream.
        stream.wait()
    }

    /// Computes S1 if CG runs on S1, and the aggregation preconditioner of S1 or of A.
    fn aggregate(
        &mut self,
        stream: &Stream,
        source: &mut Source,
        rules: &Rules,
        components: &Components,
    ) -> Result<()> {
        if self.shape.schur {
            self.eliminate_first(stream, source, rules)?;
        }
        self.scalars.per_unit = 1.0;
        self.scalars.send(stream, size_of::<f64>())?;
        stream.fetch_prefix(&mut source.findings, source.findings_at, size_of::<Findings>())?;
        stream.wait()?;
        if source.findings.bad_pivot != u64::MAX {
            return Err(self.bad_pivot(stream, source.findings.bad_pivot, source.shape.grid.nx)?);
        }
        self.clear_transient(stream)?;
        self.project(stream, components)?;
        self.make_aggregated(stream, source)?;
        // This wait is needed, because the next solve may use another stream.
        stream.wait()
    }

    /// Builds the multigrid method by aggregation for the matrix on which CG runs. Reuses the memory of the previous
    /// one.
    fn make_aggregated(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        let k = self.grids[0].k;
        let of = aggregated::CgMatrix {
            g: k.g,
            nodes: source.shape.grid.nodes(),
            m: source.m,
            schur: self.shape.schur.then_some([k.d, k.far]),
            row_sums: source.row_sums,
            center_max: f64::from_bits(source.findings.center_max),
        };
        let before = self.aggregated.take();
        let (made, same) = Aggregated::new(stream, &of, self.short(), before)?;
        if !same {
            self.recorded = None;
        }
        self.aggregated = Some(made);
        Ok(())
    }

    /// Replaces the levels by aggregation, for a solve that converges slowly with the levels. S1 is recomputed, because
    /// the later levels have overwritten the row sums.
    pub fn change_to_aggregation(&mut self, stream: &Stream, source: &mut Source) -> Result<()> {
        let rules = Rules {
            fine_nx: source.g.nx,
            fine_ny: source.g.ny,
            fine: source.g,
            center: source.m.center,
            findings: source.findings_at,
            format: self.format(),
            ..Rules::default()
        };
        source.sum_rows(stream, self.zero_row_sum)?;
        source.summed = false;
        if self.shape.schur {
            self.eliminate_first(stream, source, &rules)?;
        }
        self.make_aggregated(stream, source)?;
        self.recorded = None;
        self.record(stream, source)
    }

    /// Eliminates the red nodes of the first grid (level 1) and computes S1.
    fn eliminate_first(&self, stream: &Stream, source: &Source, rules: &Rules) -> Result<()> {
        let level = &self.grids[0];
        let rules = Rules { level: 1, ..on_level(rules, 1, &level.embedding) };
        let odd = LevelArgs { k: level.k, rules, exact: source.m.center, corners: 0, black: 0 };
        launch::eliminate_reds(stream, &odd)?;
        launch::form_skew(stream, &odd)?;
        let schur = SchurCenterArgs { k: level.k, center: source.m.center, schur: self.first.center };
        launch::schur_center(stream, &schur)
    }

    /// Eliminates the levels of all grids.
    fn eliminate(&self, stream: &Stream, source: &Source, rules: &Rules, compensate: bool) -> Result<()> {
        let (schur, m, nine_points) = (self.shape.schur, source.m, source.shape.nine_points);
        if !schur {
            let (k, format) = (self.grids[0].k, rules.format);
            let (nine_points, compensate) = (i32::from(nine_points), i32::from(compensate));
            launch::start_couplings(stream, &StartCouplingsArgs { k, m, format, nine_points, compensate })?;
        }
        for (q, level) in self.grids.iter().enumerate() {
            // The first elimination of a 5-point matrix drops no couplings, so couplings and centers are those of A.
            let exact = if q == 0 && schur { m.center } else { 0 };
            let black = i32::from(q > 0 || nine_points);
            let (k, even) = (level.k, on_level(rules, 2 * q + 2, &level.embedding));
            let odd = LevelArgs { k, rules: Rules { level: even.level - 1, ..even }, exact, corners: black, black };
            launch::eliminate_reds(stream, &odd)?;
            launch::form_skew(stream, &odd)?;
            launch::eliminate_dropped(stream, &LevelArgs { rules: even, ..odd })?;
            let next = self.grids.get(q + 1).map_or(Grid::default(), |l| l.k);
            let natural = if q + 1 < self.grids.len() { 0 } else { self.coarsest.natural };
            let (nx, ny) = (level.sweep.kept.nx, level.sweep.kept.ny);
            let ratio_index = if self.may_truncate_after(q) { q as i32 } else { -1 };
            launch::form_coarse(stream, &CoarseArgs { k, rules: even, next, natural, nx, ny, ratio_index })?;
        }
        if schur {
            let (k, center, schur) = (self.grids[0].k, m.center, self.first.center);
            launch::schur_center(stream, &SchurCenterArgs { k, center, schur })?;
        }
        Ok(())
    }

    /// Computes the inverse of the coarsest matrix. Errors in its pivots name `level`.
    fn invert_coarsest(&self, stream: &Stream, rules: &Rules, level: usize) -> Result<()> {
        let (grid, last) = (self.coarsest_grid, &self.grids[self.grids.len() - 1]);
        let rules = on_level(rules, level, &last.embedding.coarse(last.layout.grid));
        // The pivots of the coarsest system remain in double precision.
        let rules = Rules { format: Format::new(Storage::F64, 1.0), ..rules };
        let (nx, ny, n) = (grid.nx as i32, grid.ny as i32, grid.nodes() as i32);
        let CoarsestArrays { natural, lines, .. } = self.coarsest;
        let arguments = LinesArgs { rules, natural, nx, ny, n, step: 1, arrays: lines, unit: self.unit };
        let steps = 0..=arguments.lines().ilog2();
        let with = |k: u32| LinesArgs { step: 1 << k, ..arguments };
        steps.clone().try_for_each(|k| launch::eliminate_lines(stream, &with(k)))?;
        steps.rev().try_for_each(|k| launch::invert_lines(stream, &with(k)))
    }

    /// Decides from the findings of the eliminations how solves are executed, and prepares the means over singular
    /// components. `large`: whether the inverse of the coarsest system is too large for f32 (`MAX_RATIO_FOR_SHORT`).
    fn decide_execution(
        &mut self,
        stream: &Stream,
        found: &Findings,
        large: bool,
        components: &Components,
    ) -> Result<()> {
        if self.use_uniform(found) {
            self.recorded = None;
        }
        let wide = self.short() && large;
        let weak = |q: &usize| self.may_truncate_after(*q) && f64::from_bits(found.coupling[*q]) <= MAX_WEAK_RATIO;
        let used = (0..self.grids.len()).find(weak).map_or(self.grids.len(), |q| q + 1);
        let projects = self.projects(components);
        // The grouping of the steps into kernels depends on these values.
        if wide != self.wide_coarsest || used != self.used || projects {
            self.recorded = None;
            self.programs = Programs::default();
        }
        (self.wide_coarsest, self.used) = (wide, used);
        self.project(stream, components)
    }

    /// Returns whether means are needed for this matrix, or were needed for the previous matrix.
    fn projects(&self, components: &Components) -> bool {
        !(self.projection.is_empty() && components.singular() == 0)
    }

    /// Prepares the computation of means over singular components.
    fn project(&mut self, stream: &Stream, components: &Components) -> Result<()> {
        if self.projects(components) {
            // Recorded launches contain the addresses of the old means.
            self.recorded = None;
            let (layout, g) = (&self.grids[0].layout, self.grids[0].k.g);
            self.projection = Projection::default();
            self.projection = Projection::new(stream, layout, g, components, self.shape.schur)?;
        }
        Ok(())
    }

    /// Finds the tiles whose rows are equal. This function must not be called if pivots depend on the labels of
    /// components.
    fn find_uniform(&self, stream: &Stream, findings: Address) -> Result<()> {
        let looked_at = self.grids.iter().take(MOST_TESTED_GRIDS).take_while(|level| level.may_be_uniform()).count();
        let grids = &self.grids[..looked_at];
        for (q, level) in grids.iter().enumerate() {
            let (next, next_equal_rows) = grids.get(q + 1).map_or((Geometry::default(), 0), |l| (l.k.g, l.equal_rows));
            let count = findings + (offset_of!(Findings, uniform) + q * size_of::<u64>()) as u64;
            let Level { equal_rows, uniform, k, .. } = *level;
            launch::uniform(stream, &UniformArgs { g: k.g, equal_rows, uniform, count, next, next_equal_rows })?;
        }
        Ok(())
    }

    /// Lets sweeps read one row per tile with equal rows, on grids where this is faster. Returns whether the setting of
    /// a grid has changed.
    fn use_uniform(&mut self, findings: &Findings) -> bool {
        let mut has_changed = false;
        for (q, level) in self.grids.iter_mut().enumerate() {
            let (tiles, found) = (level.k.g.tiles_and_patches().0, findings.uniform.get(q).copied().unwrap_or(0));
            let worth = if uniform_option_is("all") { 0.0 } else { MIN_UNIFORM_FRACTION };
            let address = if found > 0 && found as f64 >= worth * tiles as f64 { level.uniform } else { 0 };
            has_changed |= level.k.g.uniform != address;
            (level.k.g.uniform, level.sweep.g.uniform) = (address, address);
        }
        self.first.g.uniform = self.grids[0].k.g.uniform;
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
        let (grid, places) = (self.coarsest_grid, self.coarsest);
        let (natural, invert) = match &mut self.coarsest_solver {
            CoarsestSolver::Inverse => return Ok(None),
            CoarsestSolver::InverseFromHost(natural) => (natural, true),
            CoarsestSolver::Host(natural) => (natural, false),
        };
        let n = grid.nodes();
        let mut values: Vec<f64> = zeroed(5 * n, "the coarsest system")?;
        stream.fetch(&mut values, places.natural)?;
        stream.wait()?;
        let input = natural.input();
        let targets =
            [&mut input.diagonal, &mut input.east, &mut input.north, &mut input.northeast, &mut input.northwest];
        for (target, values) in targets.into_iter().zip(values.chunks_exact(n)) {
            for (j, row) in values.chunks_exact(grid.nx).enumerate() {
                target[ring_index(grid.nx, 0, j)..][..grid.nx].copy_from_slice(row);
            }
        }
        // Largest center c_i = s_i - sum_j a_ij; the fetched diagonal contains the row sums s_i.
        let (mut largest, mut center) = (0.0f64, 0.0f64);
        for (i, j) in (0..n).map(|k| (k % grid.nx, k / grid.nx)) {
            let (c, up) = (ring_index(grid.nx, i, j), ring_stride(grid.nx));
            let straight = (input.east[c] + input.east[c - 1]) + (input.north[c] + input.north[c - up]);
            let up_right = input.northeast[c] + input.northeast[c - up - 1];
            let up_left = input.northwest[c] + input.northwest[c - up + 1];
            center = center.max(input.diagonal[c] - straight - (up_right + up_left));
        }
        let fetched = HostCopies::new(stream, a)?;
        let host = fetched.as_ref().map(|f| f.view(a));
        let context = PivotContext::new(host.as_ref().unwrap_or(a), components);
        natural.factorize(setup, &context, None)?;
        if invert {
            let mut inverse: Vec<f64> = zeroed(n * n, "the inverse of the coarsest system")?;
            // Column k is the solution for unit vector k. The largest entry of the inverse is on its diagonal, because
            // the inverse is positive definite.
            for (k, column) in inverse.chunks_exact_mut(n).enumerate() {
                let z = &mut natural.grids[0].z;
                z.fill(0.0);
                z[ring_index(grid.nx, k % grid.nx, k / grid.nx)] = 1.0;
                natural.apply();
                gather(&natural.grids[0].z, grid.nx, column);
                largest = largest.max(column[k]);
                column.iter_mut().for_each(|v| *v *= setup.unit);
            }
            // The computed columns are also the rows, because the inverse is symmetric.
            stream.send(places.lines.inverse, &inverse)?;
            if places.lines.inverse_f32 != 0 {
                let narrow = collected(inverse.iter().map(|v| *v as f32), "the inverse of the coarsest system")?;
                stream.send(places.lines.inverse_f32, &narrow)?;
                stream.wait()?;
            }
            stream.wait()?;
        }
        Ok(Some([largest, center]))
    }

    /// Returns the error for the rejected pivot with the given key (`Findings::bad_pivot`). The kernels have stored the
    /// pivot and its center in place of its inverse and row sum (kernels/rrb/setup.cuh). In the coarsest system, only
    /// the pivot is stored, and the error reports it as the center, too.
    fn bad_pivot(&self, stream: &Stream, key: u64, nx: usize) -> Result<Error> {
        let (level, node) = ((key >> 40) as usize, (key & ((1 << 40) - 1)) as usize);
        let (i, j) = (node % nx, node / nx);
        let (mut d, mut center) = ([f64::NAN], [f64::NAN]);
        if let Some(at) = self.grids.get((level - 1) / 2) {
            let (colour, index) = at.place_of(i, j);
            let entry = 8 * (colour as usize * at.k.g.plane as usize + index) as u64;
            stream.fetch(&mut d, at.k.h + entry)?;
            stream.fetch(&mut center, at.k.row_sums + entry)?;
            stream.wait()?;
        } else {
            let last = &self.grids[self.grids.len() - 1];
            let e = last.embedding.coarse(last.layout.grid);
            let (ci, cj) = ((i - e.x0) / e.step, (j - e.y0) / e.step);
            let grid = self.coarsest_grid;
            let k = if grid.nx <= grid.ny { cj * grid.nx + ci } else { ci * grid.ny + cj };
            stream.fetch(&mut d, self.coarsest.lines.inverse_pivot + 8 * k as u64)?;
            stream.wait()?;
            center = d;
        }
        if self.short() && d[0] > f64::EPSILON * center[0] && d[0].is_finite() {
            return Ok(crate::rrb::backend::underflowing_pivot(d[0], self.unit, level, i, j));
        }
        Ok(crate::rrb::backend::rejected_pivot(d[0], center[0], level, i, j))
    }
}

impl Level {
    /// Returns whether tiles with equal rows are searched on this grid. They save no time on a grid with at most one
    /// tile per thread block.
    fn may_be_uniform(&self) -> bool {
        self.k.g.tiles_and_patches().0 > MOST_BLOCKS as usize || uniform_option_is("all")
    }

    /// Returns the colour of a node and its index in the plane of this colour. (i, j) are its indices on the finest
    /// grid.
    fn place_of(&self, i: usize, j: usize) -> (Colour, usize) {
        let e = &self.embedding;
        place_in(&self.layout, self.k.g.stride as usize, (i - e.x0) / e.step, (j - e.y0) / e.step)
    }
}

/// Returns the colour of node (i, j) and its index in the plane of this colour. `stride` is the distance between rows
/// in values.
pub fn place_in(l: &Layout, stride: usize, i: usize, j: usize) -> (Colour, usize) {
    let (ii, jj) = (i + l.shift_x, j + l.shift_y);
    let colour = match (ii % 2, jj % 2) {
        (1, 1) => Colour::B2,
        (0, 1) => Colour::R1,
        (1, 0) => Colour::R2,
        _ => Colour::B1,
    };
    (colour, (jj / 2 + 1) * stride + l.block + ii / 2)
}

/// Copies values from an array with a ring of zeros to an array without a ring.
fn gather(ringed: &[f64], nx: usize, values: &mut [f64]) {
    for (j, row) in values.chunks_exact_mut(nx).enumerate() {
        row.copy_from_slice(&ringed[ring_index(nx, 0, j)..][..nx]);
    }
}
