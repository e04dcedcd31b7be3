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

use crate::base::heap::FallibleArc;
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
const ALLOCATION_NAME: &str = "messages between ranks";

/// Communicator: this rank of a domain, and the host program's table of functions.
pub struct Comm {
    table: rrbsolver_comm,
    /// Error message, set once the communicator has failed.
    failure_message: OnceLock<String>,
    /// Maximum time in nanoseconds to wait for other ranks; 0 means no limit.
    timeout: AtomicU64,
    /// Numbers of messages and bytes that this rank has sent.
    sent_messages: AtomicU64,
    sent_bytes: AtomicU64,
}

// SAFETY: only the thread that called the library calls the table's functions, one at a time. The borrow checker
// ensures this: plans are used through `&mut`, and are created while the handle is borrowed mutably.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// Number of polls before a waiting rank yields its core.
const POLLS_BEFORE_YIELD: usize = 1000;

impl Comm {
    /// Creates a communicator with the functions of `table`. Returns an error if a function is missing, or if the size
    /// of the structure, the rank, the flags or the reserved field is invalid.
    pub fn new(table: &rrbsolver_comm) -> Result<FallibleArc<Self>> {
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
        if let Some((name, _)) = functions.into_iter().find(|(_, is_set)| !is_set) {
            return Err(Error::Null(name.into()));
        }
        let comm = Self {
            table: *table,
            failure_message: OnceLock::new(),
            timeout: AtomicU64::new(0),
            sent_messages: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        };
        FallibleArc::new(comm, ALLOCATION_NAME)
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
    pub fn sent_totals(&self) -> [u64; 2] {
        [self.sent_messages.load(Ordering::Relaxed), self.sent_bytes.load(Ordering::Relaxed)]
    }

    /// Returns an error with the message of the first failure, if the communicator has failed.
    pub fn check_not_failed(&self) -> Result<()> {
        self.failure_message.get().map_or(Ok(()), |message| Err(failure_error(message)))
    }

    /// Marks the communicator as failed, and returns the error. If the communicator has failed before, the message of
    /// the first failure is kept and returned.
    fn fail(&self, message: String) -> Error {
        failure_error(self.failure_message.get_or_init(|| message))
    }

    /// Returns an error if `return_code`, which a function of the table has returned, is not 0. The communicator has
    /// then failed.
    fn check_return_code(&self, function_name: &str, return_code: i32) -> Result<()> {
        if return_code == 0 {
            return Ok(());
        }
        Err(self.fail(format!("{function_name} of the communicator returned {return_code} on rank {}", self.rank())))
    }
}

/// Returns the error for a communicator that has failed with this message.
fn failure_error(message: &str) -> Error {
    Error::Communication(format!("{message}; destroy the handle"))
}

/// A communication plan of the host program.
struct Plan {
    comm: FallibleArc<Comm>,
    /// NULL if there is nothing to communicate.
    host_plan: *mut c_void,
    /// Numbers of messages and bytes that this rank sends per start.
    sent_per_start: [u64; 2],
    is_in_progress: Cell<bool>,
}

// SAFETY: as for `Comm`.
unsafe impl Send for Plan {}
// SAFETY: as for `Comm`.
unsafe impl Sync for Plan {}

impl Plan {
    /// Creates a plan. `create_plan` receives the table, and the address at which it must store the plan.
    /// `function_name` is the name of the function that creates the plan, for error messages.
    fn new(
        comm: &FallibleArc<Comm>,
        function_name: &str,
        sent_per_start: [u64; 2],
        create_plan: impl FnOnce(&rrbsolver_comm, *mut *mut c_void) -> i32,
    ) -> Result<Self> {
        comm.check_not_failed()?;
        let mut plan = null_mut();
        comm.check_return_code(function_name, create_plan(&comm.table, &raw mut plan))?;
        Ok(Self { comm: comm.clone(), host_plan: plan, sent_per_start, is_in_progress: Cell::new(false) })
    }

    /// Returns a plan without communication.
    fn without_communication(comm: &FallibleArc<Comm>) -> Self {
        Self { comm: comm.clone(), host_plan: null_mut(), sent_per_start: [0, 0], is_in_progress: Cell::new(false) }
    }

    fn start(&mut self) -> Result<()> {
        let comm = &*self.comm;
        comm.check_not_failed()?;
        if self.host_plan.is_null() {
            return Ok(());
        }
        let start = comm.table.start.expect("checked when the table was passed");
        // SAFETY: a function of this table created `host_plan`. The host program guarantees that the functions of the
        // table behave as documented.
        comm.check_return_code("start", unsafe { start(comm.table.context, self.host_plan, null_mut()) })?;
        comm.sent_messages.fetch_add(self.sent_per_start[0], Ordering::Relaxed);
        comm.sent_bytes.fetch_add(self.sent_per_start[1], Ordering::Relaxed);
        self.is_in_progress.set(true);
        Ok(())
    }

    /// Waits until the plan is complete, if it was started. Fails after the timeout, or if the function `test` fails.
    fn wait(&mut self) -> Result<()> {
        if !self.is_in_progress.get() {
            return Ok(());
        }
        let comm = &*self.comm;
        let test = comm.table.test.expect("checked when the table was passed");
        let timeout = Duration::from_nanos(comm.timeout.load(Ordering::Relaxed));
        let (mut polls, mut waiting_since) = (0, None);
        loop {
            let mut done = 0;
            // SAFETY: as in `start`; `done` outlives the call.
            comm.check_return_code("test", unsafe { test(comm.table.context, self.host_plan, &raw mut done) })?;
            if done != 0 {
                self.is_in_progress.set(false);
                return Ok(());
            }
            polls += 1;
            if polls < POLLS_BEFORE_YIELD {
                std::hint::spin_loop();
                continue;
            }
            yield_core();
            let waiting_time = waiting_since.get_or_insert_with(Instant::now).elapsed();
            if !timeout.is_zero() && waiting_time > timeout {
                return Err(comm.fail(format!(
                    "rank {} has waited {:.1} s for other ranks (comm_timeout): one of them is missing, or makes \
                     another call",
                    comm.rank(),
                    waiting_time.as_secs_f64()
                )));
            }
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if let Some(release) = self.comm.table.release.filter(|_| !self.host_plan.is_null()) {
            // SAFETY: a function of this table created `host_plan`, and the plan is released once. The return value of
            // `release` no longer matters.
            unsafe { release(self.comm.table.context, self.host_plan) };
        }
    }
}

/// Send and receive buffers of a plan. If the communicator has failed, messages from or to the buffers may still be in
/// transit, so the buffers are not freed.
struct Buffers {
    comm: FallibleArc<Comm>,
    arrays: [Option<Shared>; 2],
}

impl Buffers {
    fn new(comm: &FallibleArc<Comm>, lengths: [usize; 2]) -> Result<Self> {
        let [send, receive] = lengths.map(Shared::zeroed);
        Ok(Self { comm: comm.clone(), arrays: [Some(send?), Some(receive?)] })
    }

    /// Returns the send buffer or the receive buffer; `direction` is `SEND_BUFFER` or `RECEIVE_BUFFER`.
    fn buffer(&self, direction: usize) -> &Shared {
        self.arrays[direction].as_ref().expect("there until it is dropped")
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.comm.check_not_failed().is_err() {
            self.arrays.iter_mut().for_each(|arrays| std::mem::forget(arrays.take()));
        }
    }
}

/// A peer rank, and the ranges of the send and receive arrays of an [`Exchange`] for this peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRanges {
    pub peer: usize,
    pub send: Range<usize>,
    pub receive: Range<usize>,
}

/// Indices of the buffers of a plan.
const SEND_BUFFER: usize = 0;
const RECEIVE_BUFFER: usize = 1;

/// Point-to-point messages with some ranks, in both directions.
pub struct Exchange {
    plan: Plan,
    buffers: Buffers,
}

impl Exchange {
    /// Creates an exchange. `peer_ranges` has at most one entry per peer. `tag` distinguishes exchanges that may be in
    /// progress at the same time.
    pub fn new(comm: &FallibleArc<Comm>, tag: i32, peer_ranges: &[PeerRanges]) -> Result<Self> {
        let buffer_len = |range_of: fn(&PeerRanges) -> &Range<usize>| {
            peer_ranges.iter().map(|ranges| range_of(ranges).end).max().unwrap_or(0)
        };
        let buffers = Buffers::new(comm, [buffer_len(|ranges| &ranges.send), buffer_len(|ranges| &ranges.receive)])?;
        let byte_count = |values: &Range<usize>| (values.len() * size_of::<f64>()) as i64;
        let to_message = |ranges: &PeerRanges| rrbsolver_message {
            peer: ranges.peer as i32,
            tag,
            send_bytes: byte_count(&ranges.send),
            receive_bytes: byte_count(&ranges.receive),
            send: buffers.buffer(SEND_BUFFER).address(ranges.send.start, ranges.send.len()).cast_const().cast(),
            receive: buffers.buffer(RECEIVE_BUFFER).address(ranges.receive.start, ranges.receive.len()).cast(),
        };
        let messages = collected(peer_ranges.iter().map(to_message), ALLOCATION_NAME)?;
        if messages.is_empty() {
            return Ok(Self { plan: Plan::without_communication(comm), buffers });
        }
        let sent_per_start = peer_ranges.iter().filter(|ranges| !ranges.send.is_empty());
        let sent_per_start = sent_per_start.fold([0, 0], |[message_count, sent_bytes], ranges| {
            [message_count + 1, sent_bytes + byte_count(&ranges.send) as u64]
        });
        let exchange = comm.table.exchange.expect("checked when the table was passed");
        // SAFETY: the list has this number of messages, and the buffers live at least as long as the plan.
        let create_plan = |table: &rrbsolver_comm, plan| unsafe {
            exchange(table.context, messages.len() as i64, messages.as_ptr(), plan)
        };
        Ok(Self { plan: Plan::new(comm, "exchange", sent_per_start, create_plan)?, buffers })
    }

    /// Fails if the communicator has failed. Messages may then still be in transit, and no buffer may be accessed.
    pub fn check_not_failed(&self) -> Result<()> {
        self.plan.comm.check_not_failed()
    }

    /// Returns the send buffer. The communicator must not have failed (see `check_not_failed`).
    pub fn send_buffer(&mut self) -> &mut [f64] {
        debug_assert!(!self.plan.is_in_progress.get());
        let values = self.buffers.buffer(SEND_BUFFER);
        // SAFETY: `self` is borrowed mutably. No communication is in progress, because `run` waits for its completion,
        // and the communicator has not failed.
        unsafe { values.slice_mut(0, values.len()) }
    }

    /// Returns the receive buffer. The communicator must not have failed (see `check_not_failed`).
    pub fn receive_buffer(&self) -> &[f64] {
        debug_assert!(!self.plan.is_in_progress.get());
        let values = self.buffers.buffer(RECEIVE_BUFFER);
        // SAFETY: no communication is in progress, as in `send_buffer`.
        unsafe { values.slice(0, values.len()) }
    }

    /// Sends and receives all messages, and waits for completion.
    pub fn run(&mut self) -> Result<()> {
        self.plan.start()?;
        self.plan.wait()
    }

    pub fn bytes(&self) -> usize {
        self.buffers.buffer(SEND_BUFFER).bytes() + self.buffers.buffer(RECEIVE_BUFFER).bytes()
    }
}

/// Allgather: the values of every rank, on all ranks.
pub struct Gather {
    plan: Plan,
    buffers: Buffers,
}

impl Gather {
    /// Creates the plan; `counts[rank]` is the number of values of a rank.
    pub fn new(comm: &FallibleArc<Comm>, counts: &[usize]) -> Result<Self> {
        let own_count = counts[comm.rank()];
        let buffers = Buffers::new(comm, [own_count, counts.iter().sum()])?;
        let byte_counts = collected(counts.iter().map(|&count| (count * size_of::<f64>()) as i64), ALLOCATION_NAME)?;
        let allgather = comm.table.allgather.expect("checked when the table was passed");
        let (send, receive) = (buffers.buffer(SEND_BUFFER), buffers.buffer(RECEIVE_BUFFER));
        let (send, receive) = (send.address(0, own_count), receive.address(0, receive.len()));
        // SAFETY: `byte_counts` has one entry per rank, and the buffers live at least as long as the plan.
        let create_plan = |table: &rrbsolver_comm, plan| unsafe {
            allgather(table.context, send.cast_const().cast(), receive.cast(), byte_counts.as_ptr(), plan)
        };
        let sent_per_start = [u64::from(comm.size() > 1), (own_count * size_of::<f64>()) as u64];
        Ok(Self { plan: Plan::new(comm, "allgather", sent_per_start, create_plan)?, buffers })
    }

    /// Gathers the values of all ranks, in the order of the ranks. `write_own` writes the values of this rank to the
    /// send buffer.
    pub fn run(&mut self, write_own: impl FnOnce(&mut [f64])) -> Result<&[f64]> {
        self.plan.comm.check_not_failed()?;
        let (send, receive) = (self.buffers.buffer(SEND_BUFFER), self.buffers.buffer(RECEIVE_BUFFER));
        // SAFETY: `self` is borrowed mutably. No communication is in progress, because `run` waits for its completion,
        // and the communicator has not failed.
        write_own(unsafe { send.slice_mut(0, send.len()) });
        self.plan.start()?;
        self.plan.wait()?;
        // SAFETY: the communication is complete.
        Ok(unsafe { receive.slice(0, receive.len()) })
    }
}

/// Elementwise maximum over all ranks.
pub struct MaximumOverRanks {
    plan: Plan,
    buffers: Buffers,
}

impl MaximumOverRanks {
    /// Creates the plan for `count` values per rank.
    pub fn new(comm: &FallibleArc<Comm>, count: usize) -> Result<Self> {
        let buffers = Buffers::new(comm, [count, 0])?;
        let values = buffers.buffer(SEND_BUFFER).address(0, count);
        let allreduce = comm.table.allreduce.expect("checked when the table was passed");
        // SAFETY: the buffer has `count` values and lives at least as long as the plan.
        let create_plan =
            |table: &rrbsolver_comm, plan| unsafe { allreduce(table.context, count as i64, values, vtable::MAX, plan) };
        let sent_per_start = [u64::from(comm.size() > 1), (count * size_of::<f64>()) as u64];
        Ok(Self { plan: Plan::new(comm, "allreduce", sent_per_start, create_plan)?, buffers })
    }

    /// Returns the elementwise maxima over all ranks; `own_values` has `count` values.
    pub fn run(&mut self, own_values: &[f64]) -> Result<&[f64]> {
        self.plan.comm.check_not_failed()?;
        let values = self.buffers.buffer(SEND_BUFFER);
        // SAFETY: `self` is borrowed mutably. No communication is in progress, because `run` waits for its completion,
        // and the communicator has not failed.
        unsafe { values.slice_mut(0, values.len()) }.copy_from_slice(own_values);
        self.plan.start()?;
        self.plan.wait()?;
        // SAFETY: the communication is complete.
        Ok(unsafe { values.slice(0, values.len()) })
    }
}
