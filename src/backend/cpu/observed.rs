//! What the members of a run find out together: what its inputs look like, and whether the observer asks to stop.

use crate::backend::steps::solve::Inputs;
use crate::report::{Event, Observer};
use crate::runtime::team::Me;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of one run.
pub struct Observed {
    inputs: Mutex<Inputs>,
    /// The observer's answer, and whether members must wait for it.
    stop: AtomicBool,
    may_stop: AtomicBool,
}

impl Default for Observed {
    fn default() -> Self {
        Self { inputs: Mutex::new(Inputs::none()), stop: AtomicBool::new(false), may_stop: AtomicBool::new(false) }
    }
}

impl Observed {
    /// Before a run.
    pub fn begin(&mut self, observer: &dyn Observer) {
        *self.inputs.get_mut().unwrap_or_else(PoisonError::into_inner) = Inputs::none();
        *self.may_stop.get_mut() = observer.may_stop();
    }

    fn lock(&self) -> MutexGuard<'_, Inputs> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all members have seen of the inputs, this one `seen`; member 0 adds what other ranks have.
    pub fn inputs(&self, me: Me, seen: &Inputs, name: &'static str, others: impl FnOnce(&mut Inputs)) -> Inputs {
        self.lock().merge(seen, name);
        me.barrier();
        if me.index == 0 {
            others(&mut self.lock());
        }
        me.barrier();
        *self.lock()
    }

    /// `VectorSteps::observe`; member 0 has the observer.
    pub fn tell(&self, me: Me, observer: Option<&mut (dyn Observer + '_)>, iteration: usize, residual: f64) -> bool {
        if let Some(observer) = observer {
            self.stop.store(observer.see(Event::Iteration(iteration, residual)), Ordering::Release);
        }
        if !self.may_stop.load(Ordering::Acquire) {
            return false;
        }
        me.barrier();
        let stop = self.stop.load(Ordering::Acquire);
        me.barrier();
        stop
    }
}
