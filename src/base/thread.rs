//! Operating-system threads whose start can fail. `std::thread` aborts the process if it cannot allocate memory.

use super::heap::{FallibleArc, boxed};
use crate::error::{Error, Result, formatted};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Stack size of a thread in bytes, as in `std::thread`.
const STACK_BYTES: usize = 2 << 20;
/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a thread";

/// A running thread. Dropping the handle waits for the end of the thread.
pub struct Thread(libc::pthread_t);

/// Arguments of [`run_thread`].
struct ThreadArguments<T> {
    shared: FallibleArc<T>,
    index: usize,
    thread_body: fn(&T, usize),
}

impl Thread {
    /// Starts thread `index` of `threads`, which runs `thread_body(shared, index)`. `thread_body` must not panic.
    pub fn start<T: Send + Sync + 'static>(
        shared: &FallibleArc<T>,
        index: usize,
        threads: usize,
        thread_body: fn(&T, usize),
    ) -> Result<Self> {
        let arguments =
            Box::into_raw(boxed(ThreadArguments { shared: shared.clone(), index, thread_body }, ALLOCATION_NAME)?);
        let mut attributes = MaybeUninit::uninit();
        let mut id = MaybeUninit::uninit();
        // SAFETY: `attributes` is initialized by the first call and destroyed by the last one. `run_thread::<T>` takes
        // ownership of `arguments` if and only if the thread starts; the values in `arguments` are `Send`.
        let error_code = unsafe {
            let mut error_code = libc::pthread_attr_init(attributes.as_mut_ptr());
            if error_code == 0 {
                libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK_BYTES);
                error_code =
                    libc::pthread_create(id.as_mut_ptr(), attributes.as_ptr(), run_thread::<T>, arguments.cast());
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
            error_code
        };
        if error_code != 0 {
            // SAFETY: `arguments` was created by `Box::into_raw` above. No thread was started, so no thread owns it.
            drop(unsafe { Box::from_raw(arguments) });
            let reason = if error_code == libc::EAGAIN {
                "not enough memory, or the limit of threads is reached (ulimit -u)"
            } else {
                "see pthread_create(3)"
            };
            let message = format_args!("failed to start thread {index} of {threads}: error {error_code}: {reason}");
            return Err(Error::Memory(formatted(message, ALLOCATION_NAME)?));
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
extern "C" fn run_thread<T>(arguments: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `Thread::start` passes a box of this type and gives up its ownership.
    let arguments = unsafe { Box::from_raw(arguments.cast::<ThreadArguments<T>>()) };
    set_thread_name(arguments.index);
    (arguments.thread_body)(&arguments.shared, arguments.index);
    null_mut()
}

/// Sets the name of the calling thread, for debuggers and profilers; at most 15 characters.
fn set_thread_name(index: usize) {
    let mut name = [0_u8; 16];
    // A longer name is truncated.
    let _ = write!(&mut name[..15], "rrbsolver-{index}");
    // SAFETY: the name ends with NUL.
    unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr().cast()) };
}
