//! Operating-system threads whose start can fail. `std::thread` aborts the process if it cannot allocate memory.

use super::heap::{Counted, boxed};
use crate::error::{Error, Result, formatted};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Stack size of a thread in bytes, as in `std::thread`.
const STACK: usize = 2 << 20;
/// Name of an allocation in error messages.
const THREAD: &str = "a thread";

/// A running thread. Dropping the handle waits for the end of the thread.
pub struct Thread(libc::pthread_t);

/// Arguments of [`run`].
struct Start<T> {
    shared: Counted<T>,
    index: usize,
    body: fn(&T, usize),
}

impl Thread {
    /// Starts thread `index` of `threads`, which runs `body(shared, index)`. `body` must not panic.
    pub fn start<T: Send + Sync + 'static>(
        shared: &Counted<T>,
        index: usize,
        threads: usize,
        body: fn(&T, usize),
    ) -> Result<Self> {
        let start = Box::into_raw(boxed(Start { shared: shared.clone(), index, body }, THREAD)?);
        let mut attributes = MaybeUninit::uninit();
        let mut id = MaybeUninit::uninit();
        // SAFETY: `attributes` is initialized by the first call and destroyed by the last one. `run::<T>` takes
        // ownership of `start` if and only if the thread starts; the values in `start` are `Send`.
        let failure = unsafe {
            let mut failure = libc::pthread_attr_init(attributes.as_mut_ptr());
            if failure == 0 {
                libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
                failure = libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), run::<T>, start.cast());
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
            failure
        };
        if failure != 0 {
            // SAFETY: `start` was created by `Box::into_raw` above. No thread was started, so no thread owns it.
            drop(unsafe { Box::from_raw(start) });
            let reason = if failure == libc::EAGAIN {
                "not enough memory, or the limit of threads is reached (ulimit -u)"
            } else {
                "see pthread_create(3)"
            };
            let message = format_args!("failed to start thread {index} of {threads}: error {failure}: {reason}");
            return Err(Error::Memory(formatted(message, THREAD)?));
        }
        // SAFETY: pthread_create succeeded, so it has written the identifier.
        Ok(Self(unsafe { id.assume_init() }))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: the thread was started joinable and is joined once, here.
        unsafe { libc::pthread_join(self.0, null_mut()) };
    }
}

/// Entry point of a thread.
extern "C" fn run<T>(start: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `Thread::start` passes a box of this type and gives up its ownership.
    let start = unsafe { Box::from_raw(start.cast::<Start<T>>()) };
    set_name(start.index);
    (start.body)(&start.shared, start.index);
    null_mut()
}

/// Sets the name of the calling thread, for debuggers and profilers; at most 15 characters.
fn set_name(index: usize) {
    let mut name = [0_u8; 16];
    // A longer name is truncated.
    let _ = write!(&mut name[..15], "rrbsolver-{index}");
    // SAFETY: the name ends with NUL.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr().cast()) };
}
