//! Recursive cycles (`cycle = amli`, `k`). They reduce the number of outer iterations, but do more work on coarse
//! grids.
//!
//! The recursion grids are the grids that remain after every `spacing`-th level. Let A_k be the matrix on the k-th
//! recursion grid. A_k results from the eliminations of all earlier levels, and still has the couplings that the later
//! levels drop. M_k is the preconditioner that the later levels form. The V-cycle uses M_k^-1 g as the solution of
//! A_k u = g. A recursive cycle instead runs `steps` inner iterations with the preconditioner M_k (Axelsson and
//! Vassilevski, SIAM J. Numer. Anal. 27, 1990; Notay and Vassilevski, Numer. Linear Algebra Appl. 15, 2008;
//! docs/theory/rrb.md, recursive cycles).
//!
//! Both kinds of inner iteration use the recurrence of conjugate gradients and differ in the coefficients only:
//!
//! ```text
//!     z = M_k^-1 r,   d = z + beta d,   u = u + alpha d,   r = r - alpha A_k d
//!
//!     amli  Chebyshev on [low, high], theta = (low + high) / 2, delta = (high - low) / 2:
//!           alpha = 1 / theta, then beta = (delta alpha / 2)^2 (twice this value in the second iteration),
//!           alpha = 1 / (theta - beta / alpha): a fixed polynomial, so M is a fixed matrix
//!     k     beta = -<z, A_k d> / <d, A_k d>, alpha = <d, r> / <d, A_k d>: flexible CG, nonlinear in r
//! ```
//!
//! The factorization estimates the bounds `low` and `high` with conjugate gradients on A_k, beginning with the deepest
//! recursion.

use crate::krylov::spectrum::lanczos_extremes;
use crate::options::limits::{AMLI_CONDITION, AMLI_GROWTH, AMLI_JUMP_CONDITION, AMLI_MIN_CONDITION};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Method for the system on a recursion grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CycleKind {
    /// One application of M_k^-1, as in the RRB method of the report.
    #[default]
    V,
    /// Chebyshev iterations.
    Amli,
    /// Flexible conjugate gradients.
    K,
}

/// Parameters of the recursion for `factorize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Kind of the cycle. `None`: [`choose_kind`] selects V or AMLI.
    pub kind: Option<CycleKind>,
    /// Number of levels between two recursions. It must be even.
    pub spacing: usize,
    /// Number of inner iterations per recursion.
    pub steps: usize,
    /// Whether [`choose_kind`] may select AMLI also for coefficients with jumps.
    pub allows_jumps: bool,
}

impl Cycle {
    /// Returns the numbers of the recursion grids: the grids that remain after every `spacing`-th level, if further
    /// levels follow.
    pub fn recursion_grids(&self, levels: usize) -> impl Iterator<Item = usize> + use<> {
        let grid_spacing = self.spacing / 2;
        let has_recursions = self.kind != Some(CycleKind::V) && self.steps > 1 && grid_spacing > 0;
        (1..).map(move |k| k * grid_spacing).take_while(move |q| has_recursions && 2 * q < levels)
    }

    /// Returns the work of one application of M, divided by the work of a V-cycle: sum_q v_q n_q / sum_q n_q.
    ///
    /// The sums include all grids and the coarsest system. n_q is the number of nodes of grid q, and v_q the number of
    /// visits per application. Each recursion multiplies v_q by `steps`.
    pub fn cost(&self, finest: Grid, levels: usize) -> f64 {
        let mut recursion_grids = self.recursion_grids(levels).peekable();
        let (mut visits, mut work, mut v_cycle_work) = (1.0, 0.0, 0.0);
        for (q, grid) in finest.grid_sequence().take(levels.div_ceil(2)).enumerate() {
            if recursion_grids.next_if_eq(&q).is_some() {
                visits *= self.steps as f64;
            }
            work += visits * grid.nodes() as f64;
            v_cycle_work += grid.nodes() as f64;
        }
        let coarsest = finest.coarsest_nodes(levels).nodes() as f64;
        (work + visits * coarsest) / (v_cycle_work + coarsest)
    }
}

/// Interval that is assumed to contain the eigenvalues of M_k^-1 A_k.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Bounds {
    /// Returns high / low, which bounds the condition number of M_k^-1 A_k.
    pub fn condition(&self) -> f64 {
        self.high / self.low
    }
}

/// Maximum number of sections. A grid of 2^31 nodes has fewer than 64 levels, and recursions are at least two levels
/// apart.
pub const MAX_SECTIONS: usize = 33;

/// Cycle that a factorization uses.
#[derive(Clone, Copy, Debug)]
pub struct Recursion {
    /// Method on the recursion grids.
    pub kind: CycleKind,
    /// Number of inner iterations per recursion.
    pub steps: usize,
    /// Eigenvalue bounds of each section that begins with a recursion; only AMLI uses them.
    pub bounds: [Bounds; MAX_SECTIONS],
}

impl Recursion {
    /// V-cycle: no recursion.
    pub const V: Self = Self { kind: CycleKind::V, steps: 1, bounds: [EXACT_BOUNDS; MAX_SECTIONS] };
}

/// Eigenvalue bounds for A_k = M_k: the eigenvalue 1, with the margin that `bounds_with_margin` adds.
const EXACT_BOUNDS: Bounds = Bounds { low: 1.0, high: UPPER_MARGIN };

/// Vectors of a recursion grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleVector {
    /// Residual r.
    R,
    /// Vector z: right-hand side before the sweeps, solution after the sweeps.
    Z,
    /// Search direction d.
    D,
    /// q = A_k d.
    Q,
}

/// Steps of a cycle. Section 0 consists of the levels before the first recursion grid. Section k consists of the levels
/// from the k-th recursion grid to the next one, or to the coarsest system. In the descriptions of the steps, r, z, d,
/// q and u are vectors on the k-th recursion grid.
pub trait CycleSteps {
    /// Returns the sections that begin with a recursion; they are the last sections.
    fn recursions(&self) -> Range<usize>;
    /// Returns whether this thread works on section k. Other threads must skip the steps of the section.
    fn takes_part(&self, k: usize) -> bool;
    /// Solves L y = z on the levels of section k. Stores the right-hand side for the remaining nodes in z of the first
    /// grid of the next section, or of the coarsest grid.
    fn sweep_down(&mut self, k: usize);
    /// Solves the coarsest system exactly.
    fn solve_coarsest(&mut self);
    /// Solves D L^T z = y on the levels of section k.
    fn sweep_up(&mut self, k: usize);
    /// Sets r = z.
    fn store_rhs(&mut self, k: usize);
    /// Sets d = z + beta d, or d = z without `beta`.
    fn update_direction(&mut self, k: usize, beta: Option<f64>);
    /// Computes q = A_k d.
    fn multiply_direction(&mut self, k: usize);
    /// Returns whether `own_value` is true on any thread that works on section k. All these threads must call this
    /// function, and receive the same result.
    fn any_thread(&mut self, _k: usize, own_value: bool) -> bool {
        own_value
    }
    /// Returns <a, b> on the k-th recursion grid.
    fn inner_product(&mut self, k: usize, a: CycleVector, b: CycleVector) -> f64;
    /// Sets u = alpha d (`is_first`) or u = u + alpha d. With `continues`, also sets r = r - alpha q and z = r.
    fn advance(&mut self, k: usize, alpha: f64, is_first: bool, continues: bool);
    /// Sets z = u.
    fn copy_solution(&mut self, k: usize);
    /// Computes the last step of a Chebyshev iteration: d = z + beta d, u = u + alpha d, z = u. The values of d and u
    /// are undefined afterwards.
    fn finish(&mut self, k: usize, alpha: f64, beta: f64) {
        self.finish_unfused(k, alpha, beta);
    }
    /// Reference formulation of `finish`.
    fn finish_unfused(&mut self, k: usize, alpha: f64, beta: f64) {
        self.update_direction(k, Some(beta));
        self.advance(k, alpha, false, false);
        self.copy_solution(k);
    }
    /// Sets r = 0, and d to a vector that contains all frequencies. This vector is the same in every call.
    fn set_all_frequencies(&mut self, k: usize);
}

/// Returns entry (i, j) of a vector that contains all frequencies: a hash of (i, j) in [-1, 1), divided by sqrt(center)
/// if the center is positive. The hash makes the vectors of all backends equal. With this scaling, regions with large
/// and with small coefficients contribute equally to <v, A_k v>.
pub fn all_frequencies(i: usize, j: usize, center: f64) -> f64 {
    let mut hash = (i as u32).wrapping_mul(73_856_093) ^ (j as u32).wrapping_mul(19_349_663);
    hash = (hash ^ (hash >> 13) ^ 0x9e37_79b9).wrapping_mul(0x5bd1_e995);
    hash = (hash ^ (hash >> 15)).wrapping_mul(0x27d4_eb2d);
    let v = f64::from(hash ^ (hash >> 16)) / f64::from(1u32 << 31) - 1.0;
    if center > 0.0 { v / center.sqrt() } else { v }
}

/// Computes z = M_k^-1 z on the first grid of section k.
pub fn apply_section(s: &mut dyn CycleSteps, k: usize, recursion: &Recursion) {
    s.sweep_down(k);
    if k + 1 == s.recursions().end {
        s.solve_coarsest();
    } else if s.takes_part(k + 1) {
        solve_section(s, k + 1, recursion);
    }
    s.sweep_up(k);
}

/// The inner iterations of the K-cycle and the CG steps of [`estimate_bounds`] end when <r, M_k^-1 r> has fallen to
/// this fraction of its first value. The remaining r consists of rounding errors of sweeps in f32. If A_k is singular,
/// this r may be outside the range of A_k.
const ROUNDING_LEVEL: f64 = 1e-10;
/// Largest alpha of a step of the K-cycle or of [`estimate_bounds`]; a larger alpha ends the steps. alpha is at most
/// 1 / lambda_min(M_k^-1 A_k), and lambda_min is about 1, or a few hundredths with compensation. In a singular system,
/// rounding adds a constant vector to d, for which A_k d is zero up to rounding. A larger alpha is therefore an effect
/// of this vector.
const MAX_ALPHA: f64 = 100.0;

/// Computes z = B_k z with an approximation B_k of A_k^-1 on the k-th recursion grid.
pub fn solve_section(s: &mut dyn CycleSteps, k: usize, recursion: &Recursion) {
    if recursion.kind == CycleKind::V {
        return apply_section(s, k, recursion);
    }
    s.store_rhs(k);
    let (mut alpha, mut sigma, mut first_product) = (0.0, 0.0, 0.0);
    for step in 0..recursion.steps {
        let is_last = step + 1 == recursion.steps;
        apply_section(s, k, recursion);
        match recursion.kind {
            CycleKind::K => {
                // sigma is 0 if the right-hand side is zero; beta is then 0.
                let beta = if sigma > 0.0 { -s.inner_product(k, CycleVector::Z, CycleVector::Q) / sigma } else { 0.0 };
                s.update_direction(k, (step > 0).then_some(beta));
                s.multiply_direction(k);
                sigma = s.inner_product(k, CycleVector::D, CycleVector::Q);
                let product = s.inner_product(k, CycleVector::D, CycleVector::R);
                if step == 0 {
                    first_product = product;
                } else if product <= ROUNDING_LEVEL * first_product {
                    break;
                }
                if product.abs() > MAX_ALPHA * sigma {
                    if step == 0 {
                        s.advance(k, 1.0, true, false);
                    }
                    break;
                }
                alpha = if sigma > 0.0 { product / sigma } else { 0.0 };
            }
            _ => {
                let Bounds { low, high } = recursion.bounds[k];
                let (theta, delta) = (0.5 * (low + high), 0.5 * (high - low));
                let half_delta_alpha = 0.5 * delta * alpha;
                let beta = if step == 1 {
                    2.0 * half_delta_alpha * half_delta_alpha
                } else {
                    half_delta_alpha * half_delta_alpha
                };
                alpha = if step == 0 { 1.0 / theta } else { 1.0 / (theta - beta / alpha) };
                if is_last && step > 0 {
                    return s.finish(k, alpha, beta);
                }
                s.update_direction(k, (step > 0).then_some(beta));
                if !is_last {
                    s.multiply_direction(k);
                }
            }
        }
        s.advance(k, alpha, step == 0, !is_last);
    }
    s.copy_solution(k);
}

/// Minimum and maximum number of CG steps for an estimate. From the minimum on, the estimate ends when a step increases
/// the largest Ritz value by a factor of at most `MAX_CONVERGED_GROWTH`. Coefficient jumps of 1e3 and more cause a few
/// isolated large eigenvalues, which appear only after several steps. No tested problem needed more than ten steps.
const MIN_ESTIMATE_STEPS: usize = 6;
const MAX_ESTIMATE_STEPS: usize = 16;
const MAX_CONVERGED_GROWTH: f64 = 1.02;
/// Factors by which the largest and the smallest Ritz value are multiplied to obtain bounds of the eigenvalues. The
/// Ritz values themselves are inside the spectrum. With two inner iterations, M is definite if no eigenvalue exceeds
/// low + high.
const UPPER_MARGIN: f64 = 1.08;
const LOWER_MARGIN: f64 = 0.95;

/// Estimates the bounds of the eigenvalues of M_k^-1 A_k with CG on A_k u = A_k v, where v contains all frequencies.
/// The ratio of the largest to the smallest Ritz value never decreases from step to step. The estimate therefore ends
/// as soon as the ratio of the bounds exceeds `condition_limit`.
pub fn estimate_bounds(s: &mut dyn CycleSteps, k: usize, recursion: &Recursion, condition_limit: f64) -> Bounds {
    let mut coefficients = [(0.0, 0.0); MAX_ESTIMATE_STEPS];
    let (mut step_count, mut largest_ritz_value) = (0, 0.0);
    s.set_all_frequencies(k);
    s.multiply_direction(k);
    s.advance(k, -1.0, true, true); // r = A v
    let (mut rho, mut first_rho) = (0.0, 0.0);
    for step in 0..MAX_ESTIMATE_STEPS {
        apply_section(s, k, recursion);
        let rho_new = s.inner_product(k, CycleVector::R, CycleVector::Z);
        let beta = if step > 0 { rho_new / rho } else { 0.0 };
        rho = rho_new;
        if step == 0 {
            first_rho = rho;
        }
        if !(rho > ROUNDING_LEVEL * first_rho && rho.is_finite()) {
            break;
        }
        s.update_direction(k, (step > 0).then_some(beta));
        s.multiply_direction(k);
        let sigma = s.inner_product(k, CycleVector::D, CycleVector::Q);
        if !(MAX_ALPHA * sigma > rho && sigma.is_finite()) {
            break;
        }
        let alpha = rho / sigma;
        coefficients[step_count] = (alpha, beta);
        step_count += 1;
        let (smallest_ritz_value, new_ritz_value) = lanczos_extremes(&coefficients[..step_count]).unwrap_or((1.0, 0.0));
        let has_converged =
            step_count >= MIN_ESTIMATE_STEPS && new_ritz_value <= MAX_CONVERGED_GROWTH * largest_ritz_value;
        if has_converged
            || (smallest_ritz_value > 0.0
                && bounds_with_margin(smallest_ritz_value, new_ritz_value).condition() > condition_limit)
        {
            break;
        }
        largest_ritz_value = new_ritz_value;
        s.advance(k, alpha, false, true);
    }
    match lanczos_extremes(&coefficients[..step_count]) {
        Some((smallest_ritz_value, new_ritz_value)) if smallest_ritz_value > 0.0 && new_ritz_value.is_finite() => {
            bounds_with_margin(smallest_ritz_value, new_ritz_value)
        }
        // Either there were fewer than two steps, because there is a single node or because no level drops couplings.
        // Or the estimate is not positive, or has overflowed.
        _ => EXACT_BOUNDS,
    }
}

/// Returns bounds of the eigenvalues from the smallest and the largest Ritz value, each with a margin.
fn bounds_with_margin(smallest: f64, largest: f64) -> Bounds {
    Bounds { low: f64::min(1.0, LOWER_MARGIN * smallest), high: UPPER_MARGIN * largest }
}

/// Selects V or AMLI. `first_condition` is the condition number on the first recursion grid, and `deeper_condition` the
/// largest condition number on the deeper recursion grids. AMLI is selected if `first_condition` is large enough for a
/// gain, and if all condition numbers are below a limit. With `allows_jumps`, this limit is higher if `first_condition`
/// is not much larger than `deeper_condition`.
///
/// If M_k approximates A_k poorly in a deeper section, its Chebyshev steps reduce the error too little, and finer
/// sections receive a poor coarse correction. The nonlinear K-cycle is never selected.
pub fn choose_kind(first_condition: f64, deeper_condition: f64, allows_jumps: bool) -> CycleKind {
    let is_within_limit = first_condition.max(deeper_condition) <= AMLI_CONDITION
        || allows_jumps
            && first_condition <= AMLI_GROWTH * deeper_condition
            && first_condition.max(deeper_condition) <= AMLI_JUMP_CONDITION;
    if first_condition >= AMLI_MIN_CONDITION && is_within_limit { CycleKind::Amli } else { CycleKind::V }
}

impl Recursion {
    /// Returns high / low on the k-th recursion grid.
    pub fn condition(&self, k: usize) -> f64 {
        self.bounds[k].condition()
    }

    /// Returns the largest ratio high / low of all recursions.
    pub fn worst_condition(&self) -> f64 {
        (0..MAX_SECTIONS).map(|k| self.condition(k)).fold(1.0, f64::max)
    }
}

/// Estimates the bounds at every recursion, deepest first, and selects the kind if `cycle.kind` is `None`.
///
/// Only the threads that work on a section receive the bounds of this section. `deeper_sections_condition` is the
/// largest condition number of those recursions on coarser grids that are not among the sections of `s`; 1 if there are
/// no such recursions.
pub fn prepare_recursion(s: &mut dyn CycleSteps, cycle: &Cycle, deeper_sections_condition: f64) -> Recursion {
    let recursions = s.recursions();
    let kind = cycle.kind.unwrap_or(CycleKind::Amli);
    if recursions.is_empty() || kind == CycleKind::V {
        return Recursion::V;
    }
    let mut recursion = Recursion { kind, steps: cycle.steps, ..Recursion::V };
    let condition_limit = match cycle.kind {
        Some(_) => f64::INFINITY,
        None if cycle.allows_jumps => AMLI_JUMP_CONDITION,
        None => AMLI_CONDITION,
    };
    let first_recursion = recursions.start;
    let mut deeper_condition = deeper_sections_condition;
    for k in recursions.clone().rev() {
        if kind != CycleKind::Amli || !s.takes_part(k) {
            continue;
        }
        // If V is selected because of a deeper section, section k and finer sections need no bounds. Only the threads
        // of the deeper section know this selection; `any_thread` reports the selection to all threads of section k.
        if cycle.kind.is_none() && s.any_thread(k, deeper_condition > condition_limit) {
            deeper_condition = f64::INFINITY;
            continue;
        }
        recursion.bounds[k] = estimate_bounds(s, k, &recursion, condition_limit);
        if k > first_recursion {
            deeper_condition = deeper_condition.max(recursion.condition(k));
        }
    }
    if cycle.kind.is_none() && s.takes_part(first_recursion) {
        recursion.kind = choose_kind(recursion.condition(first_recursion), deeper_condition, cycle.allows_jumps);
    }
    recursion
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_grids_follow_the_spacing() {
        let grids_of = |kind, spacing, levels| {
            Cycle { kind, spacing, steps: 2, allows_jumps: false }.recursion_grids(levels).collect::<Vec<_>>()
        };
        assert_eq!(grids_of(Some(CycleKind::Amli), 4, 12), [2, 4]);
        assert_eq!(grids_of(None, 6, 13), [3, 6]);
        assert_eq!(grids_of(Some(CycleKind::K), 4, 4), [0; 0]);
        assert_eq!(grids_of(Some(CycleKind::V), 4, 12), [0; 0]);
    }

    #[test]
    fn cycle_cost_counts_visits_of_grids() {
        let relative_cost = |kind, spacing, steps, n, levels| {
            Cycle { kind: Some(kind), spacing, steps, allows_jumps: false }.cost(Grid { nx: n, ny: n }, levels)
        };
        // Grids of 31^2, 15^2, 7^2 and 3^2 nodes, and one node.
        let v_cycle_work = f64::from(961 + 225 + 49 + 9 + 1);
        assert_eq!(relative_cost(CycleKind::V, 2, 8, 31, 8), 1.0);
        assert_eq!(
            relative_cost(CycleKind::Amli, 2, 3, 31, 8),
            f64::from(961 + 3 * 225 + 9 * 49 + 27 * (9 + 1)) / v_cycle_work
        );
        assert_eq!(relative_cost(CycleKind::K, 4, 5, 31, 8), f64::from(961 + 225 + 5 * (49 + 9 + 1)) / v_cycle_work);
        // After an odd number of levels, the black nodes of the last grid remain: 5 of 3^2.
        assert_eq!(relative_cost(CycleKind::Amli, 2, 2, 7, 3), f64::from(49 + 2 * (9 + 5)) / f64::from(49 + 9 + 5));
    }

    /// Sections of four unknowns with M = I and a diagonal A. The sweeps of a section do not change z of this section,
    /// and z is zero in deeper sections.
    struct Diagonals {
        diagonals: [[f64; 4]; 4],
        vectors: [[[f64; 4]; 5]; 4],
        applications: Vec<usize>,
    }

    const U: usize = 4;

    impl CycleSteps for Diagonals {
        fn recursions(&self) -> Range<usize> {
            1..self.diagonals.len()
        }
        fn takes_part(&self, _: usize) -> bool {
            true
        }
        fn sweep_down(&mut self, k: usize) {
            self.applications[k] += 1;
        }
        fn solve_coarsest(&mut self) {}
        fn sweep_up(&mut self, _: usize) {}
        fn store_rhs(&mut self, _: usize) {}
        fn update_direction(&mut self, k: usize, beta: Option<f64>) {
            let (z, d) = (self.vectors[k][CycleVector::Z as usize], &mut self.vectors[k][CycleVector::D as usize]);
            *d = std::array::from_fn(|i| z[i] + beta.unwrap_or(0.0) * d[i]);
        }
        fn multiply_direction(&mut self, k: usize) {
            let d = self.vectors[k][CycleVector::D as usize];
            self.vectors[k][CycleVector::Q as usize] = std::array::from_fn(|i| self.diagonals[k][i] * d[i]);
        }
        fn inner_product(&mut self, k: usize, a: CycleVector, b: CycleVector) -> f64 {
            (0..4).map(|i| self.vectors[k][a as usize][i] * self.vectors[k][b as usize][i]).sum()
        }
        fn advance(&mut self, k: usize, alpha: f64, is_first: bool, continues: bool) {
            let [mut r, _, d, q, mut u] = self.vectors[k];
            for i in 0..4 {
                u[i] = alpha * d[i] + if is_first { 0.0 } else { u[i] };
                r[i] -= alpha * q[i];
            }
            self.vectors[k][U] = u;
            if continues {
                (self.vectors[k][CycleVector::R as usize], self.vectors[k][CycleVector::Z as usize]) = (r, r);
            }
        }
        fn copy_solution(&mut self, k: usize) {
            self.vectors[k][CycleVector::Z as usize] = self.vectors[k][U];
        }
        fn set_all_frequencies(&mut self, k: usize) {
            self.vectors[k] = [[0.0; 4]; 5];
            self.vectors[k][CycleVector::D as usize] = [1.0, -0.5, 0.25, 0.75];
        }
    }

    /// If the condition number of a deep section is too large, finer sections are not estimated, and the kind is V.
    #[test]
    fn large_condition_number_ends_the_estimates() {
        let prepare_kind = |diagonals: [[f64; 4]; 4], deeper_condition: f64, allows_jumps: bool| {
            let cycle = Cycle { kind: None, spacing: 4, steps: 2, allows_jumps };
            let mut s = Diagonals { diagonals, vectors: [[[0.0; 4]; 5]; 4], applications: vec![0; 4] };
            (prepare_recursion(&mut s, &cycle, deeper_condition).kind, s.applications)
        };
        let (well_conditioned, ill_conditioned) = ([1.0, 1.5, 2.0, 2.5], [1.0, 5.0, 20.0, 50.0]);
        let (kind, applications) = prepare_kind([well_conditioned; 4], 1.0, false);
        assert!(kind == CycleKind::Amli && applications[1] > 0, "{applications:?}");
        let (kind, applications) =
            prepare_kind([well_conditioned, well_conditioned, well_conditioned, ill_conditioned], 1.0, false);
        assert!(kind == CycleKind::V && applications[1..3] == [0, 0] && applications[3] > 0, "{applications:?}");
        assert_eq!(prepare_kind([well_conditioned; 4], 10.0, false), (CycleKind::V, vec![0; 4]));
        assert_eq!(
            prepare_kind([well_conditioned, ill_conditioned, well_conditioned, well_conditioned], 1.0, false).0,
            CycleKind::V
        );
        assert_eq!(
            prepare_kind([well_conditioned, ill_conditioned, well_conditioned, well_conditioned], 1.0, true).0,
            CycleKind::V
        );
        let (kind, applications) =
            prepare_kind([well_conditioned, well_conditioned, well_conditioned, ill_conditioned], 1.0, true);
        assert!(kind == CycleKind::Amli && applications[1] > 0, "{applications:?}");
    }

    #[test]
    fn condition_numbers_out_of_range_select_v() {
        for (allows_jumps, kind_for_jumps) in [(false, CycleKind::V), (true, CycleKind::Amli)] {
            assert_eq!(choose_kind(2.4, 2.4, allows_jumps), CycleKind::Amli);
            assert_eq!(choose_kind(26.0, 12.0, allows_jumps), CycleKind::V);
            assert_eq!(choose_kind(1.1, 1.1, allows_jumps), CycleKind::V);
            assert_eq!(choose_kind(2.4, 7e5, allows_jumps), CycleKind::V);
            assert_eq!(choose_kind(8.8, 9.4, allows_jumps), kind_for_jumps);
            assert_eq!(choose_kind(36.0, 62.0, allows_jumps), kind_for_jumps);
        }
    }
}
