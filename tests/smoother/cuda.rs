//! The `cuda` backend of block smoothers compared with `reference` and `cpu`, and features that only devices have.
//! tests/emulator emulates a device.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;

use common::smoother::*;
use common::{devices, outcome, status};
use device::Queue;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// Returns a bound of the rounding error of values of about 1/2 after `sweeps` sweeps; see `rounding` in
/// tests/smoother/conformance.rs.
fn rounding(sweeps: i32) -> f64 {
    1e-13 * f64::from(sweeps)
}

const METHODS: [&str; 5] = [
    "method=block_jacobi",
    "method=coloured_gauss_seidel",
    "method=coloured_gauss_seidel reverse=1",
    "method=chaotic_gauss_seidel parallel=patch",
    "method=chaotic_gauss_seidel parallel=patch reverse=1",
];

/// Sweeps with many tiles, in one patch and in several patches, which form several chunks and groups. Repeated runs and
/// all transfer orders are bitwise identical, and agree with the CPU.
fn large_lists_and_transfers() {
    let mixed = || {
        let mut level = Level::new(&[
            ([0, 0, 0], [64, 64, 96]),
            ([64, 0, 0], [40, 64, 96]),
            ([0, 64, 0], [104, 61, 43]),
            ([0, 64, 43], [104, 61, 60]),
            ([0, 0, 96], [33, 64, 7]),
        ]);
        level.random(9);
        level
    };
    let apart = || {
        let mut level = Level::new(&[([0; 3], [88, 80, 72]), ([200, 0, 0], [64, 96, 80]), ([0, 300, 0], [72; 3])]);
        level.random(10);
        level
    };
    let cases =
        [("poisson7", [8, 8, 8], 5), ("poisson7", [4, 4, 4], 2), ("fe27", [8, 8, 8], 2), ("fe27", [4, 2, 4], 2)];
    for (name, block, methods) in cases {
        for method in &METHODS[..methods] {
            for (make, what) in [(&mixed as &dyn Fn() -> Level, "mixed"), (&apart, "apart")] {
                for sweeps in [1, 4] {
                    let mut expected = make();
                    Smoother::of(&stencil(name), block, &format!("backend=cpu {method}"), &expected)
                        .apply(&mut expected, sweeps)
                        .unwrap();
                    let mut found: Option<Vec<u64>> = None;
                    for more in ["check_input=0", "check_input=1", "transfer=breadth_first"] {
                        let mut level = make();
                        let text = format!("backend=cuda {method} {more}");
                        let smoother = Smoother::of(&stencil(name), block, &text, &level);
                        smoother.apply(&mut level, sweeps).unwrap();
                        let what = format!("{name} {block:?} {text} {what} {sweeps}");
                        let error = difference(&level, &expected);
                        assert!(error < rounding(sweeps), "{what}: {error:e}");
                        assert!(smoother.real(common::key::INFO_SECONDS_TRANSFER) > 0.0);
                        let bits = bits(&level);
                        assert!(found.as_ref().is_none_or(|f| *f == bits), "{what}: other bits");
                        found = Some(bits);
                    }
                }
            }
        }
    }
}

/// Products of many blocks with the dense inverse: full and partial products, adjacent remainders, and one block.
fn dense_products() {
    for name in ["poisson7", "mixed27"] {
        for method in METHODS {
            for patches in [vec![([-4, 0, 8], [40, 24, 17]), ([36, 0, 8], [16, 40, 24])], vec![([8; 3], [8; 3])]] {
                let [cpu, cuda] = ["cpu", "cuda"].map(|backend| {
                    let mut level = Level::new(&patches);
                    level.random(11);
                    let text = format!("backend={backend} block_solver=dense {method}");
                    Smoother::of(&stencil(name), [8; 3], &text, &level).apply(&mut level, 2).unwrap();
                    level
                });
                let error = difference(&cpu, &cuda);
                assert!(error < rounding(2), "{name} {method}: {error:e}");
            }
        }
    }
}

/// More blocks than a device processes at once (32 per multiprocessor, 132 multiprocessors), so that thread blocks
/// process one group after another. omega below 1 also uses the old values of the block.
fn dense_products_in_several_rounds() {
    for (name, method, patches) in [
        ("poisson7", "method=coloured_gauss_seidel omega=0.85", 18),
        ("poisson7", "method=block_jacobi", 9),
        ("mixed27", "method=block_jacobi omega=0.7", 9),
    ] {
        // The last group is not full, and colours have different numbers of blocks.
        let mut places: Vec<([i64; 3], [i64; 3])> = (0..patches).map(|p| ([64 * p, 0, 0], [64; 3])).collect();
        places.push(([0, 64, 0], [24, 8, 8]));
        let [cpu, cuda] = ["cpu", "cuda"].map(|backend| {
            let mut level = Level::new(&places);
            level.random(5);
            let text = format!("backend={backend} block_solver=dense {method}");
            Smoother::of(&stencil(name), [8; 3], &text, &level).apply(&mut level, 2).unwrap();
            level
        });
        let error = difference(&cpu, &cuda);
        assert!(error < rounding(2), "{name} {method}: {error:e}");
    }
}

fn check_golden_there(wanted: impl Fn(&Record) -> bool) {
    let checked = check_golden("backend=cuda", wanted);
    assert!(checked.len() == 3 && checked.values().all(|&n| n > 0));
}

fn golden() {
    check_golden_there(|_| true);
}

/// The golden rows that an emulated device can compute in acceptable time.
fn golden_in_part() {
    check_golden_there(|r| r.stencil == "poisson7" && (r.block == [8; 3] || r.block == [4, 4, 2]));
}

/// Chaotic sweeps, 20 runs: between lexicographic Gauss-Seidel and damped Jacobi.
fn chaotic_lies_between() {
    check_chaotic(64, &BLOCKS, |_| "backend=cuda".to_owned());
    check_chaotic(128, &[[8; 3]], |_| "backend=cuda".to_owned());
}

/// Patches of one or two blocks along an axis lack colours, or stages of the lexicographic order.
fn thin_patches() {
    let sizes = [[32, 8, 32], [8, 32, 32], [8, 8, 32], [32, 16, 8], [16, 16, 40], [40, 8, 8], [32, 32, 32]];
    for (name, block) in [("fe27", [8, 8, 8]), ("poisson7", [8, 8, 8]), ("fe27", [4, 8, 4]), ("mixed27", [4, 4, 8])] {
        for method in METHODS {
            for size in sizes {
                let [cpu, cuda] = ["cpu", "cuda"].map(|backend| {
                    let mut level = Level::new(&[([0; 3], size), ([200, 0, 0], [8, 16, 24])]);
                    level.random(12);
                    let text = format!("backend={backend} threads=1 {method}");
                    Smoother::of(&stencil(name), block, &text, &level).apply(&mut level, 2).unwrap();
                    level
                });
                let error = difference(&cpu, &cuda);
                assert!(error < rounding(2), "{name} {block:?} {method} {size:?}: {error:e}");
            }
        }
    }
}

/// Uploads a level. Returns the tables of its arrays on the device.
fn upload(smoother: &Smoother, level: &mut Level) -> (Vec<*mut f64>, Vec<*mut f64>) {
    let (u, f) = (level.u_table(), level.f_table());
    let count = u.len();
    let (mut device_u, mut device_f) = (vec![null_mut(); count], vec![null_mut(); count]);
    // SAFETY: a live handle; tables of all patches.
    unsafe {
        outcome(smoother_upload(smoother.handle, u.as_ptr().cast(), f.as_ptr())).unwrap();
        let tables = (device_u.as_mut_ptr(), device_f.as_mut_ptr());
        outcome(smoother_device_pointers(smoother.handle, tables.0, tables.1)).unwrap();
    }
    (device_u, device_f)
}

fn download(smoother: &Smoother, level: &mut Level) {
    let u = level.u_table();
    // SAFETY: a live handle; a table of all patches.
    outcome(unsafe { smoother_download(smoother.handle, u.as_ptr()) }).unwrap();
}

fn constant(table: &[*mut f64]) -> Vec<*const f64> {
    table.iter().map(|p| p.cast_const()).collect()
}

/// Resident patches on the device, and device pointers of the caller, give the results of patches on the host.
fn patches_on_the_device() {
    for method in METHODS {
        for memory in ["auto", "device"] {
            let mut expected = awkward();
            let text = format!("backend=cuda method=block_jacobi {method}");
            let host = Smoother::of(&stencil("poisson7"), [4; 3], &text, &expected);
            host.apply(&mut expected, 3).unwrap();
            let norm = host.norm(&mut expected);
            let r = host.residual(&mut expected);

            let mut level = awkward();
            let keeper = Smoother::of(&stencil("poisson7"), [4; 3], &text, &level);
            let (u, f) = upload(&keeper, &mut level);
            assert_eq!(keeper.int(common::key::INFO_DEVICE), 0);
            // Another handle uses these arrays as arrays of the caller, then the first handle as resident ones.
            let other = Smoother::of(&stencil("poisson7"), [4; 3], &format!("{text} memory={memory}"), &level);
            let read = constant(&f);
            let mut found = f64::NAN;
            // SAFETY: live handles; arrays of the patches' sizes.
            unsafe {
                outcome(smoother_apply(other.handle, u.as_ptr(), read.as_ptr(), 1)).unwrap();
                outcome(smoother_apply(keeper.handle, null(), null(), 1)).unwrap();
                outcome(smoother_apply(other.handle, u.as_ptr(), read.as_ptr(), 1)).unwrap();
                outcome(smoother_residual(keeper.handle, null(), null(), null(), &mut found)).unwrap();
            }
            assert_eq!(found, norm, "{text}");
            download(&keeper, &mut level);
            assert_eq!(bits(&level), bits(&expected), "{text} {memory}");
            // f serves as residual array on the device, because it is not read afterwards.
            let mut spare = awkward();
            let holder = Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda", &spare);
            let (_, r_device) = upload(&holder, &mut spare);
            // SAFETY: as above.
            unsafe {
                let table = (u.as_ptr(), read.as_ptr(), r_device.as_ptr());
                outcome(smoother_residual(other.handle, table.0, table.1, table.2, null_mut())).unwrap();
            }
            let again = host.residual(&mut expected);
            assert!(r.iter().flatten().zip(again.iter().flatten()).all(|(a, b)| a.to_bits() == b.to_bits()));
            assert!(keeper.int(common::key::INFO_BYTES_DEVICE) > 16 * level.cells() as i64);
        }
    }
}

/// A call of several sweeps, in which tiles pass their faces to other patches, is bitwise identical to calls of one
/// sweep, which exchange ghost cells. Ghost cells are identical too. The patches match their neighbours face to face,
/// match in part, or do not match.
fn several_sweeps_are_single_ones() {
    let fitting: Vec<([i64; 3], [i64; 3])> =
        (0..8).map(|p| ([p % 2 * 24, p / 2 % 2 * 16, p / 4 * 8], [24, 16, 8])).collect();
    let partly =
        vec![([0, 0, 0], [16, 24, 16]), ([16, 8, 0], [24, 8, 16]), ([16, 16, 0], [16, 16, 21]), ([4, 24, 0], [12; 3])];
    for patches in [fitting, partly] {
        for block in [[8, 8, 8], [4, 4, 4], [2, 8, 4], [3, 8, 8]] {
            for method in METHODS {
                let mut level = Level::new(&patches);
                level.random(14);
                let smoother = Smoother::of(&stencil("aniso7"), block, &format!("backend=cuda {method}"), &level);
                for sweeps in [2, 5] {
                    let [mut single, mut together] = [level.clone(), level.clone()];
                    // SAFETY: a live handle with resident patches.
                    let apply = |n| outcome(unsafe { smoother_apply(smoother.handle, null(), null(), n) }).unwrap();
                    upload(&smoother, &mut single);
                    for _ in 0..sweeps {
                        apply(1);
                    }
                    download(&smoother, &mut single);
                    upload(&smoother, &mut together);
                    apply(sweeps);
                    download(&smoother, &mut together);
                    assert!(bits(&single) == bits(&together), "{block:?} {method} {sweeps}");
                }
            }
        }
    }
}

/// Arrays in an unusable memory space are reported by name.
fn wrong_spaces() {
    let count = devices();
    if count == 0 {
        return;
    }
    let mut level = awkward();
    let smoother = Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda", &level);
    let (u, f) = upload(&smoother, &mut level);
    let before = bits(&level);
    let (host_u, host_f) = (level.u_table(), level.f_table());
    let read = constant(&f);
    let apply = |s: &Smoother, u: &[*mut f64], f: &[*const f64]| {
        // SAFETY: a live handle; arrays of the patches' sizes, on the device or not.
        outcome(unsafe { smoother_apply(s.handle, u.as_ptr(), f.as_ptr(), 1) })
    };
    apply(&smoother, &u, &host_f).unwrap_err().expect(status::ARGUMENT, &["f of patch 0", "host", "memory space"]);
    apply(&smoother, &host_u, &read)
        .unwrap_err()
        .expect(status::ARGUMENT, &["f of patch 0", "device 0", "memory space"]);
    let mut one = u.clone();
    one[3] = host_u[3];
    apply(&smoother, &one, &read).unwrap_err().expect(status::ARGUMENT, &["u of patch 3", "host"]);
    // A call that was valid before is now an error: what is known about arrays depends on the option `memory`.
    let (mut kept, h) = (level.clone(), smoother.handle);
    let (kept_u, kept_f) = (kept.u_table(), kept.f_table());
    apply(&smoother, &kept_u, &kept_f).unwrap();
    smoother.options("memory=device").unwrap();
    for (u, f) in [(&kept_u, &kept_f), (&host_u, &host_f)] {
        let failure = apply(&smoother, u, f).unwrap_err();
        failure.expect(status::ARGUMENT, &["u of patch 0", "the host", "memory=device"]);
    }
    // With resident patches on the device, residual arrays must be there too.
    let mut r: Vec<Vec<f64>> = level.f.iter().map(|f| vec![7.0; f.len()]).collect();
    let r_table: Vec<*mut f64> = r.iter_mut().map(|r| r.as_mut_ptr()).collect();
    let mut spare = awkward();
    let holder = Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda", &spare);
    let (_, mut half) = upload(&holder, &mut spare);
    half[2] = r_table[2];
    for (memory, table, patch) in
        [("auto", &r_table, 0), ("host", &r_table, 0), ("device", &r_table, 0), ("auto", &half, 2)]
    {
        smoother.options(&format!("memory={memory}")).unwrap();
        // SAFETY: a live handle; arrays of the patches' sizes, on the device or not.
        let failure = outcome(unsafe { smoother_residual(h, null(), null(), table.as_ptr(), null_mut()) }).unwrap_err();
        failure.expect(status::ARGUMENT, &[&format!("r of patch {patch}"), "device 0", "smoother_upload", "the host"]);
    }
    assert!(r.iter().flatten().all(|&v| v == 7.0));
    smoother.options("memory=device").unwrap();
    let failure = Smoother::new(&stencil("poisson7"), [4; 3], "backend=cpu memory=device").patches(&level).unwrap_err();
    failure.expect(status::UNSUPPORTED, &["memory", "cuda"]);
    let text = format!("backend=cuda device={count}");
    let failure = Smoother::new(&stencil("poisson7"), [4; 3], &text).patches(&level).unwrap_err();
    failure.expect(status::NO_DEVICE, &[&format!("device={count}")]);
    if count > 1 {
        let second = Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda device=1", &level);
        apply(&second, &u, &read).unwrap_err().expect(status::ARGUMENT, &["u of patch 0", "device 0", "device 1"]);
    }
    assert_eq!(bits(&level), before);
    // The handle remains usable.
    smoother.options("memory=auto").unwrap();
    apply(&smoother, &host_u, &host_f).unwrap();
    apply(&smoother, &u, &read).unwrap();
}

/// A replaced stream is not used any more, neither by options that need new data nor by new patches.
fn replaced_streams() {
    let mut expected = awkward();
    let plain = Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda method=block_jacobi stagger=1", &expected);
    plain.apply(&mut expected, 3).unwrap();
    let set = |s: &Smoother, queue: Option<&Queue>| {
        // SAFETY: a live handle and stream.
        outcome(unsafe { smoother_set_stream(s.handle, queue.map_or(null_mut(), |q| q.0.cast())) }).unwrap();
    };
    for own in [true, false] {
        let mut level = awkward();
        let smoother = Smoother::new(&stencil("poisson7"), [4; 3], "backend=cuda");
        let first = Queue::new();
        set(&smoother, Some(&first));
        smoother.patches(&level).unwrap();
        smoother.apply(&mut level, 1).unwrap();
        let second = (!own).then(Queue::new);
        set(&smoother, second.as_ref());
        drop(first);
        smoother.options("method=block_jacobi stagger=1").unwrap();
        level = awkward();
        upload(&smoother, &mut level);
        // SAFETY: a live handle.
        outcome(unsafe { smoother_apply(smoother.handle, null(), null(), 3) }).unwrap();
        download(&smoother, &mut level);
        assert_eq!(bits(&level), bits(&expected));
        // The stream is replaced while set_patches is required.
        smoother.options("block_solver=dense").unwrap();
        let third = Queue::new();
        set(&smoother, Some(&third));
        drop(second);
        smoother.options("block_solver=auto").unwrap();
        smoother.patches(&level).unwrap();
        level = awkward();
        smoother.apply(&mut level, 3).unwrap();
        assert_eq!(bits(&level), bits(&expected));
        set(&smoother, None);
    }
}

/// The first nonfinite value is reported, and nothing changes.
fn bad_values() {
    for (name, patch, cell, value) in [("u", 5, [-2, 4, 9], f64::NAN), ("f", 1, [16, 14, 2], f64::INFINITY)] {
        let mut level = awkward();
        let [nx, ny, _] = level.size[patch];
        let [i, j, k] = [0, 1, 2].map(|d: usize| cell[d] - level.lower[patch][d]);
        if name == "u" {
            level.u[patch][(((k + 1) * (ny + 2) + j + 1) * (nx + 2) + i + 1) as usize] = value;
            // A later nonfinite value, and one in a ghost cell, which is not checked.
            level.f[patch][1] = f64::NAN;
            level.u[0][0] = f64::NAN;
        } else {
            level.f[patch][((k * ny + j) * nx + i) as usize] = value;
        }
        let before = bits(&level);
        let smoother = Smoother::of(&stencil("poisson7"), [4; 3], "backend=cuda", &level);
        let failure = smoother.apply(&mut level, 2).unwrap_err();
        let cell = format!("({}, {}, {})", cell[0], cell[1], cell[2]);
        failure.expect(status::NOT_FINITE, &[name, &format!("patch {patch}"), &cell]);
        assert_eq!(bits(&level), before);
    }
}

/// Ghost cells that other patches cover are refreshed before each sweep; the others belong to the caller.
fn ghost_cells() {
    let mut level = Level::golden(16, 2);
    for v in level.u.iter_mut().flatten().filter(|v| **v == 0.0) {
        *v = -7.0;
    }
    let mut expected = level.clone();
    let cpu = Smoother::of(&stencil("fe27"), [4; 3], "backend=cpu", &level);
    cpu.exchange(&mut expected);
    let cuda = Smoother::of(&stencil("fe27"), [4; 3], "backend=cuda", &level);
    let (u, _) = upload(&cuda, &mut level);
    // SAFETY: a live handle; device arrays of the patches' sizes.
    outcome(unsafe { smoother_exchange(cuda.handle, u.as_ptr()) }).unwrap();
    let mut host = level.clone();
    cuda.exchange(&mut host);
    download(&cuda, &mut level);
    assert!(bits(&level) == bits(&expected) && bits(&host) == bits(&expected));
}

struct Filled {
    sweeps: Vec<i32>,
    seen: Vec<usize>,
    stop_at: i32,
    host: bool,
}

/// Sets the ghost cells of patch 0, a cube of 4, to 3 if they are on the host.
unsafe extern "C-unwind" fn fill(user: *mut c_void, sweep: i32, u: *const *mut f64) -> i32 {
    // SAFETY: the tests pass a record that outlives the calls, and one patch of 4^3 cells.
    let (record, u) = unsafe { (&mut *user.cast::<Filled>(), *u) };
    record.sweeps.push(sweep);
    record.seen.push(u as usize);
    for place in 0..216 {
        let (i, j, k) = (place % 6, place / 6 % 6, place / 36);
        if record.host && [i, j, k].iter().any(|&c| c == 0 || c == 5) {
            // SAFETY: inside the patch's array of 6^3 values.
            unsafe { *u.add(place) = 3.0 };
        }
    }
    i32::from(sweep == record.stop_at)
}

fn ghost_function() {
    for method in ["block_jacobi", "coloured_gauss_seidel"] {
        let mut level = Level::cube(4);
        let text = format!("backend=cuda method={method} omega=1");
        let smoother = Smoother::of(&stencil("poisson7"), [2; 3], &text, &level);
        let mut record = Filled { sweeps: Vec::new(), seen: Vec::new(), stop_at: 1000, host: true };
        // SAFETY: a live handle; the record outlives the calls.
        outcome(unsafe { smoother_set_ghost_fill(smoother.handle, Some(fill), (&raw mut record).cast()) }).unwrap();
        // For arrays on the host, the function receives the caller's own arrays.
        smoother.apply(&mut level, 3).unwrap();
        assert!(record.seen.iter().all(|&at| at == level.u[0].as_ptr() as usize));
        // On the device, the function receives device pointers; with block Jacobi, those of the array in use.
        record = Filled { sweeps: Vec::new(), seen: Vec::new(), stop_at: 1000, host: false };
        let (u, _) = upload(&smoother, &mut level);
        // SAFETY: a live handle.
        outcome(unsafe { smoother_apply(smoother.handle, null(), null(), 3) }).unwrap();
        let own = |at: usize| at == u[0] as usize;
        assert!(own(record.seen[0]) && own(record.seen[2]) && own(record.seen[1]) == (method != "block_jacobi"));
    }
}

/// Inverses and memory are kept when the patches change, also with many small patches and with no patches.
fn regridding() {
    let side = 3;
    let corner = |q: i64| [q % 22 * side, q / 22 % 22 * side, q / 484 * side];
    let mut level = Level::new(&(0..10_000).map(|q| (corner(q), [side; 3])).collect::<Vec<_>>());
    level.random(2);
    let smoother = Smoother::of(&stencil("poisson7"), [8; 3], "backend=cuda", &level);
    let start = smoother.norm(&mut level);
    smoother.apply(&mut level, 6).unwrap();
    assert!(smoother.norm(&mut level) < 0.5 * start);
    let (bytes, inverses) = (smoother.int(common::key::INFO_BYTES_DEVICE), smoother.int(key::INFO_BLOCK_INVERSES));
    smoother.patches(&Level::new(&[])).unwrap();
    smoother.apply(&mut Level::new(&[]), 2).unwrap();
    smoother.patches(&level).unwrap();
    smoother.apply(&mut level, 1).unwrap();
    assert_eq!(smoother.int(common::key::INFO_BYTES_DEVICE), bytes, "no memory is taken again");
    assert_eq!(smoother.int(key::INFO_BLOCK_INVERSES), inverses);
}

/// `auto` selects the device if the option `memory` says that the arrays are there.
fn automatic_backend() {
    let backend = |n: i64, text: &str| {
        Smoother::of(&stencil("poisson7"), [8; 3], text, &Level::cube(n)).int(common::key::INFO_BACKEND)
    };
    assert_eq!([backend(63, ""), backend(64, ""), backend(8, "memory=device")], [1, 1, 2]);
    assert_eq!([backend(64, "backend=cpu"), backend(64, "device=900"), backend(8, "backend=cuda")], [1, 1, 2]);
}

device::device_tests! { devices();
    large_lists_and_transfers
    dense_products
    dense_products_in_several_rounds
    golden
    golden_in_part
    chaotic_lies_between
    thin_patches
    patches_on_the_device
    several_sweeps_are_single_ones
    wrong_spaces
    replaced_streams
    bad_values
    ghost_cells
    ghost_function
    regridding
    automatic_backend
}
