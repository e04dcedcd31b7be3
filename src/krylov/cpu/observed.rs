//! State that the threads of a run share: the result of the inspection of the inputs, and the stop request of the
//! observer.

use crate::base::team::TeamThread;
use crate::krylov::solve_steps::Inputs;
use crate::report::{Event, Observer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared state of one run.
pub struct SharedRunState {
    inputs: Mutex<Inputs>,
    /// The observer has requested a stop.
    stop_requested: AtomicBool,
    /// The observer may request a stop, so that threads must wait for its return value.
    may_stop: AtomicBool,
}

impl Default for SharedRunState {
    fn default() -> Self {
        Self {
            inputs: Mutex::new(Inputs::uninspected()),
            stop_requested: AtomicBool::new(false),
            may_stop: AtomicBool::new(false),
        }
    }
}

impl SharedRunState {
    /// Resets the inspection result before a run, and records whether the observer may request a stop.
    pub fn begin_run(&mut self, observer: &dyn Observer) {
        *self.inputs.get_mut().unwrap_or_else(PoisonError::into_inner) = Inputs::uninspected();
        *self.may_stop.get_mut() = observer.may_stop();
    }

    fn lock_inputs(&self) -> MutexGuard<'_, Inputs> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges the inspection results of all threads, and returns the merged result. `own_inputs`: result of this
    /// thread; `input_name`: name of the input array. Thread 0 calls `merge_other_ranks`, which merges the results of
    /// other ranks.
    pub fn merge_inputs(
        &self,
        thread: TeamThread,
        own_inputs: &Inputs,
        input_name: &'static str,
        merge_other_ranks: impl FnOnce(&mut Inputs),
    ) -> Inputs {
        self.lock_inputs().merge(own_inputs, input_name);
        thread.barrier();
        if thread.index == 0 {
            merge_other_ranks(&mut self.lock_inputs());
        }
        thread.barrier();
        *self.lock_inputs()
    }

    /// Reports an event to the observer. All threads call this function, but only thread 0 passes the observer. Returns
    /// true if the observer requests a stop at an [`Event::Iteration`], and false for all other events.
    pub fn report(&self, thread: TeamThread, observer: Option<&mut (dyn Observer + '_)>, event: Event) -> bool {
        let requested = observer.map(|observer| observer.receive(event));
        if !matches!(event, Event::Iteration(..)) {
            return false;
        }
        if let Some(stop) = requested {
            self.stop_requested.store(stop, Ordering::Release);
        }
        if !self.may_stop.load(Ordering::Acquire) {
            return false;
        }
        thread.barrier();
        let stop = self.stop_requested.load(Ordering::Acquire);
        thread.barrier();
        stop
    }
}
