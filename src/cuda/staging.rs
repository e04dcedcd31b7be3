//! Copies of host arrays to the device and back through page-locked memory. The driver stages pageable arrays with one
//! thread, at 1/4 of the bus bandwidth. Here a thread team copies pieces to and from a few buffers while the device
//! copies other buffers. Arrays that the caller has page-locked are copied directly by the device.
//!
//! A job is the copy of rows of one array. It is divided into chunks, each of which the device copies in one operation
//! to or from a buffer. A chunk is divided into pieces, each of which one thread copies.

use super::driver::{Device, Event, PageLockedArray, Stream, is_page_locked};
use crate::base::memory::{copy_past_caches, fence_copies};
use crate::base::team::{Team, TeamThread, yield_core};
use crate::error::{Result, push};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Number of values of a piece: 128 kB, which a thread copies in about 10 us. With twice this number, copies are
/// 2 to 24 % slower (docs/benchmarks/gpu.md).
const PIECE_VALUES: usize = 16 * 1024;
/// Largest number of values of a chunk: 4 MB, so that the launch takes only a small part of the time of the copy.
const CHUNK_VALUES: usize = 32 * PIECE_VALUES;
/// Number of values of a short chunk. The first copies to the device are short, because the device waits for them. The
/// last copies to the host are short, because the host waits for them.
const SHORT_CHUNK_VALUES: usize = 2 * PIECE_VALUES;
/// Number of page-locked buffers. With three buffers, copies are 5 % slower on an H200.
const BUFFERS: usize = 6;
/// Largest number of copying threads, measured on 16 cores. Eight threads copy 1.7 times as fast as the bus, and four
/// threads 10 % slower than the bus. Twelve threads slow one another down.
const MAX_COPYING_THREADS: usize = 8;
/// Values per cache line.
const LINE_VALUES: usize = 8;
/// Below this number of values, the calling thread copies alone, because waking another thread would take longer.
const TEAM_VALUES: usize = 6 * PIECE_VALUES;
/// Number of polls before a waiting thread yields its core.
const SPINS: usize = 1000;

/// A copy between rows of a host array and contiguous values on the device.
pub struct Job<'a> {
    host: *mut f64,
    ld: usize,
    nx: usize,
    /// Number of values, without the gaps between rows.
    count: usize,
    device: u64,
    /// Index of the last value of the copy, counted in values from the address `host`.
    last_offset: usize,
    /// Whether the caller's array is page-locked at its first and last value.
    is_locked: bool,
    _array: PhantomData<&'a mut [f64]>,
}

impl<'a> Job<'a> {
    /// Describes a copy of `rows` rows of `nx` values to the device. In the host array, the rows begin `ld` values
    /// apart.
    pub fn from_host(values: &'a [f64], (ld, nx, rows): (usize, usize, usize), device: u64) -> Self {
        assert!(rows > 0 && nx <= ld && values.len() >= (rows - 1) * ld + nx);
        let last_offset = (rows - 1) * ld + nx - 1;
        let (host, count) = (values.as_ptr().cast_mut(), nx * rows);
        let is_locked = is_page_locked(host as usize) && is_page_locked(host.wrapping_add(last_offset) as usize);
        Self { host, ld, nx, count, device, last_offset, is_locked, _array: PhantomData }
    }

    /// Describes a copy of `rows` rows of `nx` values to the host. In the host array, the rows begin `ld` values apart.
    pub fn to_host(values: &'a mut [f64], (ld, nx, rows): (usize, usize, usize), device: u64) -> Self {
        let host = values.as_mut_ptr();
        Self { host, ..Job::from_host(values, (ld, nx, rows), device) }
    }

    /// Describes a copy of a whole array to the device.
    pub fn array_from_host(values: &'a [f64], device: u64) -> Self {
        Self::from_host(values, (values.len(), values.len(), 1), device)
    }

    /// Describes a copy of a whole array to the host.
    pub fn array_to_host(values: &'a mut [f64], device: u64) -> Self {
        let len = values.len();
        Self::to_host(values, (len, len, 1), device)
    }

    /// Returns the number of values that are copied through the buffers.
    fn staged_values(&self) -> usize {
        if self.is_locked { 0 } else { self.count }
    }

    /// Lets the driver copy the rows without the buffers.
    fn copy_directly(&self, stream: &Stream, to_device: bool) -> Result<()> {
        let (len, rows) = (self.last_offset + 1, self.count / self.nx);
        if to_device {
            // SAFETY: `from_host` borrowed this slice, and checked that the slice has at least `last_offset` + 1
            // values.
            let values = unsafe { std::slice::from_raw_parts(self.host, len) };
            stream.send_rows(self.device, values, self.ld, self.nx, rows)
        } else {
            // SAFETY: `to_host` borrowed this slice mutably. It calls `from_host`, which checked that the slice has at
            // least `last_offset` + 1 values.
            let values = unsafe { std::slice::from_raw_parts_mut(self.host, len) };
            stream.fetch_rows(values, self.device, self.ld, self.nx, rows)
        }
    }

    /// Divides `count` values of this job, beginning with number `first_value`, into segments that are contiguous in
    /// the host array. Calls `f` for each segment. The arguments of `f` are the host address of the segment, the number
    /// of values between `first_value` and the segment, and the length of the segment.
    fn for_each_segment(&self, first_value: usize, count: usize, mut f: impl FnMut(*mut f64, usize, usize)) {
        let mut position = first_value;
        while position < first_value + count {
            let len = if self.ld == self.nx {
                count
            } else {
                (self.nx - position % self.nx).min(first_value + count - position)
            };
            let offset = position / self.nx * self.ld + position % self.nx;
            // `from_host` has checked that the array holds all rows, so the address is within the array.
            f(self.host.wrapping_add(offset), position - first_value, len);
            position += len;
        }
    }
}

/// A part of a job that the device copies in one operation.
#[derive(Clone, Copy)]
struct Chunk {
    job: usize,
    /// Number of the first value in the job, counted without the gaps between rows.
    first_value: usize,
    count: usize,
    /// Number of pieces of all previous chunks.
    first_piece: usize,
}

impl Chunk {
    /// Returns the number of pieces that the threads copy.
    fn piece_count(&self) -> usize {
        self.count.div_ceil(PIECE_VALUES)
    }
}

/// The buffers and the thread team that fills or empties them.
struct StagingBuffers {
    /// Values per buffer.
    chunk_values: usize,
    buffers: [PageLockedArray; BUFFERS],
    /// Events recorded after the last device copy from or to each buffer.
    copied_events: [Event; BUFFERS],
    chunks: Vec<Chunk>,
    team: Team,
}

/// Copies between host and device. The buffers are allocated when the first array arrives that is not page-locked.
pub struct StagedCopies {
    staging_buffers: Option<StagingBuffers>,
    threads: usize,
}

impl StagedCopies {
    /// Returns a value without buffers. At most `threads` threads will copy.
    pub fn new(threads: usize) -> Self {
        Self { staging_buffers: None, threads }
    }

    /// Returns the largest number of copying threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the bytes of page-locked host memory.
    pub fn bytes(&self) -> usize {
        self.staging_buffers.as_ref().map_or(0, StagingBuffers::bytes)
    }

    /// Copies arrays to the device. Work queued later on the stream sees the copies. The caller may change the arrays
    /// after it has waited for the stream.
    pub fn send(&mut self, stream: &Stream, jobs: &[Job]) -> Result<()> {
        self.run(stream, jobs, true)
    }

    /// Copies arrays to the host, where their values are visible after a wait for the stream.
    pub fn fetch(&mut self, stream: &Stream, jobs: &[Job]) -> Result<()> {
        self.run(stream, jobs, false)
    }

    /// Copies page-locked arrays directly, and the other arrays through the buffers.
    fn run(&mut self, stream: &Stream, jobs: &[Job], to_device: bool) -> Result<()> {
        for job in jobs.iter().filter(|job| job.is_locked) {
            job.copy_directly(stream, to_device)?;
        }
        if jobs.iter().all(|job| job.is_locked) {
            return Ok(());
        }
        if self.staging_buffers.is_none() {
            let values = jobs.iter().map(Job::staged_values).sum();
            self.staging_buffers = StagingBuffers::new(stream.device(), self.threads, values).ok();
        }
        match &mut self.staging_buffers {
            Some(staging_buffers) => staging_buffers.run(stream, jobs, to_device),
            // If page-locked memory or threads are not available, the driver copies, at lower bandwidth.
            None => jobs.iter().filter(|job| !job.is_locked).try_for_each(|job| job.copy_directly(stream, to_device)),
        }
    }
}

/// Data that the threads of one run share.
struct CopyRun<'a> {
    jobs: &'a [Job<'a>],
    chunks: &'a [Chunk],
    buffers: [*mut f64; BUFFERS],
    to_device: bool,
    /// Number of pieces of all chunks.
    piece_count: usize,
    /// Number of pieces that have been assigned to threads.
    next_piece: AtomicUsize,
    /// Number of chunks whose pieces may be copied.
    open_chunk_count: AtomicUsize,
    /// For each buffer, the number of pieces copied so far of the chunk that the buffer holds.
    copied_pieces: [AtomicUsize; BUFFERS],
    /// Whether an operation of the driver has failed. The waiting threads then return.
    has_failed: AtomicBool,
}

// SAFETY: the pointers belong to buffers and arrays that the run borrows, and the threads write disjoint pieces of
// them.
unsafe impl Sync for CopyRun<'_> {}

impl CopyRun<'_> {
    /// Returns the index of the chunk that contains a piece. The search begins with the chunk `first_candidate`, which
    /// must not be after this chunk.
    fn chunk_of(&self, piece: usize, first_candidate: usize) -> usize {
        let mut chunk = first_candidate;
        while piece >= self.chunks[chunk].first_piece + self.chunks[chunk].piece_count() {
            chunk += 1;
        }
        chunk
    }

    /// Copies a piece of a chunk between the host array and the buffer of the chunk, and counts the piece as copied.
    fn copy(&self, piece: usize, chunk: usize) {
        let Chunk { job, first_value, count, first_piece } = self.chunks[chunk];
        let offset = (piece - first_piece) * PIECE_VALUES;
        let buffer = self.buffers[chunk % BUFFERS].wrapping_add(offset);
        self.jobs[job].for_each_segment(
            first_value + offset,
            PIECE_VALUES.min(count - offset),
            |host, offset_in_piece, len| {
                let staged = buffer.wrapping_add(offset_in_piece);
                let (from, to) = if self.to_device { (host, staged) } else { (staged, host) };
                // SAFETY: `Job::from_host` has checked the range of every job, and a chunk is no longer than a buffer.
                // The counter `next_piece` assigns each piece to one thread. `open_chunk_count` shows that the device
                // has finished with the buffer.
                let (from, to) =
                    unsafe { (std::slice::from_raw_parts(from, len), std::slice::from_raw_parts_mut(to, len)) };
                // Stores bypass the caches, because the device reads data in the cache of a core slowly. This makes
                // copies of b and x 4 % faster for 2047 x 2047 nodes, and 25 % faster for 1023 x 1023 nodes.
                let uncached = if self.to_device { len - len % LINE_VALUES } else { 0 };
                copy_past_caches(&mut to[..uncached], &from[..uncached]);
                to[uncached..].copy_from_slice(&from[uncached..]);
            },
        );
        fence_copies();
        self.copied_pieces[chunk % BUFFERS].fetch_add(1, Ordering::Release);
    }

    /// Copies pieces until none is left, or until a copy on the device has failed; run by all threads except the
    /// calling thread.
    fn copy_pieces(&self) {
        let mut chunk = 0;
        loop {
            let piece = self.next_piece.fetch_add(1, Ordering::Relaxed);
            if piece >= self.piece_count {
                return;
            }
            chunk = self.chunk_of(piece, chunk);
            let mut spins = 0;
            while self.open_chunk_count.load(Ordering::Acquire) <= chunk {
                if self.has_failed.load(Ordering::Relaxed) {
                    return;
                }
                spins += 1;
                if spins < SPINS { std::hint::spin_loop() } else { yield_core() }
            }
            self.copy(piece, chunk);
        }
    }

    /// Copies the next piece if its chunk is open; run by the calling thread. `chunk` is the chunk of the last piece
    /// that this function has copied, and is updated.
    fn copy_next_piece(&self, chunk: &mut usize) {
        let piece = self.next_piece.load(Ordering::Relaxed);
        if piece < self.piece_count {
            let piece_chunk = self.chunk_of(piece, *chunk);
            let claim_piece =
                || self.next_piece.compare_exchange(piece, piece + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if piece_chunk < self.open_chunk_count.load(Ordering::Relaxed) && claim_piece() {
                *chunk = piece_chunk;
                return self.copy(piece, piece_chunk);
            }
        }
        std::hint::spin_loop();
    }

    /// Returns whether all pieces of a chunk have been copied.
    fn is_done(&self, chunk: usize) -> bool {
        self.copied_pieces[chunk % BUFFERS].load(Ordering::Acquire) == self.chunks[chunk].piece_count()
    }

    /// Allows the threads to copy the pieces of one more chunk.
    fn open_next_chunk(&self) {
        self.open_chunk_count.fetch_add(1, Ordering::Release);
    }

    /// Sends filled buffers to the device, and opens the next chunk when the device has read the buffer that this chunk
    /// reuses; run by the calling thread.
    fn send(&self, stream: &Stream, copied_events: &[Event; BUFFERS]) -> Result<()> {
        let (mut sent_count, mut open_count, mut last_chunk) = (0, BUFFERS.min(self.chunks.len()), 0);
        self.open_chunk_count.store(open_count, Ordering::Release);
        while sent_count < self.chunks.len() {
            if sent_count < open_count && self.is_done(sent_count) {
                let chunk = self.chunks[sent_count];
                let to = self.jobs[chunk.job].device + 8 * chunk.first_value as u64;
                // SAFETY: the buffer is full, and no thread writes to it before the event has occurred.
                unsafe { stream.send_locked(to, self.buffers[sent_count % BUFFERS], chunk.count)? };
                copied_events[sent_count % BUFFERS].record(stream)?;
                sent_count += 1;
            } else if open_count < self.chunks.len()
                && sent_count + BUFFERS > open_count
                && copied_events[open_count % BUFFERS].is_complete()?
            {
                self.copied_pieces[open_count % BUFFERS].store(0, Ordering::Relaxed);
                self.open_next_chunk();
                open_count += 1;
            } else {
                self.copy_next_piece(&mut last_chunk);
            }
        }
        Ok(())
    }

    /// Fetches chunks into empty buffers and opens the chunks that have arrived; run by the calling thread.
    fn fetch(&self, stream: &Stream, copied_events: &[Event; BUFFERS]) -> Result<()> {
        let (mut requested_count, mut open_count, mut emptied_count, mut last_chunk) = (0, 0, 0, 0);
        while emptied_count < self.chunks.len() {
            if requested_count < self.chunks.len() && requested_count < emptied_count + BUFFERS {
                let chunk = self.chunks[requested_count];
                let from = self.jobs[chunk.job].device + 8 * chunk.first_value as u64;
                self.copied_pieces[requested_count % BUFFERS].store(0, Ordering::Relaxed);
                // SAFETY: the buffer has been emptied, and no thread reads it before the event has occurred.
                unsafe { stream.fetch_locked(self.buffers[requested_count % BUFFERS], from, chunk.count)? };
                copied_events[requested_count % BUFFERS].record(stream)?;
                requested_count += 1;
            } else if emptied_count < open_count && self.is_done(emptied_count) {
                emptied_count += 1;
            } else if open_count < requested_count && copied_events[open_count % BUFFERS].is_complete()? {
                self.open_next_chunk();
                open_count += 1;
            } else {
                self.copy_next_piece(&mut last_chunk);
            }
        }
        Ok(())
    }
}

impl StagingBuffers {
    /// Allocates buffers for jobs with a total of about `values` values.
    fn new(device: &Arc<Device>, threads: usize, values: usize) -> Result<Self> {
        let chunk_values = (values / BUFFERS).next_multiple_of(PIECE_VALUES).clamp(PIECE_VALUES, CHUNK_VALUES);
        let buffer = || PageLockedArray::new(device, chunk_values);
        let event = || Event::new(device);
        Ok(Self {
            chunk_values,
            buffers: [buffer()?, buffer()?, buffer()?, buffer()?, buffer()?, buffer()?],
            copied_events: [event()?, event()?, event()?, event()?, event()?, event()?],
            chunks: Vec::new(),
            team: Team::new(threads.clamp(1, MAX_COPYING_THREADS))?,
        })
    }

    fn bytes(&self) -> usize {
        8 * self.chunk_values * BUFFERS
    }

    /// Copies the jobs with the thread team, or with the calling thread alone if the jobs have fewer than `TEAM_VALUES`
    /// values in total.
    fn run(&mut self, stream: &Stream, jobs: &[Job], to_device: bool) -> Result<()> {
        self.divide_into_chunks(jobs, to_device)?;
        for event in &self.copied_events {
            // Waits until the device copies of the previous run have finished.
            event.wait()?;
        }
        let Self { buffers, copied_events, chunks, team, .. } = self;
        let run = CopyRun {
            jobs,
            chunks,
            buffers: buffers.each_ref().map(PageLockedArray::address),
            to_device,
            piece_count: chunks.last().map_or(0, |c| c.first_piece + c.piece_count()),
            next_piece: AtomicUsize::new(0),
            open_chunk_count: AtomicUsize::new(0),
            copied_pieces: [const { AtomicUsize::new(0) }; BUFFERS],
            has_failed: AtomicBool::new(false),
        };
        let move_chunks = || {
            let result = if to_device { run.send(stream, copied_events) } else { run.fetch(stream, copied_events) };
            run.has_failed.store(result.is_err(), Ordering::Relaxed);
            result
        };
        if jobs.iter().map(Job::staged_values).sum::<usize>() < TEAM_VALUES {
            return move_chunks();
        }
        team.run(|_: TeamThread| run.copy_pieces(), |_| move_chunks())?
    }

    /// Divides jobs into chunks. In copies to the device, the first chunks are short, because the device waits for
    /// them. In copies from the device, the last chunks are short, because the host waits for them.
    fn divide_into_chunks(&mut self, jobs: &[Job], to_device: bool) -> Result<()> {
        self.chunks.clear();
        let total_values: usize = jobs.iter().map(Job::staged_values).sum();
        let (mut previous_values, mut first_piece) = (0, 0);
        for (job_index, job) in jobs.iter().enumerate() {
            let mut first_value = 0;
            while first_value < job.staged_values() {
                let ramp_length = if to_device { previous_values } else { (total_values - previous_values) / 2 };
                let count = ramp_length
                    .next_multiple_of(PIECE_VALUES)
                    .clamp(SHORT_CHUNK_VALUES.min(self.chunk_values), self.chunk_values)
                    .min(job.count - first_value);
                let chunk = Chunk { job: job_index, first_value, count, first_piece };
                push(&mut self.chunks, chunk, "copies in chunks")?;
                first_piece += chunk.piece_count();
                first_value += count;
                previous_values += count;
            }
        }
        Ok(())
    }
}
