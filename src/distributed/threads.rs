//! Table of communication functions for ranks that are threads of one process. The tests use this table, and so do
//! programs with several ranks per process.

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
    collective_calls: HashMap<u64, CollectiveCall>,
}

/// Contribution of each rank to a collective call, and the number of ranks that have read all contributions.
type CollectiveCall = (Vec<Option<Vec<u8>>>, usize);

/// A rank. Its address must not change while its table is in use.
pub struct Rank {
    in_transit: Arc<Mutex<MessagesInTransit>>,
    rank: i32,
    rank_count: i32,
    /// Number of collective calls that this rank has started.
    call_count: Mutex<u64>,
}

/// Creates the ranks of a domain.
#[must_use]
pub fn create_ranks(size: usize) -> Vec<Box<Rank>> {
    let in_transit = Arc::new(Mutex::new(MessagesInTransit::default()));
    let rank = |rank: usize| {
        Box::new(Rank {
            in_transit: in_transit.clone(),
            rank: rank as i32,
            rank_count: size as i32,
            call_count: Mutex::new(0),
        })
    };
    (0..size).map(rank).collect()
}

enum Plan {
    Exchange { messages: Vec<rrbsolver_message>, is_waiting: Vec<bool> },
    Reduce { values: *mut f64, count: usize, operation: i32, call_number: u64 },
    Gather { send: *const u8, receive: *mut u8, byte_counts: Vec<usize>, call_number: u64 },
}

/// Locks a mutex, also after a panic of another thread.
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
            size: self.rank_count,
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

    /// Adds the contribution of this rank to the next collective call, and returns the number of this call, counted
    /// from 1.
    fn add_contribution(&self, values: Vec<u8>) -> u64 {
        let mut call_number = lock(&self.call_count);
        *call_number += 1;
        let mut in_transit = lock(&self.in_transit);
        let call = in_transit
            .collective_calls
            .entry(*call_number)
            .or_insert_with(|| (vec![None; self.rank_count as usize], 0));
        call.0[self.rank as usize] = Some(values);
        *call_number
    }

    /// Returns the contributions of all ranks to the collective call with number `call_number`, or `None` if some are
    /// still missing. Frees the contributions after all ranks have read them.
    fn take_contributions(&self, call_number: u64) -> Option<Vec<Vec<u8>>> {
        let mut in_transit = lock(&self.in_transit);
        let call = in_transit.collective_calls.get_mut(&call_number)?;
        let contributions: Vec<Vec<u8>> = call.0.iter().cloned().collect::<Option<_>>()?;
        call.1 += 1;
        if call.1 == self.rank_count as usize {
            in_transit.collective_calls.remove(&call_number);
        }
        Some(contributions)
    }
}

/// # Safety
/// `context` must belong to the table of a [`Rank`] that is alive.
unsafe fn rank_from_context<'a>(context: *mut c_void) -> &'a Rank {
    // SAFETY: guaranteed by the caller.
    unsafe { &*context.cast_const().cast::<Rank>() }
}

/// # Safety
/// `out` must be valid for a write.
unsafe fn store_plan(out: *mut *mut c_void, plan: Plan) -> i32 {
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
    unsafe { store_plan(plan, Plan::Exchange { is_waiting: vec![false; messages.len()], messages }) }
}

unsafe extern "C" fn allreduce(
    _: *mut c_void,
    count: i64,
    values: *mut f64,
    operation: i32,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller passes a valid pointer.
    unsafe { store_plan(plan, Plan::Reduce { values, count: count as usize, operation, call_number: 0 }) }
}

unsafe extern "C" fn allgather(
    context: *mut c_void,
    send: *const c_void,
    receive: *mut c_void,
    byte_counts: *const i64,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: `context` is a live rank, and `byte_counts` has one number per rank.
    let byte_counts =
        unsafe { std::slice::from_raw_parts(byte_counts, rank_from_context(context).rank_count as usize) };
    let byte_counts = byte_counts.iter().map(|&b| b as usize).collect();
    // SAFETY: the caller passes a valid pointer.
    unsafe {
        store_plan(plan, Plan::Gather { send: send.cast(), receive: receive.cast(), byte_counts, call_number: 0 })
    }
}

/// # Safety
/// `source` must be valid for reads of `byte_count` bytes.
unsafe fn copy_bytes(source: *const u8, byte_count: usize) -> Vec<u8> {
    if byte_count == 0 {
        return Vec::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(source, byte_count) }.to_vec()
}

unsafe extern "C" fn start(context: *mut c_void, plan: *mut c_void, _: *mut c_void) -> i32 {
    // SAFETY: `context` is a live rank, and `plan` was created through the function table of this rank. Only one thread
    // uses the plan.
    let (rank, plan) = unsafe { (rank_from_context(context), &mut *plan.cast::<Plan>()) };
    match plan {
        Plan::Exchange { messages, is_waiting } => {
            let mut in_transit = lock(&rank.in_transit);
            for (message, is_waiting) in messages.iter().zip(is_waiting) {
                *is_waiting = message.receive_bytes > 0;
                if message.send_bytes > 0 {
                    // SAFETY: the send buffer has `send_bytes` bytes.
                    let values = unsafe { copy_bytes(message.send.cast(), message.send_bytes as usize) };
                    let key = (rank.rank, message.peer, message.tag);
                    in_transit.messages.entry(key).or_default().push_back(values);
                }
            }
        }
        Plan::Reduce { values, count, call_number, .. } => {
            // SAFETY: the buffer has `count` doubles.
            *call_number =
                rank.add_contribution(unsafe { copy_bytes(values.cast_const().cast(), *count * size_of::<f64>()) });
        }
        Plan::Gather { send, byte_counts, call_number, .. } => {
            // SAFETY: the send buffer has `byte_counts[rank]` bytes.
            *call_number = rank.add_contribution(unsafe { copy_bytes(*send, byte_counts[rank.rank as usize]) });
        }
    }
    0
}

/// Reduces the contributions of all ranks elementwise, in the order of the ranks.
fn reduce_contributions(contributions: &[Vec<u8>], count: usize, operation: i32) -> Vec<f64> {
    let to_doubles =
        |values: &[u8]| -> Vec<f64> { values.as_chunks().0.iter().map(|&value| f64::from_ne_bytes(value)).collect() };
    let mut reduced = to_doubles(&contributions[0]);
    assert!(reduced.len() == count, "all ranks pass as many values");
    for values in &contributions[1..] {
        for (value, other) in reduced.iter_mut().zip(to_doubles(values)) {
            *value = match operation {
                SUM => *value + other,
                MAX => value.max(other),
                MIN => value.min(other),
                _ => f64::NAN,
            };
        }
    }
    reduced
}

unsafe extern "C" fn test(context: *mut c_void, plan: *mut c_void, done: *mut i32) -> i32 {
    // SAFETY: `context` is a live rank, and `plan` was created through the function table of this rank. Only one thread
    // uses the plan.
    let (rank, plan) = unsafe { (rank_from_context(context), &mut *plan.cast::<Plan>()) };
    let is_done = match plan {
        Plan::Exchange { messages, is_waiting } => {
            let mut in_transit = lock(&rank.in_transit);
            for (message, is_waiting) in
                messages.iter().zip(is_waiting.iter_mut()).filter(|(_, is_waiting)| **is_waiting)
            {
                let key = (message.peer, rank.rank, message.tag);
                let Some(values) = in_transit.messages.get_mut(&key).and_then(VecDeque::pop_front) else { continue };
                if values.len() != message.receive_bytes as usize {
                    return 1;
                }
                // SAFETY: the receive buffer has `receive_bytes` bytes, which equals the length of the message, as
                // checked above.
                unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), message.receive.cast(), values.len()) };
                *is_waiting = false;
            }
            !is_waiting.iter().any(|&is_waiting| is_waiting)
        }
        Plan::Reduce { values, count, operation, call_number } => match rank.take_contributions(*call_number) {
            None => false,
            Some(contributions)
                if contributions.iter().any(|contribution| contribution.len() != *count * size_of::<f64>()) =>
            {
                return 1;
            }
            Some(contributions) => {
                let reduced = reduce_contributions(&contributions, *count, *operation);
                // SAFETY: the buffer has `count` doubles.
                unsafe { std::ptr::copy_nonoverlapping(reduced.as_ptr(), *values, *count) };
                true
            }
        },
        Plan::Gather { receive, byte_counts, call_number, .. } => match rank.take_contributions(*call_number) {
            None => false,
            Some(contributions)
                if contributions
                    .iter()
                    .zip(&*byte_counts)
                    .any(|(contribution, &byte_count)| contribution.len() != byte_count) =>
            {
                return 1;
            }
            Some(contributions) => {
                let all_bytes = contributions.concat();
                // SAFETY: the receive buffer has room for the bytes of all ranks; their lengths were checked above.
                unsafe { std::ptr::copy_nonoverlapping(all_bytes.as_ptr(), *receive, all_bytes.len()) };
                true
            }
        },
    };
    // SAFETY: the caller passes a valid int32_t.
    unsafe { *done = i32::from(is_done) };
    0
}

unsafe extern "C" fn release(_: *mut c_void, plan: *mut c_void) -> i32 {
    // SAFETY: `store_plan` created the plan, and the plan is released once.
    drop(unsafe { Box::from_raw(plan.cast::<Plan>()) });
    0
}
