//! Large pages for large memory blocks: fewer page faults and fewer TLB misses. This module uses no other module.

use std::mem::MaybeUninit;

/// Minimum block size in bytes for which large pages are requested: two pages of 2 MiB.
const MIN_LARGE_PAGE_BYTES: usize = 4 << 20;
/// Alignment in bytes of the range for which large pages are requested. It suffices on machines with base pages up to
/// this size.
const PAGE_ALIGNMENT: usize = 1 << 16;

/// Requests large pages for memory that was not written yet. The request is a hint; a refusal affects only speed.
pub fn prefer_large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    let bytes = size_of_val(memory);
    if bytes < MIN_LARGE_PAGE_BYTES {
        return;
    }
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped_bytes = start.align_offset(PAGE_ALIGNMENT);
    request_huge_pages(start.wrapping_add(skipped_bytes), (bytes - skipped_bytes) / PAGE_ALIGNMENT * PAGE_ALIGNMENT);
}

/// Requests large pages for a mapped block of any size. The system merges adjacent mappings with equal advice, so that
/// large pages can extend across their boundary.
pub fn prefer_large_mapped_pages(block: &mut [MaybeUninit<u8>]) {
    request_huge_pages(block.as_mut_ptr().cast(), block.len());
}

#[cfg(target_os = "linux")]
fn request_huge_pages(start: *mut u8, bytes: usize) {
    // SAFETY: the range consists of whole pages inside a block of the caller, and the advice does not change their
    // contents.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn request_huge_pages(_: *mut u8, _: usize) {}
