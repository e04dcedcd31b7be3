//! Generator of A: couplings, land and walls, and centers that yield prescribed row sums of the components.

use super::{Maker, NullSpace, arrays};
use crate::system::{LONE, flood};
use crate::twice::scaled;
use crate::{Stencil, distance};

impl Maker {
    pub(super) fn matrix(&mut self, nx: usize, ny: usize, nine: bool, null_space: NullSpace, scale: i32) -> Stencil {
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

    /// Creates negative couplings from a field of contrast 1 to 1e12. They are multiples of 2^-46, so that sums can be
    /// exact.
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
                    let inside = |p: usize| distance((p % nx) as f64 - x, (p / nx) as f64 - y) <= radius;
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

    /// Discretizes -div k grad with bilinear elements on stretched cells, k constant per cell. The couplings along the
    /// short side are positive, but A is semidefinite and its null space is the constants.
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

    /// Adds land, and walls that divide the grid.
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

    /// Changes the sign of some couplings. Returns whether a sign changed.
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

    /// Sets the centers from the row sums of each component.
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
        // Row sums have one kind for all components, or a kind per component.
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
            // With couplings of both signs, the null vector of the matrix is not constant.
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

    /// Sets the centers of one component; `base` is the center with zero row sum. Row sums stay at least 10 % away from
    /// limits, which is far more than their rounding.
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
}

/// Rounds to a multiple of 2^-46. Couplings of 1e-12 times the largest keep 6 digits, and sums of 8 are exact in 53
/// bits.
fn multiple_of_quantum(v: f64) -> f64 {
    const QUANTUM: f64 = 1.0 / (1u64 << 46) as f64;
    (v / QUANTUM).round().max(1.0) * QUANTUM
}

/// Returns the coupling between p and a later node q.
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
