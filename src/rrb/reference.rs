//! Reference implementation of RRB-PCG, with vectors and matrices in natural storage.

use crate::base::engine::Engine;
use crate::base::team::Team;
use crate::error::{Error, Result, zeroed};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::cpu::chunks::Chunks;
use crate::krylov::cpu::means::SingularComponents;
use crate::krylov::cpu::steps::{PCG_VECTORS, System, ThreadState};
use crate::krylov::cpu::workspace::{Lines, Workspace};
use crate::krylov::pcg::{MeansChange, OtherPreconditioner, Properties};
use crate::krylov::solve_steps::{Arrays, EliminatedVector, Program};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{PivotContext, Report, RrbBackend, Setup};
use crate::rrb::natural::{NaturalLevels, black_nodes, black_parity, red_nodes};
use crate::rrb::recursion::{Cycle, CycleKind};
use crate::stencil::components::Components;
use crate::stencil::levels::{Embedding, Grid};
use crate::stencil::matrix::{HalfStencil, StencilView, ring_index, ring_len, ring_stride};
use crate::stencil::residual::residual_of_row;

/// Backend `reference` of the family `rrb_`.
#[derive(Default)]
pub struct Reference {
    /// A team of one thread.
    team: Option<Team>,
    state: Option<State>,
    /// Vectors of CG. They have a ring of zeros around the grid. If CG runs on S1, r, p, q and z are zero on red nodes.
    vectors: Option<Workspace>,
}

/// Minimum number of values of a chunk, which consists of whole rows.
const MIN_CHUNK_VALUES: usize = 1024;

/// Matrix and factorization. All arrays have a ring of zeros around the grid.
struct State {
    grid: Grid,
    /// Parameters that determine the sizes of the arrays: number of levels, whether CG runs on S1, and the cycle.
    shape: (usize, bool, Cycle),
    /// Indices of all nodes, of the red nodes, and of the unknowns of CG (the black nodes with S1, otherwise all
    /// nodes).
    all_nodes: Vec<usize>,
    red_nodes: Vec<usize>,
    unknowns: Vec<usize>,
    /// The matrix A; `diagonal` contains the centers.
    matrix: HalfStencil,
    /// S1 on black nodes. `northeast` and `northwest`: couplings along the grid diagonals; `east` and `north`:
    /// couplings at distance two.
    schur_complement: HalfStencil,
    levels: NaturalLevels,
    singular: SingularComponents<usize>,
}

/// Returns the indices of nodes in arrays with a ring.
fn node_indices(grid: Grid, nodes: impl Iterator<Item = (usize, usize)> + Clone) -> Result<Vec<usize>> {
    let mut node_indices = zeroed(nodes.clone().count(), "node indices")?;
    for (index, (i, j)) in node_indices.iter_mut().zip(nodes) {
        *index = ring_index(grid.nx, i, j);
    }
    Ok(node_indices)
}

/// Allocates the vectors of CG.
fn allocate_vectors(grid: Grid) -> Result<Workspace> {
    let stride = ring_stride(grid.nx);
    let chunks = Chunks { rows: ring_len(grid), chunk_rows: stride * MIN_CHUNK_VALUES.div_ceil(stride) };
    let lines = Lines { count: grid.ny, len: grid.nx, first_index: ring_index(grid.nx, 0, 0), stride };
    let mut vectors = Workspace::new(chunks, lines)?;
    vectors.reserve_vectors(PCG_VECTORS)?;
    Ok(vectors)
}

impl State {
    fn new(grid: Grid, shape: (usize, bool, Cycle)) -> Result<Self> {
        let (levels, uses_schur, cycle) = shape;
        let red_indices = node_indices(grid, red_nodes(grid))?;
        let all_nodes = node_indices(grid, black_nodes(grid).chain(red_nodes(grid)))?;
        let unknowns = if uses_schur {
            node_indices(grid, black_nodes(grid))?
        } else {
            node_indices(grid, black_nodes(grid).chain(red_nodes(grid)))?
        };
        Ok(Self {
            grid,
            shape,
            all_nodes,
            red_nodes: red_indices,
            unknowns,
            matrix: HalfStencil::zeroed(grid)?,
            schur_complement: HalfStencil::zeroed(grid)?,
            levels: NaturalLevels::new(grid, Embedding::FINEST, 0, levels, &cycle, uses_schur)?,
            singular: SingularComponents::default(),
        })
    }

    fn uses_schur(&self) -> bool {
        self.shape.1
    }

    fn copy_matrix(&mut self, a: &StencilView) {
        for j in 0..self.grid.ny {
            let row_start = ring_index(self.grid.nx, 0, j);
            let matrix = &mut self.matrix;
            let rows = [
                &mut matrix.diagonal,
                &mut matrix.east,
                &mut matrix.north,
                &mut matrix.northeast,
                &mut matrix.northwest,
            ];
            for (target, (_, offset, values)) in rows.into_iter().zip(a.entries(j)) {
                target[row_start + offset..][..values.len()].copy_from_slice(values);
                // The rest of the row may contain corner couplings of a previous matrix.
                target[row_start + offset + values.len()..row_start + self.grid.nx].fill(0.0);
            }
        }
    }

    /// Lists the nodes of singular components on the whole grid as runs of consecutive nodes in a row. If CG runs on
    /// S1, also lists the black nodes of these components, each as a run of one node.
    fn find_singular(&mut self, vectors: &Workspace, components: &Components) -> Result<()> {
        let Workspace { chunks, lines, .. } = vectors;
        let (nx, black_parity_of_grid, uses_schur) = (self.grid.nx, black_parity(self.grid), self.uses_schur());
        self.singular.set_labels(chunks.count(), components.projected_count(), uses_schur, |chunk, only_black| {
            let lines = lines.lines_within(&chunks.range(chunk), chunks.rows);
            let runs =
                lines.flat_map(|(j, _)| components.singular_runs(j).map(move |(run, component)| (j, run, component)));
            runs.flat_map(move |(j, run, component)| {
                let first_column =
                    if only_black { run.start + (run.start + j + black_parity_of_grid) % 2 } else { run.start };
                let (step, len) = if only_black { (2, 1) } else { (run.len(), run.len()) };
                (first_column..run.end).step_by(step).map(move |i| (ring_index(nx, i, j), len, component))
            })
        })
    }

    /// Initializes the matrix of the first grid with A. With `Setup::compensates_positive_couplings`, positive
    /// couplings become zero, and are added to the centers, so that the row sums do not change. East and north
    /// couplings are rounded to the storage format, unless CG runs on S1.
    fn start_levels(&mut self, setup: &Setup) {
        let uses_schur = self.uses_schur();
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let level_matrix = self.levels.input_matrix();
        for (target, source, is_rounded) in [
            (&mut level_matrix.east, &a.east, !uses_schur),
            (&mut level_matrix.north, &a.north, !uses_schur),
            (&mut level_matrix.northeast, &a.northeast, false),
            (&mut level_matrix.northwest, &a.northwest, false),
        ] {
            for (entry, &coupling) in target.iter_mut().zip(source) {
                let coupling = if setup.compensates_positive_couplings { coupling.min(0.0) } else { coupling };
                *entry = if is_rounded { setup.rounded(coupling) } else { coupling };
            }
        }
        for j in 0..self.grid.ny {
            for i in 0..self.grid.nx {
                let c = ring_index(self.grid.nx, i, j);
                let axis_sum = (a.east[c - 1] + a.east[c]) + (a.north[c - n] + a.north[c]);
                let corner_sum = (a.northeast[c] + a.northeast[c - n - 1]) + (a.northwest[c] + a.northwest[c - n + 1]);
                level_matrix.diagonal[c] = setup.row_sum(a.diagonal[c], axis_sum + corner_sum);
            }
        }
    }

    /// Computes the diagonal of S1 = D_b - A_br D_r^-1 A_rb (report 16-06, equation 2.9). The couplings of S1 are those
    /// of the skew stencil of the first level.
    fn form_schur_center(&mut self) {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let h = &self.levels.grids[0].inverse_pivot;
        for &c in &self.unknowns {
            let term = |coupling: f64, red: usize| coupling * (coupling * h[red]);
            let east_west = term(a.east[c - 1], c - 1) + term(a.east[c], c + 1);
            let north_south = term(a.north[c - n], c - n) + term(a.north[c], c + n);
            self.schur_complement.diagonal[c] = a.diagonal[c] - (east_west + north_south);
        }
    }

    /// Returns row c of A v.
    fn multiply_row(&self, v: &[f64], c: usize) -> f64 {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let axis_sum =
            (a.east[c - 1] * v[c - 1] + a.east[c] * v[c + 1]) + (a.north[c - n] * v[c - n] + a.north[c] * v[c + n]);
        a.diagonal[c] * v[c] + (axis_sum + corner_sum(a, v, c, n))
    }

    /// Returns row c of b - A v.
    fn residual_of_row(&self, b: &[f64], v: &[f64], c: usize) -> f64 {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let (northeast, northwest) = (&a.northeast, &a.northwest);
        let neighbours = [
            (a.east[c - 1], v[c - 1]),
            (a.east[c], v[c + 1]),
            (a.north[c - n], v[c - n]),
            (a.north[c], v[c + n]),
            (northeast[c - n - 1], v[c - n - 1]),
            (northeast[c], v[c + n + 1]),
            (northwest[c - n + 1], v[c - n + 1]),
            (northwest[c], v[c + n - 1]),
        ];
        residual_of_row(
            b[c],
            a.diagonal[c],
            v[c],
            neighbours.map(|neighbour| neighbour.0),
            neighbours.map(|neighbour| neighbour.1),
        )
    }

    /// Returns row c of S1 v if CG runs on S1, and otherwise row c of A v.
    fn multiply_system_row(&self, v: &[f64], c: usize) -> f64 {
        if !self.uses_schur() {
            return self.multiply_row(v, c);
        }
        let (s, n) = (&self.schur_complement, ring_stride(self.grid.nx));
        let distant_sum = (s.east[c - 2] * v[c - 2] + s.east[c] * v[c + 2])
            + (s.north[c - 2 * n] * v[c - 2 * n] + s.north[c] * v[c + 2 * n]);
        s.diagonal[c] * v[c] + (distant_sum + corner_sum(s, v, c, n))
    }

    /// Returns row c of A_rb v_b for a red node c.
    fn axis_sum(&self, v: &[f64], c: usize) -> f64 {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        (a.east[c - 1] * v[c - 1] + a.east[c] * v[c + 1]) + (a.north[c - n] * v[c - n] + a.north[c] * v[c + n])
    }
}

fn corner_sum(a: &HalfStencil, v: &[f64], c: usize, n: usize) -> f64 {
    (a.northeast[c - n - 1] * v[c - n - 1] + a.northeast[c] * v[c + n + 1])
        + (a.northwest[c - n + 1] * v[c - n + 1] + a.northwest[c] * v[c + n - 1])
}

impl RrbBackend for Reference {
    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        let shape = (setup.levels, setup.uses_schur_complement(a), setup.cycle);
        let mut state = match self.state.take() {
            Some(state) if state.shape == shape => state,
            _ => {
                self.vectors = None;
                State::new(a.grid, shape)?
            }
        };
        state.copy_matrix(a);
        if self.team.is_none() {
            self.team = Some(Team::new(1)?);
        }
        let vectors = match self.vectors.take() {
            Some(vectors) => self.vectors.insert(vectors),
            None => self.vectors.insert(allocate_vectors(a.grid)?),
        };
        state.find_singular(vectors, components)?;
        state.start_levels(setup);
        let context = PivotContext::new(a, components);
        let uses_schur = state.uses_schur();
        let schur_data = uses_schur.then_some((&state.matrix.diagonal[..], &mut state.schur_complement));
        let result = state.levels.factorize(setup, &context, schur_data);
        if result.is_ok() && state.uses_schur() {
            state.form_schur_center();
        }
        self.state = Some(state);
        result
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let (Some(team), Some(state), Some(vectors)) = (&mut self.team, &mut self.state, &mut self.vectors) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        vectors.run_state.begin_run(observer);
        let caller = CallerArrays::new(arrays, usize::MAX);
        let shared_vectors = &*vectors;
        let result = team.run(
            |_| (),
            |thread| program(&mut ThreadState::new(shared_vectors, &mut *state, thread, &caller, Some(observer))),
        )?;
        if Outcome::may_leave_infinities(&result) {
            // The vectors, including their rings, may contain infinities. Products multiply ring values by zero
            // couplings. Since 0 * inf is NaN, an infinity would spread in the next run.
            state.levels.clear_vectors();
            vectors.clear_vectors();
        }
        result
    }

    fn report(&self) -> Report {
        Report {
            kind: self.state.as_ref().map_or(CycleKind::V, |state| state.levels.recursion().kind),
            ..Report::V_CYCLE
        }
    }
}

impl Engine for Reference {
    fn bytes(&self) -> [usize; 2] {
        let state_bytes = |state: &State| {
            8 * (10 * ring_len(state.grid) + state.all_nodes.len() + state.red_nodes.len() + state.unknowns.len())
                + state.singular.bytes()
                + state.levels.bytes()
        };
        [self.state.as_ref().map_or(0, state_bytes) + self.vectors.as_ref().map_or(0, Workspace::bytes), 0]
    }
}

impl System for &mut State {
    fn properties(&self) -> Properties {
        Properties { eliminates_red: self.uses_schur(), ..Properties::default() }
    }

    fn multiply_vector(thread_state: &mut ThreadState<'_, Self>, source: VectorId, target: VectorId) {
        thread_state.with_vectors(target, [source], |state, target, [values]| {
            if source == VectorId::B {
                state.all_nodes.iter().for_each(|&c| target[c] = state.multiply_row(values, c));
            } else {
                state.unknowns.iter().for_each(|&c| target[c] = state.multiply_system_row(values, c));
            }
        });
    }

    fn precondition(thread_state: &mut ThreadState<'_, Self>) {
        thread_state.combine(VectorId::Z, 0.0, &[(1.0, VectorId::R)]);
        let z = thread_state.vector(VectorId::Z);
        let subtract_means = |thread_state: &ThreadState<'_, Self>| {
            thread_state.system.singular.on_unknowns().change_means(
                thread_state.thread,
                &thread_state.own_chunks(),
                z,
                MeansChange::Subtract,
            );
        };
        subtract_means(thread_state);
        thread_state.with_vectors(VectorId::Z, [], |state, z, []| {
            let State { unknowns, levels, .. } = &mut **state;
            unknowns.iter().for_each(|&c| levels.grids[0].z[c] = z[c]);
            levels.apply();
            unknowns.iter().for_each(|&c| z[c] = levels.grids[0].z[c]);
        });
        subtract_means(thread_state);
    }

    fn residual(thread_state: &mut ThreadState<'_, Self>, iterate: Iterate) -> f64 {
        thread_state.with_vectors(VectorId::R, [VectorId::B, VectorId::X], |state, r, [b, x]| {
            for &c in &state.unknowns {
                r[c] = match iterate {
                    Iterate::Zero => b[c],
                    Iterate::X if state.uses_schur() => b[c] - state.multiply_system_row(x, c),
                    Iterate::X => state.residual_of_row(b, x, c),
                };
            }
        });
        thread_state.inner_product(VectorId::R, VectorId::R)
    }

    fn whole_residual_norm2(thread_state: &mut ThreadState<'_, Self>) -> f64 {
        let (state, [b, x]) = (&thread_state.system, thread_state.vector_values([VectorId::B, VectorId::X]));
        let residuals = state.all_nodes.iter().map(|&c| state.residual_of_row(b, x, c));
        residuals.map(|r| r * r).sum()
    }

    fn reduce(thread_state: &mut ThreadState<'_, Self>, eliminated_vector: EliminatedVector) -> f64 {
        if !thread_state.system.uses_schur() {
            return 0.0;
        }
        thread_state.with_vectors(VectorId::B, [VectorId::X], |state, b, [x]| {
            if eliminated_vector == EliminatedVector::Residual {
                state.all_nodes.iter().for_each(|&c| b[c] = state.residual_of_row(b, x, c));
            }
            let (a, h, n) = (&state.matrix, &state.levels.grids[0].inverse_pivot, ring_stride(state.grid.nx));
            for &c in &state.unknowns {
                let scaled_rhs = |red: usize| h[red] * b[red];
                let east_west = a.east[c - 1] * scaled_rhs(c - 1) + a.east[c] * scaled_rhs(c + 1);
                let north_south = a.north[c - n] * scaled_rhs(c - n) + a.north[c] * scaled_rhs(c + n);
                b[c] -= east_west + north_south;
            }
            state.red_nodes.iter().map(|&c| b[c] * b[c] / state.matrix.diagonal[c]).sum()
        })
    }

    fn back_substitute(thread_state: &mut ThreadState<'_, Self>) {
        if thread_state.system.uses_schur() {
            thread_state.with_vectors(VectorId::X, [VectorId::B], |state, x, [b]| {
                state.red_nodes.iter().for_each(|&c| x[c] = (b[c] - state.axis_sum(x, c)) / state.matrix.diagonal[c]);
            });
        }
    }

    fn change_means(thread_state: &mut ThreadState<'_, Self>, v: VectorId, change: MeansChange) {
        thread_state.system.singular.all_nodes.change_means(
            thread_state.thread,
            &thread_state.own_chunks(),
            thread_state.vector(v),
            change,
        );
    }

    fn weighted_square_of_means(thread_state: &mut ThreadState<'_, Self>) -> f64 {
        let centers = |c: usize, len: usize| &thread_state.system.matrix.diagonal[c..][..len];
        thread_state.system.singular.on_unknowns().weighted_square_of_means(
            thread_state.thread,
            &thread_state.own_chunks(),
            thread_state.vector(VectorId::R),
            centers,
        )
    }

    fn worst_incompatibility(thread_state: &mut ThreadState<'_, Self>) -> (usize, f64, f64) {
        thread_state.system.singular.all_nodes.find_worst_label(
            thread_state.thread,
            &thread_state.own_chunks(),
            thread_state.vector(VectorId::B),
        )
    }

    fn change_preconditioner(&mut self, choice: OtherPreconditioner) -> bool {
        matches!(choice, OtherPreconditioner::Definite) && self.levels.fall_back()
    }
}
