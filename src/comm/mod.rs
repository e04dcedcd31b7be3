//! Messages between the ranks that share a domain: plans over a table of functions of the host program. What is sent
//! lies in memory of the plan, which never moves.
//!
//! `vtable` is the table, `threads` one for ranks that are threads of one process; `domain`: a rank among those that
//! share a grid; `rows`: those of the whole grid. A rank that waits longer than `comm_timeout`, or whose table reports
//! a failure, has lost the others: from then on every call answers [`Error::Communication`], and nothing waits.

pub mod domain;
pub mod refusal;
pub mod rows;
pub mod threads;
pub mod vtable;

use crate::error::{Error, Result, collected};
use crate::runtime::heap::Counted;
use crate::runtime::shared::Shared;
use crate::runtime::team::give_way;
use core::ffi::c_void;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vtable::{rrbsolver_comm, rrbsolver_message};

/// For errors.
const MESSAGES: &str = "messages between ranks";

/// One rank among those of a domain.
pub struct Comm {
    table: rrbsolver_comm,
    /// The others are lost.
    lost: OnceLock<String>,
    /// Nanoseconds that it waits for the others; 0: for ever.
    timeout: AtomicU64,
    messages: AtomicU64,
    bytes: AtomicU64,
}

// SAFETY: the table's functions are called by the thread that called the library, one at a time: plans need `&mut`, and
// are made where the handle is borrowed mutably.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

/// Polls before a waiting rank offers its core to others.
const POLLS: usize = 1000;

impl Comm {
    /// Over a table, which must be whole.
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
            lost: OnceLock::new(),
            timeout: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        };
        Counted::new(comm, MESSAGES)
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.table.rank as usize
    }

    /// Ranks.
    pub fn size(&self) -> usize {
        self.table.size as usize
    }

    /// Seconds that it waits for the others at most; 0: for ever.
    pub fn set_timeout(&self, seconds: f64) {
        let nanoseconds = Duration::from_secs_f64(seconds).as_nanos() as u64;
        self.timeout.store(nanoseconds.max(u64::from(seconds > 0.0)), Ordering::Relaxed);
    }

    /// Messages and bytes that this rank has sent to others, collective calls counted as one message each.
    pub fn sent(&self) -> [u64; 2] {
        [self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)]
    }

    /// An error where the others are lost: how that came.
    pub fn check(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |sentence| Err(lost(sentence)))
    }

    fn lose(&self, sentence: String) -> Error {
        lost(self.lost.get_or_init(|| sentence))
    }

    fn answered(&self, what: &str, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(self.lose(format!("{what} of the communicator returned {code} on rank {}", self.rank())))
    }
}

fn lost(sentence: &str) -> Error {
    Error::Communication(format!("{sentence}; destroy the handle"))
}

/// A plan of the host program.
struct Plan {
    comm: Counted<Comm>,
    /// NULL: nothing is to be done.
    plan: *mut c_void,
    /// Messages and bytes of a start.
    sent: [u64; 2],
    under_way: Cell<bool>,
}

// SAFETY: as for `Comm`.
unsafe impl Send for Plan {}
// SAFETY: as for `Comm`.
unsafe impl Sync for Plan {}

impl Plan {
    /// `make` gets the table and where the plan is to be put.
    fn new(
        comm: &Counted<Comm>,
        what: &str,
        sent: [u64; 2],
        make: impl FnOnce(&rrbsolver_comm, *mut *mut c_void) -> i32,
    ) -> Result<Self> {
        comm.check()?;
        let mut plan = null_mut();
        comm.answered(what, make(&comm.table, &raw mut plan))?;
        Ok(Self { comm: comm.clone(), plan, sent, under_way: Cell::new(false) })
    }

    /// One where there is nothing to be done.
    fn idle(comm: &Counted<Comm>) -> Self {
        Self { comm: comm.clone(), plan: null_mut(), sent: [0, 0], under_way: Cell::new(false) }
    }

    fn start(&mut self) -> Result<()> {
        let comm = &*self.comm;
        comm.check()?;
        if self.plan.is_null() {
            return Ok(());
        }
        let start = comm.table.start.expect("checked when the table was passed");
        // SAFETY: a plan of this table; the caller of the library promised what its functions do.
        comm.answered("start", unsafe { start(comm.table.context, self.plan, null_mut()) })?;
        comm.messages.fetch_add(self.sent[0], Ordering::Relaxed);
        comm.bytes.fetch_add(self.sent[1], Ordering::Relaxed);
        self.under_way.set(true);
        Ok(())
    }

    /// Waits until it is done, or too long.
    fn wait(&mut self) -> Result<()> {
        if !self.under_way.get() {
            return Ok(());
        }
        let comm = &*self.comm;
        let test = comm.table.test.expect("checked when the table was passed");
        let timeout = Duration::from_nanos(comm.timeout.load(Ordering::Relaxed));
        let (mut polls, mut since) = (0, None);
        loop {
            let mut done = 0;
            // SAFETY: as in `start`; `done` outlives the call.
            comm.answered("test", unsafe { test(comm.table.context, self.plan, &raw mut done) })?;
            if done != 0 {
                self.under_way.set(false);
                return Ok(());
            }
            polls += 1;
            if polls < POLLS {
                std::hint::spin_loop();
                continue;
            }
            give_way();
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            if !timeout.is_zero() && waited > timeout {
                return Err(comm.lose(format!(
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
            // SAFETY: a plan of this table, released once. What it answers changes nothing any more.
            unsafe { release(self.comm.table.context, self.plan) };
        }
    }
}

/// Memory of a plan. Where the others are lost somebody may still write to it: then it is never freed.
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

/// What goes to a rank and comes from it, as values of the two arrays of an [`Exchange`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub peer: usize,
    pub send: Range<usize>,
    pub receive: Range<usize>,
}

const SEND: usize = 0;
const RECEIVE: usize = 1;

/// Messages to some ranks, and from them.
pub struct Exchange {
    plan: Plan,
    buffers: Buffers,
}

impl Exchange {
    /// One part a peer. `tag` tells exchanges apart that may be under way together.
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
        // SAFETY: the list has that many messages, and their memory lives as long as the plan, or for ever.
        let make = |table: &rrbsolver_comm, plan| unsafe {
            exchange(table.context, messages.len() as i64, messages.as_ptr(), plan)
        };
        Ok(Self { plan: Plan::new(comm, "exchange", sent, make)?, buffers })
    }

    /// An error where the others are lost: then messages may be under way, and no buffer is touched any more.
    pub fn check(&self) -> Result<()> {
        self.plan.comm.check()
    }

    /// What is to be sent.
    pub fn outgoing(&mut self) -> &mut [f64] {
        debug_assert!(!self.plan.under_way.get());
        let values = self.buffers.of(SEND);
        // SAFETY: borrowed mutably, and nothing is under way.
        unsafe { values.slice_mut(0, values.len()) }
    }

    /// What came.
    pub fn received(&self) -> &[f64] {
        debug_assert!(!self.plan.under_way.get());
        let values = self.buffers.of(RECEIVE);
        // SAFETY: nothing is under way.
        unsafe { values.slice(0, values.len()) }
    }

    /// Sends and receives.
    pub fn run(&mut self) -> Result<()> {
        self.plan.start()?;
        self.plan.wait()
    }

    pub fn bytes(&self) -> usize {
        self.buffers.of(SEND).bytes() + self.buffers.of(RECEIVE).bytes()
    }
}

/// Values of every rank, to all of them.
pub struct Gather {
    plan: Plan,
    buffers: Buffers,
}

impl Gather {
    /// `counts`: values of every rank.
    pub fn new(comm: &Counted<Comm>, counts: &[usize]) -> Result<Self> {
        let own = counts[comm.rank()];
        let buffers = Buffers::new(comm, [own, counts.iter().sum()])?;
        let bytes = collected(counts.iter().map(|&count| (count * size_of::<f64>()) as i64), MESSAGES)?;
        let allgather = comm.table.allgather.expect("checked when the table was passed");
        let (send, receive) = (buffers.of(SEND), buffers.of(RECEIVE));
        let (send, receive) = (send.address(0, own), receive.address(0, receive.len()));
        // SAFETY: a number of bytes for every rank, and memory that lives as long as the plan, or for ever.
        let make = |table: &rrbsolver_comm, plan| unsafe {
            allgather(table.context, send.cast_const().cast(), receive.cast(), bytes.as_ptr(), plan)
        };
        let sent = [u64::from(comm.size() > 1), (own * size_of::<f64>()) as u64];
        Ok(Self { plan: Plan::new(comm, "allgather", sent, make)?, buffers })
    }

    /// Gives this rank's values, as many as it said, to all, and returns those of all, one rank behind the other.
    pub fn run(&mut self, own: impl FnOnce(&mut [f64])) -> Result<&[f64]> {
        self.plan.comm.check()?;
        let (send, receive) = (self.buffers.of(SEND), self.buffers.of(RECEIVE));
        // SAFETY: borrowed mutably, and nothing is under way.
        own(unsafe { send.slice_mut(0, send.len()) });
        self.plan.start()?;
        self.plan.wait()?;
        // SAFETY: nothing is under way any more.
        Ok(unsafe { receive.slice(0, receive.len()) })
    }
}

/// The largest of values that all ranks have, one by one.
pub struct Largest {
    plan: Plan,
    buffers: Buffers,
}

impl Largest {
    /// Of so many values.
    pub fn new(comm: &Counted<Comm>, count: usize) -> Result<Self> {
        let buffers = Buffers::new(comm, [count, 0])?;
        let values = buffers.of(SEND).address(0, count);
        let allreduce = comm.table.allreduce.expect("checked when the table was passed");
        // SAFETY: that many values, which live as long as the plan, or for ever.
        let make =
            |table: &rrbsolver_comm, plan| unsafe { allreduce(table.context, count as i64, values, vtable::MAX, plan) };
        let sent = [u64::from(comm.size() > 1), (count * size_of::<f64>()) as u64];
        Ok(Self { plan: Plan::new(comm, "allreduce", sent, make)?, buffers })
    }

    /// Gives this rank's values, as many as there are, and returns those of all.
    pub fn run(&mut self, own: &[f64]) -> Result<&[f64]> {
        self.plan.comm.check()?;
        let values = self.buffers.of(SEND);
        // SAFETY: borrowed mutably, and nothing is under way.
        unsafe { values.slice_mut(0, values.len()) }.copy_from_slice(own);
        self.plan.start()?;
        self.plan.wait()?;
        // SAFETY: nothing is under way any more.
        Ok(unsafe { values.slice(0, values.len()) })
    }
}
