//! Allocation of the solver's arrays: zero-initialized, aligned to cache lines, large blocks mapped from the system.
//! Non-temporal copies.

use super::pages::prefer_large_mapped_pages;
use crate::error::{Error, FailedAllocation, Result};
use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One cache line.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "read through a pointer to its first byte")] [u8; LINE_BYTES]);

/// Bytes per cache line.
pub const LINE_BYTES: usize = 64;
/// Cache lines per 4 KiB page; also the number of sets of a typical L1 data cache.
const CACHE_SETS: usize = 64;
/// Blocks of at least this size in bytes are mapped with mmap. Mapped pages are zero without being written, so the
/// thread that first writes a row gets the page on its NUMA node (first touch). Mapped blocks may also use large pages,
/// which reduces page faults.
const MIN_MAPPED_BYTES: usize = 1 << 18;

/// A block of zero-initialized memory.
pub struct Memory {
    /// Owns the block; all accesses use `data`.
    _block: Block,
    /// Address of the first byte.
    data: *mut u8,
    bytes: usize,
}

// SAFETY: the block owns its memory and is not bound to a thread. Users of `data` guarantee that accesses do not race.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

enum Block {
    Lines(Vec<Line>),
    #[cfg(unix)]
    Pages {
        start: *mut u8,
        bytes: usize,
    },
}

impl Memory {
    /// Allocates `bytes` zeros.
    pub fn zeroed(bytes: u128) -> Result<Self> {
        // Consecutive large arrays start in different cache sets. Kernels read the same row of about twenty arrays at
        // once. Without these offsets, all large blocks would start at the beginning of a page, and the rows would
        // compete for the same cache sets.
        static LARGE_BLOCK_COUNT: AtomicUsize = AtomicUsize::new(0);
        let no_memory = || Error::NoMemory(FailedAllocation { bytes, allocation_name: "the solver's arrays" });
        let byte_count = usize::try_from(bytes).ok().filter(|&b| b <= isize::MAX as usize / 2).ok_or_else(no_memory)?;
        let line_count = byte_count.div_ceil(LINE_BYTES);
        let skipped_lines = if line_count > CACHE_SETS {
            LARGE_BLOCK_COUNT.fetch_add(1, Ordering::Relaxed) * 11 % CACHE_SETS
        } else {
            0
        };
        let mut block = Block::zeroed(line_count + skipped_lines).ok_or_else(no_memory)?;
        let data = block.start().wrapping_add(LINE_BYTES * skipped_lines);
        Ok(Self { _block: block, data, bytes: LINE_BYTES * line_count })
    }

    /// Returns the usable size in bytes, from `data` on.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the address of the first byte, aligned to a cache line.
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// Sets all bytes to zero.
    ///
    /// # Safety
    /// The memory must not be in use.
    pub unsafe fn clear(&self) {
        // SAFETY: the block owns `bytes` bytes from `data` on; the caller excludes concurrent use.
        unsafe { std::ptr::write_bytes(self.data(), 0, self.bytes) };
    }
}

impl Block {
    fn start(&mut self) -> *mut u8 {
        match self {
            Self::Lines(lines) => lines.as_mut_ptr().cast(),
            #[cfg(unix)]
            Self::Pages { start, .. } => *start,
        }
    }

    #[cfg(unix)]
    fn zeroed(line_count: usize) -> Option<Self> {
        if LINE_BYTES * line_count >= MIN_MAPPED_BYTES {
            Self::map_pages(LINE_BYTES * line_count)
        } else {
            Self::allocate_lines(line_count)
        }
    }

    #[cfg(not(unix))]
    fn zeroed(line_count: usize) -> Option<Self> {
        Self::allocate_lines(line_count)
    }

    fn allocate_lines(line_count: usize) -> Option<Self> {
        let mut lines = Vec::new();
        lines.try_reserve_exact(line_count).ok()?;
        lines.resize(line_count, Line([0; LINE_BYTES]));
        Some(Self::Lines(lines))
    }

    #[cfg(unix)]
    fn map_pages(bytes: usize) -> Option<Self> {
        // SAFETY: requests a new private mapping; no existing mapping is replaced.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the new mapping has `bytes` bytes.
        prefer_large_mapped_pages(unsafe { std::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), bytes) });
        Some(Self::Pages { start: start.cast(), bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Self::Pages { start, bytes } = *self {
            // SAFETY: `map_pages` created the mapping with this size, and the mapping is not used after the drop.
            unsafe { libc::munmap(start.cast(), bytes) };
        }
    }
}

/// Returns an error if a large array exceeds the available memory. Linux overcommits memory: the allocation itself
/// would succeed, but the system ends a process that writes to pages without memory.
pub fn check_available(bytes: u128, allocation_name: &'static str) -> Result<()> {
    const LARGE_BYTES: u128 = 1 << 30;
    if bytes > LARGE_BYTES && available_bytes().is_some_and(|available| bytes > available.into()) {
        return Err(Error::NoMemory(FailedAllocation { bytes, allocation_name }));
    }
    Ok(())
}

/// Returns the bytes that this process can still allocate, if known: the minimum of two limits, that of the machine and
/// that of the control group at /sys/fs/cgroup. Inside a container, this is the group of the container.
fn available_bytes() -> Option<u64> {
    let mut buffer = [0; 512];
    // 512 bytes suffice: `MemAvailable` is the third line.
    let machine_bytes = read_start("/proc/meminfo", &mut buffer).and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    });
    let mut read_number = |path: &str| read_start(path, &mut buffer)?.trim().parse::<u64>().ok();
    let (limit, current) = (read_number("/sys/fs/cgroup/memory.max"), read_number("/sys/fs/cgroup/memory.current"));
    let group_bytes = limit.zip(current).map(|(limit, current)| limit.saturating_sub(current));
    machine_bytes.into_iter().chain(group_bytes).min()
}

/// Reads the first bytes of a file without heap allocation.
fn read_start<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let count = File::open(path).and_then(|mut file| file.read(buffer)).ok()?;
    std::str::from_utf8(&buffer[..count]).ok()
}

/// Returns whether the values occupy whole cache lines. Only such arrays are written with non-temporal stores, which
/// write a cache line without first reading it from memory.
#[cfg(target_arch = "x86_64")]
fn fill_whole_cache_lines<T>(values: &[T]) -> bool {
    (values.as_ptr() as usize).is_multiple_of(LINE_BYTES) && size_of_val(values).is_multiple_of(LINE_BYTES)
}

/// Copies source to target, with non-temporal stores if the target occupies whole cache lines. Call [`fence_copies`]
/// before other threads read the target.
pub fn copy_past_caches(target: &mut [f64], source: &[f64]) {
    assert_eq!(target.len(), source.len());
    #[cfg(target_arch = "x86_64")]
    if fill_whole_cache_lines(target) {
        use std::arch::x86_64::{_mm_loadu_pd, _mm_stream_pd};
        for (target, source) in target.chunks_exact_mut(2).zip(source.chunks_exact(2)) {
            // SAFETY: both chunks have two values, and the target is 16-byte aligned. Every x86_64 has SSE2.
            unsafe { _mm_stream_pd(target.as_mut_ptr(), _mm_loadu_pd(source.as_ptr())) };
        }
        return;
    }
    target.copy_from_slice(source);
}

/// Orders the non-temporal stores of this thread before its subsequent stores.
pub fn fence_copies() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86_64 has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Returns whether two byte arrays are equal. Uninitialized bytes are compared by the values that memory contains.
pub fn are_bytes_equal(a: &[MaybeUninit<u8>], b: &[MaybeUninit<u8>]) -> bool {
    // SAFETY: both arrays have the same length if the first condition holds; the C library compares the stored bytes.
    a.len() == b.len() && unsafe { libc::memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) } == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_aligned() {
        for bytes in [0, 1, 64, 5000, MIN_MAPPED_BYTES - 64, MIN_MAPPED_BYTES, 3 * MIN_MAPPED_BYTES + 1] {
            let memory = Memory::zeroed(bytes as u128).unwrap();
            assert_eq!(memory.data() as usize % LINE_BYTES, 0);
            assert!(memory.bytes() >= bytes && memory.bytes() < bytes + LINE_BYTES);
            let is_all_zero = |memory: &Memory| {
                // SAFETY: the length is the size of the block.
                unsafe { std::slice::from_raw_parts(memory.data(), memory.bytes()) }.iter().all(|&b| b == 0)
            };
            assert!(is_all_zero(&memory));
            if bytes > 0 {
                // SAFETY: the last byte of the block.
                unsafe { memory.data().add(memory.bytes() - 1).write(7) };
                assert!(!is_all_zero(&memory));
                // SAFETY: only this test uses the block.
                unsafe { memory.clear() };
                assert!(is_all_zero(&memory));
            }
        }
    }

    #[test]
    fn copy_past_caches_copies_all_values() {
        let source: Vec<f64> = (0..200).map(|k| f64::from(k).sqrt() - 7.0).collect();
        // Whole cache lines, parts of cache lines, and positions where non-temporal stores are impossible.
        for (start, len) in [(0, 64), (0, 16), (4, 8), (1, 16), (3, 5), (0, 0), (8, 100)] {
            let memory = Memory::zeroed(200 * 8).unwrap();
            // SAFETY: the memory has room for 200 doubles, and only this test uses it.
            let values = unsafe { std::slice::from_raw_parts_mut(memory.data().cast::<f64>(), 200) };
            copy_past_caches(&mut values[start..start + len], &source[..len]);
            fence_copies();
            assert_eq!(values[start..start + len], source[..len]);
            assert!(values[..start].iter().chain(&values[start + len..]).all(|&v| v == 0.0));
        }
    }

    #[test]
    fn excessive_allocation_returns_error() {
        assert!(check_available(1 << 20, "a test").is_ok());
        if cfg!(target_os = "linux") {
            assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
            let error = check_available(1 << 60, "a test").unwrap_err().to_string();
            assert_eq!(error, "failed to allocate 1152921504606846976 bytes for a test");
        }
        assert!(Memory::zeroed(1 << 62).is_err());
        assert!(Memory::zeroed(u128::MAX).is_err());
    }
}
