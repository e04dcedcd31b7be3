//! System calls on files, with names as C strings. The functions of `std::fs` allocate memory for long names, and abort
//! the process if the allocation fails.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// Maximum length of a path in bytes, including its NUL.
pub const MAX_PATH_BYTES: usize = libc::PATH_MAX as usize;

/// Text of an I/O error. `Display` writes the same text as `Display` of `std::io::Error`, but allocates no memory for
/// it.
pub struct IoErrorText<'a>(pub &'a Error);

impl fmt::Display for IoErrorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.0.raw_os_error() else { return fmt::Display::fmt(self.0, f) };
        let mut buffer = [0u8; 128];
        // SAFETY: the buffer has the length passed. A text that does not fit is truncated or omitted.
        unsafe { libc::strerror_r(code, buffer.as_mut_ptr().cast(), buffer.len()) };
        let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        write!(f, "{} (os error {code})", OsStr::from_bytes(text.to_bytes()).display())
    }
}

/// Opens a file for reading.
pub fn open(path: &CStr) -> Result<File> {
    open_with_flags(path, libc::O_RDONLY, 0)
}

/// Opens an existing file for writing.
pub fn open_to_write(path: &CStr) -> Result<File> {
    open_with_flags(path, libc::O_WRONLY, 0)
}

/// Opens a file for appending. Creates it if it does not exist.
pub fn open_to_append(path: &CStr) -> Result<File> {
    open_with_flags(path, libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT, 0o666)
}

/// Creates a file. Fails with the kind `AlreadyExists` if the name is in use.
pub fn create_new(path: &CStr) -> Result<File> {
    open_with_flags(path, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, 0o666)
}

fn open_with_flags(path: &CStr, flags: libc::c_int, mode: libc::c_uint) -> Result<File> {
    loop {
        // SAFETY: the path ends with NUL and outlives the call.
        let descriptor = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
        if descriptor >= 0 {
            // SAFETY: the descriptor is new, so it has no other owner.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into());
        }
        let error = Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Returns type and permissions of a file as `st_mode`. Follows symbolic links.
pub fn file_mode(path: &CStr) -> Result<u32> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path ends with NUL, and `status` has the size of the result.
    check_status(unsafe { libc::stat(path.as_ptr(), status.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it has initialized `status`.
    Ok(unsafe { status.assume_init() }.st_mode)
}

/// Returns whether `mode` is the mode of a regular file.
pub fn is_regular_file(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFREG
}

/// Resolves all symbolic links of a path. `buffer` must have [`MAX_PATH_BYTES`] bytes.
pub fn resolve_links<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a CStr> {
    assert!(buffer.len() >= MAX_PATH_BYTES);
    // SAFETY: the path ends with NUL, and the buffer has the PATH_MAX bytes that the call may write, as asserted above.
    if unsafe { libc::realpath(path.as_ptr(), buffer.as_mut_ptr().cast()) }.is_null() {
        return Err(Error::last_os_error());
    }
    CStr::from_bytes_until_nul(buffer).map_err(|_| ErrorKind::InvalidData.into())
}

/// Renames a file. An existing file with the new name is replaced.
pub fn rename(from: &CStr, to: &CStr) -> Result<()> {
    // SAFETY: both paths end with NUL.
    check_status(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) })
}

/// Removes a file.
pub fn remove(path: &CStr) -> Result<()> {
    // SAFETY: the path ends with NUL.
    check_status(unsafe { libc::unlink(path.as_ptr()) })
}

fn check_status(status: libc::c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
