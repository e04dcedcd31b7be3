//! Arrays of the host to the device and back through page-locked memory. The driver stages pageable arrays with one
//! thread, at a quarter of what the bus takes: here a team copies pieces to and from a few buffers, while the device
//! copies others. Arrays that the program has page-locked itself go as they are.

use super::driver::{Device, Event, Locked, Stream, is_page_locked};
use crate::error::{Result, push};
use crate::runtime::memory::{copies_are_done, copy_past_caches};
use crate::runtime::team::{Me, Team, give_way};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Values that a member copies at a time (128 kB, 10 us; twice as many make copies 2 to 24 % longer,
/// docs/benchmarks/gpu.md), of a copy of the device at most (4 MB: its start, some microseconds, counts little), and
/// of the first and the last ones, for which the other side waits.
const PIECE: usize = 16 * 1024;
const CHUNK: usize = 32 * PIECE;
const SHORT: usize = 2 * PIECE;
/// Measured on an H200: three take 5 % longer.
const BUFFERS: usize = 6;
/// Members at most: eight copy 1.7 times as fast as the bus takes, four a tenth slower than it, and twelve are in each
/// other's way (measured on 16 cores).
const MOST_MEMBERS: usize = 8;
/// Values of a cache line.
const LINE: usize = 8;
/// Fewer values than these are copied before a member is awake.
const WORTH_A_TEAM: usize = 6 * PIECE;
/// Polls before a waiting member offers its core to others.
const SPINS: usize = 1000;

/// Rows of an array on the host, and where they lie on the device, one after the other.
pub struct Job<'a> {
    host: *mut f64,
    ld: usize,
    nx: usize,
    /// Values, without what lies between rows.
    count: usize,
    device: u64,
    last: usize,
    /// Page-locked by the program, from end to end.
    locked: bool,
    _array: PhantomData<&'a mut [f64]>,
}

impl<'a> Job<'a> {
    /// To the device.
    pub fn read(values: &'a [f64], (ld, nx, rows): (usize, usize, usize), device: u64) -> Self {
        assert!(rows > 0 && nx <= ld && values.len() >= (rows - 1) * ld + nx);
        let last = (rows - 1) * ld + nx - 1;
        let (host, count) = (values.as_ptr().cast_mut(), nx * rows);
        let locked = is_page_locked(host as usize) && is_page_locked(host.wrapping_add(last) as usize);
        Self { host, ld, nx, count, device, last, locked, _array: PhantomData }
    }

    /// To the host.
    pub fn write(values: &'a mut [f64], (ld, nx, rows): (usize, usize, usize), device: u64) -> Self {
        let host = values.as_mut_ptr();
        Self { host, ..Job::read(values, (ld, nx, rows), device) }
    }

    /// All of an array, to the device.
    pub fn all(values: &'a [f64], device: u64) -> Self {
        Self::read(values, (values.len(), values.len(), 1), device)
    }

    /// All of an array, to the host.
    pub fn all_to(values: &'a mut [f64], device: u64) -> Self {
        let len = values.len();
        Self::write(values, (len, len, 1), device)
    }

    /// Values that go through the buffers.
    fn staged(&self) -> usize {
        if self.locked { 0 } else { self.count }
    }

    /// A copy by the device alone.
    fn copy_directly(&self, stream: &Stream, to_device: bool) -> Result<()> {
        let (len, rows) = (self.last + 1, self.count / self.nx);
        if to_device {
            // SAFETY: the slice that `read` was given.
            let values = unsafe { std::slice::from_raw_parts(self.host, len) };
            stream.send_rows(self.device, values, self.ld, self.nx, rows)
        } else {
            // SAFETY: the slice that `write` was given.
            let values = unsafe { std::slice::from_raw_parts_mut(self.host, len) };
            stream.fetch_rows(values, self.device, self.ld, self.nx, rows)
        }
    }

    /// Calls `f` with the host's address, the offset from `first` and the length of each part of first .. first + count
    /// that lies together.
    fn parts(&self, first: usize, count: usize, mut f: impl FnMut(*mut f64, usize, usize)) {
        let mut at = first;
        while at < first + count {
            let len = if self.ld == self.nx { count } else { (self.nx - at % self.nx).min(first + count - at) };
            let place = at / self.nx * self.ld + at % self.nx;
            // `read` has checked that the array holds all rows.
            f(self.host.wrapping_add(place), at - first, len);
            at += len;
        }
    }
}

/// A part of a job that one copy of the device takes.
#[derive(Clone, Copy)]
struct Chunk {
    job: usize,
    first: usize,
    count: usize,
    first_piece: usize,
}

impl Chunk {
    fn pieces(&self) -> usize {
        self.count.div_ceil(PIECE)
    }
}

/// The buffers, and who fills them.
struct Carrier {
    /// Values in each.
    chunk: usize,
    buffers: [Locked; BUFFERS],
    /// After the last copy of the device from or to each.
    copied: [Event; BUFFERS],
    chunks: Vec<Chunk>,
    team: Team,
}

/// Copies between arrays of the host and the device: the carrier is made when the first one comes that is not
/// page-locked.
pub struct Copies {
    carrier: Option<Carrier>,
    threads: usize,
}

impl Copies {
    /// With so many threads at most.
    pub fn new(threads: usize) -> Self {
        Self { carrier: None, threads }
    }

    /// The same.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Bytes of page-locked host memory.
    pub fn bytes(&self) -> usize {
        self.carrier.as_ref().map_or(0, Carrier::bytes)
    }

    /// Copies arrays to the device, which has them after what is queued on the stream; the arrays may be changed after
    /// a wait.
    pub fn send(&mut self, stream: &Stream, jobs: &[Job]) -> Result<()> {
        self.run(stream, jobs, true)
    }

    /// Copies arrays to the host, where they are after a wait.
    pub fn fetch(&mut self, stream: &Stream, jobs: &[Job]) -> Result<()> {
        self.run(stream, jobs, false)
    }

    fn run(&mut self, stream: &Stream, jobs: &[Job], to_device: bool) -> Result<()> {
        for job in jobs.iter().filter(|job| job.locked) {
            job.copy_directly(stream, to_device)?;
        }
        if jobs.iter().all(|job| job.locked) {
            return Ok(());
        }
        if self.carrier.is_none() {
            let values = jobs.iter().map(Job::staged).sum();
            self.carrier = Carrier::new(stream.device(), self.threads, values).ok();
        }
        match &mut self.carrier {
            Some(carrier) => carrier.run(stream, jobs, to_device),
            // No page-locked memory or no thread to be had: the driver copies, more slowly.
            None => jobs.iter().filter(|job| !job.locked).try_for_each(|job| job.copy_directly(stream, to_device)),
        }
    }
}

/// What members of a run share.
struct Run<'a> {
    jobs: &'a [Job<'a>],
    chunks: &'a [Chunk],
    buffers: [*mut f64; BUFFERS],
    to_device: bool,
    pieces: usize,
    next: AtomicUsize,
    /// Chunks whose pieces may be copied, and pieces of the chunk in each buffer that were.
    open: AtomicUsize,
    done: [AtomicUsize; BUFFERS],
    failed: AtomicBool,
}

// SAFETY: the pointers are those of buffers and arrays that the run borrows; members write disjoint pieces of them.
unsafe impl Sync for Run<'_> {}

impl Run<'_> {
    /// The chunk that a piece is of, from the one before on.
    fn chunk_of(&self, piece: usize, from: usize) -> usize {
        let mut chunk = from;
        while piece >= self.chunks[chunk].first_piece + self.chunks[chunk].pieces() {
            chunk += 1;
        }
        chunk
    }

    fn copy(&self, piece: usize, chunk: usize) {
        let Chunk { job, first, count, first_piece } = self.chunks[chunk];
        let offset = (piece - first_piece) * PIECE;
        let buffer = self.buffers[chunk % BUFFERS].wrapping_add(offset);
        self.jobs[job].parts(first + offset, PIECE.min(count - offset), |host, at, len| {
            let staged = buffer.wrapping_add(at);
            let (from, to) = if self.to_device { (host, staged) } else { (staged, host) };
            // SAFETY: chunks are cut from what `Job::read` has checked, and are no longer than a buffer; this piece is
            // handed out once, after the device was seen to be done with the buffer (`open`).
            let (from, to) =
                unsafe { (std::slice::from_raw_parts(from, len), std::slice::from_raw_parts_mut(to, len)) };
            // What lies in the cache of a core is slow to read for the device: past the caches, copies of b and x take
            // 4 % less at 2047 x 2047 and a quarter less at 1023 x 1023.
            let past = if self.to_device { len - len % LINE } else { 0 };
            copy_past_caches(&mut to[..past], &from[..past]);
            to[past..].copy_from_slice(&from[past..]);
        });
        copies_are_done();
        self.done[chunk % BUFFERS].fetch_add(1, Ordering::Release);
    }

    /// What members other than the calling thread do.
    fn follow(&self) {
        let mut chunk = 0;
        loop {
            let piece = self.next.fetch_add(1, Ordering::Relaxed);
            if piece >= self.pieces {
                return;
            }
            chunk = self.chunk_of(piece, chunk);
            let mut spins = 0;
            while self.open.load(Ordering::Acquire) <= chunk {
                if self.failed.load(Ordering::Relaxed) {
                    return;
                }
                spins += 1;
                if spins < SPINS { std::hint::spin_loop() } else { give_way() }
            }
            self.copy(piece, chunk);
        }
    }

    /// Copies a piece, if there is one in an open chunk.
    fn help(&self, chunk: &mut usize) {
        let piece = self.next.load(Ordering::Relaxed);
        if piece < self.pieces {
            let of = self.chunk_of(piece, *chunk);
            let mine = || self.next.compare_exchange(piece, piece + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if of < self.open.load(Ordering::Relaxed) && mine() {
                *chunk = of;
                return self.copy(piece, of);
            }
        }
        std::hint::spin_loop();
    }

    fn is_done(&self, chunk: usize) -> bool {
        self.done[chunk % BUFFERS].load(Ordering::Acquire) == self.chunks[chunk].pieces()
    }

    fn open_one_more(&self) {
        self.open.fetch_add(1, Ordering::Release);
    }

    /// The calling thread, to the device: sends what is full, and opens what the device is done with.
    fn send(&self, stream: &Stream, copied: &[Event; BUFFERS]) -> Result<()> {
        let (mut sent, mut open, mut near) = (0, BUFFERS.min(self.chunks.len()), 0);
        self.open.store(open, Ordering::Release);
        while sent < self.chunks.len() {
            if sent < open && self.is_done(sent) {
                let chunk = self.chunks[sent];
                let to = self.jobs[chunk.job].device + 8 * chunk.first as u64;
                // SAFETY: full, and not touched before the event was seen.
                unsafe { stream.send_locked(to, self.buffers[sent % BUFFERS], chunk.count)? };
                copied[sent % BUFFERS].note(stream)?;
                sent += 1;
            } else if open < self.chunks.len() && sent + BUFFERS > open && copied[open % BUFFERS].has_come()? {
                self.done[open % BUFFERS].store(0, Ordering::Relaxed);
                self.open_one_more();
                open += 1;
            } else {
                self.help(&mut near);
            }
        }
        Ok(())
    }

    /// From the device: fetches into what is empty, and opens what has come.
    fn fetch(&self, stream: &Stream, copied: &[Event; BUFFERS]) -> Result<()> {
        let (mut asked, mut open, mut emptied, mut near) = (0, 0, 0, 0);
        while emptied < self.chunks.len() {
            if asked < self.chunks.len() && asked < emptied + BUFFERS {
                let chunk = self.chunks[asked];
                let from = self.jobs[chunk.job].device + 8 * chunk.first as u64;
                self.done[asked % BUFFERS].store(0, Ordering::Relaxed);
                // SAFETY: empty, and not read before the event was seen.
                unsafe { stream.fetch_locked(self.buffers[asked % BUFFERS], from, chunk.count)? };
                copied[asked % BUFFERS].note(stream)?;
                asked += 1;
            } else if emptied < open && self.is_done(emptied) {
                emptied += 1;
            } else if open < asked && copied[open % BUFFERS].has_come()? {
                self.open_one_more();
                open += 1;
            } else {
                self.help(&mut near);
            }
        }
        Ok(())
    }
}

impl Carrier {
    /// For jobs of about so many values.
    fn new(device: &Arc<Device>, threads: usize, values: usize) -> Result<Self> {
        let chunk = (values / BUFFERS).next_multiple_of(PIECE).clamp(PIECE, CHUNK);
        let buffer = || Locked::new(device, chunk);
        let event = || Event::new(device);
        Ok(Self {
            chunk,
            buffers: [buffer()?, buffer()?, buffer()?, buffer()?, buffer()?, buffer()?],
            copied: [event()?, event()?, event()?, event()?, event()?, event()?],
            chunks: Vec::new(),
            team: Team::new(threads.clamp(1, MOST_MEMBERS))?,
        })
    }

    fn bytes(&self) -> usize {
        8 * self.chunk * BUFFERS
    }

    fn run(&mut self, stream: &Stream, jobs: &[Job], to_device: bool) -> Result<()> {
        self.cut(jobs, to_device)?;
        for event in &self.copied {
            // Of the run before.
            event.wait()?;
        }
        let Self { buffers, copied, chunks, team, .. } = self;
        let run = Run {
            jobs,
            chunks,
            buffers: buffers.each_ref().map(Locked::address),
            to_device,
            pieces: chunks.last().map_or(0, |c| c.first_piece + c.pieces()),
            next: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            done: [const { AtomicUsize::new(0) }; BUFFERS],
            failed: AtomicBool::new(false),
        };
        let own = || {
            let result = if to_device { run.send(stream, copied) } else { run.fetch(stream, copied) };
            run.failed.store(result.is_err(), Ordering::Relaxed);
            result
        };
        if jobs.iter().map(Job::staged).sum::<usize>() < WORTH_A_TEAM {
            return own();
        }
        team.run(|_: Me| run.follow(), |_| own())?
    }

    /// Cuts jobs into chunks, short ones where the device waits for the first of them, or the host for the last.
    fn cut(&mut self, jobs: &[Job], to_device: bool) -> Result<()> {
        self.chunks.clear();
        let all: usize = jobs.iter().map(Job::staged).sum();
        let (mut past, mut first_piece) = (0, 0);
        for (number, job) in jobs.iter().enumerate() {
            let mut first = 0;
            while first < job.staged() {
                let near_end = if to_device { past } else { (all - past) / 2 };
                let count =
                    near_end.next_multiple_of(PIECE).clamp(SHORT.min(self.chunk), self.chunk).min(job.count - first);
                let chunk = Chunk { job: number, first, count, first_piece };
                push(&mut self.chunks, chunk, "copies in chunks")?;
                first_piece += chunk.pieces();
                first += count;
                past += count;
            }
        }
        Ok(())
    }
}
