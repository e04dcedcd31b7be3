//! One domain on many ranks whose systems rank 0 solves on devices: bitwise identity with one rank, arrays on hosts and
//! devices, errors, and lost ranks.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;
mod ranks;

use common::problems::hard_suite;
use common::problems::{Stencil, neumann_var, poisson, random_m_matrix, random_rhs};
use common::{Solver, bits, child, devices, key, status};
use cudarc::driver::sys;
use ranks::{Late, Ranked, bricks, check_bits_of_one, distributed, on_ranks};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// Options of a handle whose rank 0 uses all devices.
fn all_devices() -> String {
    let list: Vec<String> = (0..devices().min(8)).map(|ordinal| ordinal.to_string()).collect();
    format!("backend=cuda devices={}", list.join("+"))
}

fn same_bits() {
    let check = |name: &str, a: &Stencil, options: &str| check_bits_of_one(name, a, &random_rhs(a.len(), 3), options);
    for (nx, ny) in [(37, 53), (1, 130), (130, 1), (3, 2)] {
        check("one device", &random_m_matrix(nx, ny, false, 7), "backend=cuda");
    }
    check("nine points", &random_m_matrix(40, 33, true, 2), "backend=cuda");
    check("singular", &neumann_var(48, 37), "backend=cuda");
    check("several", &random_m_matrix(64, 64, false, 7), &format!("{} precision=bf16 cycle=amli", all_devices()));
    let a = random_m_matrix(71, 63, false, 7);
    for options in ["precision=f64 cycle=v", "cycle=aggregation", "norm=preconditioned"] {
        let options = format!("{} {options}", all_devices());
        let one = bits(&Solver::of(&a, &options).solve_from_zero(&random_rhs(a.len(), 3)).0);
        let x = distributed(&a, &random_rhs(a.len(), 3), &options, &bricks(71, 63, 2, 2)).0;
        assert!(bits(&x) == one, "{options}");
    }
}

/// Points outside all boxes are land, as on the host.
fn land() {
    let (nx, ny) = (40, 30);
    let mut a = random_m_matrix(nx, ny, false, 4);
    for (i, j) in (20..40).flat_map(|i| (15..30).map(move |j| (i, j))) {
        a.decouple(i, j, 1.0);
    }
    let mut boxes = bricks(nx, ny, 2, 2);
    boxes[3] = vec![];
    let mut b = random_rhs(a.len(), 5);
    (0..a.len()).filter(|p| p % nx >= 20 && p / nx >= 15).for_each(|p| b[p] = 0.0);
    let (x, history, result) = distributed(&a, &b, "backend=cuda", &boxes);
    assert_eq!(result, status::OK);
    let (y, other, _) = distributed(&a, &b, "backend=cpu", &boxes);
    assert_eq!(history.len(), other.len());
    let far = x.iter().zip(&y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    assert!(far <= 1e-4 * y.iter().fold(0.0, |m: f64, y| m.max(y.abs())), "{far:e}");
    // No coupling may lead to land.
    let whole = random_m_matrix(nx, ny, false, 4);
    for failure in on_ranks(4, |rank, comm| {
        let ranked = Ranked::try_new(nx as i64, ny as i64, &boxes[rank], comm).unwrap();
        ranked.solver.options("backend=cuda").unwrap();
        ranked.factorize(&whole).unwrap_err()
    }) {
        failure.expect(status::ARGUMENT, &["couples to a point in no box"]);
    }
}

fn applied_and_multiplied() {
    let a = random_m_matrix(57, 41, false, 9);
    let r = random_rhs(a.len(), 3);
    let one = Solver::of(&a, "backend=cuda");
    let expected = [bits(&one.apply(&r)), bits(&one.multiply(&r))];
    let boxes = bricks(57, 41, 2, 2);
    let parts = on_ranks(4, |rank, comm| {
        let ranked = Ranked::try_new(57, 41, &boxes[rank], comm).unwrap();
        ranked.solver.options("backend=cuda").unwrap();
        ranked.factorize(&a).unwrap();
        [ranked.apply(&r).unwrap().1, ranked.multiply(&r).unwrap().1]
    });
    for (k, expected) in expected.iter().enumerate() {
        let mut whole = vec![0.0; a.len()];
        for (boxes, parts) in boxes.iter().zip(&parts) {
            ranks::paste(&mut whole, 57, boxes[0], &parts[k][0]);
        }
        assert!(bits(&whole) == *expected, "{k}");
    }
}

/// Solves on the host and on devices in turn, other matrices, and their results on all ranks.
fn in_turn() {
    let boxes = bricks(150, 130, 1, 3);
    let (first, second) = (random_m_matrix(150, 130, false, 1), poisson(150, 130));
    let b = random_rhs(first.len(), 3);
    let reported = on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(150, 130, &boxes[rank], comm).unwrap();
        let mut reported = Vec::new();
        for (a, options) in
            [(&first, "backend=cuda"), (&second, "backend=cuda"), (&first, "backend=cpu"), (&first, "backend=cuda")]
        {
            ranked.solver.options(options).unwrap();
            ranked.factorize(a).unwrap();
            assert_eq!(ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0, status::OK);
            let solver = &ranked.solver;
            reported.push((
                solver.iterations(),
                [key::INFO_LEVELS, key::INFO_CYCLE, key::INFO_PRECISION, key::INFO_BACKEND, key::INFO_STOP_REASON]
                    .map(|key| solver.int(key)),
                [key::INFO_INITIAL_RESIDUAL, key::INFO_FINAL_RESIDUAL, key::INFO_LAMBDA_MAX]
                    .map(|key| solver.real(key).to_bits()),
                bits(&solver.history()),
            ));
        }
        assert!(reported[0] == reported[3] && reported[0] != reported[1] && reported[0] != reported[2], "rank {rank}");
        reported
    });
    assert!(reported.iter().all(|other| *other == reported[0]));
    assert_eq!(reported[0].iter().map(|t| t.1[3]).collect::<Vec<_>>(), [2, 2, 1, 2]);
}

/// A monitor on one rank stops all ranks in the same iteration, and all ranks receive the same numbers.
fn one_monitor_stops_all() {
    unsafe extern "C-unwind" fn stop(user: *mut std::ffi::c_void, iteration: i64, residual: f64) -> i32 {
        // SAFETY: the pointer to the list that was set with this function.
        unsafe { &mut *user.cast::<Vec<(i64, u64)>>() }.push((iteration, residual.to_bits()));
        i32::from(iteration == 3)
    }
    let (a, boxes) = (poisson(120, 90), bricks(120, 90, 3, 1));
    let b = random_rhs(a.len(), 4);
    // A solve on a device calls monitors every 32 iterations.
    let options = "backend=cuda rel_tol=1e-12 levels=2 precision=f64";
    let listen = |solver: &Solver, reported: &mut Vec<(i64, u64)>| {
        // SAFETY: a live handle, a function of the right signature, and a list that outlives it.
        unsafe { common::rrb_set_monitor(solver.handle, Some(stop), std::ptr::from_mut(reported).cast()) };
    };
    let (mut told_one, one) = (Vec::new(), Solver::new(120, 90, options));
    listen(&one, &mut told_one);
    one.factorize(&a).unwrap();
    assert_eq!(one.solve_from_zero(&b).1, status::STOPPED);
    let expected = (status::STOPPED, one.iterations(), bits(&one.history()));
    let ended = on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(120, 90, &boxes[rank], comm).unwrap();
        ranked.solver.options(options).unwrap();
        let mut reported = Vec::new();
        if rank > 0 {
            listen(&ranked.solver, &mut reported);
        }
        ranked.factorize(&a).unwrap();
        let result = ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0;
        let ended = (result, ranked.solver.iterations(), bits(&ranked.solver.history()));
        drop(ranked);
        (ended, reported)
    });
    for (rank, (ended, reported)) in ended.iter().enumerate() {
        assert!(*ended == expected, "rank {rank}: {} iterations", ended.1);
        assert!(if rank == 0 { reported.is_empty() } else { *reported == told_one }, "rank {rank}: {reported:?}");
    }
}

fn errors_are_returned_on_all_ranks() {
    let boxes = bricks(60, 50, 1, 3);
    let a = random_m_matrix(60, 50, false, 2);
    let b = random_rhs(a.len(), 4);
    let (mut bad, mut indefinite) = (b.clone(), a.clone());
    bad[40 * 60 + 7] = f64::NAN;
    indefinite.center[45 * 60 + 3] = -1.0;
    for failures in on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(60, 50, &boxes[rank], comm).unwrap();
        ranked.solver.options(&format!("backend=cuda device={}", 99 * usize::from(rank == 0))).unwrap();
        let absent = ranked.factorize(&a).unwrap_err();
        ranked.solver.options("device=0").unwrap();
        let pivot = ranked.factorize(&indefinite).unwrap_err();
        let early = ranked.solve(&b, &b).unwrap_err();
        ranked.factorize(&a).unwrap();
        let nan = ranked.solve(&bad, &vec![0.0; b.len()]).unwrap_err();
        assert_eq!(ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0, status::OK);
        ranked.solver.options("cycle=k").unwrap();
        let recursion = ranked.factorize(&a).unwrap_err();
        [absent, pivot, early, nan, recursion]
    }) {
        let expected = [
            (status::NO_DEVICE, "device=99 does not exist"),
            (status::MATRIX, "(3, 45)"),
            (status::STATE, "must succeed before"),
            (status::NOT_FINITE, "(7, 40)"),
            (status::UNSUPPORTED, "cycle=k"),
        ];
        for (failure, (status, words)) in failures.iter().zip(expected) {
            failure.expect(status, &[words]);
        }
    }
}

/// Ranks, including rank 0, whose messages fail: the other ranks return in time.
fn lost_ranks() {
    let boxes = bricks(60, 50, 1, 3);
    let a = random_m_matrix(60, 50, false, 2);
    let b = random_rhs(a.len(), 4);
    for (failing, starts) in [(0, 1), (0, 3), (1, 2), (2, 4)] {
        let since = Instant::now();
        let results = on_ranks(3, |rank, comm| {
            let late = Late::new(comm, 3 + rank as u64);
            let ranked = Ranked::try_new(60, 50, &boxes[rank], &late.table()).unwrap();
            ranked.solver.options("backend=cuda").unwrap();
            ranked.factorize(&a).unwrap();
            ranked.solver.options("comm_timeout=2").unwrap();
            if rank == failing {
                late.fail_after(starts);
            }
            let failure = ranked.solve(&b, &vec![0.0; b.len()]).map(|done| done.0);
            drop(ranked);
            failure
        });
        assert!(results[failing].is_err(), "rank {failing} after {starts}");
        // A rank succeeds if it had already received its last message.
        for failure in results.into_iter().filter_map(Result::err) {
            failure.expect(-60, &["destroy the handle"]);
        }
        assert!(since.elapsed() < Duration::from_secs(20), "rank {failing} after {starts}");
    }
}

fn ok(result: sys::CUresult) {
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
}

/// An array on a device.
struct OnDevice {
    ordinal: i32,
    address: u64,
    count: usize,
}

impl OnDevice {
    fn new(ordinal: i32, values: &[f64]) -> Self {
        let mut made = Self { ordinal, address: 0, count: values.len() };
        made.entered(|made| {
            let bytes = 8 * values.len();
            // SAFETY: a context is current; the array has that many bytes, and the copy is waited for.
            unsafe {
                ok(sys::cuMemAlloc_v2(&mut made.address, bytes));
                ok(sys::cuMemcpyHtoDAsync_v2(made.address, values.as_ptr().cast(), bytes, null_mut()));
                ok(sys::cuStreamSynchronize(null_mut()));
            }
        });
        made
    }

    fn entered(&mut self, work: impl FnOnce(&mut Self)) {
        let mut context = null_mut();
        // SAFETY: `devices` initialized the driver; the pointer outlives the calls. The context is never released,
        // because its last release would free its arrays.
        unsafe {
            ok(sys::cuDevicePrimaryCtxRetain(&mut context, self.ordinal));
            ok(sys::cuCtxPushCurrent_v2(context));
            work(self);
            ok(sys::cuCtxPopCurrent_v2(&mut context));
        }
    }

    fn values(&mut self) -> Vec<f64> {
        let mut values = vec![0.0; self.count];
        self.entered(|made| {
            // SAFETY: the array on the device has this length; the copy is waited for.
            unsafe {
                ok(sys::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), made.address, 8 * made.count, null_mut()));
                ok(sys::cuStreamSynchronize(null_mut()));
            }
        });
        values
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` and freed once.
        self.entered(|made| ok(unsafe { sys::cuMemFree_v2(made.address) }));
    }
}

/// Ranks with arrays on devices, also on devices that do not compute, and on the host: bitwise identical results.
fn arrays_on_devices() {
    let (nx, ny) = (70, 54);
    let a = random_m_matrix(nx, ny, false, 6);
    let (b, guess) = (random_rhs(a.len(), 4), random_rhs(a.len(), 5));
    let solver = Solver::of(&a, "backend=cuda");
    let mut expected = guess.clone();
    solver.solve(&b, &mut expected).unwrap();
    let bytes_of_one = solver.int(key::INFO_BYTES_DEVICE);
    let rows = [0..20, 20..20, 20..54];
    // For each rank, whether the arrays of the matrix and of the vectors are on its device.
    for places in [[[true; 2]; 3], [[true, false], [false; 2], [true; 2]], [[false; 2], [false; 2], [true; 2]]] {
        let parts = on_ranks(3, |rank, comm| {
            let part = |array: &[f64]| array[rows[rank].start * nx..rows[rank].end * nx].to_vec();
            let boxes: &[ranks::Box4] = &[[0, rows[rank].start, nx, rows[rank].len()]];
            let has_none = rows[rank].is_empty();
            let ranked = Ranked::try_new(nx as i64, ny as i64, if has_none { &[] } else { boxes }, comm).unwrap();
            ranked.solver.options("backend=cuda").unwrap();
            let ordinal = (rank as i32).min(devices() - 1);
            let [matrix, vectors] = places[rank].map(|there| there && !has_none);
            let mut x = part(&guess);
            let handle = ranked.solver.handle;
            let list = [&a.center, &a.east, &a.north, &b, &guess].map(|array| part(array));
            let there = [matrix, matrix, matrix, vectors, vectors];
            let mut kept: Vec<Option<OnDevice>> =
                list.iter().zip(there).map(|(array, there)| there.then(|| OnDevice::new(ordinal, array))).collect();
            let addresses: Vec<_> = kept
                .iter()
                .zip(&list)
                .map(|(there, array)| there.as_ref().map_or(array.as_ptr(), |there| there.address as *const f64))
                .collect();
            let at = |k: usize| addresses[k];
            for turn in 0..2 {
                // SAFETY: a live handle, and arrays of its box.
                let factorized = unsafe {
                    rrbsolver::abi::rrb_factorize(handle, at(0), at(1), at(2), std::ptr::null(), std::ptr::null())
                };
                assert_eq!(factorized, status::OK, "turn {turn}: {}", common::last_error());
            }
            let to = kept[4].as_ref().map_or(x.as_mut_ptr(), |there| there.address as *mut f64);
            // SAFETY: as above.
            assert_eq!(unsafe { rrbsolver::abi::rrb_solve(handle, at(3), to) }, status::OK, "{}", common::last_error());
            assert_eq!(ranked.solver.int(key::INFO_BYTES_DEVICE) > 0, rank == 0);
            if rank == 0 && places == [[true; 2]; 3] {
                // Five gathered arrays replace buffers for two host arrays.
                let more = ranked.solver.int(key::INFO_BYTES_DEVICE) - bytes_of_one;
                assert!(more > 2 * 8 * (nx * ny) as i64, "{more}");
            }
            if let Some(there) = &mut kept[4] {
                x = there.values();
            }
            // The option `memory=device` must be checked.
            ranked.solver.options("memory=device").unwrap();
            // SAFETY: as above; the same.
            let status = unsafe { rrbsolver::abi::rrb_solve(handle, at(3), to) };
            let all = places.iter().enumerate().all(|(rank, place)| place[1] || rows[rank].is_empty());
            assert_eq!(status, if all { status::OK } else { status::ARGUMENT }, "{}", common::last_error());
            x
        });
        assert!(bits(&parts.concat()) == bits(&expected), "{places:?}");
    }
}

const SLOW: &str = "backend=cuda max_iter=3000";
const REPORTED_KEYS: [i32; 4] = [key::INFO_CYCLE, key::INFO_LEVELS, key::INFO_GRIDS, key::INFO_BACKEND];

/// A system for which `cycle=auto` switches to aggregation during a solve: all ranks report it.
fn slow_systems() {
    let land =
        hard_suite::systems(7, 64, 64).into_iter().find(|system| system.name == "land30").expect("a system with land");
    let (a, b) = (land.a, land.b);
    let (solver, boxes) = (Solver::of(&a, SLOW), bricks(a.nx, a.ny, 2, 1));
    let expected = bits(&solver.solve_from_zero(&b).0);
    assert!(bits(&distributed(&a, &b, SLOW, &boxes).0) == expected);
    let cycles = on_ranks(2, |rank, comm| {
        let ranked = Ranked::try_new(a.nx as i64, a.ny as i64, &boxes[rank], comm).unwrap();
        ranked.solver.options(SLOW).unwrap();
        ranked.factorize(&a).unwrap();
        let cycle = ranked.solver.int(key::INFO_CYCLE);
        ranked.solve(&b, &vec![0.0; b.len()]).unwrap();
        assert_ne!(cycle, ranked.solver.int(key::INFO_CYCLE), "rank {rank}: goes over in mid-solve");
        REPORTED_KEYS.map(|key| ranked.solver.int(key))
    });
    assert_eq!(cycles, [REPORTED_KEYS.map(|key| solver.int(key)); 2]);
}

/// Several boxes per rank with padded rows, 9 points, and products: bitwise identical to one box.
fn boxes_on_devices() {
    let (nx, ny) = (46, 39);
    let a = random_m_matrix(nx, ny, true, 6);
    let (b, guess) = (random_rhs(a.len(), 4), random_rhs(a.len(), 5));
    let one = Solver::of(&a, "backend=cuda");
    let mut x = guess.clone();
    one.solve(&b, &mut x).unwrap();
    let expected = [bits(&x), bits(&one.apply(&b)), bits(&one.multiply(&b))];
    let mut dealt: Vec<Vec<ranks::Box4>> = vec![vec![], vec![], vec![]];
    for (k, one) in bricks(nx, ny, 4, 3).concat().into_iter().enumerate() {
        dealt[k % 3].push(one);
    }
    let parts = on_ranks(3, |rank, comm| {
        let boxes = &dealt[rank];
        let ranked = Ranked::try_new(nx as i64, ny as i64, boxes, comm).unwrap();
        ranked.solver.options("backend=cuda memory=device").unwrap();
        let ordinal = (rank as i32).min(devices() - 1);
        let there = |array: &[f64]| -> Vec<OnDevice> {
            boxes.iter().map(|&one| OnDevice::new(ordinal, &ranks::cut(array, nx, one))).collect()
        };
        let pointers = |kept: &[OnDevice]| -> Vec<*const f64> { kept.iter().map(|one| one.address as _).collect() };
        let ld: Vec<i64> = boxes.iter().map(|one| (one[2] + ranks::PADDING) as i64).collect();
        let (northeast, northwest) = a.corners.as_ref().expect("9 points");
        let matrix = [&a.center, &a.east, &a.north, northeast, northwest].map(|array| there(array));
        let lists = matrix.each_ref().map(|kept| pointers(kept));
        let handle = ranked.solver.handle;
        let [c, e, n, ne, nw] = lists.each_ref().map(|list| list.as_ptr());
        // SAFETY: a live handle, and arrays of its boxes.
        let status = unsafe { rrbsolver::abi::rrb_factorize_boxes(handle, ld.as_ptr(), c, e, n, ne, nw) };
        assert_eq!(status, status::OK, "{}", common::last_error());
        let right = there(&b);
        let functions =
            [rrbsolver::abi::rrb_solve_boxes, rrbsolver::abi::rrb_apply_boxes, rrbsolver::abi::rrb_multiply_boxes];
        functions.map(|function| {
            let mut written = there(&guess);
            let to: Vec<*mut f64> = written.iter().map(|one| one.address as _).collect();
            // SAFETY: as above.
            let status = unsafe { function(handle, ld.as_ptr(), pointers(&right).as_ptr(), to.as_ptr()) };
            assert_eq!(status, status::OK, "{}", common::last_error());
            written.iter_mut().map(OnDevice::values).collect::<Vec<_>>()
        })
    });
    for (k, expected) in expected.iter().enumerate() {
        let mut whole = vec![0.0; a.len()];
        for (boxes, parts) in dealt.iter().zip(&parts) {
            boxes.iter().zip(&parts[k]).for_each(|(&one, part)| ranks::paste(&mut whole, nx, one, part));
        }
        assert!(bits(&whole) == *expected, "function {k}");
    }
}

/// A stream that rank 0 cannot use: all ranks return the same status and can continue.
fn a_stream_of_another_device() {
    if devices() < 2 {
        return;
    }
    let mut stream = null_mut();
    OnDevice::new(1, &[0.0]).entered(|_| {
        // SAFETY: a context is current; the pointer outlives the call.
        ok(unsafe { sys::cuStreamCreate(&mut stream, 0) });
    });
    let stream = stream as usize;
    let (boxes, a) = (bricks(60, 50, 1, 3), random_m_matrix(60, 50, false, 2));
    let b = random_rhs(a.len(), 4);
    on_ranks(3, |rank, comm| {
        let ranked = Ranked::try_new(60, 50, &boxes[rank], comm).unwrap();
        ranked.solver.options("backend=cuda device=0").unwrap();
        ranked.factorize(&a).unwrap();
        let set = |stream: usize| {
            // SAFETY: a live handle, and a stream that is never destroyed.
            let status = unsafe { rrbsolver::abi::rrb_set_stream(ranked.solver.handle, stream as _) };
            assert_eq!(status, status::OK);
        };
        set(if rank == 0 { stream } else { 0 });
        ranked.solve(&b, &vec![0.0; b.len()]).map(|done| done.0).unwrap_err().expect(status::DEVICE, &["stream"]);
        set(0);
        assert_eq!(ranked.solve(&b, &vec![0.0; b.len()]).unwrap().0, status::OK);
    });
}

/// The program resets the device of rank 0 between two factorizations. The memory of the old context must not be used
/// again.
fn a_device_that_was_reset() {
    // The test runs in a separate process, because handles of other tests use the same device.
    if devices() < 2 || child("a_device_that_was_reset", &[]).is_some() {
        return;
    }
    let (nx, ny) = (40, 36);
    let a = random_m_matrix(nx, ny, false, 6);
    let b = random_rhs(a.len(), 4);
    let expected = bits(&Solver::of(&a, "backend=cuda").solve_from_zero(&b).0);
    let all_wait = std::sync::Barrier::new(2);
    let parts = on_ranks(2, |rank, comm| {
        let rows = if rank == 0 { 0..15 } else { 15..ny };
        let part = |array: &[f64]| array[rows.start * nx..rows.end * nx].to_vec();
        let boxes: &[ranks::Box4] = &[[0, rows.start, nx, rows.len()]];
        let ranked = Ranked::try_new(nx as i64, ny as i64, boxes, comm).unwrap();
        ranked.solver.options("backend=cuda memory=device").unwrap();
        let handle = ranked.solver.handle;
        let ordinal = rank as i32;
        let mut last = Vec::new();
        for turn in 0..2 {
            let zeros = vec![0.0; b.len()];
            let mut kept = [&a.center, &a.east, &a.north, &b, &zeros].map(|array| OnDevice::new(ordinal, &part(array)));
            let at: Vec<*const f64> = kept.iter().map(|one| one.address as _).collect();
            // SAFETY: a live handle, and arrays of its box.
            let status = unsafe {
                let status =
                    rrbsolver::abi::rrb_factorize(handle, at[0], at[1], at[2], std::ptr::null(), std::ptr::null());
                assert_eq!(status, status::OK, "turn {turn}: {}", common::last_error());
                rrbsolver::abi::rrb_solve(handle, at[3], at[4].cast_mut())
            };
            assert_eq!(status, status::OK, "turn {turn}: {}", common::last_error());
            last = kept[4].values();
            drop(kept);
            all_wait.wait();
            if rank == 0 && turn == 0 {
                // SAFETY: no other thread uses the device meanwhile.
                ok(unsafe { sys::cuDevicePrimaryCtxReset_v2(0) });
            }
            all_wait.wait();
        }
        last
    });
    assert!(bits(&parts.concat()) == expected);
}

/// Without shared memory, ranks send their boxes by messages. A file size limit of zero prevents shared memory.
fn by_messages() {
    const INSIDE: &str = "RRBSOLVER_TEST_LIMITED";
    if std::env::var_os(INSIDE).is_none() {
        let program = std::env::current_exe().expect("this program");
        let limited = "ulimit -f 0 && exec \"$0\" --exact by_messages";
        // The limit would also prevent the shared memory of emulated devices.
        let mut shell = std::process::Command::new("sh");
        let run = shell.args(["-c", limited]).arg(program).env(INSIDE, "1").env_remove("EMULATED_SHARED").output();
        let run = run.expect("a shell");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        return;
    }
    let a = random_m_matrix(37, 53, false, 7);
    check_bits_of_one("by messages", &a, &random_rhs(a.len(), 3), "backend=cuda");
    land();
    applied_and_multiplied();
}

device::device_tests! { devices();
    same_bits
    by_messages
    land
    applied_and_multiplied
    in_turn
    one_monitor_stops_all
    errors_are_returned_on_all_ranks
    lost_ranks
    arrays_on_devices
    boxes_on_devices
    a_stream_of_another_device
    a_device_that_was_reset
    slow_systems
}
