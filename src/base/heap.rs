//! Heap allocation that reports failure, unlike `Box::new` and `Arc::new`: the host program must survive exhausted
//! memory. Depends on `error` only.

use crate::error::{Result, reserve};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Allocates a box. On failure, returns [`NoMemory`](crate::error::Error::NoMemory) with the purpose `what`.
pub fn boxed<T>(value: T, what: &'static str) -> Result<Box<T>> {
    // The value is moved only once, because a copy may not fit on a small stack.
    let mut one = Vec::new();
    reserve(&mut one, 1, what)?;
    one.push(value);
    let one = Box::into_raw(one.into_boxed_slice());
    // SAFETY: a boxed slice of one value has the layout of a boxed value, and `into_raw` gave up its ownership.
    Ok(unsafe { Box::from_raw(one.cast::<T>()) })
}

/// A reference-counted value, as in an `Arc`.
pub struct Counted<T> {
    inner: NonNull<Inner<T>>,
}

struct Inner<T> {
    owners: AtomicUsize,
    value: T,
}

// SAFETY: owners only share references to the value. The last owner drops it, on any thread.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    /// Allocates the value with one owner. `what` is its purpose, for the error message.
    pub fn new(value: T, what: &'static str) -> Result<Self> {
        let inner = boxed(Inner { owners: AtomicUsize::new(1), value }, what)?;
        Ok(Self { inner: NonNull::from(Box::leak(inner)) })
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: the value lives as long as there is an owner, and `self` is an owner.
        unsafe { self.inner.as_ref() }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T> Clone for Counted<T> {
    fn clone(&self) -> Self {
        // Relaxed ordering suffices, because passing an owner to another thread synchronizes anyway. The count cannot
        // overflow: 2^64 owners do not fit into memory.
        self.inner().owners.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        if self.inner().owners.fetch_sub(1, Ordering::Release) == 1 {
            // All accesses by other owners happen before the value is dropped.
            fence(Ordering::Acquire);
            // SAFETY: `boxed` allocated the memory, and the count shows that this was the last owner.
            drop(unsafe { Box::from_raw(self.inner.as_ptr()) });
        }
    }
}

impl<T: PartialEq> PartialEq for Counted<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Counted<T> {
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
        let first = Counted::new(DropCounter(&dropped), "a test").unwrap();
        let second = first.clone();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                let own = first.clone();
                threads.spawn(move || drop(own.clone()));
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
