//! The gzip format (RFC 1952) through zlib's interface, whose streams are made with memory that can be refused.

use crate::error::{Error, Refused, Result};
use crate::runtime::heap::boxed;
use libz_rs_sys::{
    Z_BUF_ERROR, Z_DEFAULT_COMPRESSION, Z_DEFAULT_STRATEGY, Z_DEFLATED, Z_FINISH, Z_MEM_ERROR, Z_NO_FLUSH, Z_OK,
    Z_STREAM_END, deflate, deflateEnd, deflateInit2_, inflate, inflateEnd, inflateInit2_, inflateReset, z_stream,
    zlibVersion,
};
use std::ffi::CStr;

/// The largest window, 2^15 bytes; 16 more selects gzip instead of zlib.
const WINDOW_BITS: i32 = 15 + 16;
/// Memory for the state of compression, from 1 to 9: zlib's default.
const MEMORY_LEVEL: i32 = 8;
/// zlib does not report how much it has asked for.
const STATE: Refused = Refused { bytes: 0, what: "the state of a gz file" };
const STREAM: &str = "a gz stream";

/// What a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that were used.
    pub used: usize,
    /// Bytes of the output that were written.
    pub made: usize,
    /// The stream has ended.
    pub ended: bool,
}

/// Decompresses a file of one or several members.
pub struct Unpacker {
    /// On the heap, since the address must not change.
    stream: Box<z_stream>,
}

impl Unpacker {
    /// At the start of a member.
    pub fn new() -> Result<Self> {
        let mut stream = boxed(z_stream::default(), STREAM)?;
        // SAFETY: a stream whose allocator is set, the version of this library and the size of its structure.
        let code = unsafe { inflateInit2_(&raw mut *stream, WINDOW_BITS, zlibVersion(), size_of::<z_stream>() as i32) };
        made(code)?;
        Ok(Self { stream })
    }

    /// Decompresses as much of `input` as fits `output`, or returns what is wrong with it.
    pub fn step(&mut self, input: &[u8], output: &mut [u8]) -> std::result::Result<Step, &'static str> {
        let (step, code) = run(&mut self.stream, input, output, |stream| {
            // SAFETY: made by `new`; input and output are those that `run` has set.
            unsafe { inflate(stream, Z_NO_FLUSH) }
        });
        match code {
            Z_OK | Z_BUF_ERROR | Z_STREAM_END => Ok(step),
            _ if self.stream.msg.is_null() => Err("not the gzip format"),
            // SAFETY: a static text of the library that ends with NUL.
            _ => Err(unsafe { CStr::from_ptr(self.stream.msg) }.to_str().unwrap_or_default()),
        }
    }

    /// The next member begins.
    pub fn restart(&mut self) {
        // SAFETY: made by `new`. This fails for streams that are not initialized only.
        unsafe { inflateReset(&raw mut *self.stream) };
    }
}

impl Drop for Unpacker {
    fn drop(&mut self) {
        // SAFETY: made by `new`, ended once.
        unsafe { inflateEnd(&raw mut *self.stream) };
    }
}

/// Compresses a file as one member.
pub struct Packer {
    /// On the heap, since the address must not change.
    stream: Box<z_stream>,
}

impl Packer {
    /// With zlib's default level, 6.
    pub fn new() -> Result<Self> {
        let mut stream = boxed(z_stream::default(), STREAM)?;
        // SAFETY: a stream whose allocator is set, the version of this library and the size of its structure.
        let code = unsafe {
            deflateInit2_(
                &raw mut *stream,
                Z_DEFAULT_COMPRESSION,
                Z_DEFLATED,
                WINDOW_BITS,
                MEMORY_LEVEL,
                Z_DEFAULT_STRATEGY,
                zlibVersion(),
                size_of::<z_stream>() as i32,
            )
        };
        made(code)?;
        Ok(Self { stream })
    }

    /// Compresses `input`; `last`: no more input follows, and the call is repeated until the stream has ended.
    pub fn step(&mut self, input: &[u8], output: &mut [u8], last: bool) -> Step {
        let flush = if last { Z_FINISH } else { Z_NO_FLUSH };
        // Without input or room nothing is done, which is no error here. All others are those of wrong calls.
        run(&mut self.stream, input, output, |stream| {
            // SAFETY: made by `new`; input and output are those that `run` has set.
            unsafe { deflate(stream, flush) }
        })
        .0
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        // SAFETY: made by `new`, ended once.
        unsafe { deflateEnd(&raw mut *self.stream) };
    }
}

fn made(code: i32) -> Result<()> {
    match code {
        Z_OK => Ok(()),
        Z_MEM_ERROR => Err(Error::NoMemory(STATE)),
        code => Err(Error::Internal(format!("zlib returns {code} for a new stream"))),
    }
}

/// Calls `call` with this input and output; what it did, and the code that it returned.
fn run(stream: &mut z_stream, input: &[u8], output: &mut [u8], call: impl FnOnce(*mut z_stream) -> i32) -> (Step, i32) {
    let fitting = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let (before, room) = (fitting(input.len()), fitting(output.len()));
    (stream.next_in, stream.avail_in) = (input.as_ptr().cast_mut(), before);
    (stream.next_out, stream.avail_out) = (output.as_mut_ptr(), room);
    let code = call(stream);
    let (used, made) = ((before - stream.avail_in) as usize, (room - stream.avail_out) as usize);
    // Both end with this call.
    (stream.next_in, stream.avail_in) = (std::ptr::null_mut(), 0);
    (stream.next_out, stream.avail_out) = (std::ptr::null_mut(), 0);
    (Step { used, made, ended: code == Z_STREAM_END }, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &[u8], room: usize) -> Vec<u8> {
        let (mut packer, mut packed) = (Packer::new().unwrap(), Vec::new());
        let (mut rest, mut output) = (text, vec![0; room]);
        loop {
            let piece = rest.len().min(1000);
            let step = packer.step(&rest[..piece], &mut output, piece == rest.len());
            packed.extend(&output[..step.made]);
            rest = &rest[step.used..];
            if step.ended {
                return packed;
            }
        }
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|k| (k * k % 977).to_string().into_bytes()).collect();
        for (room, at_once) in [(1 << 16, 1 << 16), (1, 7), (3000, 1)] {
            let packed = packed(&text, room);
            let (mut unpacker, mut back, mut output) = (Unpacker::new().unwrap(), Vec::new(), vec![0; room]);
            // Twice, as members of one file.
            for _ in 0..2 {
                let mut rest = &packed[..];
                loop {
                    let step = unpacker.step(&rest[..at_once.min(rest.len())], &mut output).unwrap();
                    back.extend_from_slice(&output[..step.made]);
                    rest = &rest[step.used..];
                    if step.ended {
                        break;
                    }
                }
                assert!(rest.is_empty());
                unpacker.restart();
            }
            assert!(back == [&text[..], &text].concat(), "{room} {at_once}");
        }
        assert_eq!(Unpacker::new().unwrap().step(b"no gz", &mut [0; 9]), Err("incorrect header check"));
    }
}
