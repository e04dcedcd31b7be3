//! The best iterate: below rounding a restart may make x worse, and the x before is then what the caller wants.

use crate::backend::steps::pcg::PcgSteps;

/// Gives x to the caller: (steps, norm of the best, norm of x) -> norm that x is kept with.
pub type Keep<'k, S> = &'k mut dyn FnMut(&mut S, f64, f64) -> Option<f64>;

/// The best of the iterates from which PCG has started again.
pub struct BestIterate<'k, S: PcgSteps + ?Sized> {
    /// Its tested norm; infinite as long as there is none.
    pub norm: f64,
    /// Gives x, of the second norm or with one of the caller's own, to the caller if that is smaller than the first;
    /// returns the norm it is then kept with. None: it does not fit, or is no better.
    keep: Keep<'k, S>,
    /// The restart of this run whose x was offered last: none is offered twice.
    offered: usize,
}

impl<'k, S: PcgSteps + ?Sized> BestIterate<'k, S> {
    /// `norm`: of the iterate that the caller has already; infinite if he has none.
    pub fn new(norm: f64, keep: Keep<'k, S>) -> Self {
        Self { norm, keep, offered: 0 }
    }

    /// A run of PCG begins.
    pub(super) fn begin_run(&mut self) {
        self.offered = 0;
    }

    /// Offers x at a restart of this run; what it started with first is the caller's anyway. Returns whether x was
    /// offered: what the caller does with it may spend r.
    pub(super) fn offer(&mut self, s: &mut S, restart: usize, norm: f64) -> bool {
        let better = norm < self.norm;
        if restart <= self.offered || !better {
            return false;
        }
        self.offered = restart;
        if let Some(norm) = (self.keep)(s, self.norm, norm) {
            self.norm = norm;
        }
        true
    }
}
