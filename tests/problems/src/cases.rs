//! Random systems, options and guesses. A case follows from the seed and its number alone, so that it can be had again
//! by itself.

use crate::system::{LONE, flood};
use crate::twice::scaled;
use crate::{OUTSIDE, Stencil};

/// Everything that a generator may do. Each is to be hit by one case in a hundred at least.
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
    "cycle=k", "cycle_spacing=2", "cycle_spacing=4", "cycle_steps=1", "cycle_steps=3", "norm=true2",
    "norm=preconditioned", "reference=rhs", "reference=initial", "null_space=auto", "null_space=none",
    "null_space=constant", "lumping=m1", "lumping=m2", "relaxation=0", "relaxation=0.5", "relaxation=0.95",
    "fusion=on", "fusion=off", "compensation=auto", "compensation=never", "compensation=always", "levels=0",
    "levels=1", "levels=2", "levels=100", "levels: few", "grids=1", "grids=3", "compute_block=8", "compute_block=64",
    "leading_dimension", "threads=1", "threads=2", "threads=3", "backend=reference", "check_input=0",
    "check_compatibility=1", "input not finite", "rel_tol=1e-2", "rel_tol=1e-4", "rel_tol=1e-6", "rel_tol=1e-8",
    "rel_tol=1e-10", "rel_tol=1e-12", "rel_tol=1e-14", "abs_tol", "max_iter=0", "max_iter=1", "max_iter: few",
    "monitor stops",
];

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The sequence of one case.
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

    /// In [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In [-1, 1).
    fn sign(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// In low ..= high.
    fn whole(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    fn chance(&mut self, percent: f64) -> bool {
        100.0 * self.unit() < percent
    }

    /// 10^v, v in [low, high).
    fn power(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(low + (high - low) * self.unit())
    }

    /// One of these, by their weights.
    fn among<T: Copy>(&mut self, choices: &[(f64, T)]) -> T {
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

/// Numbers of the choices, as the option table has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullSpace {
    /// auto
    Auto,
    /// none
    None,
    /// constant
    Constant,
}

/// Where the guess comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It is given.
    No,
    /// The x of a solve before.
    Solution,
    /// That, times 1 + 1e-8.
    Near,
}

/// What the judge must know of the options.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Which constants are projected.
    pub null_space: NullSpace,
    /// The papers' norm.
    pub preconditioned: bool,
    /// Relative to the residual of the guess.
    pub of_initial: bool,
    /// rel_tol
    pub rel_tol: f64,
    /// abs_tol
    pub abs_tol: f64,
    /// max_iter
    pub max_iter: usize,
    /// As asked for.
    pub precision: &'static str,
    /// As asked for.
    pub cycle: &'static str,
    /// As asked for.
    pub cycle_spacing: usize,
    /// As asked for.
    pub cycle_steps: usize,
    /// Positive couplings may be moved.
    pub compensated: bool,
    /// Input that is not finite is refused.
    pub check_input: bool,
    /// b with a part in the null space is refused.
    pub check_compatibility: bool,
}

/// A system, its options, and how it is called.
pub struct Case {
    /// Its number in the sequence.
    pub number: u64,
    /// A
    pub a: Stencil,
    /// A matrix that the handle has had before.
    pub earlier: Option<Stencil>,
    /// b
    pub b: Vec<f64>,
    /// x as the first solve takes it.
    pub guess: Vec<f64>,
    /// Whether the guess comes of a solve before.
    pub restart: Restart,
    /// Values from one row of arrays to the next.
    pub leading_dimension: usize,
    /// As text.
    pub options: String,
    /// What the text says.
    pub settings: Settings,
    /// The iteration at which the monitor stops the solve.
    pub stop_at: Option<i64>,
    /// An entry of b or of the guess is not finite.
    pub not_finite: bool,
    /// What the generator did.
    pub branches: Vec<&'static str>,
}

/// Makes one case.
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

    /// A choice of an option, which is a branch by its own name.
    fn choose(&mut self, choices: &[(f64, &'static str)]) -> &'static str {
        let text = self.random.among(choices);
        self.hit(text);
        text
    }
}

/// Case `number` of `seed`, for `backend`; devices have smaller grids where they are emulated.
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
    /// Mostly small, where everything ends somewhere and a solve costs little.
    fn extents(&mut self, backend: &str) -> (usize, usize) {
        let r = &mut self.random;
        // A device that is emulated takes a second for what a processor does in a millisecond.
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

    /// Power of two that A is multiplied by. 66 is 1e20, 450 is 1e135, 960 is 1e289.
    fn scale_of_matrix(&mut self) -> i32 {
        let r = &mut self.random;
        let size = r.among(&[(45.0, 0), (20.0, 1), (15.0, 2), (20.0, 3)]);
        let sign = if r.chance(50.0) { 1 } else { -1 };
        let exponent = match size {
            0 => return 0,
            1 => r.whole(1, 66),
            2 => r.whole(67, 450),
            // Centers of 1e-12 of the largest must be normal numbers.
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

    /// The same of b, so that x fits a double, or by far does not.
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
        // x of 2^+-900, 1e+-270, with 1e12 and more on top.
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

    fn matrix(&mut self, nx: usize, ny: usize, nine: bool, null_space: NullSpace, scale: i32) -> Stencil {
        let elements = nine && nx > 1 && ny > 1 && self.random.chance(8.0);
        let mut a = if elements { self.bilinear_elements(nx, ny) } else { self.couplings(nx, ny, nine) };
        if !elements {
            self.cut(&mut a);
        }
        let flipped = !elements && null_space != NullSpace::Constant && self.random.chance(5.0);
        let positive = elements || flipped && self.flip(&mut a);
        self.centers(&mut a, null_space, positive, flipped);
        for array in arrays(&mut a) {
            array.iter_mut().for_each(|v| *v = scaled(*v, scale));
        }
        a
    }

    /// Negative couplings over a field of contrast 1e0 to 1e12, multiples of 2^-46, so that sums of them can be exact.
    fn couplings(&mut self, nx: usize, ny: usize, nine: bool) -> Stencil {
        let decades = self.random.among(&[(30.0, 0), (20.0, 3), (20.0, 6), (15.0, 9), (15.0, 12)]);
        match decades {
            3 => self.hit("contrast: 1e3"),
            6 => self.hit("contrast: 1e6"),
            9 => self.hit("contrast: 1e9"),
            12 => self.hit("contrast: 1e12"),
            _ => {}
        }
        let decades = f64::from(decades);
        let field = self.choose(&[
            (20.0, "field: constant"),
            (20.0, "field: random couplings"),
            (15.0, "field: random nodes"),
            (15.0, "field: blobs"),
            (15.0, "field: layers"),
            (15.0, "field: anisotropy"),
        ]);
        let nodes = self.node_values(field, nx, ny, decades);
        let r = &mut self.random;
        let (along_x, along_y) = if field == "field: anisotropy" {
            let ratio = 10f64.powf(-decades * r.unit());
            if r.chance(50.0) { (1.0, ratio) } else { (ratio, 1.0) }
        } else {
            (1.0, 1.0)
        };
        let corner = if r.chance(50.0) { 1.0 } else { 0.25 };
        let mut a = Stencil::zeros(nx, ny, nine);
        let mut weight = |p: usize, q: usize, factor: f64| {
            let w = if field == "field: random couplings" { r.power(-decades, 0.0) } else { nodes[p].min(nodes[q]) };
            -multiple_of_quantum(w * factor)
        };
        for p in 0..nx * ny {
            let (inside_x, inside_y) = (p % nx + 1 < nx, p / nx + 1 < ny);
            if inside_x {
                a.east[p] = weight(p, p + 1, along_x);
            }
            if inside_y {
                a.north[p] = weight(p, p + nx, along_y);
            }
            if let Some((northeast, northwest)) = &mut a.corners {
                if inside_x && inside_y {
                    northeast[p] = weight(p, p + nx + 1, corner * along_x.min(along_y));
                }
                if p % nx > 0 && inside_y {
                    northwest[p] = weight(p, p + nx - 1, corner * along_x.min(along_y));
                }
            }
        }
        a
    }

    fn node_values(&mut self, field: &str, nx: usize, ny: usize, decades: f64) -> Vec<f64> {
        let r = &mut self.random;
        let low = 10f64.powf(-decades);
        match field {
            "field: random nodes" => (0..nx * ny).map(|_| r.power(-decades, 0.0)).collect(),
            "field: blobs" => {
                let mut values = vec![low; nx * ny];
                for _ in 0..r.whole(1, 6) {
                    let (x, y) = (r.unit() * nx as f64, r.unit() * ny as f64);
                    let radius = r.unit() * 0.4 * nx.max(ny) as f64 + 0.5;
                    let inside = |p: usize| ((p % nx) as f64 - x).hypot((p / nx) as f64 - y) <= radius;
                    (0..nx * ny).filter(|&p| inside(p)).for_each(|p| values[p] = 1.0);
                }
                values
            }
            "field: layers" => {
                let (thickness, across) = (r.whole(1, 5), r.chance(50.0));
                let odd = |p: usize| (if across { p % nx } else { p / nx } / thickness) % 2 == 1;
                (0..nx * ny).map(|p| if odd(p) { low } else { 1.0 }).collect()
            }
            _ => vec![1.0; nx * ny],
        }
    }

    /// -div k grad by bilinear elements on stretched cells, k from cell to cell: positive couplings along the short
    /// side, and semidefinite with the constants as null space all the same.
    fn bilinear_elements(&mut self, nx: usize, ny: usize) -> Stencil {
        self.hit("bilinear elements");
        let r = &mut self.random;
        let stretch = 1.5 + 4.0 * r.unit();
        let decades = 3.0 * r.unit();
        let (along_x, along_y) = (1.0 / stretch, stretch);
        let mut a = Stencil::zeros(nx, ny, true);
        let inside = |array: &mut [f64]| array.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = 0.0);
        inside(&mut a.east);
        inside(&mut a.north);
        let (northeast, northwest) = a.corners.as_mut().expect("nine points");
        for j in 0..ny - 1 {
            for i in 0..nx - 1 {
                let p = j * nx + i;
                let k = r.power(-decades, 0.0);
                let [x, y] = [along_x, along_y].map(|v| multiple_of_quantum(k * v / 6.0));
                a.east[p] += y - 2.0 * x;
                a.east[p + nx] += y - 2.0 * x;
                a.north[p] += x - 2.0 * y;
                a.north[p + 1] += x - 2.0 * y;
                northeast[p] -= x + y;
                northwest[p + 1] -= x + y;
            }
        }
        a
    }

    /// Land, and walls that cut the grid into pieces.
    fn cut(&mut self, a: &mut Stencil) {
        let (nx, ny) = (a.nx, a.ny);
        if self.random.chance(18.0) {
            self.hit("land");
            let part = 0.02 + 0.68 * self.random.unit().powi(2);
            for p in 0..nx * ny {
                if self.random.unit() < part {
                    a.decouple(p % nx, p / nx, 1.0);
                }
            }
        }
        if self.random.chance(15.0) {
            let (at_x, at_y) = (self.random.whole(1, nx), self.random.whole(1, ny));
            let (cut_x, cut_y) = (self.random.chance(70.0), self.random.chance(70.0));
            let side = |p: usize| (cut_x && p % nx >= at_x, cut_y && p / nx >= at_y);
            let crossing: Vec<(usize, usize)> = a.couplings().iter().map(|&(p, q, _)| (p, q)).collect();
            for (p, q) in crossing.into_iter().filter(|&(p, q)| side(p) != side(q)) {
                *coupling(a, p, q) = 0.0;
            }
        }
    }

    /// Turns the sign of some couplings; whether of any.
    fn flip(&mut self, a: &mut Stencil) -> bool {
        let part = self.random.unit();
        let all: Vec<(usize, usize)> = a.couplings().iter().map(|&(p, q, _)| (p, q)).collect();
        let mut any = false;
        for (p, q) in all {
            if self.random.unit() < part {
                let value = coupling(a, p, q);
                *value = -*value;
                any |= *value != 0.0;
            }
        }
        any
    }

    /// Centers from the row sums that each component is to have.
    fn centers(&mut self, a: &mut Stencil, null_space: NullSpace, positive: bool, dominant: bool) {
        if positive {
            self.hit("positive couplings");
        }
        let (label, count) = flood(a.len(), &a.couplings());
        if count > 1 {
            self.hit("several components");
        }
        let (mut sums, mut sizes) = (vec![0.0; a.len()], vec![0.0; a.len()]);
        for (p, q, value) in a.couplings() {
            for node in [p, q] {
                sums[node] -= value;
                sizes[node] += value.abs();
            }
        }
        let (mut singular, mut regular) = (false, false);
        // One kind for all, or each component its own.
        let alike = self.random.chance(60.0);
        let mut kind = "";
        for k in 0..count {
            if kind.is_empty() || !alike {
                kind = self.kind_of_row_sums(null_space, dominant);
            }
            self.hit(kind);
            let within = ["row sums: zero", "row sums: rounding", "row sums: within 1e-12"].contains(&kind);
            (singular, regular) = (singular || within, regular || !within);
            let nodes: Vec<usize> = (0..a.len()).filter(|&p| label[p] == k).collect();
            let signed = null_space != NullSpace::None && self.random.chance(25.0);
            self.center_of_component(a, &nodes, kind, if dominant { &sizes } else { &sums }, signed);
        }
        if singular && regular && null_space != NullSpace::Constant {
            self.hit("regular beside singular");
        }
        for p in (0..a.len()).filter(|&p| label[p] == LONE) {
            a.center[p] = self.random.power(-3.0, 1.0);
        }
    }

    fn kind_of_row_sums(&mut self, null_space: NullSpace, dominant: bool) -> &'static str {
        if dominant {
            // The null vector of a matrix with couplings of either sign is no constant.
            return self.random.among(&[(1.0, "row sums: regular"), (1.0, "row sums: large")]);
        }
        self.random.among(match null_space {
            NullSpace::Constant => &[
                (12.0, "row sums: zero"),
                (12.0, "row sums: rounding"),
                (15.0, "row sums: within 1e-12"),
                (30.0, "row sums: within 1e-6"),
                (28.0, "row sums: 1e-6, one row"),
                (3.0, "row sums: regular"),
            ],
            NullSpace::None => &[
                (4.0, "row sums: zero"),
                (30.0, "row sums: nearly zero"),
                (30.0, "row sums: nearly zero, one row"),
                (30.0, "row sums: regular"),
                (15.0, "row sums: large"),
            ],
            NullSpace::Auto => &[
                (12.0, "row sums: zero"),
                (8.0, "row sums: rounding"),
                (15.0, "row sums: within 1e-12"),
                (12.0, "row sums: nearly zero"),
                (12.0, "row sums: nearly zero, one row"),
                (30.0, "row sums: regular"),
                (15.0, "row sums: large"),
            ],
        })
    }

    /// `base`: what makes row sums zero. Limits are kept clear of by a tenth, which is far more than their rounding.
    fn center_of_component(
        &mut self,
        a: &mut Stencil,
        nodes: &[usize],
        kind: &'static str,
        base: &[f64],
        signed: bool,
    ) {
        let one = nodes[self.random.whole(0, nodes.len() - 1)];
        let near = self.random.among(&[(1.0, 1.1e-12), (1.0, 1e-11), (1.0, 1e-10), (1.0, 1e-8), (1.0, 1e-5)]);
        let only = self.random.chance(30.0);
        for &p in nodes {
            let r = &mut self.random;
            let sign = if signed { r.sign() } else { r.unit() };
            let part = match kind {
                "row sums: rounding" => r.among(&[(1.0, 0.0), (1.0, f64::EPSILON), (1.0, 1e-15)]) * sign,
                "row sums: within 1e-12" => 0.9e-12 * sign,
                "row sums: within 1e-6" => 0.9e-6 * sign,
                "row sums: 1e-6, one row" => f64::from(u8::from(p == one)) * 0.9e-6,
                "row sums: nearly zero" => near * (1.0 + r.unit()),
                "row sums: nearly zero, one row" => f64::from(u8::from(p == one)) * near * 1.5,
                "row sums: regular" if only => f64::from(u8::from(p == one || r.chance(10.0))),
                "row sums: regular" => r.power(-3.0, 0.0),
                "row sums: large" => r.power(0.0, 2.0),
                _ => 0.0,
            };
            if signed && part != 0.0 && ["row sums: within 1e-12", "row sums: within 1e-6"].contains(&kind) {
                self.hit("row sums: of either sign");
            }
            a.center[p] = base[p] * (1.0 + part);
        }
    }

    /// Of the size of one.
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

    /// `scale`: power of two that x is of the size of.
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
                // The solve before starts from a mean at times.
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

    /// The text, what the judge must know of it, and the leading dimension.
    fn options(&mut self, a: &Stencil, b: &[f64], null_space: NullSpace, backend: &str) -> (String, Settings, usize) {
        let backend = if backend == "emulated" { "cuda" } else { backend };
        let mut words = Vec::new();
        let precision = self.choose(&[
            (40.0, "precision=auto"),
            (30.0, "precision=f64"),
            (10.0, "precision=f32"),
            (10.0, "precision=bf16"),
            (10.0, "precision=mixed"),
        ]);
        // cycle=k is not offered on devices.
        let k = if backend == "cuda" { 0.0 } else { 10.0 };
        let cycle = self.choose(&[(45.0, "cycle=auto"), (30.0, "cycle=v"), (15.0, "cycle=amli"), (k, "cycle=k")]);
        let norm = self.choose(&[(60.0, "norm=true2"), (40.0, "norm=preconditioned")]);
        let reference = self.choose(&[(65.0, "reference=rhs"), (35.0, "reference=initial")]);
        let null_text = match null_space {
            NullSpace::Auto => "null_space=auto",
            NullSpace::None => "null_space=none",
            NullSpace::Constant => "null_space=constant",
        };
        self.hit(null_text);
        let compensation =
            self.choose(&[(75.0, "compensation=auto"), (15.0, "compensation=never"), (10.0, "compensation=always")]);
        words.extend([precision, cycle, norm, reference, null_text, compensation].map(str::to_owned));
        words.push(self.choose(&[(75.0, "lumping=m1"), (25.0, "lumping=m2")]).to_owned());
        words.push(self.choose(&[(70.0, "fusion=on"), (30.0, "fusion=off")]).to_owned());
        words.push(self.choose(&[(60.0, "threads=1"), (25.0, "threads=2"), (15.0, "threads=3")]).to_owned());
        words.push(self.levels());
        let (spacing, steps) = self.cycle_details(&mut words);
        let relaxation = self.random.among(&[(70.0, ""), (8.0, "0"), (10.0, "0.5"), (12.0, "0.95")]);
        if !relaxation.is_empty() {
            let text = ["relaxation=0", "relaxation=0.5", "relaxation=0.95"]
                .into_iter()
                .find(|t| t.ends_with(&format!("={relaxation}")));
            words.push(text.inspect(|t| self.hit(t)).expect("in the list").to_owned());
        }
        for (percent, text) in [(6.0, "grids=1"), (6.0, "grids=3"), (6.0, "compute_block=8"), (6.0, "compute_block=64")]
        {
            if self.random.chance(percent) {
                self.hit(text);
                words.push(text.to_owned());
            }
        }
        // The reference backend is made for clarity.
        if backend == "cpu" && a.len() <= 2000 && self.random.chance(10.0) {
            self.hit("backend=reference");
            words.push("backend=reference".to_owned());
        } else {
            words.push(format!("backend={backend}"));
        }
        let check_input = !self.random.chance(10.0);
        if !check_input {
            self.hit("check_input=0");
            words.push("check_input=0".to_owned());
        }
        let check_compatibility = self.random.chance(5.0);
        if check_compatibility {
            self.hit("check_compatibility=1");
            words.push("check_compatibility=1".to_owned());
        }
        let leading_dimension = a.nx + if self.random.chance(25.0) { self.random.whole(1, 5) } else { 0 };
        if leading_dimension > a.nx {
            self.hit("leading_dimension");
            words.push(format!("leading_dimension={leading_dimension}"));
        }
        let (rel_tol, abs_tol, max_iter) = self.tolerances(a, b, norm == "norm=preconditioned", &mut words);
        let value = |text: &'static str| text.split_once('=').expect("name and value").1;
        let settings = Settings {
            null_space,
            preconditioned: norm == "norm=preconditioned",
            of_initial: reference == "reference=initial",
            rel_tol,
            abs_tol,
            max_iter,
            precision: value(precision),
            cycle: value(cycle),
            cycle_spacing: spacing,
            cycle_steps: steps,
            compensated: compensation != "compensation=never",
            check_input,
            check_compatibility,
        };
        (words.join(" "), settings, leading_dimension)
    }

    fn levels(&mut self) -> String {
        let text = self.choose(&[
            (55.0, "levels=0"),
            (8.0, "levels=1"),
            (8.0, "levels=2"),
            (20.0, "levels: few"),
            (9.0, "levels=100"),
        ]);
        if text == "levels: few" { format!("levels={}", self.random.whole(3, 8)) } else { text.to_owned() }
    }

    fn cycle_details(&mut self, words: &mut Vec<String>) -> (usize, usize) {
        let spacing = self.random.among(&[(70.0, 0), (12.0, 2), (12.0, 4), (5.0, 6), (1.0, 3)]);
        match spacing {
            2 => self.hit("cycle_spacing=2"),
            4 => self.hit("cycle_spacing=4"),
            _ => {}
        }
        let steps = self.random.among(&[(80.0, 2), (8.0, 1), (8.0, 3), (2.0, 5), (2.0, 8)]);
        match steps {
            1 => self.hit("cycle_steps=1"),
            3 => self.hit("cycle_steps=3"),
            _ => {}
        }
        words.push(format!("cycle_spacing={spacing} cycle_steps={steps}"));
        (spacing, steps)
    }

    fn tolerances(
        &mut self,
        a: &Stencil,
        b: &[f64],
        preconditioned: bool,
        words: &mut Vec<String>,
    ) -> (f64, f64, usize) {
        const STEPS: [(f64, &str); 7] = [
            (1e-2, "rel_tol=1e-2"),
            (1e-4, "rel_tol=1e-4"),
            (1e-6, "rel_tol=1e-6"),
            (1e-8, "rel_tol=1e-8"),
            (1e-10, "rel_tol=1e-10"),
            (1e-12, "rel_tol=1e-12"),
            (1e-14, "rel_tol=1e-14"),
        ];
        let weights = [1.0, 1.0, 3.0, 2.0, 2.0, 1.0, 0.7];
        let choices: Vec<(f64, usize)> = weights.into_iter().zip(0..).collect();
        let (rel_tol, text) = STEPS[self.random.among(&choices)];
        self.hit(text);
        words.push(text.to_owned());
        let mut abs_tol = 0.0;
        if self.random.chance(8.0) {
            self.hit("abs_tol");
            // About the tested norm of b.
            let size = b.iter().fold(0.0, |m: f64, b| m.max(b.abs()));
            let center = a.center.iter().fold(0.0, |m: f64, &c| m.max(c));
            let unit = if preconditioned { size / center.sqrt() } else { size };
            let wanted = unit * self.random.power(-9.0, -1.0);
            abs_tol = if wanted.is_normal() { wanted } else { 0.0 };
            words.push(format!("abs_tol={abs_tol:e}"));
        }
        let max_iter = match self.random.among(&[(3.0, 0), (3.0, 1), (8.0, 2), (86.0, 3)]) {
            0 => {
                self.hit("max_iter=0");
                0
            }
            1 => {
                self.hit("max_iter=1");
                1
            }
            2 => {
                self.hit("max_iter: few");
                self.random.whole(2, 12)
            }
            // A large grid with a large contrast takes too long to end.
            _ if a.len() > 4000 => 120,
            _ => 1000,
        };
        words.push(format!("max_iter={max_iter}"));
        (rel_tol, abs_tol, max_iter)
    }
}

/// Couplings of 1e-12 of the largest still have 6 digits, and sums of 8 fit 53 bits.
fn multiple_of_quantum(v: f64) -> f64 {
    const QUANTUM: f64 = 1.0 / (1u64 << 46) as f64;
    (v / QUANTUM).round().max(1.0) * QUANTUM
}

fn arrays(a: &mut Stencil) -> Vec<&mut Vec<f64>> {
    let mut all = vec![&mut a.center, &mut a.east, &mut a.north];
    if let Some((northeast, northwest)) = &mut a.corners {
        all.extend([northeast, northwest]);
    }
    all
}

/// The coupling between p and a later q.
fn coupling(a: &mut Stencil, p: usize, q: usize) -> &mut f64 {
    let nx = a.nx;
    if q == p + nx {
        return &mut a.north[p];
    }
    if q == p + 1 && p / nx == q / nx {
        return &mut a.east[p];
    }
    let (northeast, northwest) = a.corners.as_mut().expect("nine points");
    if q == p + nx + 1 { &mut northeast[p] } else { &mut northwest[p] }
}

/// What stands outside the grid and in the padding.
pub const JUNK: f64 = OUTSIDE;
