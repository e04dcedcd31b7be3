//! Identification of processes and hosts, and memory that several processes of a host share.

use super::memory::check_available;
use crate::error::{Error, FailedAllocation, Result};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Returns a random 64-bit identifier of this process.
pub fn process_signature() -> u64 {
    static RANDOM_NUMBER: OnceLock<u64> = OnceLock::new();
    let random_number = *RANDOM_NUMBER.get_or_init(|| RandomState::new().build_hasher().finish());
    // The process id distinguishes a forked child, which inherits the random number.
    random_number ^ u64::from(std::process::id()).rotate_left(32)
}

/// Returns a number that identifies this host since its last boot, or 0 if it is unknown. All processes of the host
/// obtain the same number.
pub fn host_number() -> u64 {
    let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(boot.as_bytes());
    hasher.finish()
}

/// Name of an allocation in error messages.
const SHARED_ROWS_NAME: &str = "rows of all ranks";

/// Address by which other processes of the host open a shared memory block: process identifier and file descriptor of
/// the owner, and a signature.
#[derive(Clone, Copy, Debug)]
pub struct SharedAddress {
    pub process: u64,
    pub file: u64,
    /// Signature that is stored at the start of the block: [`process_signature`] of the owner.
    pub signature: u64,
}

/// Bytes before the values. The signature is stored in the first 8 bytes.
const HEADER_BYTES: usize = 4096;

/// Array of doubles shared by several processes, initially zero.
pub struct SharedMapping {
    #[cfg(target_os = "linux")]
    file: std::fs::File,
    start: *mut u8,
    value_count: usize,
}

// SAFETY: the mapping is not bound to a thread. Callers of the unsafe functions below guarantee that accesses do not
// race.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

fn shared_memory_error(operation: &str, error: &std::io::Error) -> Error {
    Error::Io(format!("shared memory: {operation}: {error}"))
}

#[cfg(target_os = "linux")]
impl SharedMapping {
    /// Allocates shared memory for `value_count` zeros and reserves its pages.
    pub fn new(value_count: usize) -> Result<Self> {
        use std::os::fd::{AsRawFd, FromRawFd};
        let bytes = Self::mapping_bytes(value_count)?;
        check_available(bytes as u128, SHARED_ROWS_NAME)?;
        // The allocation of a block above the limit of file sizes would end the process (SIGXFSZ).
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer outlives the call.
        let is_limit_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
        if !is_limit_known || limit.rlim_cur < bytes as u64 {
            return Err(Error::Io(format!("shared memory: {bytes} bytes exceed the limit of file sizes")));
        }
        // The system call is made by its number, because older C libraries have no wrapper for memfd_create. SAFETY:
        // the name is a string that ends with zero and outlives the call.
        let file = unsafe { libc::syscall(libc::SYS_memfd_create, c"rrbsolver".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(shared_memory_error("memfd_create", &std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new, so it has no other owner.
        let file = unsafe { std::fs::File::from_raw_fd(file as i32) };
        // Reserves the pages now. Otherwise, a later write to a page without memory would end the process. SAFETY: the
        // descriptor is open; the call uses no memory of this process.
        let allocation_status = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) };
        if allocation_status != 0 {
            return Err(Error::NoMemory(FailedAllocation { bytes: bytes as u128, allocation_name: SHARED_ROWS_NAME }));
        }
        let mapping = Self::map(file, value_count)?;
        // SAFETY: the mapping has at least `HEADER_BYTES` bytes, and no other process has opened it yet.
        unsafe { mapping.start.cast::<u64>().write(process_signature()) };
        Ok(mapping)
    }

    /// Maps the memory block of another process, which has `value_count` values. Returns an error if the block has
    /// another size or another signature.
    pub fn open(address: &SharedAddress, value_count: usize) -> Result<Self> {
        use std::os::unix::fs::FileExt;
        let path = format!("/proc/{}/fd/{}", address.process, address.file);
        let open_result = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        let file = open_result.map_err(|error| shared_memory_error(&path, &error))?;
        // In another PID namespace, the path may name any file. The signature is therefore checked before the file is
        // mapped.
        let mut signature = [0; 8];
        let metadata = file.read_exact_at(&mut signature, 0).and_then(|()| file.metadata());
        let bytes = metadata.map_err(|error| shared_memory_error(&path, &error))?.len();
        if u64::from_le_bytes(signature) != address.signature.to_le()
            || bytes != Self::mapping_bytes(value_count)? as u64
        {
            return Err(Error::Io(format!("shared memory: {path} is not a file of this library")));
        }
        Self::map(file, value_count)
    }

    fn map(file: std::fs::File, value_count: usize) -> Result<Self> {
        use std::os::fd::AsRawFd;
        let bytes = Self::mapping_bytes(value_count)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the call requests a new mapping of the file at any address; no existing mapping is replaced.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::NoMemory(FailedAllocation { bytes: bytes as u128, allocation_name: SHARED_ROWS_NAME }));
        }
        Ok(Self { file, start: start.cast(), value_count })
    }

    fn mapping_bytes(value_count: usize) -> Result<usize> {
        let bytes = value_count.checked_mul(size_of::<f64>()).and_then(|bytes| bytes.checked_add(HEADER_BYTES));
        let no_memory =
            || Error::NoMemory(FailedAllocation { bytes: value_count as u128 * 8, allocation_name: SHARED_ROWS_NAME });
        bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or_else(no_memory)
    }

    /// Returns the address by which other processes open the memory.
    pub fn address(&self) -> SharedAddress {
        use std::os::fd::AsRawFd;
        SharedAddress {
            process: std::process::id().into(),
            file: self.file.as_raw_fd() as u64,
            signature: process_signature(),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl SharedMapping {
    /// Unsupported on this system.
    pub fn new(_: usize) -> Result<Self> {
        Err(shared_memory_error("this system", &std::io::ErrorKind::Unsupported.into()))
    }

    /// Unsupported on this system.
    pub fn open(_: &SharedAddress, _: usize) -> Result<Self> {
        Self::new(0)
    }

    /// Unsupported on this system.
    pub fn address(&self) -> SharedAddress {
        SharedAddress { process: 0, file: 0, signature: 0 }
    }
}

impl SharedMapping {
    fn address_of(&self, start: usize, len: usize) -> *mut f64 {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.value_count));
        self.start.wrapping_add(HEADER_BYTES).cast::<f64>().wrapping_add(start)
    }

    /// Returns the values start .. start + len.
    ///
    /// # Safety
    /// No thread of any process may write these values while the slice is in use.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &[f64] {
        // SAFETY: `address_of` checks the bounds; the caller excludes concurrent writes.
        unsafe { std::slice::from_raw_parts(self.address_of(start, len), len) }
    }

    /// Returns the values start .. start + len for writing.
    ///
    /// # Safety
    /// No thread of any process may use these values in another way while the slice is in use.
    #[expect(clippy::mut_from_ref, reason = "shared by processes that write disjoint parts")]
    pub unsafe fn slice_mut(&self, start: usize, len: usize) -> &mut [f64] {
        // SAFETY: `address_of` checks the bounds; the caller excludes concurrent accesses.
        unsafe { std::slice::from_raw_parts_mut(self.address_of(start, len), len) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Ok(bytes) = Self::mapping_bytes(self.value_count) {
            // SAFETY: `map` created the mapping with this size, and it is not used after the drop.
            unsafe { libc::munmap(self.start.cast(), bytes) };
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A second mapping shows the same memory, even after the first mapping has been dropped. Wrong addresses are
    /// rejected.
    #[test]
    fn mappings_of_one_address_share_memory() {
        let first = SharedMapping::new(1000).unwrap();
        let address = first.address();
        let second = SharedMapping::open(&address, 1000).unwrap();
        // SAFETY: only this test uses the mappings, one after the other.
        unsafe {
            assert!(first.slice(0, 1000).iter().all(|&v| v == 0.0));
            second.slice_mut(990, 10).fill(3.0);
            assert_eq!(first.slice(989, 3), [0.0, 3.0, 3.0]);
        }
        for wrong_address in
            [SharedAddress { signature: address.signature ^ 1, ..address }, SharedAddress { file: 1 << 20, ..address }]
        {
            assert!(matches!(SharedMapping::open(&wrong_address, 1000), Err(Error::Io(_))));
        }
        assert!(SharedMapping::open(&address, 999).is_err() && SharedMapping::new(usize::MAX / 4).is_err());
        drop(first);
        // SAFETY: as above.
        assert_eq!(unsafe { second.slice(999, 1) }, [3.0]);
        assert!(host_number() != 0 && process_signature() == address.signature);
    }
}
