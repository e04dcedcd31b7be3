//! Log lines: to the library-wide callback, stderr, or a file. Formatting takes no heap memory, since lines
//! are written inside solve.

use super::guard::quietly;
use super::rrb_log_fn;
use crate::error::{Error, Result};
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::sync::Mutex;

struct Sink {
    callback: rrb_log_fn,
    user: *mut libc::c_void,
}

// SAFETY: the pointer is only handed back to the callback; `rrbsolver_set_log` asks for a callback that may
// be called from any thread that uses the library.
unsafe impl Send for Sink {}

static CALLBACK: Mutex<Sink> = Mutex::new(Sink { callback: None, user: std::ptr::null_mut() });

/// Replaces the library-wide callback.
pub fn set_callback(callback: rrb_log_fn, user: *mut libc::c_void) {
    let mut sink = CALLBACK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    *sink = Sink { callback, user };
}

/// Where one handle writes.
#[derive(Default)]
pub enum Log {
    /// To the library-wide callback, if there is one.
    #[default]
    Callback,
    /// To stderr.
    Stderr,
    /// To the end of a file.
    File(File),
}

impl Log {
    /// From the value of the option `log`.
    pub fn open(target: &str) -> Result<Self> {
        match target {
            "callback" => Ok(Self::Callback),
            "stderr" => Ok(Self::Stderr),
            path => match File::options().append(true).create(true).open(path) {
                Ok(file) => Ok(Self::File(file)),
                Err(e) => Err(Error::Io(format!("log file {path} cannot be opened: {e}"))),
            },
        }
    }

    /// Writes one line. A sink that fails is no reason to fail a solve.
    pub fn line(&mut self, level: i32, text: fmt::Arguments) {
        let mut line = Line::default();
        // Cut at the buffer's end.
        let _ = line.write_fmt(text);
        match self {
            Self::Callback => call(level, &line),
            // One write a line, so that handles that share a sink do not mix within lines.
            Self::Stderr => {
                let _ = std::io::stderr().write_all(line.ended());
            }
            Self::File(file) => {
                let _ = file.write_all(line.ended());
            }
        }
    }
}

fn call(level: i32, line: &Line) {
    let sink = CALLBACK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (callback, user) = (sink.callback, sink.user);
    // Released before the call: the callback may call the library.
    drop(sink);
    if let Some(callback) = callback {
        // A panic in it ends the line, not the solve.
        let _ = quietly(|| {
            // SAFETY: the caller of `rrbsolver_set_log` gave a function of this signature; the text ends with
            // NUL because `Line` never fills its last byte.
            unsafe { callback(user, level, line.bytes.as_ptr().cast()) };
            Ok(())
        });
    }
}

/// A line of text that ends with NUL.
struct Line {
    bytes: [u8; 512],
    used: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 512], used: 0 }
    }
}

impl Line {
    /// The line with its end in place of NUL.
    fn ended(&mut self) -> &[u8] {
        self.bytes[self.used] = b'\n';
        &self.bytes[..=self.used]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.used;
        let mut cut = s.len().min(room);
        while !s.is_char_boundary(cut) {
            cut -= 1;
        }
        self.bytes[self.used..][..cut].copy_from_slice(&s.as_bytes()[..cut]);
        self.used += cut;
        Ok(())
    }
}
