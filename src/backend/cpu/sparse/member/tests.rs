//! Methods on the steps of a team: counts of the golden table (golden/sparse.csv), and the same bits for any number of
//! members and, to rounding, in every format.

use super::*;
use crate::backend::cpu::sparse::Cpu;
use crate::backend::cpu::sparse::chunks::CHUNK;
use crate::backend::cpu::sparse::precondition::{Wanted, make};
use crate::backend::steps::solve::Arrays;
use crate::error::{Place, Result};
use crate::options::{Family, Format, Norm, Options, opt};
use crate::report::{Nobody, Outcome, StopReason};
use crate::runtime::team::Team;
use crate::solver::krylov::{
    BICG_VECTORS, BICGSTAB_VECTORS, BestIterate, MINRES_VECTORS, PcgEnd, Restarts, Start, Test, bicg, bicgstab, minres,
    pcg,
};
use crate::solver::solve::{self, Control, Places, Seen};
use crate::sparse::{AnyCsr, Entries, Indices, Matrix, Order, Wanted as Shape};

/// Five points on n x n, x fastest: center, east, west, north, south.
fn five_points(n: usize, legs: [f64; 5]) -> Box<dyn Matrix> {
    let (mut rows, mut cols, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for p in 0..n * n {
        let (i, j) = (p % n, p / n);
        let there = [true, i + 1 < n, i > 0, j + 1 < n, j > 0];
        let to = [p, p + 1, p.wrapping_sub(1), p + n, p.wrapping_sub(n)];
        for ((to, value), _) in to.into_iter().zip(legs).zip(there).filter(|(_, there)| *there) {
            rows.push(p as i64);
            cols.push(to as i64);
            values.push(value);
        }
    }
    let [first, second] = [&rows, &cols].map(|indices| Indices::Wide(indices));
    let extent = n * n;
    Entries { rows: extent, cols: extent, order: Order::Coordinates, first, second, base: 0 }.matrix(&values).unwrap()
}

fn poisson(n: usize) -> Box<dyn Matrix> {
    five_points(n, [4.0, -1.0, -1.0, -1.0, -1.0])
}

/// Dominant, and not symmetric.
fn convection(n: usize) -> Box<dyn Matrix> {
    five_points(n, [4.2, -0.9, -1.1, -0.95, -1.05])
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Method {
    Cg,
    Bicg,
    Bicgstab,
    Minres,
}

impl Method {
    fn vectors(self) -> usize {
        match self {
            Self::Cg => PCG_VECTORS,
            Self::Bicg => BICG_VECTORS,
            Self::Bicgstab => BICGSTAB_VECTORS,
            Self::Minres => MINRES_VECTORS,
        }
    }

    fn run(self, s: &mut Member, test: &Test, start: Start) -> Result<PcgEnd> {
        match self {
            Self::Cg => {
                let mut keep = |_: &mut Member, _: f64, _: f64| None;
                let mut best = BestIterate::new(f64::INFINITY, &mut keep);
                pcg(s, test, &mut best, &mut Restarts::none(), start)
            }
            Self::Bicg => bicg(s, test, start),
            Self::Bicgstab => bicgstab(s, test, start),
            Self::Minres => minres(s, test, start),
        }
    }
}

/// b = A times ones, x = 0, to 1e-6 of |b|: iterations and x. A' of a matrix that is not symmetric comes from the
/// format of A where no copy is asked for.
fn solve(
    a: &dyn Matrix,
    format: Format,
    method: Method,
    wanted: Wanted,
    members: usize,
    copy: bool,
) -> (usize, Vec<f64>) {
    let n = a.facts().rows;
    let shape = Shape { format, slice: 8, sigma: 24, block_size: 3, memory: 1 << 34, product: true };
    let (kind, size) = a.choose(&shape).unwrap();
    let stored = a.store(kind, &size).unwrap();
    let stored = stored.as_deref().unwrap_or_else(|| a.csr());
    let AnyCsr::Narrow(csr) = a.any() else { panic!("indices are narrow") };
    let transposed = csr.transposed().unwrap();
    let operator = Operator { a: stored, transposed: copy.then_some(&transposed as &dyn Stored) };
    let state = State::new(n, method.vectors(), make(csr, &wanted).unwrap().precondition).unwrap();
    let ones = vec![1.0; n];
    // SAFETY: this thread alone has the state.
    stored.multiply(&ones, unsafe { state.vector(VectorId::B).slice_mut(0, n) });
    // The steps of a method use no array of the caller.
    let caller = Caller::new(Arrays {
        input_name: "b",
        input: &[],
        ld: n,
        plane: n,
        output: &mut [],
        device_input: 0,
        device_output: 0,
        len: n,
    });
    let work = |me: Me| {
        let mut s = Member::new(&state, operator, me, &caller, None);
        let norm2 = s.true_residual();
        let reference = norm2.sqrt();
        let test = Test {
            norm: Norm::True2,
            threshold: 1e-6 * reference,
            reference,
            max_iter: 10_000,
            rounding: 0.0,
            vanishing: 0.0,
            center_max: 4.0,
            definite: true,
            confirms: false,
            divergence: f64::INFINITY,
        };
        method.run(&mut s, &test, Start { norm2, iterations: 0 }).unwrap()
    };
    let end = Team::new(members)
        .unwrap()
        .run(
            |me| {
                work(me);
            },
            work,
        )
        .unwrap();
    assert_eq!(end.reason, StopReason::Converged, "{method:?} {wanted:?}");
    // SAFETY: the members have ended.
    (end.iterations, unsafe { state.vector(VectorId::X).slice(0, n) }.to_vec())
}

/// Rows of poisson2d_64; M = D = 4 changes no count. That of bicgstab is sensitive: 78 to 83 by the order of sums, and
/// a tenth beyond.
#[test]
fn golden_counts() {
    let a = poisson(64);
    for wanted in [Wanted::None, Wanted::Jacobi] {
        let count = |method| solve(&*a, Format::Csr, method, wanted, 2, true).0;
        assert_eq!(count(Method::Cg), 104);
        assert_eq!(count(Method::Bicg), 104);
        assert_eq!(count(Method::Minres), 102);
        assert!((70..=91).contains(&count(Method::Bicgstab)));
    }
}

/// More chunks than members, and rows of chunks that no grain of sell or bsr divides.
#[test]
fn bits_are_those_of_one_member() {
    let a = convection(97);
    for format in [Format::Csr, Format::Sell, Format::Dia, Format::Bsr, Format::Coo] {
        for (method, copy) in [(Method::Bicg, true), (Method::Bicg, false), (Method::Bicgstab, false)] {
            for wanted in [Wanted::None, Wanted::Jacobi] {
                let one = solve(&*a, format, method, wanted, 1, copy);
                for members in [2, 3, 7] {
                    let more = solve(&*a, format, method, wanted, members, copy);
                    assert_eq!(one, more, "{format:?} {method:?} {wanted:?}, {members} members");
                }
            }
        }
    }
}

#[test]
fn small_systems() {
    for n in [1, 2, 3, 5, 8] {
        for method in [Method::Cg, Method::Bicg, Method::Bicgstab, Method::Minres] {
            let (iterations, x) = solve(&*poisson(n), Format::Auto, method, Wanted::Jacobi, 3, true);
            assert!(iterations <= n * n, "{method:?} at {n}: {iterations}");
            // The error is at most the residual over the least eigenvalue, 4 - 4 cos(pi / (n + 1)) > 0.24 at n = 8.
            let error = x.iter().map(|x| (x - 1.0).abs()).fold(0.0, f64::max);
            assert!(error <= 1e-6 * 2.0 * (n as f64) * 8.0 / 0.24, "{method:?} at {n}: {error}");
        }
    }
}

/// Where a system has no places of its own.
struct ByEntry;

impl Places for ByEntry {
    fn node(&self, i: usize, chunk: usize) -> Place {
        Place::entry(chunk * CHUNK + i)
    }

    fn component(&self, component: usize) -> Place {
        Place::entry(component)
    }
}

/// A method over numbered vectors, as a solve takes it.
struct Numbered(fn(&mut dyn VectorSteps, &Test, Start) -> Result<PcgEnd>);

impl solve::Method for Numbered {
    fn run(&self, s: &mut dyn VectorSteps, test: &Test, start: Start) -> Result<PcgEnd> {
        (self.0)(s, test, start)
    }
}

/// From the caller's arrays back to them, with `rel_tol` 1e-10.
fn solved(a: &dyn Matrix, method: Option<&Numbered>, b: &[f64], x: &mut [f64], threads: usize) -> Result<Outcome> {
    let AnyCsr::Narrow(csr) = a.any() else { panic!("indices are narrow") };
    let mut options = Options::new(Family::Dpcg);
    options.set_real(opt::REL_TOL, 1e-10)?;
    let seen = Seen { center_max: 4.2, singular: 0, places: &ByEntry };
    let mut control = Control::new(&options, seen, false, true, b.len());
    control.method = method.map(|method| method as &dyn solve::Method);
    control.divergence = 1e10;
    let mut cpu = Cpu::new();
    cpu.set_up(b.len(), BICG_VECTORS, make(csr, &Wanted::Jacobi)?.precondition, threads)?;
    let n = b.len();
    let arrays =
        Arrays { input_name: "b", input: b, ld: n, plane: n, output: x, device_input: 0, device_output: 0, len: n };
    let operator = Operator { a: a.csr(), transposed: None };
    cpu.run(operator, arrays, &mut Nobody, &|s| solve::solve(s, &control))
}

/// The whole way, by one thread and three, from zero and from a guess, with numbers far from one.
#[test]
fn from_array_to_array() {
    const N: usize = 140;
    let bicgstab = Numbered(|s, test, start| bicgstab(s, test, start));
    let ways = [(poisson(N), None), (convection(N), Some(&bicgstab)), (poisson(N), Some(&bicgstab))];
    for (a, method) in ways {
        let wanted: Vec<f64> = (0..N * N).map(|i| 1e-200 * (1.0 + (i % 7) as f64)).collect();
        let mut b = vec![0.0; N * N];
        a.csr().multiply(&wanted, &mut b);
        for guess in [0.0, 5e-200] {
            let [one, three] = [1, 3].map(|threads| {
                let mut x = vec![guess; N * N];
                let outcome = solved(&*a, method, &b, &mut x, threads).unwrap();
                assert_eq!(outcome.reason, StopReason::Converged);
                assert!(outcome.iterations > 10 && outcome.final_residual <= 1e-10);
                x
            });
            assert_eq!(one, three);
            // The condition of poisson at 140 is 8e3: errors are at most 1e-10 of that, relative to the norm of b.
            let error = one.iter().zip(&wanted).map(|(x, w)| (x / w - 1.0).abs()).fold(0.0, f64::max);
            assert!(error < 1e-4, "{error}");
        }
    }
}

/// What is not finite is named by its place; what diverges leaves the guess; b = 0 gives x = 0.
#[test]
fn ends_that_are_no_success() {
    let a = poisson(50);
    let (mut b, mut x) = (vec![1.0; 2500], vec![3.0; 2500]);
    b[2100] = f64::NAN;
    let error = solved(&*a, None, &b, &mut x, 1).unwrap_err();
    assert!(error.to_string().contains("2100"), "{error}");
    b[2100] = 1.0;
    let diverges = Numbered(|s, _, start| {
        s.combine(VectorId::X, 1e20, &[]);
        Ok(PcgEnd { iterations: start.iterations + 1, norm: 1e30, reason: StopReason::Diverged })
    });
    let outcome = solved(&*a, Some(&diverges), &b, &mut x, 1).unwrap();
    assert_eq!((outcome.reason, outcome.iterations), (StopReason::Diverged, 1));
    assert_eq!(x, vec![3.0; 2500]);
    let outcome = solved(&*a, None, &vec![0.0; 2500], &mut x, 1).unwrap();
    assert_eq!(outcome.reason, StopReason::ZeroRhs);
    assert_eq!(x, vec![0.0; 2500]);
}
