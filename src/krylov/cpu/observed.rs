//! State that the threads of a run share: the inspected inputs, and the stop request of the observer.

use crate::base::team::TeamThread;
use crate::krylov::solve_steps::Inputs;
use crate::report::{Event, Observer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared state of one run.
pub struct Observed {
    inputs: Mutex<Inputs>,
    /// The observer has requested a stop.
    stop: AtomicBool,
    /// The observer may request a stop, so that threads must wait for its return value.
    may_stop: AtomicBool,
}

impl Default for Observed {
    fn default() -> Self {
        Self { inputs: Mutex::new(Inputs::none()), stop: AtomicBool::new(false), may_stop: AtomicBool::new(false) }
    }
}

impl Observed {
    /// Resets the inputs before a run, and records whether the observer may request a stop.
    pub fn begin(&mut self, observer: &dyn Observer) {
        *self.inputs.get_mut().unwrap_or_else(PoisonError::into_inner) = Inputs::none();
        *self.may_stop.get_mut() = observer.may_stop();
    }

    fn lock(&self) -> MutexGuard<'_, Inputs> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges the inspected inputs of all threads and returns the result. `seen`: inputs that this thread has
    /// inspected; `name`: name of the input array. Thread 0 calls `others`, which adds the inputs of other ranks.
    pub fn inputs(
        &self,
        me: TeamThread,
        seen: &Inputs,
        name: &'static str,
        others: impl FnOnce(&mut Inputs),
    ) -> Inputs {
        self.lock().merge(seen, name);
        me.barrier();
        if me.index == 0 {
            others(&mut self.lock());
        }
        me.barrier();
        *self.lock()
    }

    /// Reports an event to the observer. All threads call this function, but only thread 0 passes the observer. Returns
    /// true if the observer requests a stop at an [`Event::Iteration`], and false for all other events.
    pub fn report(&self, me: TeamThread, observer: Option<&mut (dyn Observer + '_)>, event: Event) -> bool {
        let requested = observer.map(|observer| observer.receive(event));
        if !matches!(event, Event::Iteration(..)) {
            return false;
        }
        if let Some(stop) = requested {
            self.stop.store(stop, Ordering::Release);
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
