//! Heap allocation that reports failure, unlike `Box::new` and `Arc::new`: the host program must survive exhausted
//! memory. Depends on `error` only.

use crate::error::{Result, reserve};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Allocates a box. On failure, returns [`NoMemory`](crate::error::Error::NoMemory) with the name `allocation_name`.
pub fn boxed<T>(value: T, allocation_name: &'static str) -> Result<Box<T>> {
    // The value is moved only once, because a copy may not fit on a small stack.
    let mut boxed_slice = Vec::new();
    reserve(&mut boxed_slice, 1, allocation_name)?;
    boxed_slice.push(value);
    let boxed_slice = Box::into_raw(boxed_slice.into_boxed_slice());
    // SAFETY: a boxed slice of one value has the layout of a boxed value, and `into_raw` gave up its ownership.
    Ok(unsafe { Box::from_raw(boxed_slice.cast::<T>()) })
}

/// A reference-counted value, as in an `Arc`.
pub struct FallibleArc<T> {
    shared: NonNull<CountedValue<T>>,
}

struct CountedValue<T> {
    owners: AtomicUsize,
    value: T,
}

// SAFETY: owners only share references to the value. The last owner drops it, on any thread.
unsafe impl<T: Send + Sync> Send for FallibleArc<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for FallibleArc<T> {}

impl<T> FallibleArc<T> {
    /// Allocates the value with one owner. `allocation_name` names the value in error messages.
    pub fn new(value: T, allocation_name: &'static str) -> Result<Self> {
        let shared = boxed(CountedValue { owners: AtomicUsize::new(1), value }, allocation_name)?;
        Ok(Self { shared: NonNull::from(Box::leak(shared)) })
    }

    fn shared(&self) -> &CountedValue<T> {
        // SAFETY: the value lives as long as there is an owner, and `self` is an owner.
        unsafe { self.shared.as_ref() }
    }
}

impl<T> Deref for FallibleArc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared().value
    }
}

impl<T> Clone for FallibleArc<T> {
    fn clone(&self) -> Self {
        // Relaxed ordering suffices, because passing an owner to another thread synchronizes anyway. The count cannot
        // overflow: 2^64 owners do not fit into memory.
        self.shared().owners.fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared }
    }
}

impl<T> Drop for FallibleArc<T> {
    fn drop(&mut self) {
        if self.shared().owners.fetch_sub(1, Ordering::Release) == 1 {
            // All accesses by other owners happen before the value is dropped.
            fence(Ordering::Acquire);
            // SAFETY: `boxed` allocated the memory, and the count shows that this was the last owner.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

impl<T: PartialEq> PartialEq for FallibleArc<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for FallibleArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct DropCounter<'a>(&'a AtomicUsize);

    impl Drop for DropCounter<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_owner_drops_the_value() {
        let dropped = AtomicUsize::new(0);
        let first = FallibleArc::new(DropCounter(&dropped), "a test").unwrap();
        let second = first.clone();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                let clone = first.clone();
                threads.spawn(move || drop(clone.clone()));
            }
        });
        drop(first);
        assert_eq!((dropped.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 0));
        drop(second);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        drop(boxed(DropCounter(&dropped), "a test").unwrap());
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }
}
