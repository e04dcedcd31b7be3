//! Rules of the choice `auto`: the limits in the conditions, and the descriptions of the rules in the header and in the
//! documentation.

use super::table::{Family, opt};

/// Limits that the choices of `auto` depend on. The deciding code and the documentation both use these constants. M is
/// the preconditioner, and E is the coarse matrix of the deflation.
pub mod limits {
    /// `backend` of `rrb_`: smallest number of nodes for which a device is used.
    ///
    /// Measured on an H200 and on 16 cores of its host, with host arrays: a factorization and a solve take equal time
    /// on both for 80 x 80 to 100 x 100 nodes.
    pub const RRB_DEVICE_NODES: usize = 10_000;
    /// `backend` of `dpcg_`: smallest number of cells for which a device is used.
    pub const DPCG_DEVICE_CELLS: usize = 20_000;

    /// `precision` and `cycle` of `rrb_`: number of nodes below which M in f64 fits into the second-level cache of a
    /// core.
    ///
    /// The V-cycle is then 5 to 30 % faster than other cycles, and takes half their setup time because no condition
    /// numbers are estimated.
    pub const SMALL_GRID_NODES: usize = 16_384;
    /// `precision` of `rrb_`: largest ratio of two centers for which bf16 is used.
    ///
    /// Above this ratio, variable coefficients need more iterations (53 instead of 39 at 1e7). At 1e12, f32 sweeps
    /// overflow.
    pub const BF16_CONTRAST: f64 = 1e6;
    /// `precision` of `rrb_`: the limit that replaces `BF16_CONTRAST` for singular systems. There, rounding makes M
    /// indefinite at smaller contrasts.
    pub const BF16_CONTRAST_SINGULAR: f64 = 1e4;

    /// `cycle` of `rrb_`: largest condition number of M_k^-1 A_k for which AMLI recursion pays. A_k and M_k are the
    /// matrix and its preconditioner on the grid of recursion k.
    ///
    /// Above this number (strong anisotropy, coefficients that vary from node to node), two inner iterations reduce the
    /// error too little.
    pub const AMLI_CONDITION: f64 = 6.0;
    /// `cycle` of `rrb_`: smallest condition number of the first recursion for which AMLI recursion pays. Below this
    /// number (strongly dominant diagonals), one application of M_k is accurate enough.
    pub const AMLI_MIN_CONDITION: f64 = 1.6;
    /// `cycle` of `rrb_`: largest condition number for which AMLI recursion pays, provided that this number hardly
    /// grows from the deeper grids to the first grid (`AMLI_GROWTH`).
    ///
    /// The large condition number is then due to a few isolated eigenvalues. Coefficient jumps (checkerboards, walls)
    /// cause these eigenvalues, and CG eliminates them. Numbers of iterations with V and AMLI on a device, 2047 x 2047
    /// nodes: checkerboard 96 and 33, walls 190 and 67, lognormal field 121 and 58.
    pub const AMLI_JUMP_CONDITION: f64 = 200.0;
    /// `cycle` of `rrb_`: limit for the rule of `AMLI_JUMP_CONDITION`. The condition number of the first recursion may
    /// be at most this factor times the largest condition number of the deeper recursions.
    ///
    /// With anisotropy or white noise, the condition number of the first recursion is twice those of the deeper
    /// recursions, and each recursion increases the number of iterations. Numbers of iterations with V and AMLI: 85 and
    /// 130 at anisotropy 100, 81 and 118 with white noise.
    pub const AMLI_GROWTH: f64 = 1.25;
    /// `cycle` of `rrb_`: smallest number of nodes on the CPU for the rule of `AMLI_JUMP_CONDITION`. On smaller grids,
    /// the coarsest system of the V-cycle resolves the jumps.
    pub const AMLI_JUMP_NODES: usize = 1 << 19;
    /// `cycle` of `rrb_`: number of iterations after which a solve on the CPU may switch to aggregation.
    pub const SWITCH_ITERATIONS: usize = 16;
    /// `cycle` of `rrb_`: number of iterations after which a solve on a device may first switch to aggregation. After
    /// that, the solve checks again each time the number of iterations has doubled.
    pub const SWITCH_ITERATIONS_ON_DEVICE: i64 = 32;

    /// `null_space=auto`: a row sum is zero if its magnitude is at most this fraction of the center.
    pub const ZERO_ROW_SUM: f64 = 1e-12;
    /// `null_space=constant`: a row sum is zero if its magnitude is at most this fraction of the center.
    pub const ASSERTED_ZERO_ROW_SUM: f64 = 1e-6;

    /// `coarsening` of `dpcg_`: a direction is coarsened if its couplings are at least 1 / `SEMICOARSENING_RATIO` times
    /// those of the strongest direction.
    pub const SEMICOARSENING_RATIO: f64 = 3.0;
    /// `deflation` of `dpcg_`: a coupling is strong if it exceeds this multiple of the smallest coupling of its
    /// direction. In a two-phase flow, the smallest coupling belongs to the heavier phase.
    pub const STRONG_COUPLING_RATIO: f64 = 30.0;
    /// `deflation` of `dpcg_`: largest number of components of strong couplings that is deflated. With more components,
    /// E costs more time than it saves.
    pub const MAX_DEFLATED_COMPONENTS: usize = 1000;
    /// `deflation` of `dpcg_`: largest ratio of the smallest to the largest coupling of a direction for which
    /// components are deflated. At or below this limit, multigrid alone needs more iterations. The texts on `auto` and
    /// the reason `contrast` call this ratio the contrast.
    pub const DEFLATION_COUPLING_RATIO: f64 = 1e-4;
    /// `deflation` of `dpcg_`: thickness in cells below which coarse grids may not resolve a component.
    pub const THIN_COMPONENT_CELLS: usize = 4;
    /// `preconditioner` of `dpcg_`: smallest number of unresolved components for which amg is faster than
    /// multigrid.
    ///
    /// Multigrid needs nearly one more iteration per component. amg needs 10 to 22 iterations, each at two to three
    /// times the cost of an iteration with multigrid, and its setup costs as much as 10 to 30 iterations.
    pub const MIN_UNRESOLVED_FOR_AMG: usize = 12;
    /// `coarse_solver` of `dpcg_`: largest number of deflation vectors for which E is inverted on the CPU. A product
    /// with the inverse then reads at most 8 MB.
    pub const MAX_INVERTED_VECTORS: usize = 1024;
    /// `coarse_solver` of `dpcg_`: largest number of deflation vectors for which E is inverted on a device. A product
    /// then reads 134 MB in 0.05 ms. A Cholesky factor is applied on the host, in 0.8 ms.
    pub const MAX_INVERTED_VECTORS_ON_DEVICE: usize = 4096;

    /// `block_solver` of `smoother_`: largest condition number of the scaling D for which `auto` selects sine
    /// transforms.
    ///
    /// D makes a one-dimensional operator of a block symmetric. With b cells per side and couplings l and u to the two
    /// neighbours, the condition number of D is max(l/u, u/l)^((b-1)/2). The relative error is about 2e-16 times this
    /// number, so the limit 300 keeps the error below 1e-13.
    pub const MAX_SCALING_CONDITION: f64 = 300.0;
    /// `block_solver` of `smoother_`: largest condition number of the scaling D for which `fast_diagonalization`, which
    /// uses sine transforms, may be requested. At this limit, four of the sixteen digits are inaccurate. The limit also
    /// keeps all entries of D and D^-1 finite.
    pub const MAX_PERMITTED_SCALING_CONDITION: f64 = 1e4;

    /// `backend` of `sparse_`: smallest number of entries for which a device is used.
    ///
    /// With arrays on the host, factorization and solve on an H200 are faster than on 16 cores from about 100,000
    /// entries on. The limit is higher because the initialization of a device takes 0.2 s.
    pub const SPARSE_DEVICE_ENTRIES: usize = 500_000;
    /// `preconditioner` of `sparse_`: smallest number of rows for which amg is used.
    ///
    /// Time of setup and solve with amg, relative to ic0: near this number of rows, 1.33 for a cube of 47^3 nodes and
    /// 0.33 for a plane of 320^2 nodes. For a cube of 100^3 nodes, this ratio is 1.
    pub const AMG_ROWS: usize = 100_000;
    /// `preconditioner` of `sparse_` on a device: smallest number of rows for which amg is used.
    ///
    /// For eight systems of 1,000 to 262,144 rows on an H200, the time of setup and solve with amg is at most 1.4 times
    /// that of the fastest preconditioner. The time of ic0 is 1.0 to 4.7 times that of amg.
    pub const AMG_ROWS_ON_DEVICE: usize = 1000;
    /// `format` of `sparse_`: largest number of diagonals for which dia is used.
    pub const MAX_DIAGONALS: usize = 64;
}

use limits::{
    AMG_ROWS, AMG_ROWS_ON_DEVICE, AMLI_CONDITION, AMLI_GROWTH, AMLI_JUMP_CONDITION, AMLI_JUMP_NODES,
    AMLI_MIN_CONDITION, BF16_CONTRAST, BF16_CONTRAST_SINGULAR, DEFLATION_COUPLING_RATIO, DPCG_DEVICE_CELLS,
    MAX_DEFLATED_COMPONENTS, MAX_DIAGONALS, MAX_INVERTED_VECTORS, MAX_INVERTED_VECTORS_ON_DEVICE,
    MAX_SCALING_CONDITION, MIN_UNRESOLVED_FOR_AMG, RRB_DEVICE_NODES, SEMICOARSENING_RATIO, SMALL_GRID_NODES,
    SPARSE_DEVICE_ENTRIES, STRONG_COUPLING_RATIO, SWITCH_ITERATIONS, SWITCH_ITERATIONS_ON_DEVICE, THIN_COMPONENT_CELLS,
    ZERO_ROW_SUM,
};

/// The rule by which `auto` selects a choice of an option.
pub struct AutoRule {
    /// Key of the option.
    pub key: i32,
    /// Family of the rule; `None` for a rule of all families with this option.
    pub family: Option<Family>,
    /// Possible choices, each with its condition. The first condition that holds decides.
    pub choices: Vec<(&'static str, String)>,
    /// Additional notes for the documentation.
    pub notes: Vec<String>,
}

fn make_rule(
    key: i32,
    family: impl Into<Option<Family>>,
    choices: &[(&'static str, &str)],
    notes: &[&str],
) -> AutoRule {
    AutoRule {
        key,
        family: family.into(),
        choices: choices.iter().map(|&(choice, condition)| (choice, condition.to_owned())).collect(),
        notes: notes.iter().map(|&note| note.to_owned()).collect(),
    }
}

const OTHERWISE: &str = "otherwise";

/// Returns all rules, in the order of the documentation.
#[must_use]
pub fn auto_rules() -> Vec<AutoRule> {
    let mut rules = vec![
        make_rule(
            opt::MEMORY,
            None,
            &[("device", "the CUDA driver reports that the array is on the handle's device"), ("host", OTHERWISE)],
            &["The rule applies to each array of a call separately."],
        ),
        make_rule(
            opt::NULL_SPACE,
            None,
            &[
                ("singular component", &format!("|row sum| <= {ZERO_ROW_SUM:e} * center in all rows of the component")),
                ("regular component", OTHERWISE),
            ],
            &[],
        ),
    ];
    rules.extend(rrb_rules());
    rules.extend(dpcg_rules());
    rules.extend(smoother_rules());
    rules.extend(sparse_rules());
    rules
}

fn rrb_cycle_rule() -> AutoRule {
    make_rule(
        opt::CYCLE,
        Family::Rrb,
        &[
            ("v", &format!("nx * ny < {}", group_digits(SMALL_GRID_NODES))),
            ("v", "`lumping` or `relaxation` does not have its default value"),
            (
                "aggregation",
                "aggregation is possible, no option of the levels is set (see the notes), and the estimated cost of \
                 a solve is lower with aggregation than with RRB",
            ),
            ("amli", "the estimated condition numbers of the recursions are in the range given in the notes"),
            ("v", OTHERWISE),
        ],
        &[
            "Aggregation is possible if `norm` is `true2`, `lumping` and `relaxation` have their default values, \
             and `precision` is not `bf16`. The handle must come from `rrb_create` and use the CPU or one device. \
             Aggregation must not need more memory than `switch_memory` allows.",
            "The options of the levels are `levels`, `coarse_memory`, `grids`, `lumping`, `relaxation`, \
             `compensation`, `cycle_spacing` and `cycle_steps`.",
            &format!(
                "For each recursion, the solver estimates the condition number of M^-1 A on the grid of the \
                 recursion. `auto` selects `amli` if the condition number of the first recursion is at least \
                 {AMLI_MIN_CONDITION}, and the condition numbers of all recursions are at most \
                 {AMLI_CONDITION}. This rule also applies to singular systems."
            ),
            &format!(
                "A second rule applies to regular systems on a device, and to regular systems with nx * ny >= {}. It \
                 selects `amli` if the condition numbers of all recursions are at most {AMLI_JUMP_CONDITION}. The \
                 condition number of the first recursion must also be at most {AMLI_GROWTH} times the largest \
                 condition number of the deeper recursions.",
                group_digits(AMLI_JUMP_NODES)
            ),
            "If CG finds that the selected AMLI cycle is indefinite, the solve continues with the V-cycle. All solves \
             before the next `rrb_factorize` then also use the V-cycle.",
            &format!(
                "A slow solve switches to aggregation if aggregation is possible and its estimated cost is lower \
                 than the estimated cost of the remaining iterations. On the CPU, the solver compares these costs in \
                 each iteration from iteration {SWITCH_ITERATIONS} on. On a device, it compares the costs after \
                 {SWITCH_ITERATIONS_ON_DEVICE} iterations and each time the number of iterations has doubled."
            ),
            "`rrb_factorize` and `rrb_solve` may replace a choice of `auto`. After the estimates, the cycle may \
             become `v`. After a pivot <= 0, the precision becomes `f64`. After a slow solve, the cycle may become \
             `aggregation`. The new choices also apply to later matrices, until `precision`, `switch_memory`, \
             `cycle` or an option of the levels (except `compensation`) changes.",
        ],
    )
}

fn rrb_rules() -> [AutoRule; 4] {
    let family = Family::Rrb;
    [
        make_rule(
            opt::BACKEND,
            family,
            &[
                (
                    "cuda",
                    &format!(
                        "a CUDA device is present, nx * ny >= {}, and `cycle` is not `k`",
                        group_digits(RRB_DEVICE_NODES)
                    ),
                ),
                ("cpu", OTHERWISE),
            ],
            &["With `backend=auto`, handles of `rrb_create_distributed` use the CPU."],
        ),
        rrb_cycle_rule(),
        make_rule(
            opt::PRECISION,
            family,
            &[
                ("f32", "the cycle is aggregation"),
                ("f64", &format!("nx * ny < {}", group_digits(SMALL_GRID_NODES))),
                ("f64", "`lumping` or `relaxation` does not have its default value"),
                ("f64", &format!("the ratio of the largest to the smallest center is above {BF16_CONTRAST:e}")),
                ("f64", &format!("there is a singular component, and this ratio is above {BF16_CONTRAST_SINGULAR:e}")),
                ("bf16", "the solver does not run on the CPU"),
                ("bf16", "the stencil has 9 points, a coupling is positive, or there is a singular component"),
                ("bf16", "`grids` is 1, `norm` is not `true2`, or `cycle` is not `auto`"),
                ("mixed", "aggregation is possible (see the notes on `cycle`), or the handle is distributed"),
                ("bf16", OTHERWISE),
            ],
            &[
                "If a pivot is not positive with `f32`, `bf16` or `mixed`, the factorization is repeated with `f64`.",
                "If a distributed solve with `mixed` stagnates, `rrb_solve` factorizes the matrix again with `bf16` \
                 and continues the solve.",
                "If a slow solve with `f64` on a device switches to aggregation, the aggregation cycle also uses \
                 `f64`.",
            ],
        ),
        make_rule(
            opt::COMPENSATION,
            family,
            &[("always", "A has positive couplings, and the cycle is not aggregation"), ("never", OTHERWISE)],
            &[],
        ),
    ]
}

fn dpcg_preconditioner_rule() -> AutoRule {
    make_rule(
        opt::PRECONDITIONER,
        Family::Dpcg,
        &[
            ("multigrid", "the caller set labels, or `deflation` is neither `auto` nor `none`"),
            ("multigrid", "`coarsening` or `sweeps` does not have its default value, or `backend` is `reference`"),
            (
                "multigrid",
                &format!("there are fewer than {MIN_UNRESOLVED_FOR_AMG} unresolved components (see the notes)"),
            ),
            ("amg", "cells are flat (see the notes)"),
            ("amg", "components are not deflated (see the notes)"),
            ("multigrid", OTHERWISE),
        ],
        &[
            &format!(
                "A coupling is strong if it exceeds {STRONG_COUPLING_RATIO} times the smallest coupling of the same \
                 direction. A component of strong couplings is a group of at least two cells that are connected by \
                 strong couplings. The component is unresolved if coarse grids do not resolve it."
            ),
            &format!(
                "Cells are flat if the couplings of one direction are weaker than 1/{SEMICOARSENING_RATIO} times the \
                 couplings of the strongest direction."
            ),
            &format!(
                "Components are not deflated if there are more than {} components of strong couplings and the contrast \
                 is at most {DEFLATION_COUPLING_RATIO:e}. The contrast is the ratio of the smallest to the largest \
                 coupling of a direction.",
                group_digits(MAX_DEFLATED_COMPONENTS)
            ),
            "If the allocation of memory for `amg` fails, `multigrid` is used instead.",
            "`RRB_INFO_AUTO_REASON` reports the condition that determined the choice.",
        ],
    )
}

fn dpcg_rules() -> [AutoRule; 6] {
    let family = Family::Dpcg;
    [
        make_rule(
            opt::BACKEND,
            family,
            &[
                (
                    "cuda",
                    &format!(
                        "a CUDA device is present, nx * ny * nz >= {}, `preconditioner` is neither `ic0` nor `ric`, \
                         and `coarse_solver` is not `cg`",
                        group_digits(DPCG_DEVICE_CELLS)
                    ),
                ),
                ("cpu", OTHERWISE),
            ],
            &[],
        ),
        dpcg_preconditioner_rule(),
        make_rule(
            opt::COARSENING,
            family,
            &[("cell", "cells are flat (see the notes on `preconditioner`)"), ("vertex", OTHERWISE)],
            &["This rule applies only to `preconditioner=multigrid`."],
        ),
        make_rule(
            opt::DEFLATION,
            family,
            &[
                ("levelset", "the preconditioner is multigrid or amg, and the caller set labels"),
                ("none", "the preconditioner is amg"),
                (
                    "none",
                    &format!(
                        "the preconditioner is multigrid, and the number of components of strong couplings is not in \
                         [2, {}]",
                        group_digits(MAX_DEFLATED_COMPONENTS)
                    ),
                ),
                (
                    "levelset",
                    &format!(
                        "the preconditioner is multigrid, and the contrast is at most {DEFLATION_COUPLING_RATIO:e}"
                    ),
                ),
                (
                    "levelset",
                    &format!(
                        "the preconditioner is multigrid, and a component is less than {THIN_COMPONENT_CELLS} cells \
                         across"
                    ),
                ),
                ("levelset", "the preconditioner is multigrid, and the coarsening is `cell`"),
                ("none", "the preconditioner is multigrid"),
                ("levelset_subdomain", "the caller set labels, or there is a component of strong couplings"),
                ("subdomain", OTHERWISE),
            ],
            &["The last two rows of the table apply to preconditioners other than `multigrid` and `amg`."],
        ),
        make_rule(
            opt::COARSE_SOLVER,
            family,
            &[
                (
                    "inverse",
                    &format!(
                        "there are at most {MAX_INVERTED_VECTORS} deflation vectors on the CPU, or at most \
                         {MAX_INVERTED_VECTORS_ON_DEVICE} deflation vectors on a device"
                    ),
                ),
                ("cholesky", OTHERWISE),
            ],
            &[],
        ),
        make_rule(
            opt::PRECISION,
            family,
            &[("f32", "the preconditioner is multigrid or amg"), ("f64", OTHERWISE)],
            &[],
        ),
    ]
}

fn smoother_rules() -> [AutoRule; 4] {
    let family = Family::Smoother;
    [
        make_rule(
            opt::BACKEND,
            family,
            &[("cuda", "a CUDA device is present, and `memory=device` is set"), ("cpu", OTHERWISE)],
            &[],
        ),
        make_rule(
            opt::BLOCK_SOLVER,
            family,
            &[
                (
                    "fast_diagonalization",
                    &format!(
                        "a diagonal scaling makes the stencil symmetric in x, y and z, and the condition number of the \
                         scaling on a block is below {MAX_SCALING_CONDITION}"
                    ),
                ),
                ("dense", OTHERWISE),
            ],
            &[],
        ),
        make_rule(
            opt::PARALLEL,
            family,
            &[("all blocks", "always")],
            &["All blocks of all patches form one list, which is distributed among the threads."],
        ),
        make_rule(opt::TRANSFER, family, &[("depth_first", "always")], &[]),
    ]
}

fn sparse_rules() -> [AutoRule; 6] {
    let family = Family::Sparse;
    [
        make_rule(
            opt::BACKEND,
            family,
            &[
                (
                    "cuda",
                    &format!(
                        "a CUDA device is present, the matrix has at least {} entries, and a device has kernels for \
                         the options",
                        group_digits(SPARSE_DEVICE_ENTRIES)
                    ),
                ),
                ("cpu", OTHERWISE),
            ],
            &["A device has no kernels for the formats `coo`, `csc`, `jds`, `tjds` and `skyline`, and for other \
               orderings than `multicolour` in `gauss_seidel`, `sor`, `ssor`, `ic0` and `ilu0`. It supports fewer than \
               2^31 rows and columns. For `bicg`, a copy of the transpose must fit into `format_memory`. \
               With `transpose=none`, `auto` selects the CPU."],
        ),
        make_rule(
            opt::SOLVER,
            family,
            &[
                ("jacobi", "the matrix is diagonal"),
                ("idr", "the matrix is not symmetric"),
                ("cg", "all diagonal entries are positive"),
                ("minres", OTHERWISE),
            ],
            &["If `cg` finds that the matrix is indefinite, the solve continues with `minres`."],
        ),
        make_rule(
            opt::PRECONDITIONER,
            family,
            &[
                ("none", "the solver is `jacobi`, `gauss_seidel` or `sor`"),
                ("none", "the solver is `cg`, `steepest_descent` or `minres`, and a diagonal entry is zero"),
                (
                    "amg",
                    &format!(
                        "the solver is `cg` or `steepest_descent`, all diagonal entries are positive, more than half \
                         of the off-diagonal entries are negative, and the matrix has at least {} rows (on a device: \
                         {})",
                        group_digits(AMG_ROWS),
                        group_digits(AMG_ROWS_ON_DEVICE)
                    ),
                ),
                ("ic0", "the solver is `cg` or `steepest_descent`, and all diagonal entries are positive"),
                ("jacobi", "the solver is `cg`, `steepest_descent` or `minres`"),
                ("ilu0", OTHERWISE),
            ],
            &[
                "On a device, `ic0` and `ilu0` eliminate the rows by colours, as with `ordering=multicolour`.",
                "If the factorization of `ic0` or `ilu0` fails at a pivot, `jacobi` is used instead. If a diagonal \
                 entry is zero or missing, `none` is used instead of `jacobi`.",
            ],
        ),
        make_rule(opt::PRECISION, family, &[("f32", "the preconditioner is amg"), ("f64", OTHERWISE)], &[]),
        make_rule(
            opt::FORMAT,
            family,
            &[
                ("diagonal", "all entries are on the diagonal"),
                ("csr, dia, sell or bsr", "this format moves the fewest bytes in a product"),
            ],
            &[&format!(
                "`dia` is considered only if at most {MAX_DIAGONALS} diagonals have entries. A format that needs more \
                 memory than `format_memory` allows is not considered."
            )],
        ),
        make_rule(
            opt::TRANSPOSE,
            family,
            &[
                (
                    "none",
                    "the format is `dia`, `diagonal` or `skyline`, or a copy of the transpose needs more memory than \
                     `format_memory` allows",
                ),
                ("copy", OTHERWISE),
            ],
            &["This rule applies only to `bicg` with a matrix that is not symmetric."],
        ),
    ]
}

/// Formats a number with commas between groups of three digits.
fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::table::{Kind, OPTIONS};
    use super::*;

    /// Each option with a choice `auto` has a rule for each of its families.
    #[test]
    fn every_auto_choice_has_a_rule() {
        let rules = auto_rules();
        for option in OPTIONS {
            for (families, kind) in option.kinds_by_family {
                let Kind::Choice([("auto", _), ..]) = kind else { continue };
                for family in *families {
                    let has_rule = rules.iter().any(|r| r.key == option.key && r.family.is_none_or(|f| f == *family));
                    assert!(has_rule, "{} of {}", option.name, family.prefix());
                }
            }
        }
    }

    #[test]
    fn group_digits_inserts_commas() {
        assert_eq!([0, 999, 16_384, 1 << 20].map(group_digits), ["0", "999", "16,384", "1,048,576"]);
    }
}
