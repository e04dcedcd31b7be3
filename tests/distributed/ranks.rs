//! Ranks as threads, and the calls of each rank.

use crate::common::problems::Stencil;
use crate::common::{Failure, Solver, bits, outcome, status};
use rrbsolver::abi::{
    rrb_apply_boxes, rrb_create_distributed, rrb_factorize_boxes, rrb_multiply_boxes, rrb_solve_boxes, rrbsolver_comm,
    rrbsolver_message,
};
use rrbsolver::layers::threads;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A box [x, y, width, height] in the grid.
pub type Box4 = [usize; 4];

/// Number of padding values at the end of each row of a box.
pub const PADDING: usize = 3;

/// Copies a box of an array to padded rows; the padding is NaN.
pub fn cut(array: &[f64], nx: usize, [x, y, w, h]: Box4) -> Vec<f64> {
    let mut cut = Vec::new();
    for j in y..y + h {
        cut.extend_from_slice(&array[j * nx + x..][..w]);
        cut.extend([f64::NAN; PADDING]);
    }
    cut
}

/// Copies a box into an array; the inverse of `cut`.
pub fn paste(array: &mut [f64], nx: usize, [x, y, w, h]: Box4, values: &[f64]) {
    for j in 0..h {
        array[(y + j) * nx + x..][..w].copy_from_slice(&values[j * (w + PADDING)..][..w]);
    }
}

/// One rank with its boxes.
pub struct Ranked {
    pub solver: Solver,
    nx: usize,
    pub boxes: Vec<Box4>,
}

impl Ranked {
    pub fn try_new(nx: i64, ny: i64, boxes: &[Box4], comm: &rrbsolver_comm) -> Result<Self, Failure> {
        let lower: Vec<[i64; 2]> = boxes.iter().map(|b| [b[0] as i64, b[1] as i64]).collect();
        let size: Vec<[i64; 2]> = boxes.iter().map(|b| [b[2] as i64, b[3] as i64]).collect();
        let mut handle = null_mut();
        let count = boxes.len() as i64;
        // SAFETY: lists of that length, a table and a pointer that outlive the call.
        outcome(unsafe {
            rrb_create_distributed(nx, ny, count, lower.as_ptr(), size.as_ptr(), comm, &raw mut handle)
        })?;
        Ok(Self { solver: Solver { handle }, nx: nx as usize, boxes: boxes.to_vec() })
    }

    fn ld(&self) -> Vec<i64> {
        self.boxes.iter().map(|b| (b[2] + PADDING) as i64).collect()
    }

    fn cut(&self, array: &[f64]) -> Vec<Vec<f64>> {
        self.boxes.iter().map(|&b| cut(array, self.nx, b)).collect()
    }

    pub fn factorize(&self, a: &Stencil) -> Result<i32, Failure> {
        let lists = [&a.center, &a.east, &a.north].map(|array| self.cut(array));
        let corners = a.corners.as_ref().map(|(ne, nw)| [self.cut(ne), self.cut(nw)]);
        let pointers = |list: &Vec<Vec<f64>>| list.iter().map(|array| array.as_ptr()).collect::<Vec<_>>();
        let [center, east, north] = lists.each_ref().map(pointers);
        let corners = corners.as_ref().map(|lists| lists.each_ref().map(pointers));
        let of = |k: usize| corners.as_ref().map_or(null(), |lists| lists[k].as_ptr());
        let handle = self.solver.handle;
        // SAFETY: a live handle, lists and arrays of its boxes.
        outcome(unsafe {
            let [center, east, north] = [center.as_ptr(), east.as_ptr(), north.as_ptr()];
            rrb_factorize_boxes(handle, self.ld().as_ptr(), center, east, north, of(0), of(1))
        })
    }

    fn call(&self, what: Call, input: &[f64], output: &[f64]) -> Result<(i32, Vec<Vec<f64>>), Failure> {
        let input = self.cut(input);
        let mut output = self.cut(output);
        let read: Vec<*const f64> = input.iter().map(|array| array.as_ptr()).collect();
        let written: Vec<*mut f64> = output.iter_mut().map(|array| array.as_mut_ptr()).collect();
        let function = match what {
            Call::Solve => rrb_solve_boxes,
            Call::Apply => rrb_apply_boxes,
            Call::Multiply => rrb_multiply_boxes,
        };
        // SAFETY: a live handle, lists and arrays of its boxes.
        let status =
            outcome(unsafe { function(self.solver.handle, self.ld().as_ptr(), read.as_ptr(), written.as_ptr()) })?;
        Ok((status, output))
    }

    /// Solves with an initial guess. Returns the solution in each box.
    pub fn solve(&self, b: &[f64], guess: &[f64]) -> Result<(i32, Vec<Vec<f64>>), Failure> {
        self.call(Call::Solve, b, guess)
    }

    pub fn apply(&self, r: &[f64]) -> Result<(i32, Vec<Vec<f64>>), Failure> {
        self.call(Call::Apply, r, &vec![0.0; r.len()])
    }

    pub fn multiply(&self, x: &[f64]) -> Result<(i32, Vec<Vec<f64>>), Failure> {
        self.call(Call::Multiply, x, &vec![0.0; x.len()])
    }
}

enum Call {
    Solve,
    Apply,
    Multiply,
}

/// Runs `work` on every rank. Returns the results of all ranks.
pub fn on_ranks<T: Send>(size: usize, work: impl Fn(usize, &rrbsolver_comm) -> T + Sync) -> Vec<T> {
    let ranks = threads::create_ranks(size);
    let tables: Vec<Sent> = ranks.iter().map(|rank| Sent(rank.table())).collect();
    let work = &work;
    std::thread::scope(|threads| {
        let one = |(rank, table): (usize, Sent)| threads.spawn(move || work(rank, table.table()));
        let started: Vec<_> = tables.into_iter().enumerate().map(one).collect();
        started.into_iter().map(|thread| thread.join().expect("a rank")).collect()
    })
}

/// A communicator table that is sent to the thread of its rank.
struct Sent(rrbsolver_comm);

impl Sent {
    fn table(&self) -> &rrbsolver_comm {
        &self.0
    }
}

// SAFETY: the context of the table is a rank, which locks data that ranks share.
unsafe impl Send for Sent {}

/// Returns the bounds of `count` parts of 0..n.
fn parts(n: usize, count: usize) -> Vec<(usize, usize)> {
    (0..count).map(|k| (n * k / count, n * (k + 1) / count)).collect()
}

/// Returns px x py boxes, one per rank. A rank whose box has no node has no box.
pub fn bricks(nx: usize, ny: usize, px: usize, py: usize) -> Vec<Vec<Box4>> {
    let mut all = Vec::new();
    for (y, top) in parts(ny, py) {
        for (x, right) in parts(nx, px) {
            let b = [x, y, right - x, top - y];
            all.push(if b[2] * b[3] > 0 { vec![b] } else { vec![] });
        }
    }
    all
}

/// Returns solution, history and status, after checking that they are equal on all ranks.
pub fn distributed(a: &Stencil, b: &[f64], options: &str, boxes: &[Vec<Box4>]) -> (Vec<f64>, Vec<u64>, i32) {
    let of_ranks = on_ranks(boxes.len(), |rank, comm| {
        let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], comm).unwrap();
        ranked.solver.options(&format!("{options} threads={}", 1 + rank % 3)).unwrap();
        ranked.factorize(a).unwrap();
        let (result, x) = ranked.solve(b, &vec![0.0; b.len()]).unwrap();
        (x, bits(&ranked.solver.history()), result)
    });
    let mut x = vec![0.0; b.len()];
    let (_, history, result) = &of_ranks[0];
    for (rank, (parts, other, other_result)) in of_ranks.iter().enumerate() {
        assert!(history == other && result == other_result, "rank {rank}");
        for (b, part) in boxes[rank].iter().zip(parts) {
            paste(&mut x, a.nx, *b, part);
        }
    }
    (x, history.clone(), *result)
}

/// Returns boxes of 1 to 9 ranks: rows, columns, bricks, ranks without boxes, and several boxes per rank.
pub fn decompositions(nx: usize, ny: usize) -> Vec<(String, Vec<Vec<Box4>>)> {
    let mut all = Vec::new();
    for (px, py) in [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (1, 4), (3, 3)] {
        all.push((format!("{px} x {py}"), bricks(nx, ny, px, py)));
    }
    let mut with_none = bricks(nx, ny, 1, 2);
    with_none.insert(1, vec![]);
    all.push(("an empty rank".to_owned(), with_none));
    let mut dealt = vec![vec![], vec![], vec![]];
    for (k, b) in bricks(nx, ny, 4, 3).concat().into_iter().enumerate() {
        dealt[k % 3].push(b);
    }
    all.push(("several boxes".to_owned(), dealt));
    all
}

/// Checks that x and the history are bitwise identical for all decompositions.
pub fn check_bits(name: &str, a: &Stencil, b: &[f64], options: &str) -> (Vec<u64>, Vec<u64>) {
    let mut first = None;
    for (boxes_name, boxes) in decompositions(a.nx, a.ny) {
        let (found, reported, status) = distributed(a, b, options, &boxes);
        assert!(status == status::OK, "{name}, {options}, {boxes_name}: {status}");
        let found = (bits(&found), reported);
        let expected = first.get_or_insert_with(|| found.clone());
        assert!(found.1 == expected.1, "{name}, {options}, {boxes_name}: history");
        assert!(found.0 == expected.0, "{name}, {options}, {boxes_name}: x");
    }
    first.unwrap()
}

/// Checks that x and the history are also bitwise identical to those of `rrb_create`.
pub fn check_bits_of_one(name: &str, a: &Stencil, b: &[f64], options: &str) {
    let solver = Solver::of(a, options);
    let x = bits(&solver.solve_from_zero(b).0);
    let history = bits(&solver.history());
    assert!(check_bits(name, a, b, options) == (x, history), "{name}, {options}: not those of one");
}

/// A communicator table with late messages: `test` returns "not done" at random, and `start` sometimes waits. It can
/// also fail.
pub struct Late {
    inner: rrbsolver_comm,
    state: std::sync::atomic::AtomicU64,
    /// Number of further calls of `start` that succeed. Later calls return 7.
    left: std::sync::atomic::AtomicU64,
}

impl Late {
    pub fn new(inner: &rrbsolver_comm, seed: u64) -> Box<Self> {
        let of = std::sync::atomic::AtomicU64::new;
        Box::new(Self { inner: *inner, state: of(seed), left: of(u64::MAX) })
    }

    /// Lets `start` fail after `starts` further calls.
    pub fn fail_after(&self, starts: u64) {
        self.left.store(starts, std::sync::atomic::Ordering::Relaxed);
    }

    pub fn table(&self) -> rrbsolver_comm {
        rrbsolver_comm {
            context: std::ptr::from_ref(self).cast_mut().cast(),
            exchange: Some(late_exchange),
            allreduce: Some(late_allreduce),
            allgather: Some(late_allgather),
            start: Some(late_start),
            test: Some(late_test),
            release: Some(late_release),
            ..self.inner
        }
    }

    fn draw(&self) -> u64 {
        let step =
            |state: u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        let order = std::sync::atomic::Ordering::Relaxed;
        self.state.fetch_update(order, order, step).unwrap() >> 40
    }
}

/// # Safety
/// `context` must be that of a table of a `Late` that is alive.
unsafe fn late<'a>(context: *mut c_void) -> &'a Late {
    // SAFETY: guaranteed by the caller.
    unsafe { &*context.cast_const().cast::<Late>() }
}

unsafe extern "C" fn late_exchange(
    context: *mut c_void,
    count: i64,
    messages: *const rrbsolver_message,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: the arguments are passed on unchanged; likewise below.
    unsafe { late(context).inner.exchange.unwrap()(late(context).inner.context, count, messages, plan) }
}

unsafe extern "C" fn late_allreduce(
    context: *mut c_void,
    count: i64,
    values: *mut f64,
    operation: i32,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: as above.
    unsafe { late(context).inner.allreduce.unwrap()(late(context).inner.context, count, values, operation, plan) }
}

unsafe extern "C" fn late_allgather(
    context: *mut c_void,
    send: *const c_void,
    receive: *mut c_void,
    bytes: *const i64,
    plan: *mut *mut c_void,
) -> i32 {
    // SAFETY: as above.
    unsafe { late(context).inner.allgather.unwrap()(late(context).inner.context, send, receive, bytes, plan) }
}

unsafe extern "C" fn late_start(context: *mut c_void, plan: *mut c_void, stream: *mut c_void) -> i32 {
    // SAFETY: as above.
    let late = unsafe { late(context) };
    if late.left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0 {
        late.fail_after(0);
        return 7;
    }
    if late.draw().is_multiple_of(16) {
        std::thread::sleep(std::time::Duration::from_micros(late.draw() % 200));
    }
    // SAFETY: as above.
    unsafe { late.inner.start.unwrap()(late.inner.context, plan, stream) }
}

unsafe extern "C" fn late_test(context: *mut c_void, plan: *mut c_void, done: *mut i32) -> i32 {
    // SAFETY: as above.
    let late = unsafe { late(context) };
    if !late.draw().is_multiple_of(3) {
        // SAFETY: the library passes a pointer to an int32_t.
        unsafe { *done = 0 };
        return 0;
    }
    // SAFETY: as above.
    unsafe { late.inner.test.unwrap()(late.inner.context, plan, done) }
}

unsafe extern "C" fn late_release(context: *mut c_void, plan: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { late(context).inner.release.unwrap()(late(context).inner.context, plan) }
}
