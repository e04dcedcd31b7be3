//! The hard suite of `benches/hard_suite.py`, reproduced up to rounding, for machines without numpy and for sizes that
//! are not stored.
//!
//! The random numbers have the order of the script. The generator is that of numpy: PCG64 (O'Neill 2014) with
//! `SeedSequence`, and normal numbers by the ziggurat of Marsaglia and Tsang (2000).

use crate::Stencil;
use crate::hard::System;
use std::f64::consts::PI;

/// The generator of `numpy.random.default_rng`.
struct Generator {
    state: u128,
    increment: u128,
    ziggurat: Ziggurat,
}

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// Returns four words from a seed below 2^32 (`SeedSequence`).
fn seeded(seed: u32) -> [u64; 4] {
    let scrambled = |value: u32, constant: &mut u32, factor: u32| {
        let value = value ^ *constant;
        *constant = constant.wrapping_mul(factor);
        let value = value.wrapping_mul(*constant);
        value ^ value >> 16
    };
    let mut constant = 0x43b0_d7e5;
    let mut pool = [seed, 0, 0, 0].map(|word| scrambled(word, &mut constant, 0x931e_8875));
    for from in 0..4 {
        for to in (0..4).filter(|&to| to != from) {
            let other = scrambled(pool[from], &mut constant, 0x931e_8875);
            let mixed = 0xca01_f9dd_u32.wrapping_mul(pool[to]).wrapping_sub(0x4973_f715_u32.wrapping_mul(other));
            pool[to] = mixed ^ mixed >> 16;
        }
    }
    let mut constant = 0x8b51_f9dd;
    let mut word = |k: usize| u64::from(scrambled(pool[k % 4], &mut constant, 0x58f3_8ded));
    std::array::from_fn(|k| word(2 * k) | word(2 * k + 1) << 32)
}

impl Generator {
    fn new(seed: u32) -> Self {
        let pair = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let [a, b, c, d] = seeded(seed);
        let mut made = Self { state: 0, increment: pair(c, d) << 1 | 1, ziggurat: Ziggurat::new() };
        made.step();
        made.state = made.state.wrapping_add(pair(a, b));
        made.step();
        made
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn word(&mut self) -> u64 {
        self.step();
        ((self.state >> 64) as u64 ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    /// Returns a random number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        loop {
            let word = self.word();
            let (layer, bits) = ((word & 0xff) as usize, (word >> 9) & ((1 << 52) - 1));
            let Layer { width, inside, height } = self.ziggurat.layers[layer];
            let x = if word >> 8 & 1 == 1 { -(bits as f64 * width) } else { bits as f64 * width };
            if bits < inside {
                return x;
            }
            if layer == 0 {
                let tail = self.tail();
                return if bits >> 8 & 1 == 1 { -tail } else { tail };
            }
            let above = self.ziggurat.layers[layer - 1].height;
            if (above - height) * self.unit() + height < (-0.5 * x * x).exp() {
                return x;
            }
        }
    }

    /// Returns a normal number beyond the last layer of the ziggurat.
    fn tail(&mut self) -> f64 {
        loop {
            let x = -(-self.unit()).ln_1p() / TAIL;
            let y = -(-self.unit()).ln_1p();
            if y + y > x * x {
                return TAIL + x;
            }
        }
    }
}

/// Beginning of the tail, and area of a layer, which equals TAIL exp(-TAIL^2 / 2) plus the area of the tail.
const TAIL: f64 = 3.654_152_885_361_009;
const AREA: f64 = 0.004_928_673_233_974_655;

/// A layer of the ziggurat. A random 52-bit number below `inside`, times `width`, is under the curve. The last field is
/// exp(-x^2 / 2) at the edge.
#[derive(Clone, Copy, Default)]
struct Layer {
    width: f64,
    inside: u64,
    height: f64,
}

struct Ziggurat {
    layers: [Layer; 256],
}

impl Ziggurat {
    fn new() -> Self {
        let density = |x: f64| (-0.5 * x * x).exp();
        let mut layers = [Layer::default(); 256];
        let bits = (1u64 << 52) as f64;
        let (mut x, base) = (TAIL, AREA / density(TAIL));
        layers[0] = Layer { width: base / bits, inside: (TAIL / base * bits) as u64, height: 1.0 };
        for k in (1..256).rev() {
            (layers[k].width, layers[k].height) = (x / bits, density(x));
            let next = if k > 1 { (-2.0 * (AREA / x + density(x)).ln()).sqrt() } else { 0.0 };
            layers[k].inside = (next / x * bits) as u64;
            x = next;
        }
        Self { layers }
    }
}

/// Generator of the systems of a seed and a size, in their order.
struct Maker {
    random: Generator,
    nx: usize,
    ny: usize,
    made: Vec<System>,
}

/// Couplings across the faces to the east and north of every node, including faces on the boundary.
type Faces = [Vec<f64>; 2];

impl Maker {
    fn normals(&mut self) -> Vec<f64> {
        (0..self.nx * self.ny).map(|_| self.random.normal()).collect()
    }

    fn units(&mut self) -> Vec<f64> {
        (0..self.nx * self.ny).map(|_| self.random.unit()).collect()
    }

    fn nodes<T>(&self, of: impl Fn(usize, usize) -> T) -> Vec<T> {
        (0..self.nx * self.ny).map(|p| of(p % self.nx, p / self.nx)).collect()
    }

    /// Returns normal noise with variance 1, filtered with exp(-2 pi^2 c^2 |f|^2) in frequency space.
    ///
    /// The filter is a product of one factor per direction. It is applied as a circular convolution along the rows,
    /// then along the columns.
    fn smooth(&mut self, c: f64) -> Vec<f64> {
        let weights = |n: usize| -> Vec<f64> {
            let of = |distance: usize| {
                let term = |k: usize| {
                    let f = k.min(n - k) as f64 / n as f64;
                    // The angle is reduced modulo 2 pi exactly, by the remainder of integers.
                    (-2.0 * (PI * c * f).powi(2)).exp() * (2.0 * PI * ((k * distance) % n) as f64 / n as f64).cos()
                };
                (0..n).map(term).sum::<f64>() / n as f64
            };
            (0..n).map(of).collect()
        };
        let (nx, ny) = (self.nx, self.ny);
        let (along, across) = (weights(nx), weights(ny));
        let noise = self.normals();
        let mut rows = vec![0.0; nx * ny];
        for (row, noise) in rows.chunks_exact_mut(nx).zip(noise.chunks_exact(nx)) {
            for (i, value) in row.iter_mut().enumerate() {
                // Weights of nodes i, i - 1, ..., 0, nx - 1, ..., i + 1.
                let (before, behind) = noise.split_at(i + 1);
                let near: f64 = before.iter().rev().zip(&along).map(|(v, w)| v * w).sum();
                *value = near + behind.iter().rev().zip(&along[i + 1..]).map(|(v, w)| v * w).sum::<f64>();
            }
        }
        let mut field = vec![0.0; nx * ny];
        for (j, to) in field.chunks_exact_mut(nx).enumerate() {
            for (k, from) in rows.chunks_exact(nx).enumerate() {
                let weight = across[(j + ny - k) % ny];
                to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * from);
            }
        }
        let n = field.len() as f64;
        let mean = field.iter().sum::<f64>() / n;
        let deviation = (field.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        field.iter_mut().for_each(|v| *v /= deviation);
        field
    }

    /// Returns harmonic means of k; on the boundary, the value of the node itself.
    fn faces(&self, k: &[f64]) -> Faces {
        let mean = |a: f64, b: f64| 2.0 * a * b / (a + b);
        let (nx, ny) = (self.nx, self.ny);
        [
            self.nodes(|i, j| if i + 1 < nx { mean(k[j * nx + i], k[j * nx + i + 1]) } else { k[j * nx + i] }),
            self.nodes(|i, j| if j + 1 < ny { mean(k[j * nx + i], k[(j + 1) * nx + i]) } else { k[j * nx + i] }),
        ]
    }

    /// Returns faces with one value per direction.
    fn constant(&self, east: f64, north: f64) -> Faces {
        [vec![east; self.nx * self.ny], vec![north; self.nx * self.ny]]
    }

    /// Adds a system with Dirichlet conditions on all sides.
    fn held(&mut self, name: &str, faces: Faces) {
        self.push(name, faces, 0.0, None, true);
    }

    /// Adds a system with Neumann conditions on all sides and a small mass.
    fn closed(&mut self, name: &str, wet: Vec<bool>) {
        let faces = self.constant(1.0, 1.0);
        self.push(name, faces, 1e-6, Some(wet), false);
    }

    fn push(&mut self, name: &str, [east, north]: Faces, mass: f64, wet: Option<Vec<bool>>, held: bool) {
        let (nx, ny) = (self.nx, self.ny);
        let is_wet = |p: usize| wet.as_ref().is_none_or(|wet| wet[p]);
        let zeros = || vec![0.0; nx * ny];
        // Entries that point out of the grid are zero, as in the files.
        let mut a = Stencil { nx, ny, center: zeros(), east: zeros(), north: zeros(), corners: None };
        for p in 0..nx * ny {
            if p % nx + 1 < nx && is_wet(p) && is_wet(p + 1) {
                a.east[p] = -east[p];
            }
            if p / nx + 1 < ny && is_wet(p) && is_wet(p + nx) {
                a.north[p] = -north[p];
            }
        }
        // The order of the additions determines the rounding.
        for p in 0..nx * ny {
            let (i, j) = (p % nx, p / nx);
            let mut sum = mass - a.east[p] - if i > 0 { a.east[p - 1] } else { 0.0 };
            sum = sum - a.north[p] - if j > 0 { a.north[p - nx] } else { 0.0 };
            if held {
                let outer = [(i == 0, &east), (i == nx - 1, &east), (j == 0, &north), (j == ny - 1, &north)];
                outer.into_iter().filter(|(is_edge, _)| *is_edge).for_each(|(_, face)| sum += face[p]);
            }
            a.center[p] = sum;
        }
        let mut b = self.normals();
        let mean = b.iter().sum::<f64>() / b.len() as f64;
        b.iter_mut().for_each(|b| *b -= mean);
        (0..b.len()).filter(|&p| !is_wet(p)).for_each(|p| b[p] = 0.0);
        self.made.push(System { name: name.to_owned(), a, b, singular: mass == 0.0 && !held });
    }
}

/// Returns grid spacings with mean 1 that decrease towards the middle.
fn spacing(n: usize) -> Vec<f64> {
    let at = |k: usize| if k + 1 == n { 1.0 } else { -1.0 + k as f64 * (2.0 / (n - 1) as f64) };
    let spacings: Vec<f64> = (0..n).map(|k| 1.0 - 0.98 * (PI * at(k) / 2.0).cos().powi(2)).collect();
    let mean = spacings.iter().sum::<f64>() / n as f64;
    spacings.iter().map(|dz| dz / mean).collect()
}

/// Returns the 16 systems. Each direction needs at least two nodes.
pub fn systems(seed: u32, nx: usize, ny: usize) -> Vec<System> {
    assert!(nx > 1 && ny > 1);
    let mut m = Maker { random: Generator::new(seed), nx, ny, made: Vec::new() };
    m.held("poisson", m.constant(1.0, 1.0));
    for a in [10, 100, 1000] {
        m.held(&format!("aniso{a}"), m.constant(f64::from(a), 1.0));
    }
    let (dx, dy) = (spacing(nx), spacing(ny));
    m.held("stretched", [m.nodes(|i, j| dy[j] * (1.0 / dx[i])), m.nodes(|i, j| 1.0 / dy[j] * dx[i])]);
    let k = m.nodes(|i, j| if (i / 16 + j / 16) % 2 == 0 { 1.0 } else { 1000.0 });
    m.held("checker16", m.faces(&k));
    let lognormal = |m: &mut Maker| -> Vec<f64> { m.smooth(6.0).iter().map(|v| (2.3 * v).exp()).collect() };
    let k = lognormal(&mut m);
    m.held("lognormal", m.faces(&k));
    let k: Vec<f64> = m.units().iter().map(|u| 10f64.powf(3.0 * u)).collect();
    m.held("whitenoise", m.faces(&k));
    let k = m.nodes(|_, j| if j / 3 % 4 == 0 { 1000.0 } else { 1.0 });
    m.held("layers3", m.faces(&k));
    let k: Vec<f64> = m.smooth(5.0).iter().map(|&v| if v > 0.3 { 1e6 } else { 1.0 }).collect();
    m.held("channels1e6", m.faces(&k));
    let from_middle = |i: usize, n: usize| (i as f64 - n as f64 / 2.0).powi(2);
    let radius = 100.0 * nx.min(ny) as f64 / 512.0;
    let k = m.nodes(|i, j| if from_middle(i, nx) + from_middle(j, ny) < radius * radius { 1e6 } else { 1.0 });
    m.held("disc1e6", m.faces(&k));
    for (name, land) in [("land10", 0.1), ("land30", 0.3)] {
        let wet = m.units().iter().map(|&u| u >= land).collect();
        m.closed(name, wet);
    }
    let wet = m.smooth(4.0).iter().map(|&v| v > -0.2).collect();
    m.closed("lakes", wet);
    let wet = m.nodes(|i, j| !(i % 16 == 0 && j % 64 != 5 || j % 16 == 0 && i % 64 != 9));
    m.closed("maze", wet);
    let k = lognormal(&mut m);
    m.push("neumann_logn", m.faces(&k), 0.0, None, false);
    m.made
}
