//! Sums of a fixed shape: the same bits whatever the number of threads or the instruction set.

use crate::error::Result;
use crate::runtime::number::Real;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;

/// Independent partial sums: enough for the latency of an addition, few enough for 16 registers of 2.
const LANES: usize = 16;

/// <a, b> in the type of b: lane l sums the products at l, l + 16, ...; lanes are added by halves, the tail last.
#[inline(always)]
pub fn dot<A: Real, B: Real>(a: &[A], b: &[B]) -> f64 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let product = |x: &A, y: &B| B::narrow(x.wide()) * *y;
    let mut lanes = [B::default(); LANES];
    let (ca, cb) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let mut tail = B::default();
    for (x, y) in ca.remainder().iter().zip(cb.remainder()) {
        tail += product(x, y);
    }
    for (x, y) in ca.zip(cb) {
        for l in 0..LANES {
            lanes[l] += product(&x[l], &y[l]);
        }
    }
    (add_lanes(&lanes) + tail).wide()
}

/// <v, D v>, with the lanes of `dot`.
#[inline(always)]
pub fn weighted_square(v: &[f64], d: &[f64]) -> f64 {
    let n = v.len().min(d.len());
    let (v, d) = (&v[..n], &d[..n]);
    let mut lanes = [0.0; LANES];
    let (cv, cd) = (v.chunks_exact(LANES), d.chunks_exact(LANES));
    let tail: f64 = cv.remainder().iter().zip(cd.remainder()).map(|(v, d)| v * (d * v)).sum();
    for (v, d) in cv.zip(cd) {
        for l in 0..LANES {
            lanes[l] += v[l] * (d[l] * v[l]);
        }
    }
    add_lanes(&lanes) + tail
}

/// Sum of a.
#[inline(always)]
pub fn sum<R: Real>(a: &[R]) -> f64 {
    let mut lanes = [0.0; LANES];
    let chunks = a.chunks_exact(LANES);
    let tail: f64 = chunks.remainder().iter().map(|v| v.wide()).sum();
    for x in chunks {
        for l in 0..LANES {
            lanes[l] += x[l].wide();
        }
    }
    add_lanes(&lanes) + tail
}

/// Not inlined: its pairs would make the compiler keep lanes in vectors of two. One array for each halving: in place,
/// the compiler reads across the vectors just written, and waits for them to arrive in memory.
#[inline(never)]
fn add_lanes<R: Real>(lanes: &[R; LANES]) -> R {
    fn halve<R: Real, const HALF: usize>(lanes: &[R]) -> [R; HALF] {
        std::array::from_fn(|l| lanes[l] + lanes[l + HALF])
    }
    let lanes: [R; 8] = halve(lanes);
    let lanes: [R; 4] = halve(&lanes);
    let lanes: [R; 2] = halve(&lanes);
    lanes[0] + lanes[1]
}

/// Sum by halves: error growth log n, shape fixed by the length alone.
pub fn pairwise(a: &[f64]) -> f64 {
    match a.len() {
        0..=64 => sum(a),
        n => {
            let (low, high) = a.split_at(n / 2);
            pairwise(low) + pairwise(high)
        }
    }
}

/// max |a|, NaN if any entry is NaN. By bit patterns, whose order is that of the magnitudes with NaN on top.
#[inline(always)]
pub fn max_abs(a: &[f64]) -> f64 {
    largest(a.iter().copied())
}

/// The same of what an iterator gives.
#[inline(always)]
pub fn largest(a: impl Iterator<Item = f64>) -> f64 {
    const MAGNITUDE: u64 = !(1 << 63);
    f64::from_bits(a.fold(0, |largest, v| largest.max(v.to_bits() & MAGNITUDE)))
}

/// What other ranks note.
pub trait Elsewhere: Send + Sync {
    /// `numbers`: of everything; this rank has noted its own, and the rest is filled in.
    fn fill(&self, numbers: &mut [&mut [f64]]);

    /// The same where sums alone are made of them: the sum of what a rank has may stand at its first place, and zeros
    /// at the others, on all ranks alike.
    fn fill_sums(&self, numbers: &mut [&mut [f64]]);
}

/// Room for what the members of a team note of rows, or of other things that are one member's each.
pub struct Noted {
    /// In turns: one reduction may be noted while the one before is still read.
    values: [Shared; 2],
    rows: usize,
}

impl Noted {
    /// For `most` numbers a row.
    pub fn new(rows: usize, most: usize) -> Result<Self> {
        Ok(Self { values: [Shared::zeroed(most * rows)?, Shared::zeroed(most * rows)?], rows })
    }

    /// The same where the caller has a barrier between the end of a reduction and the beginning of the next one.
    pub fn once(rows: usize, most: usize) -> Result<Self> {
        let values = Shared::zeroed(most * rows)?;
        Ok(Self { values: [values.clone(), values], rows })
    }

    /// Rows that it has room for.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes, of a `once`.
    pub fn bytes(&self) -> usize {
        self.values[0].bytes()
    }

    /// Begins reduction number `turn` over the first `rows` rows. A barrier stands between two reductions whose numbers
    /// are both even or both odd.
    pub fn reduce<const N: usize>(&self, turn: usize, rows: usize) -> Reduce<'_, N> {
        Reduce { values: &self.values[turn % 2], room: self.rows, rows, elsewhere: None }
    }
}

/// N sums over rows, or what else is made of all of them: each row is noted by its owner, and then all members do the
/// same with the same numbers in the same order, so that all have the same bits, whatever their number; over several
/// ranks, too.
#[derive(Clone, Copy)]
pub struct Reduce<'a, const N: usize> {
    values: &'a Shared,
    room: usize,
    rows: usize,
    elsewhere: Option<&'a dyn Elsewhere>,
}

impl<'a, const N: usize> Reduce<'a, N> {
    /// The numbers of a row.
    ///
    /// # Safety
    /// The row must be this member's, and be noted once.
    pub unsafe fn note(&self, row: usize, values: [f64; N]) {
        for (k, value) in values.into_iter().enumerate() {
            // SAFETY: as the caller promised; who read it in the reduction before was at a barrier since.
            unsafe { self.values.slice_mut(k * self.room + row, 1)[0] = value };
        }
    }

    /// Some of it is noted by other ranks.
    pub fn over(self, elsewhere: Option<&'a dyn Elsewhere>) -> Self {
        Self { elsewhere, ..self }
    }

    /// All that was noted, number by number. `None`: a barrier stands between already, or one member alone works.
    pub fn all(&self, me: Option<Me>) -> [&'a [f64]; N] {
        self.filled(me, |elsewhere, numbers| elsewhere.fill(numbers))
    }

    /// The same for sums over all, or over parts that hold all or nothing of what a rank has in one piece.
    pub fn summands(&self, me: Option<Me>) -> [&'a [f64]; N] {
        self.filled(me, |elsewhere, numbers| elsewhere.fill_sums(numbers))
    }

    fn filled(&self, me: Option<Me>, fill: fn(&dyn Elsewhere, &mut [&mut [f64]])) -> [&'a [f64]; N] {
        if let Some(me) = me {
            me.barrier();
        }
        if let Some(elsewhere) = self.elsewhere {
            if me.is_none_or(|me| me.index == 0) {
                // SAFETY: all is noted, and the others wait; or one member alone works.
                let of = |k: usize| unsafe { self.values.slice_mut(k * self.room, self.rows) };
                fill(elsewhere, &mut std::array::from_fn::<_, N, _>(of));
            }
            if let Some(me) = me {
                me.barrier();
            }
        }
        // SAFETY: noted before the barrier; noted again only after another one.
        std::array::from_fn(|k| unsafe { self.values.slice(k * self.room, self.rows) })
    }

    /// The sums, by halves.
    pub fn sum(&self, me: Option<Me>) -> [f64; N] {
        self.summands(me).map(pairwise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_awkward_lengths() {
        for n in [0, 1, 2, 7, 8, 9, 64, 65, 1000] {
            // Whole numbers below 2^53: every order gives the same sum.
            let a: Vec<f64> = (0..n).map(|k| f64::from(k % 17)).collect();
            let b: Vec<f64> = (0..n).map(|k| f64::from(k % 5)).collect();
            let expected: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert_eq!(dot(&a, &b), expected);
            assert_eq!(sum(&a), a.iter().sum::<f64>());
            assert_eq!(pairwise(&a), a.iter().sum::<f64>());
        }
    }

    #[test]
    fn largest_magnitude_keeps_nan() {
        assert_eq!(max_abs(&[1.0, -3.0, 2.0]), 3.0);
        assert!(max_abs(&[1.0, f64::NAN, 7.0]).is_nan());
        assert_eq!(max_abs(&[-f64::INFINITY]), f64::INFINITY);
    }
}
