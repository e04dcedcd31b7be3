//! Table of communication functions for ranks that are threads of one process. Used by the tests, and by programs with
//! several ranks per process.

use super::vtable::{MAX, MIN, SUM, rrbsolver_comm, rrbsolver_message};
use core::ffi::c_void;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Identification of a message: sender, receiver and tag.
type MessageKey = (i32, i32, i32);

/// Messages and collective contributions in transit.
#[derive(Default)]
struct MessagesInTransit {
    messages: HashMap<MessageKey, VecDeque<Vec<u8>>>,
    /// Contributions to the collective calls, by the number of the call.
    rounds: HashMap<u64, Round>,
}

/// Contribution of each rank to a collective call, and the number of ranks that have read all contributions.
type Round = (Vec<Option<Vec<u8>>>, usize);

/// A rank. Its address must not change while its table is in use.
pub struct Rank {
    mail: Arc<Mutex<MessagesInTransit>>,
    rank: i32,
    size: i32,
    /// Number of collective calls that this rank has started.
    rounds: Mutex<u64>,
}

/// Creates the ranks of a domain.
#[must_use]
pub fn ranks(size: usize) -> Vec<Box<Rank>> {
    let mail = Arc::new(Mutex::new(MessagesInTransit::default()));
    let rank = |rank: usize| {
        Box::new(Rank { mail: mail.clone(), rank: rank as i32, size: size as i32, rounds: Mutex::new(0) })
    };
    (0..size).map(rank).collect()
}

enum Plan {
    Exchange { messages: Vec<rrbsolver_message>, waits: Vec<bool> },
    Reduce { values: *mut f64, count: usize, operation: i32, round: u64 },
    Gather { send: *const u8, receive: *mut u8, bytes: Vec<usize>, round: u64 },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rank {
    /// Returns the function table of this rank.
    #[must_use]
    pub fn table(&self) -> rrbsolver_comm {
        rrbsolver_comm {
            struct_size: size_of::<rrbsolver_comm>() as i64,
            context: std::ptr::from_ref(self).cast_mut().cast(),
            rank: self.rank,
            size: self.size,
            flags: 0,
            reserved: 0,
            exchange: Some(exchange),
            allreduce: Some(allreduce),
            allgather: Some(allgather),
            start: Some(start),
            test: Some(test),
            release: Some(release),
        }
    }

    /// Adds the contribution of this rank to its next collective call, and returns the number of the call.
    fn contribute(&self, values: Vec<u8>) -> u64 {
        let mut round = lock(&self.rounds);
        *round += 1;
        let mut mail = lock(&self.mail);
        let slots = mail.rounds.entry(*round).or_insert_with(|| (vec![None; self.size as usize], 0));
        slots.0[self.rank as usize] = Some(values);
        *round
    }

    /// Returns the contributions of all ranks to the collective call with number `round`, or `None` if some are still
    /// missing. Frees the contributions after all ranks have read them.
    fn contributions(&self, round: u64) -> Option<Vec<Vec<u8>>> {
        let mut mail = lock(&self.mail);
        let slots = mail.rounds.get_mut(&round)?;
        let all: Vec<Vec<u8>> = slots.0.iter().cloned().collect::<Option<_>>()?;
        slots.1 += 1;
        if slots.1 == self.size as usize {
            mail.rounds.remove(&round);
        }
        Some(all)
    }
}

/// # Safety
/// `context` must belong to the table of a [`Rank`] that is alive.
unsafe fn rank_of<'a>(context: *mut c_void) -> &'a Rank {
    // SAFETY: guaranteed by the caller.
    unsafe { &*context.cast_const().cast::<Rank>() }
}

/// # Safety
/// `out` must be valid for a write.
unsafe fn put(out: *mut *mut c_void, plan: Plan) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { *out = Box::into_raw(Box::new(plan)).cast() };
    0
}

unsafe extern "C" fn exchange(
    _: *mut c_void,
    count: i64,
    messages: *const rrbsolver_message,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller passes `count` messages.
    let messages = unsafe { std::slice::from_raw_parts(messages, count as usize) }.to_vec();
    // SAFETY: the caller passes a valid pointer.
    unsafe { put(plan, Plan::Exchange { waits: vec![false; messages.len()], messages }) }
}

unsafe extern "C" fn allreduce(
    _: *mut c_void,
    count: i64,
    values: *mut f64,
    operation: i32,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller passes a valid pointer.
    unsafe { put(plan, Plan::Reduce { values, count: count as usize, operation, round: 0 }) }
}

unsafe extern "C" fn allgather(
    context: *mut c_void,
    send: *const c_void,
    receive: *mut c_void,
    bytes: *const i64,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: `context` is a live rank, and `bytes` has one number per rank.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, rank_of(context).size as usize) };
    let bytes = bytes.iter().map(|&b| b as usize).collect();
    // SAFETY: the caller passes a valid pointer.
    unsafe { put(plan, Plan::Gather { send: send.cast(), receive: receive.cast(), bytes, round: 0 }) }
}

/// # Safety
/// `from` must be valid for reads of `bytes` bytes.
unsafe fn copied(from: *const u8, bytes: usize) -> Vec<u8> {
    if bytes == 0 {
        return Vec::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec()
}

unsafe extern "C" fn start(context: *mut c_void, plan: *mut c_void, _: *mut c_void) -> i32 {
    // SAFETY: `context` is a live rank, and `plan` was created through the function table of this rank. Only one thread
    // uses the plan.
    let (rank, plan) = unsafe { (rank_of(context), &mut *plan.cast::<Plan>()) };
    match plan {
        Plan::Exchange { messages, waits } => {
            let mut mail = lock(&rank.mail);
            for (message, waits) in messages.iter().zip(waits) {
                *waits = message.receive_bytes > 0;
                if message.send_bytes > 0 {
                    // SAFETY: the send buffer has `send_bytes` bytes.
                    let values = unsafe { copied(message.send.cast(), message.send_bytes as usize) };
                    let way = (rank.rank, message.peer, message.tag);
                    mail.messages.entry(way).or_default().push_back(values);
                }
            }
        }
        Plan::Reduce { values, count, round, .. } => {
            // SAFETY: the buffer has `count` doubles.
            *round = rank.contribute(unsafe { copied(values.cast_const().cast(), *count * size_of::<f64>()) });
        }
        Plan::Gather { send, bytes, round, .. } => {
            // SAFETY: the send buffer has `bytes[rank]` bytes.
            *round = rank.contribute(unsafe { copied(*send, bytes[rank.rank as usize]) });
        }
    }
    0
}

/// Reduces the contributions of all ranks elementwise, in the order of the ranks.
fn reduce_contributions(all: &[Vec<u8>], count: usize, operation: i32) -> Vec<f64> {
    let of =
        |values: &[u8]| -> Vec<f64> { values.as_chunks().0.iter().map(|&value| f64::from_ne_bytes(value)).collect() };
    let mut together = of(&all[0]);
    assert!(together.len() == count, "all ranks pass as many values");
    for values in &all[1..] {
        for (value, other) in together.iter_mut().zip(of(values)) {
            *value = match operation {
                SUM => *value + other,
                MAX => value.max(other),
                MIN => value.min(other),
                _ => f64::NAN,
            };
        }
    }
    together
}

unsafe extern "C" fn test(context: *mut c_void, plan: *mut c_void, done: *mut i32) -> i32 {
    // SAFETY: `context` is a live rank, and `plan` was created through the function table of this rank. Only one thread
    // uses the plan.
    let (rank, plan) = unsafe { (rank_of(context), &mut *plan.cast::<Plan>()) };
    let is_done = match plan {
        Plan::Exchange { messages, waits } => {
            let mut mail = lock(&rank.mail);
            for (message, waits) in messages.iter().zip(waits.iter_mut()).filter(|(_, waits)| **waits) {
                let way = (message.peer, rank.rank, message.tag);
                let Some(values) = mail.messages.get_mut(&way).and_then(VecDeque::pop_front) else { continue };
                if values.len() != message.receive_bytes as usize {
                    return 1;
                }
                // SAFETY: the receive buffer has `receive_bytes` bytes, which equals the length of the message, as
                // checked above.
                unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), message.receive.cast(), values.len()) };
                *waits = false;
            }
            !waits.iter().any(|&waits| waits)
        }
        Plan::Reduce { values, count, operation, round } => match rank.contributions(*round) {
            None => false,
            Some(all) if all.iter().any(|given| given.len() != *count * size_of::<f64>()) => return 1,
            Some(all) => {
                let together = reduce_contributions(&all, *count, *operation);
                // SAFETY: the buffer has `count` doubles.
                unsafe { std::ptr::copy_nonoverlapping(together.as_ptr(), *values, *count) };
                true
            }
        },
        Plan::Gather { receive, bytes, round, .. } => match rank.contributions(*round) {
            None => false,
            Some(all) if all.iter().zip(&*bytes).any(|(given, &bytes)| given.len() != bytes) => return 1,
            Some(all) => {
                let all = all.concat();
                // SAFETY: the receive buffer has room for the bytes of all ranks; their lengths were checked above.
                unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), *receive, all.len()) };
                true
            }
        },
    };
    // SAFETY: the caller passes a valid int32_t.
    unsafe { *done = i32::from(is_done) };
    0
}

unsafe extern "C" fn release(_: *mut c_void, plan: *mut c_void) -> i32 {
    // SAFETY: `put` created the plan, and the plan is released once.
    drop(unsafe { Box::from_raw(plan.cast::<Plan>()) });
    0
}
