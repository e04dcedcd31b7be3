//! Reference implementation of RRB-PCG over natural storage.

use super::singular::Singular;
use crate::backend::coarse::levels::{NaturalLevels, black_nodes, red_nodes};
use crate::backend::residual::residual_of_row;
use crate::backend::steps::cycle::{Cycle, Kind};
use crate::backend::steps::engine::Engine;
use crate::backend::steps::pcg::{Another, Means, PcgSteps, Properties};
use crate::backend::steps::rrb::{PivotContext, Report, RrbBackend, Setup};
use crate::backend::steps::solve::{Arrays, Criterion, Eliminated, Inputs, Load, LoadNorms, Program, SolveSteps};
use crate::backend::steps::vectors::{Iterate, VectorId, VectorSteps, linear};
use crate::error::{Error, Result, zeroed};
use crate::grid::components::Components;
use crate::grid::levels::{Embedding, Grid};
use crate::grid::stencil::{HalfStencil, StencilView, ring_index, ring_len, ring_stride};
use crate::report::{Event, Observer, Outcome};
use crate::runtime::reduce::max_abs;

/// Backend `reference` of the family `rrb_`.
#[derive(Default)]
pub struct Reference {
    state: Option<State>,
}

/// Matrix, factorization and vectors. All arrays have a ring of zeros around the grid.
struct State {
    grid: Grid,
    /// Number of levels, whether CG runs on S1, and the cycle. They determine the sizes of the arrays.
    shape: (usize, bool, Cycle),
    /// Indices of all nodes, of the red nodes, and of the nodes on which CG works (black nodes with S1, else all).
    everywhere: Vec<usize>,
    red: Vec<usize>,
    system: Vec<usize>,
    /// A, with the diagonal in `diagonal`.
    matrix: HalfStencil,
    /// S1 on black nodes. `northeast` and `northwest`: couplings along the grid diagonals; `east` and `north`:
    /// couplings at distance two.
    schur: HalfStencil,
    levels: NaturalLevels,
    singular: Singular,
    b: Vec<f64>,
    x: Vec<f64>,
    r: Vec<f64>,
    p: Vec<f64>,
    q: Vec<f64>,
}

/// Returns the indices of nodes in arrays with a ring.
fn places(grid: Grid, nodes: impl Iterator<Item = (usize, usize)> + Clone) -> Result<Vec<usize>> {
    let mut places = zeroed(nodes.clone().count(), "node indices")?;
    for (place, (i, j)) in places.iter_mut().zip(nodes) {
        *place = ring_index(grid.nx, i, j);
    }
    Ok(places)
}

impl State {
    fn new(grid: Grid, shape: (usize, bool, Cycle)) -> Result<Self> {
        let (levels, schur, cycle) = shape;
        let array = || zeroed(ring_len(grid), "a vector");
        let red = places(grid, red_nodes(grid))?;
        let everywhere = places(grid, black_nodes(grid).chain(red_nodes(grid)))?;
        let system = if schur {
            places(grid, black_nodes(grid))?
        } else {
            places(grid, black_nodes(grid).chain(red_nodes(grid)))?
        };
        Ok(Self {
            grid,
            shape,
            everywhere,
            red,
            system,
            matrix: HalfStencil::zeroed(grid)?,
            schur: HalfStencil::zeroed(grid)?,
            levels: NaturalLevels::new(grid, Embedding::FINEST, 0, levels, &cycle, schur)?,
            singular: Singular::default(),
            b: array()?,
            x: array()?,
            r: array()?,
            p: array()?,
            q: array()?,
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
                // Clears the corners of a previous matrix that had corners.
                target[first + start + values.len()..first + self.grid.nx].fill(0.0);
            }
        }
    }

    /// Initializes the levels with A. With `compensate`, positive couplings are moved to the diagonal, which leaves the
    /// row sums unchanged. Straight couplings are rounded as they are stored, except with S1.
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
                *t = if stored { setup.kept(coupling) } else { coupling };
            }
        }
        for j in 0..self.grid.ny {
            for i in 0..self.grid.nx {
                let c = ring_index(self.grid.nx, i, j);
                let sum = (a.east[c - 1] + a.east[c]) + (a.north[c - n] + a.north[c]);
                let corners = (a.northeast[c] + a.northeast[c - n - 1]) + (a.northwest[c] + a.northwest[c - n + 1]);
                m.diagonal[c] = setup.excess(a.diagonal[c], sum + corners);
            }
        }
    }

    /// Computes the diagonal of S1 = D_b - A_br D_r^-1 A_rb (report 2.9). Its couplings are the skew stencil of the
    /// first level.
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

    /// Returns row c of b - A x.
    fn residual_of_row(&self, c: usize) -> f64 {
        let (a, v, n) = (&self.matrix, &self.x, ring_stride(self.grid.nx));
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
        residual_of_row(self.b[c], a.diagonal[c], v[c], around.map(|near| near.0), around.map(|near| near.1))
    }

    /// Returns row c of S1 v or A v, depending on the matrix on which CG works.
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
            _ => State::new(a.grid, shape)?,
        };
        state.copy_matrix(a);
        let labels = state.singular.reset(components.singular(), ring_len(a.grid))?;
        for j in 0..if components.singular() > 0 { a.grid.ny } else { 0 } {
            for (columns, component) in components.singular_runs(j) {
                labels[ring_index(a.grid.nx, columns.start, j)..][..columns.len()].fill(component as u32 + 1);
            }
        }
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
        let Some(state) = self.state.as_mut() else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        let result = program(&mut Run { s: state, arrays, observer });
        if Outcome::went_astray(&result) {
            // The recursions multiply ring values by zero. Since 0 * inf is NaN, an infinity would spread in the next
            // run.
            state.levels.clear_vectors();
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
            8 * (15 * s.b.len() + s.everywhere.len() + s.red.len() + s.system.len())
                + s.singular.bytes()
                + s.levels.bytes()
        };
        [self.state.as_ref().map_or(0, of_state), 0]
    }
}

/// A run: the state and the caller's arrays.
struct Run<'a, 'b> {
    s: &'a mut State,
    arrays: Arrays<'b>,
    observer: &'a mut dyn Observer,
}

impl Run<'_, '_> {
    /// Calls `f` for each node with its index in arrays with a ring and its index in the caller's arrays.
    fn nodes(grid: Grid, ld: usize, mut f: impl FnMut(usize, usize)) {
        for j in 0..grid.ny {
            for i in 0..grid.nx {
                f(ring_index(grid.nx, i, j), j * ld + i);
            }
        }
    }
}

impl State {
    fn vector(&self, v: VectorId) -> &[f64] {
        [&self.x, &self.b, &self.r, &self.p, &self.q, &self.levels.grids[0].z][v.0]
    }

    /// Computes to = f(to, from) at each node where both vectors are defined: x and b on the whole grid, the others on
    /// the nodes of CG.
    fn update(&mut self, to: VectorId, from: VectorId, f: impl Fn(f64, f64) -> f64) {
        for k in 0..self.places_of(to, from).len() {
            let c = self.places_of(to, from)[k];
            let value = f(self.vector(to)[c], self.vector(from)[c]);
            let z = &mut self.levels.grids[0].z;
            [&mut self.x, &mut self.b, &mut self.r, &mut self.p, &mut self.q, z][to.0][c] = value;
        }
    }

    fn places_of(&self, a: VectorId, b: VectorId) -> &[usize] {
        let is_whole = |v| matches!(v, VectorId::X | VectorId::B);
        if is_whole(a) && is_whole(b) { &self.everywhere } else { &self.system }
    }
}

impl VectorSteps for Run<'_, '_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let (places, a, b) = (self.s.places_of(a, b), self.s.vector(a), self.s.vector(b));
        places.iter().map(|&c| a[c] * b[c]).sum()
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let (factor, from) = terms.first().copied().unwrap_or((0.0, to));
        self.s.update(to, from, |to, from| linear(scale, to, factor, from));
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        max_abs(self.s.vector(v))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        for k in 0..self.s.system.len() {
            let c = self.s.system[k];
            self.s.r[c] = match of {
                Iterate::Zero => self.s.b[c],
                Iterate::X if self.s.schur() => self.s.b[c] - self.s.row_of_system(&self.s.x, c),
                Iterate::X => self.s.residual_of_row(c),
            };
        }
        self.inner(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        self.observer.see(event)
    }
}

impl PcgSteps for Run<'_, '_> {
    fn properties(&self) -> Properties {
        Properties { eliminates: self.s.schur(), ..Properties::default() }
    }

    fn precondition(&mut self) -> f64 {
        let s = &mut *self.s;
        for &c in &s.system {
            s.levels.grids[0].z[c] = s.r[c];
        }
        s.singular.shift(s.system.iter().copied(), &mut s.levels.grids[0].z, false);
        s.levels.apply();
        s.singular.shift(s.system.iter().copied(), &mut s.levels.grids[0].z, false);
        self.inner(VectorId::R, VectorId::Z)
    }

    fn means(&mut self, v: VectorId, to: Means) {
        let s = &mut *self.s;
        let nodes = s.everywhere.iter().copied();
        match (to, v) {
            (Means::Keep, _) => s.singular.keep_means(nodes, &s.x),
            (_, VectorId::B) => s.singular.shift(nodes, &mut s.b, to == Means::Restore),
            _ => s.singular.shift(nodes, &mut s.x, to == Means::Restore),
        }
    }

    fn square_of_means(&mut self) -> f64 {
        let s = &mut *self.s;
        s.singular.square_of_means(s.system.iter().copied(), &s.r, &s.matrix.diagonal)
    }

    fn multiply(&mut self) -> f64 {
        for k in 0..self.s.system.len() {
            let c = self.s.system[k];
            self.s.q[c] = self.s.row_of_system(&self.s.p, c);
        }
        self.inner(VectorId::P, VectorId::Q)
    }

    fn change_preconditioner(&mut self, to: Another) -> bool {
        matches!(to, Another::Definite) && self.s.levels.fall_back()
    }
}

impl SolveSteps for Run<'_, '_> {
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let (grid, ld) = (self.s.grid, self.arrays.ld);
        let mut inputs = Inputs::none();
        for j in 0..grid.ny {
            let b = &self.arrays.input[j * ld..][..grid.nx];
            let x = if guess { &self.arrays.output[j * ld..][..grid.nx] } else { &[] };
            inputs.look_at_row(self.arrays.input_name, b, max_abs(b), j, true);
            inputs.look_at_row("x", x, max_abs(x), j, false);
        }
        inputs
    }

    fn load(&mut self, scale: f64, what: Load) -> LoadNorms {
        let (s, a, guess) = (&mut *self.s, &self.arrays, what.guess());
        Self::nodes(s.grid, a.ld, |c, k| {
            s.b[c] = a.input[k] * scale;
            match guess {
                Some(true) => s.x[c] = a.output[k] * scale,
                Some(false) => s.x[c] = 0.0,
                None => {}
            }
        });
        LoadNorms { rhs_norm2: self.inner(VectorId::B, VectorId::B), begun: None }
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        let s = &mut *self.s;
        s.singular.worst(s.everywhere.iter().copied(), &s.b)
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        let s = &*self.s;
        s.everywhere
            .iter()
            .map(|&c| {
                let r = s.residual_of_row(c);
                r * r
            })
            .sum()
    }

    fn reduce(&mut self, what: Eliminated) -> f64 {
        let s = &mut *self.s;
        if !s.schur() {
            return 0.0;
        }
        if what == Eliminated::Residual {
            for k in 0..s.everywhere.len() {
                let c = s.everywhere[k];
                s.b[c] = s.residual_of_row(c);
            }
        }
        for k in 0..s.system.len() {
            let c = s.system[k];
            let (a, h, n) = (&s.matrix, &s.levels.grids[0].inverse_pivot, ring_stride(s.grid.nx));
            let y = |red: usize| h[red] * s.b[red];
            let along = a.east[c - 1] * y(c - 1) + a.east[c] * y(c + 1);
            let across = a.north[c - n] * y(c - n) + a.north[c] * y(c + n);
            s.b[c] -= along + across;
        }
        s.red.iter().map(|&c| s.b[c] * s.b[c] / s.matrix.diagonal[c]).sum()
    }

    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        if self.s.schur() {
            for k in 0..self.s.red.len() {
                let c = self.s.red[k];
                self.s.x[c] = (self.s.b[c] - self.s.straight_sum(&self.s.x, c)) / self.s.matrix.diagonal[c];
            }
        }
        (self.largest(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        let (s, a) = (&*self.s, &mut self.arrays);
        Self::nodes(s.grid, a.ld, |c, k| a.output[k] = s.x[c] / scale);
    }

    fn multiply_rhs(&mut self) {
        for k in 0..self.s.everywhere.len() {
            let c = self.s.everywhere[k];
            self.s.x[c] = self.s.row_of_a(&self.s.b, c);
        }
    }
}
