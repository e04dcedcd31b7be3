//! The gzip format (RFC 1952) through the interface of zlib, whose streams report failed allocations.

use crate::base::heap::boxed;
use crate::error::{Error, FailedAllocation, Result};
use libz_rs_sys::{
    Z_BUF_ERROR, Z_DEFAULT_COMPRESSION, Z_DEFAULT_STRATEGY, Z_DEFLATED, Z_FINISH, Z_MEM_ERROR, Z_NO_FLUSH, Z_OK,
    Z_STREAM_END, deflate, deflateEnd, deflateInit2_, inflate, inflateEnd, inflateInit2_, inflateReset, z_stream,
    zlibVersion,
};
use std::ffi::CStr;

/// Window of 2^15 bytes, the largest one. Adding 16 selects the gzip format instead of the zlib format.
const WINDOW_BITS: i32 = 15 + 16;
/// Memory for the compression state, on zlib's scale from 1 to 9. This is zlib's default.
const MEMORY_LEVEL: i32 = 8;
/// zlib does not report the size of the failed allocation, so the size is 0.
const STATE_ALLOCATION: FailedAllocation = FailedAllocation { bytes: 0, allocation_name: "the state of a gz file" };
const STREAM_NAME: &str = "a gz stream";

/// Progress that one call of `process` has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of input bytes consumed.
    pub consumed: usize,
    /// Number of output bytes written.
    pub written: usize,
    /// Whether the stream has ended.
    pub is_ended: bool,
}

/// Decompressor of a file with one or several gzip members.
pub struct GzipDecompressor {
    /// Boxed, because zlib requires a constant address.
    stream: Box<z_stream>,
}

impl GzipDecompressor {
    /// Creates a decompressor for a file that begins with a gzip member.
    pub fn new() -> Result<Self> {
        let mut stream = boxed(z_stream::default(), STREAM_NAME)?;
        // SAFETY: the stream has its default values, so zlib uses its own allocators. The version and the size of
        // the structure are those of the linked library.
        let code = unsafe { inflateInit2_(&raw mut *stream, WINDOW_BITS, zlibVersion(), size_of::<z_stream>() as i32) };
        check_new_stream(code)?;
        Ok(Self { stream })
    }

    /// Decompresses as much of `input` as fits into `output`. Returns zlib's message if the data are invalid.
    pub fn process(&mut self, input: &[u8], output: &mut [u8]) -> std::result::Result<Progress, &'static str> {
        let (progress, code) = run_zlib(&mut self.stream, input, output, |stream| {
            // SAFETY: `new` has initialized the stream, and `run_zlib` has set its input and output.
            unsafe { inflate(stream, Z_NO_FLUSH) }
        });
        match code {
            Z_OK | Z_BUF_ERROR | Z_STREAM_END => Ok(progress),
            _ if self.stream.msg.is_null() => Err("not the gzip format"),
            // SAFETY: `msg` is not null, so it points to a static NUL-terminated text of zlib.
            _ => Err(unsafe { CStr::from_ptr(self.stream.msg) }.to_str().unwrap_or_default()),
        }
    }

    /// Prepares for the next gzip member of the file.
    pub fn restart(&mut self) {
        // SAFETY: `new` has initialized the stream. The call fails only for uninitialized streams.
        unsafe { inflateReset(&raw mut *self.stream) };
    }
}

impl Drop for GzipDecompressor {
    fn drop(&mut self) {
        // SAFETY: `new` has initialized the stream, and only this function ends it.
        unsafe { inflateEnd(&raw mut *self.stream) };
    }
}

/// Compressor of a file, as one gzip member.
pub struct GzipCompressor {
    /// Boxed, because zlib requires a constant address.
    stream: Box<z_stream>,
}

impl GzipCompressor {
    /// Creates a compressor with zlib's default level, 6.
    pub fn new() -> Result<Self> {
        let mut stream = boxed(z_stream::default(), STREAM_NAME)?;
        // SAFETY: the stream has its default values, so zlib uses its own allocators. The version and the size of
        // the structure are those of the linked library.
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
        check_new_stream(code)?;
        Ok(Self { stream })
    }

    /// Compresses `input`. If no more input follows, set `is_last`, and repeat the call with the remaining input until
    /// the stream has ended.
    pub fn process(&mut self, input: &[u8], output: &mut [u8], is_last: bool) -> Progress {
        let flush = if is_last { Z_FINISH } else { Z_NO_FLUSH };
        // The return code is ignored. If the input is empty or the output is full, the code is an error. The returned
        // `Progress` then shows that the call has made no progress. All other error codes indicate a wrong call.
        run_zlib(&mut self.stream, input, output, |stream| {
            // SAFETY: `new` has initialized the stream, and `run_zlib` has set its input and output.
            unsafe { deflate(stream, flush) }
        })
        .0
    }
}

impl Drop for GzipCompressor {
    fn drop(&mut self) {
        // SAFETY: `new` has initialized the stream, and only this function ends it.
        unsafe { deflateEnd(&raw mut *self.stream) };
    }
}

fn check_new_stream(code: i32) -> Result<()> {
    match code {
        Z_OK => Ok(()),
        Z_MEM_ERROR => Err(Error::NoMemory(STATE_ALLOCATION)),
        code => Err(Error::Internal(format!("zlib returns {code} for a new stream"))),
    }
}

/// Runs `call_zlib` with this input and output. Returns the progress and the return code.
fn run_zlib(
    stream: &mut z_stream,
    input: &[u8],
    output: &mut [u8],
    call_zlib: impl FnOnce(*mut z_stream) -> i32,
) -> (Progress, i32) {
    let clamp_to_u32 = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let (input_len, output_len) = (clamp_to_u32(input.len()), clamp_to_u32(output.len()));
    (stream.next_in, stream.avail_in) = (input.as_ptr().cast_mut(), input_len);
    (stream.next_out, stream.avail_out) = (output.as_mut_ptr(), output_len);
    let code = call_zlib(stream);
    let (consumed, written) = ((input_len - stream.avail_in) as usize, (output_len - stream.avail_out) as usize);
    // The borrows of input and output end here, so the stream must not keep their addresses.
    (stream.next_in, stream.avail_in) = (std::ptr::null_mut(), 0);
    (stream.next_out, stream.avail_out) = (std::ptr::null_mut(), 0);
    (Progress { consumed, written, is_ended: code == Z_STREAM_END }, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compress(text: &[u8], output_len: usize) -> Vec<u8> {
        let (mut compressor, mut compressed) = (GzipCompressor::new().unwrap(), Vec::new());
        let (mut remaining, mut output) = (text, vec![0; output_len]);
        loop {
            let input_len = remaining.len().min(1000);
            let progress = compressor.process(&remaining[..input_len], &mut output, input_len == remaining.len());
            compressed.extend(&output[..progress.written]);
            remaining = &remaining[progress.consumed..];
            if progress.is_ended {
                return compressed;
            }
        }
    }

    #[test]
    fn decompression_restores_compressed_text() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|k| (k * k % 977).to_string().into_bytes()).collect();
        for (output_len, input_len) in [(1 << 16, 1 << 16), (1, 7), (3000, 1)] {
            let compressed = compress(&text, output_len);
            let (mut decompressor, mut restored, mut output) =
                (GzipDecompressor::new().unwrap(), Vec::new(), vec![0; output_len]);
            // The packed data are decompressed twice, as two members of one file.
            for _ in 0..2 {
                let mut remaining = &compressed[..];
                loop {
                    let progress =
                        decompressor.process(&remaining[..input_len.min(remaining.len())], &mut output).unwrap();
                    restored.extend_from_slice(&output[..progress.written]);
                    remaining = &remaining[progress.consumed..];
                    if progress.is_ended {
                        break;
                    }
                }
                assert!(remaining.is_empty());
                decompressor.restart();
            }
            assert!(restored == [&text[..], &text].concat(), "{output_len} {input_len}");
        }
        assert_eq!(GzipDecompressor::new().unwrap().process(b"no gz", &mut [0; 9]), Err("incorrect header check"));
    }
}
