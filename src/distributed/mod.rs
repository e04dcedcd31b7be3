//! Communication between the ranks of a domain. A plan is a communication that can be repeated with the same buffers.
//! Functions of the host program create and start plans. Send and receive buffers belong to the plan and never move.
//!
//! The table of these functions is defined in `vtable`; `threads` implements it for ranks that are threads of one
//! process. `strips` and `boxes` divide a grid among ranks, and `rows` contains the row arrays of the whole grid. If a
//! rank waits longer than `comm_timeout`, or a function of the table fails, the communicator has failed. Every later
//! call then returns [`Error::Communication`] without waiting.

pub mod box_transfer;
pub mod boxes;
pub mod error_messages;
pub mod rows;
pub mod strips;
pub mod threads;
pub mod vtable;

use crate::base::heap::Counted;
use crate::base::shared::Shared;
use crate::base::team::yield_core;
use crate::error::{Error, Result, collected};
use core::ffi::c_void;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vtable::{rrbsolver_comm, rrbsolver_message};

/// Name of an allocation in error messages.
const MESSAGES: &str = "messages between ranks";

/// Communicator: this rank of a domain, and the host program's table of functions.
pub struct Comm {
    table: rrbsolver_comm,
    /// Error message, set once the communicator has failed.
    failure: OnceLock<String>,
    /// Maximum time in nanoseconds to wait for other ranks; 0 means no limit.
    timeout: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
}

// SAFETY: only the thread that called the library calls the table's functions, one at a time. The borrow checker
// ensures this: plans are used through `&mut`, and are created while the handle is borrowed mutably.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// Number of polls before a waiting rank yields its core.
const POLLS: usize = 1000;

impl Comm {
    /// Creates a communicator on a table. Returns an error if a function is missing, or if the size of the structure,
    /// the rank, the flags or the reserved field is invalid.
    pub fn new(table: &rrbsolver_comm) -> Result<Counted<Self>> {
        let rrbsolver_comm { struct_size, rank, size, flags, reserved, .. } = *table;
        let expected = size_of::<rrbsolver_comm>() as i64;
        if struct_size != expected {
            return Err(Error::range("comm.struct_size", struct_size, format!("be {expected}, its size in bytes")));
        }
        if size < 1 || rank < 0 || rank >= size {
            return Err(Error::range("comm.rank", rank, format!("lie in [0, comm.size = {size})")));
        }
        if flags != 0 || reserved != 0 {
            return Err(Error::range("comm.flags", flags, "be 0, as comm.reserved, in this version"));
        }
        let functions = [
            ("comm.exchange", table.exchange.is_some()),
            ("comm.allreduce", table.allreduce.is_some()),
            ("comm.allgather", table.allgather.is_some()),
            ("comm.start", table.start.is_some()),
            ("comm.test", table.test.is_some()),
            ("comm.release", table.release.is_some()),
        ];
        if let Some((name, _)) = functions.into_iter().find(|(_, there)| !there) {
            return Err(Error::Null(name.into()));
        }
        let comm = Self {
            table: *table,
            failure: OnceLock::new(),
            timeout: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        Counted::new(comm, MESSAGES)
    }

    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.table.rank as usize
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.table.size as usize
    }

    /// Sets the maximum time in seconds to wait for other ranks; 0 means no limit.
    pub fn set_timeout(&self, seconds: f64) {
        let nanoseconds = Duration::from_secs_f64(seconds).as_nanos() as u64;
        self.timeout.store(nanoseconds.max(u64::from(seconds > 0.0)), Ordering::Relaxed);
    }

    /// Returns the numbers of messages and bytes that this rank has sent. A collective call counts as one message, or
    /// as none if there is only one rank.
    pub fn sent(&self) -> [u64; 2] {
        [self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)]
    }

    /// Fails with the original reason if the communicator has failed.
    pub fn check(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |message| Err(failure(message)))
    }

    fn fail(&self, message: String) -> Error {
        failure(self.failure.get_or_init(|| message))
    }

    fn check_code(&self, what: &str, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(self.fail(format!("{what} of the communicator returned {code} on rank {}", self.rank())))
    }
}

fn failure(message: &str) -> Error {
    Error::Communication(format!("{message}; destroy the handle"))
}

/// A communication plan of the host program.
struct Plan {
    comm: Counted<Comm>,
    /// NULL if there is nothing to communicate.
    plan: *mut c_void,
    /// Numbers of messages and bytes that this rank sends per start.
    sent: [u64; 2],
    in_progress: Cell<bool>,
}

// SAFETY: as for `Comm`.
unsafe impl Send for Plan {}
// SAFETY: as for `Comm`.
unsafe impl Sync for Plan {}

impl Plan {
    /// Creates a plan. `make` receives the table, and the address at which it must store the plan. `what` is the name
    /// of the function that creates the plan, for error messages.
    fn new(
        comm: &Counted<Comm>,
        what: &str,
        sent: [u64; 2],
        make: impl FnOnce(&rrbsolver_comm, *mut *mut c_void) -> i32,
    ) -> Result<Self> {
        comm.check()?;
        let mut plan = null_mut();
        comm.check_code(what, make(&comm.table, &raw mut plan))?;
        Ok(Self { comm: comm.clone(), plan, sent, in_progress: Cell::new(false) })
    }

    /// Returns a plan without communication.
    fn idle(comm: &Counted<Comm>) -> Self {
        Self { comm: comm.clone(), plan: null_mut(), sent: [0, 0], in_progress: Cell::new(false) }
    }

    fn start(&mut self) -> Result<()> {
        let comm = &*self.comm;
        comm.check()?;
        if self.plan.is_null() {
            return Ok(());
        }
        let start = comm.table.start.expect("checked when the table was passed");
        // SAFETY: a function of this table created `plan`. The host program guarantees that the functions of the table
        // behave as documented.
        comm.check_code("start", unsafe { start(comm.table.context, self.plan, null_mut()) })?;
        comm.messages.fetch_add(self.sent[0], Ordering::Relaxed);
        comm.bytes.fetch_add(self.sent[1], Ordering::Relaxed);
        self.in_progress.set(true);
        Ok(())
    }

    /// Waits until the plan is complete, if it was started. Fails after the timeout, or if the function `test` fails.
    fn wait(&mut self) -> Result<()> {
        if !self.in_progress.get() {
            return Ok(());
        }
        let comm = &*self.comm;
        let test = comm.table.test.expect("checked when the table was passed");
        let timeout = Duration::from_nanos(comm.timeout.load(Ordering::Relaxed));
        let (mut polls, mut since) = (0, None);
        loop {
            let mut done = 0;
            // SAFETY: as in `start`; `done` outlives the call.
            comm.check_code("test", unsafe { test(comm.table.context, self.plan, &raw mut done) })?;
            if done != 0 {
                self.in_progress.set(false);
                return Ok(());
            }
            polls += 1;
            if polls < POLLS {
                std::hint::spin_loop();
                continue;
            }
            yield_core();
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if !timeout.is_zero() && waited > timeout {
                return Err(comm.fail(format!(
                    "rank {} has waited {:.1} s for other ranks (comm_timeout): one of them is missing, or makes \
                     another call",
                    comm.rank(),
                    waited.as_secs_f64()
                )));
            }
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Some(release) = self.comm.table.release.filter(|_| !self.plan.is_null()) {
            // SAFETY: a function of this table created `plan`, and the plan is released once. The return value of
            // `release` no longer matters.
            unsafe { release(self.comm.table.context, self.plan) };
        }
    }
}

/// Send and receive buffers of a plan. If the communicator has failed, messages from or to the buffers may still be in
/// transit, so the buffers are not freed.
struct Buffers {
    comm: Counted<Comm>,
    values: [Option<Shared>; 2],
}

impl Buffers {
    fn new(comm: &Counted<Comm>, lengths: [usize; 2]) -> Result<Self> {
        let [first, second] = lengths.map(Shared::zeroed);
        Ok(Self { comm: comm.clone(), values: [Some(first?), Some(second?)] })
    }

    fn of(&self, which: usize) -> &Shared {
        self.values[which].as_ref().expect("there until it is dropped")
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.comm.check().is_err() {
            self.values.iter_mut().for_each(|values| std::mem::forget(values.take()));
        }
    }
}

/// A peer rank, and the ranges of the send and receive arrays of an [`Exchange`] for this peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub peer: usize,
    pub send: Range<usize>,
    pub receive: Range<usize>,
}

const SEND: usize = 0;
const RECEIVE: usize = 1;

/// Point-to-point messages with some ranks, in both directions.
pub struct Exchange {
    plan: Plan,
    buffers: Buffers,
}

impl Exchange {
    /// Creates an exchange with at most one part per peer. `tag` distinguishes exchanges that may be in progress at the
    /// same time.
    pub fn new(comm: &Counted<Comm>, tag: i32, parts: &[Part]) -> Result<Self> {
        let end = |of: fn(&Part) -> &Range<usize>| parts.iter().map(|part| of(part).end).max().unwrap_or(0);
        let buffers = Buffers::new(comm, [end(|part| &part.send), end(|part| &part.receive)])?;
        let bytes = |values: &Range<usize>| (values.len() * size_of::<f64>()) as i64;
        let message = |part: &Part| rrbsolver_message {
            peer: part.peer as i32,
            tag,
            send_bytes: bytes(&part.send),
            receive_bytes: bytes(&part.receive),
            send: buffers.of(SEND).address(part.send.start, part.send.len()).cast_const().cast(),
            receive: buffers.of(RECEIVE).address(part.receive.start, part.receive.len()).cast(),
        };
        let messages = collected(parts.iter().map(message), MESSAGES)?;
        if messages.is_empty() {
            return Ok(Self { plan: Plan::idle(comm), buffers });
        }
        let sent = parts.iter().filter(|part| !part.send.is_empty());
        let sent = sent.fold([0, 0], |[count, sum], part| [count + 1, sum + bytes(&part.send) as u64]);
        let exchange = comm.table.exchange.expect("checked when the table was passed");
        // SAFETY: the list has this number of messages, and the buffers live at least as long as the plan.
        let make = |table: &rrbsolver_comm, plan| unsafe {
            exchange(table.context, messages.len() as i64, messages.as_ptr(), plan)
        };
        Ok(Self { plan: Plan::new(comm, "exchange", sent, make)?, buffers })
    }

    /// Fails if the communicator has failed. Messages may then still be in transit, and no buffer may be accessed.
    pub fn check(&self) -> Result<()> {
        self.plan.comm.check()
    }

    /// Returns the send buffer. The communicator must not have failed (see `check`).
    pub fn outgoing(&mut self) -> &mut [f64] {
        debug_assert!(!self.plan.in_progress.get());
        let values = self.buffers.of(SEND);
        // SAFETY: `self` is borrowed mutably. No communication is in progress, because `run` waits for its completion,
        // and the communicator has not failed.
        unsafe { values.slice_mut(0, values.len()) }
    }

    /// Returns the receive buffer. The communicator must not have failed (see `check`).
    pub fn received(&self) -> &[f64] {
        debug_assert!(!self.plan.in_progress.get());
        let values = self.buffers.of(RECEIVE);
        // SAFETY: no communication is in progress, as in `outgoing`.
        unsafe { values.slice(0, values.len()) }
    }

    /// Sends and receives all messages, and waits for completion.
    pub fn run(&mut self) -> Result<()> {
        self.plan.start()?;
        self.plan.wait()
    }

    pub fn bytes(&self) -> usize {
        self.buffers.of(SEND).bytes() + self.buffers.of(RECEIVE).bytes()
    }
}

/// Allgather: the values of every rank, on all ranks.
pub struct Gather {
    plan: Plan,
    buffers: Buffers,
}

impl Gather {
    /// Creates the plan; `counts[rank]` is the number of values of a rank.
    pub fn new(comm: &Counted<Comm>, counts: &[usize]) -> Result<Self> {
        let own = counts[comm.rank()];
        let buffers = Buffers::new(comm, [own, counts.iter().sum()])?;
        let bytes = collected(counts.iter().map(|&count| (count * size_of::<f64>()) as i64), MESSAGES)?;
        let allgather = comm.table.allgather.expect("checked when the table was passed");
        let (send, receive) = (buffers.of(SEND), buffers.of(RECEIVE));
        let (send, receive) = (send.address(0, own), receive.address(0, receive.len()));
        // SAFETY: `bytes` has one entry per rank, and the buffers live at least as long as the plan.
        let make = |table: &rrbsolver_comm, plan| unsafe {
            allgather(table.context, send.cast_const().cast(), receive.cast(), bytes.as_ptr(), plan)
        };
        let sent = [u64::from(comm.size() > 1), (own * size_of::<f64>()) as u64];
        Ok(Self { plan: Plan::new(comm, "allgather", sent, make)?, buffers })
    }

    /// Gathers the values of all ranks, in the order of the ranks. `own` writes the values of this rank.
    pub fn run(&mut self, own: impl FnOnce(&mut [f64])) -> Result<&[f64]> {
        self.plan.comm.check()?;
        let (send, receive) = (self.buffers.of(SEND), self.buffers.of(RECEIVE));
        // SAFETY: `self` is borrowed mutably. No communication is in progress, because `run` waits for its completion,
        // and the communicator has not failed.
        own(unsafe { send.slice_mut(0, send.len()) });
        self.plan.start()?;
        self.plan.wait()?;
        // SAFETY: the communication is complete.
        Ok(unsafe { receive.slice(0, receive.len()) })
    }
}

/// Elementwise maximum over all ranks.
pub struct Maximum {
    plan: Plan,
    buffers: Buffers,
}

impl Maximum {
    /// Creates the plan for `count` values per rank.
    pub fn new(comm: &Counted<Comm>, count: usize) -> Result<Self> {
        let buffers = Buffers::new(comm, [count, 0])?;
        let values = buffers.of(SEND).address(0, count);
        let allreduce = comm.table.allreduce.expect("checked when the table was passed");
        // SAFETY: the buffer has `count` values and lives at least as long as the plan.
        let make =
            |table: &rrbsolver_comm, plan| unsafe { allreduce(table.context, count as i64, values, vtable::MAX, plan) };
        let sent = [u64::from(comm.size() > 1), (count * size_of::<f64>()) as u64];
        Ok(Self { plan: Plan::new(comm, "allreduce", sent, make)?, buffers })
    }

    /// Returns the elementwise maxima over all ranks; `own` has `count` values.
    pub fn run(&mut self, own: &[f64]) -> Result<&[f64]> {
        self.plan.comm.check()?;
        let values = self.buffers.of(SEND);
        // SAFETY: `self` is borrowed mutably. No communication is in progress, because `run` waits for its completion,
        // and the communicator has not failed.
        unsafe { values.slice_mut(0, values.len()) }.copy_from_slice(own);
        self.plan.start()?;
        self.plan.wait()?;
        // SAFETY: the communication is complete.
        Ok(unsafe { values.slice(0, values.len()) })
    }
}
