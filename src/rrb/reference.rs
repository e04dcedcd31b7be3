//! Reference implementation of RRB-PCG, with vectors and matrices in natural storage.

use crate::base::engine::Engine;
use crate::base::team::Team;
use crate::error::{Error, Result, zeroed};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::cpu::chunks::Chunks;
use crate::krylov::cpu::means::Singular;
use crate::krylov::cpu::steps::{PCG_VECTORS, System, ThreadState};
use crate::krylov::cpu::workspace::{Lines, Workspace};
use crate::krylov::pcg::{Means, OtherPreconditioner, Properties};
use crate::krylov::solve_steps::{Arrays, Eliminated, Program};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{PivotContext, Report, RrbBackend, Setup};
use crate::rrb::natural::{NaturalLevels, black_nodes, black_parity, red_nodes};
use crate::rrb::recursion::{Cycle, Kind};
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
const CHUNK: usize = 1024;

/// Matrix and factorization. All arrays have a ring of zeros around the grid.
struct State {
    grid: Grid,
    /// Parameters that determine the sizes of the arrays: number of levels, whether CG runs on S1, and the cycle.
    shape: (usize, bool, Cycle),
    /// Indices of all nodes, of the red nodes, and of the unknowns of CG (the black nodes with S1, otherwise all
    /// nodes).
    all_nodes: Vec<usize>,
    red: Vec<usize>,
    system: Vec<usize>,
    /// The matrix A; `diagonal` contains the centers.
    matrix: HalfStencil,
    /// S1 on black nodes. `northeast` and `northwest`: couplings along the grid diagonals; `east` and `north`:
    /// couplings at distance two.
    schur: HalfStencil,
    levels: NaturalLevels,
    singular: Singular<usize>,
}

/// Returns the indices of nodes in arrays with a ring.
fn places(grid: Grid, nodes: impl Iterator<Item = (usize, usize)> + Clone) -> Result<Vec<usize>> {
    let mut places = zeroed(nodes.clone().count(), "node indices")?;
    for (index, (i, j)) in places.iter_mut().zip(nodes) {
        *index = ring_index(grid.nx, i, j);
    }
    Ok(places)
}

/// Allocates the vectors of CG.
fn vectors(grid: Grid) -> Result<Workspace> {
    let stride = ring_stride(grid.nx);
    let chunks = Chunks { rows: ring_len(grid), chunk: stride * CHUNK.div_ceil(stride) };
    let lines = Lines { count: grid.ny, len: grid.nx, first: ring_index(grid.nx, 0, 0), stride };
    let mut vectors = Workspace::new(chunks, lines)?;
    vectors.reserve(PCG_VECTORS)?;
    Ok(vectors)
}

impl State {
    fn new(grid: Grid, shape: (usize, bool, Cycle)) -> Result<Self> {
        let (levels, schur, cycle) = shape;
        let red = places(grid, red_nodes(grid))?;
        let all_nodes = places(grid, black_nodes(grid).chain(red_nodes(grid)))?;
        let system = if schur {
            places(grid, black_nodes(grid))?
        } else {
            places(grid, black_nodes(grid).chain(red_nodes(grid)))?
        };
        Ok(Self {
            grid,
            shape,
            all_nodes,
            red,
            system,
            matrix: HalfStencil::zeroed(grid)?,
            schur: HalfStencil::zeroed(grid)?,
            levels: NaturalLevels::new(grid, Embedding::FINEST, 0, levels, &cycle, schur)?,
            singular: Singular::default(),
        })
    }

    fn schur(&self) -> bool {
        self.shape.1
    }

    fn copy_matrix(&mut self, a: &StencilView) {
        for j in 0..self.grid.ny {
            let first = ring_index(self.grid.nx, 0, j);
            let m = &mut self.matrix;
            let rows = [&mut m.diagonal, &mut m.east, &mut m.north, &mut m.northeast, &mut m.northwest];
            for (target, (_, start, values)) in rows.into_iter().zip(a.entries(j)) {
                target[first + start..][..values.len()].copy_from_slice(values);
                // The rest of the row may contain corner couplings of a previous matrix.
                target[first + start + values.len()..first + self.grid.nx].fill(0.0);
            }
        }
    }

    /// Finds the runs of nodes in singular components on the whole grid. If CG runs on S1, also finds their black
    /// nodes; each of them is a run of one node.
    fn find_singular(&mut self, vectors: &Workspace, components: &Components) -> Result<()> {
        let Workspace { chunks, lines, .. } = vectors;
        let (nx, black, schur) = (self.grid.nx, black_parity(self.grid), self.schur());
        self.singular.set(chunks.count(), components.singular(), schur, |chunk, on_black| {
            let lines = lines.within(&chunks.range(chunk), chunks.rows);
            let runs = lines.flat_map(|(j, _)| components.singular_runs(j).map(move |(run, of)| (j, run, of)));
            runs.flat_map(move |(j, run, component)| {
                let first = if on_black { run.start + (run.start + j + black) % 2 } else { run.start };
                let (step, len) = if on_black { (2, 1) } else { (run.len(), run.len()) };
                (first..run.end).step_by(step).map(move |i| (ring_index(nx, i, j), len, component))
            })
        })
    }

    /// Initializes the levels with A. With `compensate`, positive couplings are moved to the diagonal, which does not
    /// change the row sums. East and north couplings are rounded to the storage format, unless CG runs on S1.
    fn start_levels(&mut self, setup: &Setup) {
        let schur = self.schur();
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let m = self.levels.input();
        for (target, source, stored) in [
            (&mut m.east, &a.east, !schur),
            (&mut m.north, &a.north, !schur),
            (&mut m.northeast, &a.northeast, false),
            (&mut m.northwest, &a.northwest, false),
        ] {
            for (t, &s) in target.iter_mut().zip(source) {
                let coupling = if setup.compensate { s.min(0.0) } else { s };
                *t = if stored { setup.rounded(coupling) } else { coupling };
            }
        }
        for j in 0..self.grid.ny {
            for i in 0..self.grid.nx {
                let c = ring_index(self.grid.nx, i, j);
                let sum = (a.east[c - 1] + a.east[c]) + (a.north[c - n] + a.north[c]);
                let corners = (a.northeast[c] + a.northeast[c - n - 1]) + (a.northwest[c] + a.northwest[c - n + 1]);
                m.diagonal[c] = setup.row_sum(a.diagonal[c], sum + corners);
            }
        }
    }

    /// Computes the diagonal of S1 = D_b - A_br D_r^-1 A_rb (report 16-06, equation 2.9). The couplings of S1 are those
    /// of the skew stencil of the first level.
    fn form_schur_center(&mut self) {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let h = &self.levels.grids[0].inverse_pivot;
        for &c in &self.system {
            let term = |coupling: f64, red: usize| coupling * (coupling * h[red]);
            let along = term(a.east[c - 1], c - 1) + term(a.east[c], c + 1);
            let across = term(a.north[c - n], c - n) + term(a.north[c], c + n);
            self.schur.diagonal[c] = a.diagonal[c] - (along + across);
        }
    }

    /// Returns row c of A v.
    fn row_of_a(&self, v: &[f64], c: usize) -> f64 {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let straight =
            (a.east[c - 1] * v[c - 1] + a.east[c] * v[c + 1]) + (a.north[c - n] * v[c - n] + a.north[c] * v[c + n]);
        a.diagonal[c] * v[c] + (straight + corner_sum(a, v, c, n))
    }

    /// Returns row c of b - A v.
    fn residual_of_row(&self, b: &[f64], v: &[f64], c: usize) -> f64 {
        let (a, n) = (&self.matrix, ring_stride(self.grid.nx));
        let (northeast, northwest) = (&a.northeast, &a.northwest);
        let around = [
            (a.east[c - 1], v[c - 1]),
            (a.east[c], v[c + 1]),
            (a.north[c - n], v[c - n]),
            (a.north[c], v[c + n]),
            (northeast[c - n - 1], v[c - n - 1]),
            (northeast[c], v[c + n + 1]),
            (northwest[c - n + 1], v[c - n + 1]),
            (northwest[c], v[c + n - 1]),
        ];
        residual_of_row(b[c], a.diagonal[c], v[c], around.map(|near| near.0), around.map(|near| near.1))
    }

    /// Returns row c of S1 v or of A v, depending on the matrix on which CG runs.
    fn row_of_system(&self, v: &[f64], c: usize) -> f64 {
        if !self.schur() {
            return self.row_of_a(v, c);
        }
        let (s, n) = (&self.schur, ring_stride(self.grid.nx));
        let distant = (s.east[c - 2] * v[c - 2] + s.east[c] * v[c + 2])
            + (s.north[c - 2 * n] * v[c - 2 * n] + s.north[c] * v[c + 2 * n]);
        s.diagonal[c] * v[c] + (distant + corner_sum(s, v, c, n))
    }

    /// Returns row c of A_rb v_b for a red node c.
    fn straight_sum(&self, v: &[f64], c: usize) -> f64 {
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
        let shape = (setup.levels, setup.on_schur_complement(a), setup.cycle);
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
            None => self.vectors.insert(vectors(a.grid)?),
        };
        state.find_singular(vectors, components)?;
        state.start_levels(setup);
        let context = PivotContext::new(a, components);
        let schur = state.schur();
        let exact = schur.then_some((&state.matrix.diagonal[..], &mut state.schur));
        let result = state.levels.factorize(setup, &context, exact);
        if result.is_ok() && state.schur() {
            state.form_schur_center();
        }
        self.state = Some(state);
        result
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let (Some(team), Some(state), Some(vectors)) = (&mut self.team, &mut self.state, &mut self.vectors) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        vectors.observed.begin(observer);
        let caller = CallerArrays::new(arrays, usize::MAX);
        let shared = &*vectors;
        let result =
            team.run(|_| (), |me| program(&mut ThreadState::new(shared, &mut *state, me, &caller, Some(observer))))?;
        if Outcome::may_leave_infinities(&result) {
            // The vectors, including their rings, may contain infinities. Products multiply ring values by zero
            // couplings. Since 0 * inf is NaN, an infinity would spread in the next run.
            state.levels.clear_vectors();
            vectors.clear();
        }
        result
    }

    fn report(&self) -> Report {
        Report { kind: self.state.as_ref().map_or(Kind::V, |s| s.levels.recursion().kind), ..Report::PLAIN }
    }
}

impl Engine for Reference {
    fn bytes(&self) -> [usize; 2] {
        let of_state = |s: &State| {
            8 * (10 * ring_len(s.grid) + s.all_nodes.len() + s.red.len() + s.system.len())
                + s.singular.bytes()
                + s.levels.bytes()
        };
        [self.state.as_ref().map_or(0, of_state) + self.vectors.as_ref().map_or(0, Workspace::bytes), 0]
    }
}

impl System for &mut State {
    fn properties(&self) -> Properties {
        Properties { eliminates: self.schur(), ..Properties::default() }
    }

    fn product(m: &mut ThreadState<'_, Self>, from: VectorId, to: VectorId) {
        m.write(to, [from], |k, to, [values]| {
            if from == VectorId::B {
                k.all_nodes.iter().for_each(|&c| to[c] = k.row_of_a(values, c));
            } else {
                k.system.iter().for_each(|&c| to[c] = k.row_of_system(values, c));
            }
        });
    }

    fn precondition(m: &mut ThreadState<'_, Self>) {
        m.combine(VectorId::Z, 0.0, &[(1.0, VectorId::R)]);
        let z = m.vector(VectorId::Z);
        let center = |m: &ThreadState<'_, Self>| {
            m.system.singular.system().change_means(m.me, &m.own_chunks(), z, Means::Subtract);
        };
        center(m);
        m.write(VectorId::Z, [], |k, z, []| {
            let State { system, levels, .. } = &mut **k;
            system.iter().for_each(|&c| levels.grids[0].z[c] = z[c]);
            levels.apply();
            system.iter().for_each(|&c| z[c] = levels.grids[0].z[c]);
        });
        center(m);
    }

    fn residual(m: &mut ThreadState<'_, Self>, of: Iterate) -> f64 {
        m.write(VectorId::R, [VectorId::B, VectorId::X], |k, r, [b, x]| {
            for &c in &k.system {
                r[c] = match of {
                    Iterate::Zero => b[c],
                    Iterate::X if k.schur() => b[c] - k.row_of_system(x, c),
                    Iterate::X => k.residual_of_row(b, x, c),
                };
            }
        });
        m.inner(VectorId::R, VectorId::R)
    }

    fn whole_residual_norm2(m: &mut ThreadState<'_, Self>) -> f64 {
        let (k, [b, x]) = (&m.system, m.values([VectorId::B, VectorId::X]));
        let residuals = k.all_nodes.iter().map(|&c| k.residual_of_row(b, x, c));
        residuals.map(|r| r * r).sum()
    }

    fn reduce(m: &mut ThreadState<'_, Self>, what: Eliminated) -> f64 {
        if !m.system.schur() {
            return 0.0;
        }
        m.write(VectorId::B, [VectorId::X], |k, b, [x]| {
            if what == Eliminated::Residual {
                k.all_nodes.iter().for_each(|&c| b[c] = k.residual_of_row(b, x, c));
            }
            let (a, h, n) = (&k.matrix, &k.levels.grids[0].inverse_pivot, ring_stride(k.grid.nx));
            for &c in &k.system {
                let y = |red: usize| h[red] * b[red];
                let along = a.east[c - 1] * y(c - 1) + a.east[c] * y(c + 1);
                let across = a.north[c - n] * y(c - n) + a.north[c] * y(c + n);
                b[c] -= along + across;
            }
            k.red.iter().map(|&c| b[c] * b[c] / k.matrix.diagonal[c]).sum()
        })
    }

    fn back_substitute(m: &mut ThreadState<'_, Self>) {
        if m.system.schur() {
            m.write(VectorId::X, [VectorId::B], |k, x, [b]| {
                k.red.iter().for_each(|&c| x[c] = (b[c] - k.straight_sum(x, c)) / k.matrix.diagonal[c]);
            });
        }
    }

    fn means(m: &mut ThreadState<'_, Self>, v: VectorId, to: Means) {
        m.system.singular.whole.change_means(m.me, &m.own_chunks(), m.vector(v), to);
    }

    fn weighted_square_of_means(m: &mut ThreadState<'_, Self>) -> f64 {
        let center = |c: usize, len: usize| &m.system.matrix.diagonal[c..][..len];
        m.system.singular.system().weighted_square_of_means(m.me, &m.own_chunks(), m.vector(VectorId::R), center)
    }

    fn worst_incompatibility(m: &mut ThreadState<'_, Self>) -> (usize, f64, f64) {
        m.system.singular.whole.worst(m.me, &m.own_chunks(), m.vector(VectorId::B))
    }

    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        matches!(to, OtherPreconditioner::Definite) && self.levels.fall_back()
    }
}
