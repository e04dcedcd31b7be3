//! Random stencils, patches and options for the family `smoother_`. A case depends only on the seed and its number.

use super::Random;
use crate::blocks::{Level, stencil};
use crate::twice::scaled;

/// Kinds of stencils. Each must occur in at least one of fifty cases.
#[rustfmt::skip]
pub const KINDS: &[&str] = &[
    "7 points, symmetric", "7 points, convection", "7 points, upwind", "7 points, either sign",
    "7 points, not dominant",
    "27 points, named", "27 points, dominant", "27 points, either sign", "27 points, not dominant",
];

/// A stencil on patches, and how it is relaxed.
pub struct Case {
    /// Kind of the stencil.
    pub kind: &'static str,
    /// Entries of the stencil.
    pub stencil: Vec<f64>,
    /// Cells of a block in x, y and z.
    pub block: [i64; 3],
    /// Patches with u, ghost cells and f.
    pub level: Level,
    /// Option text without `threads`, `parallel` and `backend`.
    pub options: String,
    /// Option `method`.
    pub method: &'static str,
    /// Option `parallel`.
    pub parallel: &'static str,
    /// Relaxation factor; 0 means the default.
    pub omega: f64,
    /// Option `stagger`.
    pub stagger: i32,
    /// Option `reverse`.
    pub reverse: bool,
    /// Whether blocks that extend beyond a patch overlap other blocks.
    pub overlap: bool,
    /// Option `block_solver`.
    pub block_solver: &'static str,
    /// Number of sweeps.
    pub sweeps: i32,
    /// Whether a value of u or f is not finite.
    pub not_finite: bool,
}

/// Creates case `number` of `seed`.
pub fn make(seed: u64, number: u64) -> Case {
    let mut random = Random::new(seed, number);
    let r = &mut random;
    let kind = KINDS[r.whole(0, KINDS.len() - 1)];
    let a_scale = if r.chance(15.0) { r.whole(0, 400) as i32 - 200 } else { 0 };
    let stencil: Vec<f64> = entries(r, kind).into_iter().map(|value| scaled(value, a_scale)).collect();
    // The judge inverts the blocks of stencils that are not dominant.
    let largest = if kind.ends_with("not dominant") { 3 } else { 8 };
    let block = [(); 3].map(|()| {
        let most = if r.chance(50.0) { largest } else { largest.min(4) };
        r.whole(1, most) as i64
    });
    let mut level = Level::new(&patches(r));
    let f_scale = a_scale + if r.chance(15.0) { r.whole(0, 400) as i32 - 200 } else { 0 };
    level.u.iter_mut().flatten().for_each(|u| *u = scaled(r.sign(), f_scale - a_scale));
    level.f.iter_mut().flatten().for_each(|f| *f = scaled(r.sign(), f_scale));
    let not_finite = r.chance(2.0);
    if not_finite {
        let (p, value) = (r.whole(0, level.f.len() - 1), if r.chance(50.0) { f64::NAN } else { f64::INFINITY });
        let place = r.whole(0, level.f[p].len() - 1);
        level.f[p][place] = value;
    }
    let method = r.among(&[(40.0, "coloured_gauss_seidel"), (30.0, "block_jacobi"), (30.0, "chaotic_gauss_seidel")]);
    let chaotic = method == "chaotic_gauss_seidel";
    let forms = [(if chaotic { 6.0 } else { 1.0 }, "patch"), (1.0, "auto"), (1.0, "block"), (1.0, "nested")];
    let parallel = r.among(&forms);
    let omega = r.among(&[(50.0, 0.0), (30.0, 1.0), (10.0, 0.5), (10.0, 1.3)]);
    let stagger = r.among(&[(70.0, 0), (15.0, 1), (15.0, 2)]);
    let reverse = r.chance(30.0);
    let overlap = r.chance(if chaotic && parallel == "patch" { 30.0 } else { 3.0 });
    let block_solver = r.among(&[(60.0, "auto"), (20.0, "dense"), (20.0, "fast_diagonalization")]);
    let options = format!(
        "method={method} omega={omega} stagger={stagger} reverse={} block_solver={block_solver} remainder={}",
        u8::from(reverse),
        if overlap { "overlap" } else { "exact" },
    );
    let sweeps = r.whole(0, 4) as i32;
    Case {
        kind,
        stencil,
        block,
        level,
        options,
        method,
        parallel,
        omega,
        stagger,
        reverse,
        overlap,
        block_solver,
        sweeps,
        not_finite,
    }
}

fn entries(r: &mut Random, kind: &str) -> Vec<f64> {
    if kind == "27 points, named" {
        return stencil(if r.chance(50.0) { "fe27" } else { "mixed27" });
    }
    let points = if kind.starts_with('7') { 7 } else { 27 };
    let center = if points == 7 { 0 } else { 13 };
    let mut entries: Vec<f64> = (0..points).map(|_| r.sign()).collect();
    match kind {
        "7 points, symmetric" => {
            for d in 0..3 {
                let value = -r.power(-3.0, 0.0);
                entries[1 + 2 * d..3 + 2 * d].fill(value);
            }
        }
        "7 points, convection" | "27 points, dominant" => entries.iter_mut().for_each(|value| *value = -value.abs()),
        "7 points, upwind" => {
            for d in 0..3 {
                let first = 1 + 2 * d + usize::from(r.chance(50.0));
                entries[1 + 2 * d..3 + 2 * d].fill(0.0);
                entries[first] = -1.0 - r.unit();
            }
        }
        _ => {}
    }
    if kind.ends_with("not dominant") {
        return entries;
    }
    entries[center] = 0.0;
    let sum: f64 = entries.iter().map(|value| value.abs()).sum();
    let factor = r.among(&[(1.0, 1.0), (1.0, 1.1), (1.0, 3.0)]);
    entries[center] = factor * sum * if r.chance(10.0) { -1.0 } else { 1.0 };
    entries
}

/// Returns boxes that do not overlap: the parts of a box that is cut twice, and boxes at a distance.
fn patches(r: &mut Random) -> Vec<([i64; 3], [i64; 3])> {
    let far = |r: &mut Random| [(); 3].map(|()| r.whole(0, 60) as i64 - 30);
    let extents = |r: &mut Random, most: usize| [(); 3].map(|()| r.whole(1, most) as i64);
    let most = if r.chance(80.0) { 9 } else { 20 };
    let mut all = vec![(far(r), extents(r, most))];
    for _ in 0..r.whole(0, 3) {
        let (p, d) = (r.whole(0, all.len() - 1), r.whole(0, 2));
        let (lower, size) = all[p];
        if size[d] > 1 {
            let at = r.whole(1, size[d] as usize - 1) as i64;
            let (mut upper, mut rest) = (lower, size);
            upper[d] += at;
            rest[d] -= at;
            all[p].1[d] = at;
            all.push((upper, rest));
        }
    }
    for k in 0..r.whole(0, 2) as i64 {
        let mut lower = far(r);
        lower[0] += 200 * (k + 1);
        all.push((lower, extents(r, 8)));
    }
    all
}
