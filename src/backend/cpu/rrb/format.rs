//! Number formats of the preconditioner, as types: what is stored, what sweeps compute in, and where the sweeps of a
//! grid find their numbers.

use super::area::{Area, Four};
use super::kernels::{difference_form, nine_points};
use super::neighbours::{Diagonal, Rows, Straight};
use super::packed::PackedGrid;
use crate::backend::storage::{Bf16, without_denormal};
use crate::error::Result;
use crate::grid::layout::Layout;
use crate::runtime::memory::{copy_past_caches, narrow_past_caches};
use crate::runtime::number::Real;
use crate::runtime::shared::Number;

// SAFETY: zero bytes are 0.0.
unsafe impl Number for Bf16 {}

/// A format of M.
pub trait Format: Sized + Send + Sync + 'static {
    /// What sweeps compute in.
    type Real: Real + Number;
    /// What is stored.
    type Stored: Number;
    /// What CG works in: r, p, q, and S1.
    type Vector: Real + Number;
    /// CG in single precision: S1 in difference form, residuals replaced in double precision.
    const SINGLE: bool = false;
    /// What a grid keeps for its sweeps beside what the factorization needs.
    type Own: Send + Sync;
    /// Room for a grid. `reds`: straight couplings and red pivots too.
    fn own(layout: &Layout, reds: bool) -> Result<Self::Own>;
    /// The numbers of a grid's sweeps.
    fn sweep(grid: &PackedGrid<Self>) -> Sweep<'_, Self>;
    /// Couplings b1 to b2 as sweeps read them: `wide`, where a grid has no others for them.
    fn diagonal<'a>(wide: &'a Diagonal, own: &'a Self::Own) -> &'a Diagonal<Self::Stored>;
    /// The arrays to fill for the sweeps, where they are not those of the factorization.
    fn short(own: &Self::Own) -> Option<&Short<Self::Stored>>;
    /// A stored number, to compute with.
    fn read(v: Self::Stored) -> Self::Real;
    /// What is stored of v.
    #[inline(always)]
    fn write(v: f64) -> Self::Stored {
        Self::round(Self::Real::narrow(v))
    }
    /// What is stored of a number that sweeps could compute with.
    fn round(v: Self::Real) -> Self::Stored;
    /// The same of one that was stored and read.
    fn same(v: Self::Real) -> Self::Stored;
    /// 1 / d from the stored pivot of a node and its couplings.
    fn inverse(pivot: Self::Stored, couplings: [Self::Real; 4]) -> Self::Real;
    /// An array of CG as one of doubles, the same memory, where it is one.
    fn wide(area: &Area<Self::Vector>) -> Option<Area>;
    /// The reverse.
    fn narrow(area: &Area) -> Option<Area<Self::Vector>>;
    /// A vector of CG as one of doubles, where it is one.
    fn wide_four(v: &Four<Self::Vector>) -> Option<&Four>;
    /// A row of it likewise.
    fn wide_row(row: &mut [Self::Vector]) -> Option<&mut [f64]>;
    /// A row of S1, past the caches; in single precision times `per_unit`, a power of two.
    fn keep(target: &mut [Self::Vector], source: &[f64], per_unit: f64);
    /// out = c w + sum of a v + sum of b u, a row of S1 times a vector; in single precision c is the row sum, and
    /// differences to w take the place of v and u, so that rounded couplings are those of a matrix with the right row
    /// sums.
    fn multiply(
        out: &mut [Self::Vector],
        c: &[Self::Vector],
        w: &[Self::Vector],
        a: Rows<Self::Vector>,
        v: Rows<Self::Vector>,
        b: Rows<Self::Vector>,
        u: Rows<Self::Vector>,
    );
}

/// CG in double precision.
macro_rules! double_vectors {
    () => {
        type Vector = f64;

        fn wide(area: &Area) -> Option<Area> {
            Some(area.again())
        }

        fn narrow(area: &Area) -> Option<Area> {
            Some(area.again())
        }

        fn wide_four(v: &Four) -> Option<&Four> {
            Some(v)
        }

        fn wide_row(row: &mut [f64]) -> Option<&mut [f64]> {
            Some(row)
        }

        fn keep(target: &mut [f64], source: &[f64], _: f64) {
            copy_past_caches(target, source);
        }

        fn multiply(out: &mut [f64], c: &[f64], w: &[f64], a: Rows, v: Rows, b: Rows, u: Rows) {
            nine_points(out, c, w, a, v, b, u);
        }
    };
}

/// CG in single precision.
macro_rules! single_vectors {
    () => {
        type Vector = f32;
        const SINGLE: bool = true;

        fn wide(_: &Area<f32>) -> Option<Area> {
            None
        }

        fn narrow(_: &Area) -> Option<Area<f32>> {
            None
        }

        fn wide_four(_: &Four<f32>) -> Option<&Four> {
            None
        }

        fn wide_row(_: &mut [f32]) -> Option<&mut [f64]> {
            None
        }

        fn keep(target: &mut [f32], source: &[f64], per_unit: f64) {
            narrow_past_caches(target, source, per_unit);
        }

        fn multiply(out: &mut [f32], c: &[f32], w: &[f32], a: Rows<f32>, v: Rows<f32>, b: Rows<f32>, u: Rows<f32>) {
            difference_form::<Single>(out, c, w, a, v, b, u);
        }
    };
}

/// The numbers of a grid's sweeps.
pub struct Sweep<'a, F: Format> {
    /// Red to black; on the first grid of S1 it is not used.
    pub straight: &'a Straight<F::Stored>,
    /// b1 to b2, of the skew stencil.
    pub diagonal: &'a Diagonal<F::Stored>,
    /// What [`Format::inverse`] takes, at r1, r2 and b1.
    pub pivot: &'a Four<F::Stored>,
}

/// f64: the arrays of the factorization, which keep 1 / d.
pub struct Double;

impl Format for Double {
    type Real = f64;
    type Stored = f64;
    type Own = ();
    double_vectors!();

    fn own(_: &Layout, _: bool) -> Result<()> {
        Ok(())
    }

    fn sweep(grid: &PackedGrid<Self>) -> Sweep<'_, Self> {
        Sweep { straight: &grid.straight, diagonal: &grid.black_diagonal, pivot: &grid.inverse }
    }

    fn diagonal<'a>(wide: &'a Diagonal, (): &'a ()) -> &'a Diagonal {
        wide
    }

    fn short((): &()) -> Option<&Short<f64>> {
        None
    }

    #[inline(always)]
    fn read(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn round(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn same(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn inverse(pivot: f64, _: [f64; 4]) -> f64 {
        pivot
    }
}

/// Couplings and excesses of a grid in a short format.
pub struct Short<T> {
    pub straight: Straight<T>,
    pub diagonal: Diagonal<T>,
    pub pivot: Four<T>,
}

impl<T: Number> Short<T> {
    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.straight.bytes() + self.diagonal.bytes() + self.pivot.bytes()
    }
}

/// f32 couplings and excesses, f32 sweeps.
pub struct Single;
/// bf16 couplings and excesses, f32 sweeps.
pub struct Brain;
/// The same, and CG in single precision.
pub struct Mixed;

macro_rules! short_format {
    ($name:ident, $stored:ty, $vectors:ident, |$v:ident| $read:expr, |$w:ident| $round:expr, |$s:ident| $same:expr) => {
        impl Format for $name {
            type Real = f32;
            type Stored = $stored;
            type Own = Short<$stored>;
            $vectors!();

            fn own(layout: &Layout, reds: bool) -> Result<Self::Own> {
                Ok(Short {
                    straight: Straight::zeroed(layout, reds)?,
                    diagonal: Diagonal::zeroed(layout, true)?,
                    pivot: Four::eliminated(layout, reds)?,
                })
            }

            fn sweep(grid: &PackedGrid<Self>) -> Sweep<'_, Self> {
                Sweep { straight: &grid.own.straight, diagonal: &grid.own.diagonal, pivot: &grid.own.pivot }
            }

            fn diagonal<'a>(_: &'a Diagonal, own: &'a Self::Own) -> &'a Diagonal<$stored> {
                &own.diagonal
            }

            fn short(own: &Self::Own) -> Option<&Short<$stored>> {
                Some(own)
            }

            #[inline(always)]
            fn read($v: $stored) -> f32 {
                $read
            }

            #[inline(always)]
            fn round($w: f32) -> $stored {
                $round
            }

            #[inline(always)]
            fn same($s: f32) -> $stored {
                $same
            }

            #[inline(always)]
            fn inverse(pivot: $stored, a: [f32; 4]) -> f32 {
                1.0 / (Self::read(pivot) - ((a[0] + a[1]) + (a[2] + a[3])))
            }
        }
    };
}

short_format!(Single, f32, double_vectors, |v| v, |w| without_denormal(w), |s| s);
short_format!(Brain, Bf16, double_vectors, |v| v.wide(), |w| Bf16::new(without_denormal(w)), |s| Bf16::same(s));
short_format!(Mixed, Bf16, single_vectors, |v| v.wide(), |w| Bf16::new(without_denormal(w)), |s| Bf16::same(s));
