//! Random systems, options and initial guesses. A case depends only on the seed and its number, so each case can be
//! reproduced alone.

mod matrix;
mod options;
pub mod smoother;
pub mod sparse;

use crate::system::{LONE, flood};
use crate::twice::scaled;
use crate::{OUTSIDE, Stencil};

/// All features that the generator can produce. Each must occur in at least 1 % of the cases.
#[rustfmt::skip]
pub const BRANCHES: &[&str] = &[
    "5 points", "9 points", "one row or column", "16384 points or more", "positive couplings", "bilinear elements",
    "row sums: zero", "row sums: rounding", "row sums: within 1e-12", "row sums: within 1e-6",
    "row sums: 1e-6, one row", "row sums: of either sign", "row sums: nearly zero", "row sums: nearly zero, one row",
    "row sums: regular", "row sums: large", "several components", "regular beside singular", "land", "land without b",
    "field: constant", "field: random couplings", "field: random nodes", "field: blobs", "field: layers",
    "field: anisotropy", "contrast: 1e3", "contrast: 1e6", "contrast: 1e9", "contrast: 1e12", "A: large", "A: small",
    "A: huge", "A: tiny", "b: large", "b: small", "b: huge", "b: tiny", "x: too large", "x: too small", "b: random",
    "b: point source", "b: mostly zero", "b: constant", "b: constant and noise", "b: zero", "b: A times values",
    "b: A times red values", "guess: zero", "guess: random", "guess: with a mean", "guess: far",
    "guess: the last solution", "guess: near the solution", "another matrix before", "precision=auto",
    "precision=f64", "precision=f32", "precision=bf16", "precision=mixed", "cycle=auto", "cycle=v", "cycle=amli",
    "cycle=k", "cycle=aggregation", "cycle_spacing=2", "cycle_spacing=4", "cycle_steps=1", "cycle_steps=3",
    "norm=true2",
    "norm=preconditioned", "reference=rhs", "reference=initial", "null_space=auto", "null_space=none",
    "null_space=constant", "lumping=m1", "lumping=m2", "relaxation=0", "relaxation=0.5", "relaxation=0.95",
    "fusion=on", "fusion=off", "compensation=auto", "compensation=never", "compensation=always", "levels=0",
    "levels=1", "levels=2", "levels=100", "levels: few", "grids=1", "grids=3", "compute_block=8", "compute_block=64",
    "leading_dimension", "threads=1", "threads=2", "threads=3", "backend=reference", "check_input=0",
    "check_compatibility=1", "input not finite", "rel_tol=1e-2", "rel_tol=1e-4", "rel_tol=1e-6", "rel_tol=1e-8",
    "rel_tol=1e-10", "rel_tol=1e-12", "rel_tol=1e-14", "abs_tol", "max_iter=0", "max_iter=1", "max_iter: few",
    "monitor stops",
];

/// Random generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// Creates the random sequence of one case.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random number in [-1, 1).
    pub fn sign(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// Returns a random integer in low ..= high.
    pub fn whole(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    /// Returns true with this probability in percent.
    pub fn chance(&mut self, percent: f64) -> bool {
        100.0 * self.unit() < percent
    }

    /// Returns 10^v with v in [low, high).
    pub fn power(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(low + (high - low) * self.unit())
    }

    /// Returns one of the choices with a probability proportional to its weight.
    pub fn among<T: Copy>(&mut self, choices: &[(f64, T)]) -> T {
        let mut rest = self.unit() * choices.iter().map(|&(weight, _)| weight).sum::<f64>();
        for &(weight, choice) in choices {
            if rest < weight {
                return choice;
            }
            rest -= weight;
        }
        choices[choices.len() - 1].1
    }
}

/// Choices of the option `null_space`, in the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullSpace {
    /// `auto`
    Auto,
    /// `none`
    None,
    /// `constant`
    Constant,
}

/// Origin of the initial guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Generated.
    No,
    /// The x of a previous solve.
    Solution,
    /// The x of a previous solve, times 1 + 1e-8.
    Near,
}

/// Option values that the judge needs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Components on which constants are projected.
    pub null_space: NullSpace,
    /// Whether the preconditioned norm is tested.
    pub preconditioned: bool,
    /// Whether the norm is relative to that of the initial residual.
    pub of_initial: bool,
    /// Option `rel_tol`.
    pub rel_tol: f64,
    /// Option `abs_tol`.
    pub abs_tol: f64,
    /// Option `max_iter`.
    pub max_iter: usize,
    /// Requested precision.
    pub precision: &'static str,
    /// Requested cycle.
    pub cycle: &'static str,
    /// Requested cycle spacing.
    pub cycle_spacing: usize,
    /// Requested cycle steps.
    pub cycle_steps: usize,
    /// Whether positive couplings may be moved to the diagonal.
    pub compensated: bool,
    /// Whether nonfinite input is an error.
    pub check_input: bool,
    /// Whether a b with a component in the null space is an error.
    pub check_compatibility: bool,
}

/// A system, its options, and how it is solved.
pub struct Case {
    /// Number of the case in the sequence.
    pub number: u64,
    /// The matrix A.
    pub a: Stencil,
    /// Matrix that the handle factorizes before A.
    pub earlier: Option<Stencil>,
    /// The right-hand side b.
    pub b: Vec<f64>,
    /// Initial guess of the first solve.
    pub guess: Vec<f64>,
    /// Origin of the initial guess.
    pub restart: Restart,
    /// Distance of consecutive rows, in values.
    pub leading_dimension: usize,
    /// Option text.
    pub options: String,
    /// Values of the options in the text.
    pub settings: Settings,
    /// Iteration at which the monitor stops the solve.
    pub stop_at: Option<i64>,
    /// Whether an entry of b or of the guess is not finite.
    pub not_finite: bool,
    /// Features that the generator produced.
    pub branches: Vec<&'static str>,
}

/// Generator of one case.
struct Maker {
    random: Random,
    branches: Vec<&'static str>,
}

impl Maker {
    fn hit(&mut self, branch: &'static str) {
        assert!(BRANCHES.contains(&branch), "{branch} is not in the list");
        if !self.branches.contains(&branch) {
            self.branches.push(branch);
        }
    }

    /// Selects an option value, and records it as a feature.
    fn choose(&mut self, choices: &[(f64, &'static str)]) -> &'static str {
        let text = self.random.among(choices);
        self.hit(text);
        text
    }
}

/// Creates case `number` of `seed` for `backend`. Emulated devices get smaller grids.
pub fn make(seed: u64, number: u64, backend: &str) -> Case {
    let mut m = Maker { random: Random::new(seed, number), branches: Vec::new() };
    let (nx, ny) = m.extents(backend);
    let nine = m.random.chance(45.0);
    m.hit(if nine { "9 points" } else { "5 points" });
    let null_space = m.random.among(&[(62.0, NullSpace::Auto), (16.0, NullSpace::None), (22.0, NullSpace::Constant)]);
    let a_scale = m.scale_of_matrix();
    let earlier = m.random.chance(15.0).then(|| {
        m.hit("another matrix before");
        let kept = m.branches.len();
        let a = m.matrix(nx, ny, nine, null_space, 0);
        m.branches.truncate(kept);
        a
    });
    let a = m.matrix(nx, ny, nine, null_space, a_scale);
    let b_scale = m.scale_of_rhs(a_scale);
    let mut b = m.rhs(&a, a_scale);
    b.iter_mut().for_each(|b| *b = scaled(*b, b_scale));
    let (mut guess, restart) = m.guess(nx * ny, b_scale - a_scale);
    let not_finite = m.random.chance(1.5);
    if not_finite {
        m.hit("input not finite");
        let place = m.random.whole(0, b.len() - 1);
        let value = m.random.among(&[(1.0, f64::NAN), (1.0, f64::INFINITY), (1.0, f64::NEG_INFINITY)]);
        let array = if m.random.chance(50.0) { &mut b } else { &mut guess };
        array[place] = value;
    }
    let (options, settings, leading_dimension) = m.options(&a, &b, null_space, backend);
    let stop_at = m.random.chance(6.0).then(|| {
        m.hit("monitor stops");
        m.random.among(&[(1.0, 0), (1.0, 1), (1.0, 2), (1.0, 4), (1.0, 9)])
    });
    let branches = m.branches;
    Case { number, a, earlier, b, guess, restart, leading_dimension, options, settings, stop_at, not_finite, branches }
}

impl Maker {
    /// Returns mostly small extents, which have many boundary cases and cheap solves.
    fn extents(&mut self, backend: &str) -> (usize, usize) {
        let r = &mut self.random;
        // An emulated device needs a second for a millisecond of a CPU.
        let small_alone = backend == "emulated";
        let (nx, ny) = match r.among(&[(70.0, 0), (19.0, 1), (8.0, 2), (1.4, 3), (1.6, 4)]) {
            1 if !small_alone => (r.whole(1, 40), r.whole(1, 40)),
            1 => (r.whole(1, 20), r.whole(1, 20)),
            2 if r.chance(50.0) => (1, r.whole(1, 60)),
            2 => (r.whole(1, 60), 1),
            3 if !small_alone => (r.whole(41, 80), r.whole(41, 80)),
            4 if !small_alone && r.chance(10.0) => (r.whole(150, 200), r.whole(150, 200)),
            4 if !small_alone => (128, r.whole(128, 133)),
            _ => (r.whole(1, 12), r.whole(1, 12)),
        };
        if nx == 1 || ny == 1 {
            self.hit("one row or column");
        }
        if nx * ny >= 16384 {
            self.hit("16384 points or more");
        }
        (nx, ny)
    }

    /// Returns the power of two by which A is multiplied: 66 is 1e20, 450 is 1e135, 960 is 1e289.
    fn scale_of_matrix(&mut self) -> i32 {
        let r = &mut self.random;
        let size = r.among(&[(45.0, 0), (20.0, 1), (15.0, 2), (20.0, 3)]);
        let sign = if r.chance(50.0) { 1 } else { -1 };
        let exponent = match size {
            0 => return 0,
            1 => r.whole(1, 66),
            2 => r.whole(67, 450),
            // Centers of 1e-12 times the largest center must be normal numbers.
            _ => r.whole(500, 960),
        } as i32
            * sign;
        self.hit(match (exponent.abs() > 450, sign > 0) {
            (true, true) => "A: huge",
            (true, false) => "A: tiny",
            (false, true) => "A: large",
            (false, false) => "A: small",
        });
        exponent
    }

    /// Returns the power of two by which b is multiplied, so that x either fits into a double or is far from it.
    fn scale_of_rhs(&mut self, a_scale: i32) -> i32 {
        let r = &mut self.random;
        if a_scale.abs() > 400 && r.chance(15.0) {
            let size = (1100 - a_scale.abs() + r.whole(0, 150) as i32).clamp(0, 950);
            let exponent = if a_scale > 0 { -size } else { size };
            self.hit(if a_scale > 0 { "x: too small" } else { "x: too large" });
            return exponent;
        }
        let wanted = match r.among(&[(40.0, 0), (20.0, 1), (20.0, 2), (20.0, 3)]) {
            0 => 0,
            1 => r.whole(1, 66) as i32,
            2 => r.whole(67, 450) as i32,
            _ => r.whole(500, 960) as i32,
        };
        let sign = if r.chance(50.0) { 1 } else { -1 };
        // Limits x to 2^+-900 = 1e+-270, which leaves room for factors of 1e12 and more.
        let exponent = (wanted * sign).clamp(a_scale - 900, a_scale + 900).clamp(-960, 960);
        match exponent {
            451.. => self.hit("b: huge"),
            67..451 => self.hit("b: large"),
            -450..=-67 => self.hit("b: small"),
            ..-450 => self.hit("b: tiny"),
            _ => {}
        }
        exponent
    }

    /// Returns a right-hand side of magnitude 1.
    fn rhs(&mut self, a: &Stencil, a_scale: i32) -> Vec<f64> {
        let n = a.len();
        let kind = self.choose(&[
            (38.0, "b: random"),
            (12.0, "b: point source"),
            (10.0, "b: mostly zero"),
            (6.0, "b: constant"),
            (8.0, "b: constant and noise"),
            (4.0, "b: zero"),
            (16.0, "b: A times values"),
            (6.0, "b: A times red values"),
        ]);
        let r = &mut self.random;
        let mean = if r.chance(50.0) { 0.0 } else { r.power(-2.0, 2.0) };
        let noise = r.power(-16.0, -1.0);
        let source = r.whole(0, n - 1);
        let land = r.chance(50.0);
        let mut b: Vec<f64> = (0..n)
            .map(|p| match kind {
                "b: random" => mean + r.sign(),
                "b: point source" => f64::from(u8::from(p == source)),
                "b: mostly zero" => {
                    if r.chance(10.0) {
                        r.sign()
                    } else {
                        0.0
                    }
                }
                "b: constant" => 1.0,
                "b: constant and noise" => 1.0 + noise * r.sign(),
                "b: zero" => 0.0,
                "b: A times red values" if (p % a.nx + p / a.nx) % 2 != 1 && a.nx > 1 && a.ny > 1 => 0.0,
                _ => r.sign(),
            })
            .collect();
        if kind.starts_with("b: A times") {
            let mut unit = a.clone();
            for array in arrays(&mut unit) {
                array.iter_mut().for_each(|v| *v = scaled(*v, -a_scale));
            }
            b = unit.multiply(&b);
        }
        let (label, _) = flood(a.len(), &a.couplings());
        if land && label.contains(&LONE) {
            self.hit("land without b");
            (0..n).filter(|&p| label[p] == LONE).for_each(|p| b[p] = 0.0);
        }
        b
    }

    /// Returns an initial guess of magnitude 2^`scale`.
    fn guess(&mut self, n: usize, scale: i32) -> (Vec<f64>, Restart) {
        let kind = self.choose(&[
            (42.0, "guess: zero"),
            (14.0, "guess: random"),
            (20.0, "guess: with a mean"),
            (6.0, "guess: far"),
            (9.0, "guess: the last solution"),
            (9.0, "guess: near the solution"),
        ]);
        let r = &mut self.random;
        let mean = r.power(0.0, 9.0);
        let spread = if r.chance(50.0) { 0.0 } else { 1.0 };
        let guess = (0..n)
            .map(|_| match kind {
                "guess: random" => r.sign(),
                "guess: with a mean" => mean + spread * r.sign(),
                "guess: far" => 1e12 * r.sign(),
                // The guess of the previous solve sometimes has a nonzero mean.
                "guess: the last solution" if spread > 0.0 => mean,
                _ => 0.0,
            })
            .map(|x| scaled(x, scale.clamp(-950, 950)))
            .collect();
        let restart = match kind {
            "guess: the last solution" => Restart::Solution,
            "guess: near the solution" => Restart::Near,
            _ => Restart::No,
        };
        (guess, restart)
    }
}

fn arrays(a: &mut Stencil) -> Vec<&mut Vec<f64>> {
    let mut all = vec![&mut a.center, &mut a.east, &mut a.north];
    if let Some((northeast, northwest)) = &mut a.corners {
        all.extend([northeast, northwest]);
    }
    all
}

/// Value outside the grid and in the padding.
pub const JUNK: f64 = OUTSIDE;
