//! Large pages for large blocks: a fraction of the page faults, and fewer misses of the address cache. A leaf.

use std::mem::MaybeUninit;

/// From this size on, large pages are asked for: two of them.
const LARGE: usize = 4 << 20;
/// What addresses of advice are multiples of, on all machines with pages up to this size.
const PAGE: usize = 1 << 16;

/// Asks for large pages for room that nobody has written yet. Advice: a refusal changes nothing but speed.
pub fn prefer_large<T>(room: &mut [MaybeUninit<T>]) {
    let bytes = size_of_val(room);
    if bytes < LARGE {
        return;
    }
    let start = room.as_mut_ptr().cast::<u8>();
    let skip = start.align_offset(PAGE);
    advise(start.wrapping_add(skip), (bytes - skip) / PAGE * PAGE);
}

/// The same for a block that was mapped, of any size: blocks mapped one after the other lie side by side, and are one
/// to the system where the same is advised of them, with large pages across.
pub fn prefer_large_mapped(block: &mut [MaybeUninit<u8>]) {
    advise(block.as_mut_ptr().cast(), block.len());
}

#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    // SAFETY: whole pages inside a block of the caller, which this advice leaves as they are.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *mut u8, _: usize) {}
