//! The decisions of an iteration. A device takes them by itself: kernels/common/scalars.cuh has the same functions.

use super::state::{Iteration, Test};
use crate::options::Norm;

/// How the iteration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// It goes on.
    Running,
    /// The test is met.
    Met,
    /// `max_iter` is reached.
    MaxIter,
    /// Squares have vanished: r'M^-1 r, or p'Ap.
    Spent,
    SigmaVanished,
    /// No squares of definite matrices: r'M^-1 r as a norm, or for the next direction, or p'Ap.
    RhoNegative,
    RhoBad,
    SigmaBad,
}

/// Whether a square is that of a definite matrix: NaN and infinity are not.
pub(super) fn is_positive(square: f64) -> bool {
    square > 0.0 && square.is_finite()
}

impl Iteration {
    /// The tested norm, of <r, r> and, in the papers' norm, of rho = <r, M^-1 r>.
    pub(super) fn take_norm(&mut self, test: &Test, rho: f64) -> Code {
        let preconditioned = test.norm == Norm::Preconditioned;
        let rho = if self.vanished(test, rho) { 0.0 } else { rho };
        self.norm = if preconditioned { rho } else { self.norm2 }.sqrt();
        if preconditioned && !(rho >= 0.0 && rho.is_finite()) { Code::RhoNegative } else { Code::Running }
    }

    /// The convergence check.
    pub(super) fn check_convergence(&self, test: &Test) -> Code {
        if self.norm <= test.threshold {
            Code::Met
        } else if self.iterations >= test.max_iter {
            Code::MaxIter
        } else {
            Code::Running
        }
    }

    /// The scalar update: rho = <r, M^-1 r>, and beta, a function of it and of the rho before.
    pub(super) fn take_rho(&mut self, test: &Test, rho: f64, beta: impl FnOnce(f64, f64) -> f64) -> Code {
        if self.vanished(test, rho) {
            return Code::Spent;
        }
        if !is_positive(rho) {
            return Code::RhoBad;
        }
        self.beta = beta(rho, self.rho);
        self.rho = rho;
        Code::Running
    }

    /// The end of an iteration: sigma = <p, A p>, and alpha of the next one.
    pub(super) fn take_sigma(&mut self, test: &Test, sigma: f64) -> Code {
        self.sigma = sigma;
        self.alpha = self.rho / sigma;
        if self.vanished(test, sigma) {
            Code::SigmaVanished
        } else if !is_positive(sigma) {
            Code::SigmaBad
        } else {
            Code::Running
        }
    }

    /// A square that is not positive, of a residual whose squares may vanish.
    fn vanished(&self, test: &Test, square: f64) -> bool {
        square <= 0.0 && self.norm2.sqrt() <= test.vanishing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solver::krylov::Start;
    use cudarc::driver::sys;

    /// Numbers from a generator (SplitMix64), among them such as decisions turn on.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn real(&mut self) -> f64 {
            let uniform = self.next() as f64 / u64::MAX as f64;
            match self.next() % 16 {
                0 => 0.0,
                1 => -0.0,
                2 => -uniform,
                3 => uniform * 1e-300,
                4 => -uniform * 1e-300,
                5 => f64::from_bits(self.next()),
                6 => f64::NAN,
                7 => f64::INFINITY,
                8 => 1.0,
                _ => uniform,
            }
        }

        fn size(&mut self) -> f64 {
            self.real().abs()
        }
    }

    /// As in tests/emulator/driver.cpp.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    struct Decided {
        threshold: f64,
        vanishing: f64,
        rho: f64,
        sigma: f64,
        alpha: f64,
        beta: f64,
        norm2: f64,
        norm: f64,
        iterations: i64,
        max_iter: i64,
        preconditioned: i32,
        code: i32,
    }

    /// Decides, with <r, M^-1 r>, <r, r> and <p, A p>.
    type Decide = unsafe extern "C" fn(*mut Decided, f64, f64, f64);

    /// That of the emulated device.
    fn emulated() -> Option<Decide> {
        // SAFETY: asks the loader for a library, then for a function of the type it has in tests/emulator/driver.cpp.
        unsafe {
            let found = sys::is_culib_present().then(|| sys::culib().get::<Decide>(b"emulated_iteration\0"));
            found.and_then(std::result::Result::ok).map(|function| *function)
        }
    }

    /// The device's text decides as ours, to the bit.
    #[test]
    #[ignore = "needs an emulated device"]
    fn a_device_decides_alike() {
        let device = emulated().expect("an emulated device (tests/emulator)");
        let mut numbers = Numbers(1);
        for case in 0..100_000 {
            let norm = if numbers.next().is_multiple_of(2) { Norm::True2 } else { Norm::Preconditioned };
            let test = Test {
                norm,
                threshold: numbers.size(),
                reference: 1.0,
                max_iter: (numbers.next() % 4) as usize,
                centers: false,
                rounding: 0.0,
                vanishing: numbers.size(),
                center_max: 1.0,
                definite: true,
                confirms: false,
                divergence: f64::INFINITY,
                same_unit: true,
                general: false,
            };
            let mut at = Iteration::new(Start { norm2: numbers.size(), iterations: (numbers.next() % 3) as usize });
            (at.rho, at.alpha, at.beta) = (numbers.size(), numbers.real(), numbers.real());
            let [rho, norm2, sigma] = [numbers.real(), numbers.size(), numbers.real()];
            let state = |at: &Iteration, code: Code| Decided {
                threshold: test.threshold,
                vanishing: test.vanishing,
                rho: at.rho,
                sigma: at.sigma,
                alpha: at.alpha,
                beta: at.beta,
                norm2: at.norm2,
                norm: at.norm,
                iterations: at.iterations as i64,
                max_iter: test.max_iter as i64,
                preconditioned: i32::from(norm == Norm::Preconditioned),
                code: code as i32,
            };
            let mut its = state(&at, Code::Running);
            // SAFETY: changes what it is given alone.
            unsafe { device(&mut its, rho, norm2, sigma) };
            at.iterations += 1;
            at.norm2 = norm2;
            let mut code = at.take_norm(&test, rho);
            if code == Code::Running {
                code = at.check_convergence(&test);
            }
            if code == Code::Running {
                code = at.take_rho(&test, rho, |rho, rho_old| rho / rho_old);
            }
            if code == Code::Running {
                code = at.take_sigma(&test, sigma);
            }
            // A NaN's sign says nothing.
            let bits = |v: f64| if v.is_nan() { u64::MAX } else { v.to_bits() };
            let all = |d: Decided| {
                let reals = [d.rho, d.sigma, d.alpha, d.beta, d.norm2, d.norm].map(bits);
                (d.code, d.iterations, reals)
            };
            let ours = state(&at, code);
            assert_eq!(all(ours), all(its), "case {case}: {ours:?}, on the device {its:?}");
        }
    }
}
