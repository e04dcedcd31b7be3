//! What conjugate gradients in single precision could gain at most: the two stages of an iteration that go over the first
//! grid, as loops over arrays of their own, with vectors and S1 in double and in single precision, M in bf16 in both.
//!
//! The loops read and write the arrays that the fused stages do, in rows of the two black colours, each line as often;
//! neighbours are taken without their shift by a column, which changes no line. Not in them: coarser grids, which are
//! single precision in either case, sums, the posts between threads, and all that keeps CG right in single precision
//! (difference form, renewed residuals). So their ratio is a bound of what `precision=mixed` could gain, not a forecast.

use crate::isa::for_each_isa;
use crate::timing::Samples;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::sync::Barrier;
use std::time::Instant;

/// Both precisions of a stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// Which.
    pub stage: String,
    /// 8-byte words per black node that it moves in double precision, and in single.
    pub words: [f64; 2],
    /// Time in double precision, and in single.
    pub seconds: [Samples; 2],
}

/// The stages of the first grid.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MixedBound {
    /// Nodes a side.
    pub n: usize,
    /// Threads.
    pub threads: usize,
    /// Way down, way up.
    pub passes: Vec<Pass>,
}

/// A number of vectors and S1.
trait Value: Copy + Default + Send + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + AddAssign {
    fn of(v: f64) -> Self;
    fn of_sweep(v: f32) -> Self;
    fn to_sweep(self) -> f32;
}

macro_rules! value {
    ($($t:ty),*) => {$(
        impl Value for $t {
            #[inline(always)]
            fn of(v: f64) -> Self { v as $t }
            #[inline(always)]
            fn of_sweep(v: f32) -> Self { v as $t }
            #[inline(always)]
            fn to_sweep(self) -> f32 { self as f32 }
        }
    )*};
}

value!(f64, f32);

/// A stored number of M.
#[inline(always)]
fn read(v: u16) -> f32 {
    f32::from_bits(u32::from(v) << 16)
}

/// One thread's arrays: `rows` rows of `width` values of each black colour.
struct Arrays<T> {
    width: usize,
    rows: usize,
    r: [Vec<T>; 2],
    q: [Vec<T>; 2],
    p: [Vec<T>; 2],
    x: [Vec<T>; 2],
    /// Center, couplings at distance two to the east and north of both colours.
    own: [[Vec<T>; 3]; 2],
    /// Couplings of the first colour to the second.
    diagonal: [Vec<T>; 4],
    /// Excess of the first colour, and the same couplings.
    m: [Vec<u16>; 5],
    /// What goes to the next grid and comes back.
    kept: Vec<f32>,
}

/// A row of bf16 arrays.
type RowsOfM<'a> = [&'a [u16]; 5];

/// 1 / d and the couplings at i.
#[inline(always)]
fn pivot(m: &RowsOfM, i: usize) -> (f32, [f32; 4]) {
    let a = [read(m[1][i]), read(m[2][i]), read(m[3][i]), read(m[4][i])];
    (1.0 / (read(m[0][i]) - ((a[0] + a[1]) + (a[2] + a[3]))), a)
}

#[inline(always)]
fn down_row<T: Value>(r: [&mut [T]; 2], q: [&[T]; 2], m: RowsOfM, z: &mut [f32], kept: &mut [f32], alpha: T) {
    let n = z.len();
    let [r1, r2] = r;
    let (r1, r2, q1, q2, kept) = (&mut r1[..n], &mut r2[..n], &q[0][..n], &q[1][..n], &mut kept[..n]);
    let m = m.map(|m| &m[..n]);
    for i in 0..n {
        r1[i] = r1[i] - alpha * q1[i];
        z[i] = r1[i].to_sweep() * pivot(&m, i).0;
    }
    for i in 0..n {
        r2[i] = r2[i] - alpha * q2[i];
        let a = pivot(&m, i).1;
        kept[i] = r2[i].to_sweep() - ((a[0] + a[1]) + (a[2] + a[3])) * z[i];
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn up_row<T: Value>(
    x: [&mut [T]; 2],
    p: [&mut [T]; 2],
    r: &[T],
    m: RowsOfM,
    kept: &[f32],
    z: &mut [f32],
    alpha: T,
    beta: T,
) {
    let n = z.len();
    let ([x1, x2], [p1, p2]) = (x, p);
    let (x1, x2, p1, p2) = (&mut x1[..n], &mut x2[..n], &mut p1[..n], &mut p2[..n]);
    let (r, kept, m) = (&r[..n], &kept[..n], m.map(|m| &m[..n]));
    for i in 0..n {
        x2[i] += alpha * p2[i];
        p2[i] = T::of_sweep(kept[i]) + beta * p2[i];
    }
    for i in 0..n {
        let (h, a) = pivot(&m, i);
        z[i] = h * (r[i].to_sweep() - ((a[0] + a[1]) + (a[2] + a[3])) * kept[i]);
    }
    for i in 0..n {
        x1[i] += alpha * p1[i];
        p1[i] = T::of_sweep(z[i]) + beta * p1[i];
    }
}

/// `a`: center, east, north, north of the row below, and the diagonals; `v`: here, above, below, and the other colour's.
#[inline(always)]
fn multiply_row<T: Value>(q: &mut [T], a: [&[T]; 8], v: [&[T]; 5]) {
    let n = q.len();
    let (a, v) = (a.map(|a| &a[..n]), v.map(|v| &v[..n]));
    for i in 0..n {
        let far = (a[1][i] * v[0][i] + a[1][i] * v[0][i]) + (a[2][i] * v[1][i] + a[3][i] * v[2][i]);
        let near = (a[4][i] * v[3][i] + a[5][i] * v[3][i]) + (a[6][i] * v[4][i] + a[7][i] * v[4][i]);
        q[i] = a[0][i] * v[0][i] + (far + near);
    }
}

#[inline(always)]
fn down_text<T: Value>(k: &mut Arrays<T>, z: &mut [f32]) {
    let alpha = T::of(1e-3);
    for row in 0..k.rows {
        let at = row * k.width..(row + 1) * k.width;
        let [r1, r2] = &mut k.r;
        down_row(
            [&mut r1[at.clone()], &mut r2[at.clone()]],
            [&k.q[0][at.clone()], &k.q[1][at.clone()]],
            k.m.each_ref().map(|m| &m[at.clone()]),
            z,
            &mut k.kept[at],
            alpha,
        );
    }
}

#[inline(always)]
fn up_text<T: Value>(k: &mut Arrays<T>, z: &mut [f32]) {
    let (alpha, beta) = (T::of(1e-3), T::of(0.5));
    let at = |row: usize| row * k.width..(row + 1) * k.width;
    for row in 0..=k.rows {
        if row < k.rows {
            let ([x1, x2], [p1, p2]) = (&mut k.x, &mut k.p);
            up_row(
                [&mut x1[at(row)], &mut x2[at(row)]],
                [&mut p1[at(row)], &mut p2[at(row)]],
                &k.r[0][at(row)],
                k.m.each_ref().map(|m| &m[at(row)]),
                &k.kept[at(row)],
                z,
                alpha,
                beta,
            );
        }
        let Some(here) = row.checked_sub(1) else { continue };
        let (below, above) = (here.saturating_sub(1), row.min(k.rows - 1));
        for c in 0..2 {
            let [center, east, north] = &k.own[c];
            let [d0, d1, d2, d3] = k.diagonal.each_ref().map(|d| &d[at(here)]);
            let a = [&center[at(here)], &east[at(here)], &north[at(here)], &north[at(below)], d0, d1, d2, d3];
            let (p, other) = (&k.p[c], &k.p[1 - c]);
            let beside = if c == 0 { below } else { above };
            let v = [&p[at(here)], &p[at(above)], &p[at(below)], &other[at(here)], &other[at(beside)]];
            multiply_row(&mut k.q[c][at(here)], a, v);
        }
    }
}

#[inline(always)]
fn down_double_text<const FMA: bool>(k: &mut Arrays<f64>, z: &mut [f32]) {
    down_text(k, z);
}
#[inline(always)]
fn down_single_text<const FMA: bool>(k: &mut Arrays<f32>, z: &mut [f32]) {
    down_text(k, z);
}
#[inline(always)]
fn up_double_text<const FMA: bool>(k: &mut Arrays<f64>, z: &mut [f32]) {
    up_text(k, z);
}
#[inline(always)]
fn up_single_text<const FMA: bool>(k: &mut Arrays<f32>, z: &mut [f32]) {
    up_text(k, z);
}

for_each_isa! { fn down_double(k: &mut Arrays<f64>, z: &mut [f32]) = down_double_text }
for_each_isa! { fn down_single(k: &mut Arrays<f32>, z: &mut [f32]) = down_single_text }
for_each_isa! { fn up_double(k: &mut Arrays<f64>, z: &mut [f32]) = up_double_text }
for_each_isa! { fn up_single(k: &mut Arrays<f32>, z: &mut [f32]) = up_single_text }

/// 1.0 in bf16.
const ONE: u16 = 0x3f80;

impl<T: Value> Arrays<T> {
    fn new(rows: usize, width: usize) -> Self {
        let of = |v: f64| vec![T::of(v); rows * width];
        let black = |v: f64| [of(v), of(v)];
        let own = || [of(0.4), of(0.0), of(0.0)];
        Self {
            width,
            rows,
            r: black(1.0),
            q: black(0.0),
            p: black(1.0),
            x: black(0.0),
            own: [own(), own()],
            diagonal: [of(0.01), of(0.01), of(0.01), of(0.01)],
            m: [ONE, 0, 0, 0, 0].map(|v| vec![v; rows * width]),
            kept: vec![0.0; rows * width],
        }
    }
}

/// Times of both ways over n x n nodes with this many threads, in turn in both precisions; `repeats` is at least one.
pub fn measure(n: usize, threads: usize, repeats: usize) -> MixedBound {
    // A row of a colour, as wide as a vector register asks for.
    let width = n.div_ceil(2).next_multiple_of(16);
    let all = n.div_ceil(2);
    let barrier = Barrier::new(threads);
    let work = |member: usize| {
        let rows = all * (member + 1) / threads - all * member / threads;
        let (mut double, mut single) = (Arrays::<f64>::new(rows, width), Arrays::<f32>::new(rows, width));
        let mut z = vec![0.0; width];
        let mut seconds = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
        let timed = |of: &mut Vec<f64>, run: &mut dyn FnMut()| {
            barrier.wait();
            let start = Instant::now();
            run();
            barrier.wait();
            of.push(start.elapsed().as_secs_f64());
        };
        for _ in 0..=repeats {
            timed(&mut seconds[0][0], &mut || down_double(&mut double, &mut z));
            timed(&mut seconds[1][0], &mut || up_double(&mut double, &mut z));
            timed(&mut seconds[0][1], &mut || down_single(&mut single, &mut z));
            timed(&mut seconds[1][1], &mut || up_single(&mut single, &mut z));
            black_box((&mut double.r, &mut double.q, &mut single.r, &mut single.q, &mut z));
        }
        // The first is the warm-up.
        seconds.map(|way| way.map(|times| Samples::new(times[1..].to_vec())))
    };
    let [down, up] = std::thread::scope(|scope| {
        let work = &work;
        for member in 1..threads {
            scope.spawn(move || work(member));
        }
        work(0)
    });
    // r rw, q; r / 2, p rw, x rw, S1 5, q. M 5 bf16 numbers of half the nodes; kept values once each way.
    let of_m = 0.5 * 5.0 * 0.25 + 0.5 * 0.5;
    let words = |double: f64| [double + of_m, 0.5 * double + of_m];
    MixedBound {
        n,
        threads,
        passes: vec![
            Pass { stage: "down".to_owned(), words: words(3.0), seconds: down },
            Pass { stage: "up".to_owned(), words: words(0.5 + 2.0 + 2.0 + 5.0 + 1.0), seconds: up },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both precisions do the same, and some work.
    #[test]
    fn single_does_what_double_does() {
        let (mut double, mut single) = (Arrays::<f64>::new(5, 16), Arrays::<f32>::new(5, 16));
        let mut z = [0.0; 16];
        for _ in 0..3 {
            down_double(&mut double, &mut z);
            up_double(&mut double, &mut z);
            down_single(&mut single, &mut z);
            up_single(&mut single, &mut z);
        }
        for c in 0..2 {
            for (d, s) in double.q[c].iter().zip(&single.q[c]).chain(double.x[c].iter().zip(&single.x[c])) {
                // A few roundings in single precision of numbers of order one.
                assert!((d - f64::from(*s)).abs() < 1e-5 && *d != 0.0, "{d} {s}");
            }
        }
    }
}
