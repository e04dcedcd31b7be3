//! Memory of the arrays: zero, on cache line boundaries, large blocks straight from the system.

use super::pages::prefer_large_mapped;
use crate::error::{Error, Refused, Result};
use std::fs::File;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One cache line.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "read through a pointer to its first byte")] [u8; LINE]);

const LINE: usize = 64;
/// Cache lines of a page: sets of a first-level cache way on most machines.
const SETS: usize = 64;
/// From this size on, blocks are mapped: their pages are zero without being written, so that the member that first
/// writes a row has it in the memory next to it, and may be large ones, which costs a fraction of the page faults.
const MAPPED: usize = 1 << 18;

/// A block of zeros.
pub struct Memory {
    /// Keeps the block; read through `data` alone.
    _block: Block,
    /// The first byte.
    data: *mut u8,
    bytes: usize,
}

// SAFETY: the block is its own, and belongs to no thread; who may touch what of it when is the care of those who take
// `data`.
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
    /// `bytes` zeros.
    pub fn zeroed(bytes: u128) -> Result<Self> {
        // Arrays begin in different cache sets: stages read the same row of some twenty of them at once, and large
        // blocks of memory all begin at the same place of a page.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let no_memory = || Error::NoMemory(Refused { bytes, what: "the solver's arrays" });
        let wanted = usize::try_from(bytes).ok().filter(|&b| b <= isize::MAX as usize / 2).ok_or_else(no_memory)?;
        let lines = wanted.div_ceil(LINE);
        let skip = if lines > SETS { MADE.fetch_add(1, Ordering::Relaxed) * 11 % SETS } else { 0 };
        let mut block = Block::zeroed(lines + skip).ok_or_else(no_memory)?;
        let data = block.start().wrapping_add(LINE * skip);
        Ok(Self { _block: block, data, bytes: LINE * lines })
    }

    /// Bytes, without the lines skipped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte, on a cache line boundary.
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// All zero again.
    ///
    /// # Safety
    /// Nobody may use the block meanwhile.
    pub unsafe fn clear(&self) {
        // SAFETY: `bytes` bytes from `data` on are this block's; not used by others, as the caller promised.
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
    fn zeroed(lines: usize) -> Option<Self> {
        if LINE * lines >= MAPPED { Self::mapped(LINE * lines) } else { Self::lines(lines) }
    }

    #[cfg(not(unix))]
    fn zeroed(lines: usize) -> Option<Self> {
        Self::lines(lines)
    }

    fn lines(count: usize) -> Option<Self> {
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).ok()?;
        lines.resize(count, Line([0; LINE]));
        Some(Self::Lines(lines))
    }

    #[cfg(unix)]
    fn mapped(bytes: usize) -> Option<Self> {
        // SAFETY: asks for new pages of our own; nothing is replaced.
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
        // SAFETY: the pages just made: zeros, which are bytes.
        prefer_large_mapped(unsafe { std::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), bytes) });
        Some(Self::Pages { start: start.cast(), bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Self::Pages { start, bytes } = *self {
            // SAFETY: mapped by `mapped`, with this size; nobody uses it after the drop.
            unsafe { libc::munmap(start.cast(), bytes) };
        }
    }
}

/// An error where a large array is more than the machine has left: the system promises what it does not have, and ends
/// the process that writes to it.
pub fn check_there(bytes: u128, what: &'static str) -> Result<()> {
    const LARGE: u128 = 1 << 30;
    if bytes > LARGE && left().is_some_and(|left| bytes > left.into()) {
        return Err(Error::NoMemory(Refused { bytes, what }));
    }
    Ok(())
}

/// Bytes that this process can have, as far as the system tells: those of the machine, and those of its control group.
fn left() -> Option<u64> {
    let mut buffer = [0; 512];
    // The third line of some fifty.
    let of_machine = start_of("/proc/meminfo", &mut buffer).and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
    });
    let mut number = |path: &str| start_of(path, &mut buffer)?.trim().parse::<u64>().ok();
    let (max, current) = (number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current"));
    let of_group = max.zip(current).map(|(max, current)| max.saturating_sub(current));
    of_machine.into_iter().chain(of_group).min()
}

/// The first bytes of a file, without memory from the heap.
fn start_of<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let count = File::open(path).and_then(|mut file| file.read(buffer)).ok()?;
    std::str::from_utf8(&buffer[..count]).ok()
}

/// Whether whole lines are written from the first value on. They go past the caches: a line that is not fetched first.
#[cfg(target_arch = "x86_64")]
fn are_lines<T>(values: &[T]) -> bool {
    (values.as_ptr() as usize).is_multiple_of(LINE) && size_of_val(values).is_multiple_of(LINE)
}

/// target = source, past the caches where the machine can. Call [`copies_are_done`] before other threads read it.
pub fn copy_past_caches(target: &mut [f64], source: &[f64]) {
    assert_eq!(target.len(), source.len());
    #[cfg(target_arch = "x86_64")]
    if are_lines(target) {
        use std::arch::x86_64::{_mm_loadu_pd, _mm_stream_pd};
        for (target, source) in target.chunks_exact_mut(2).zip(source.chunks_exact(2)) {
            // SAFETY: both have two values; the target lies on a multiple of 16. SSE2 is there on every x86_64.
            unsafe { _mm_stream_pd(target.as_mut_ptr(), _mm_loadu_pd(source.as_ptr())) };
        }
        return;
    }
    target.copy_from_slice(source);
}

/// target = factor source in single precision, likewise.
pub fn narrow_past_caches(target: &mut [f32], source: &[f64], factor: f64) {
    assert_eq!(target.len(), source.len());
    #[cfg(target_arch = "x86_64")]
    if are_lines(target) {
        use std::arch::x86_64::{_mm_cvtpd_ps, _mm_loadu_pd, _mm_movelh_ps, _mm_mul_pd, _mm_set1_pd, _mm_stream_ps};
        for (target, source) in target.chunks_exact_mut(4).zip(source.chunks_exact(4)) {
            // SAFETY: both have four values; the target lies on a multiple of 16. SSE2 is there on every x86_64.
            unsafe {
                let two = |k| _mm_cvtpd_ps(_mm_mul_pd(_mm_set1_pd(factor), _mm_loadu_pd(source.as_ptr().add(k))));
                _mm_stream_ps(target.as_mut_ptr(), _mm_movelh_ps(two(0), two(2)));
            }
        }
        return;
    }
    for (target, source) in target.iter_mut().zip(source) {
        *target = (factor * *source) as f32;
    }
}

/// even[k] = pairs[2 k], odd[k] = pairs[2 k + 1], as many as fill whole lines, past the caches where these begin lines;
/// returns how many of each are done: none where the machine cannot.
pub fn deinterleave_past_caches(pairs: &[f64], even: &mut [f64], odd: &mut [f64]) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_pd, _mm_storeu_pd, _mm_stream_pd, _mm_unpackhi_pd, _mm_unpacklo_pd};
        let done = (pairs.len() / 2).min(even.len()).min(odd.len()) / (LINE / 8) * (LINE / 8);
        let (even, odd) = (&mut even[..done], &mut odd[..done]);
        let (even_streams, odd_streams) = (are_lines(even), are_lines(odd));
        for ((pairs, even), odd) in pairs.chunks_exact(4).zip(even.chunks_exact_mut(2)).zip(odd.chunks_exact_mut(2)) {
            // SAFETY: four values are read and two written to each, which lie on a multiple of 16 where they stream.
            unsafe {
                let (low, high) = (_mm_loadu_pd(pairs.as_ptr()), _mm_loadu_pd(pairs.as_ptr().add(2)));
                let store = |streams: bool, target: *mut f64, values| {
                    if streams { _mm_stream_pd(target, values) } else { _mm_storeu_pd(target, values) }
                };
                store(even_streams, even.as_mut_ptr(), _mm_unpacklo_pd(low, high));
                store(odd_streams, odd.as_mut_ptr(), _mm_unpackhi_pd(low, high));
            }
        }
        done
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (pairs, even, odd);
        0
    }
}

/// Orders this thread's copies past the caches before what it writes next.
pub fn copies_are_done() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is there on every x86_64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Whether both have the same bytes, written or not.
pub fn same_bytes(a: &[MaybeUninit<u8>], b: &[MaybeUninit<u8>]) -> bool {
    // SAFETY: as many bytes in both, if the first is true; the C library compares what is there.
    a.len() == b.len() && unsafe { libc::memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) } == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_and_aligned() {
        for bytes in [0, 1, 64, 5000, MAPPED - 64, MAPPED, 3 * MAPPED + 1] {
            let m = Memory::zeroed(bytes as u128).unwrap();
            assert_eq!(m.data() as usize % LINE, 0);
            assert!(m.bytes() >= bytes && m.bytes() < bytes + LINE);
            let all = |m: &Memory| {
                // SAFETY: as many bytes as the block has.
                unsafe { std::slice::from_raw_parts(m.data(), m.bytes()) }.iter().all(|&b| b == 0)
            };
            assert!(all(&m));
            if bytes > 0 {
                // SAFETY: the last byte of the block.
                unsafe { m.data().add(m.bytes() - 1).write(7) };
                assert!(!all(&m));
                // SAFETY: nobody else uses the block.
                unsafe { m.clear() };
                assert!(all(&m));
            }
        }
    }

    #[test]
    fn copies_past_the_caches_are_copies() {
        let source: Vec<f64> = (0..200).map(|k| f64::from(k).sqrt() - 7.0).collect();
        // Whole lines, parts of them, and places that no wide store takes.
        for (start, len) in [(0, 64), (0, 16), (4, 8), (1, 16), (3, 5), (0, 0), (8, 100)] {
            let memory = Memory::zeroed(200 * 8).unwrap();
            // SAFETY: 200 doubles, or twice as many of half their size, that nobody else uses.
            let wide = unsafe { std::slice::from_raw_parts_mut(memory.data().cast::<f64>(), 200) };
            copy_past_caches(&mut wide[start..start + len], &source[..len]);
            copies_are_done();
            assert_eq!(wide[start..start + len], source[..len]);
            assert!(wide[..start].iter().chain(&wide[start + len..]).all(|&v| v == 0.0));
            wide.fill(0.0);
            // SAFETY: as above.
            let narrow = unsafe { std::slice::from_raw_parts_mut(memory.data().cast::<f32>(), 200) };
            narrow_past_caches(&mut narrow[start..start + len], &source[..len], 0.5);
            copies_are_done();
            let expected: Vec<f32> = source[..len].iter().map(|v| (0.5 * v) as f32).collect();
            assert_eq!(narrow[start..start + len], expected);
            assert!(narrow[..start].iter().chain(&narrow[start + len..]).all(|&v| v == 0.0));
        }
    }

    #[test]
    fn pairs_go_apart_past_the_caches() {
        let pairs: Vec<f64> = (0..200).map(f64::from).collect();
        for (start, len) in [(0, 200), (0, 33), (1, 64), (8, 16), (3, 15), (0, 0)] {
            let memory = Memory::zeroed(400 * 8).unwrap();
            // SAFETY: 400 doubles that nobody else uses.
            let targets = unsafe { std::slice::from_raw_parts_mut(memory.data().cast::<f64>(), 400) };
            let (even, odd) = targets.split_at_mut(200);
            // One of them begins a line, or none.
            let done = deinterleave_past_caches(&pairs[..len], &mut even[start..], &mut odd[..]);
            copies_are_done();
            assert!(2 * done <= len && done.is_multiple_of(LINE / 8));
            assert!((0..done).all(|k| even[start + k] == pairs[2 * k] && odd[k] == pairs[2 * k + 1]));
            assert!(even[..start].iter().chain(&even[start + done..]).chain(&odd[done..]).all(|&v| v == 0.0));
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(check_there(1 << 20, "a test").is_ok());
        if cfg!(target_os = "linux") {
            assert!(left().is_some_and(|bytes| bytes > 1 << 20));
            let error = check_there(1 << 60, "a test").unwrap_err().to_string();
            assert_eq!(error, "failed to allocate 1152921504606846976 bytes for a test");
        }
        assert!(Memory::zeroed(1 << 62).is_err());
        assert!(Memory::zeroed(u128::MAX).is_err());
    }
}
