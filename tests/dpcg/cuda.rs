//! The `cuda` backend of deflated PCG compared with `reference`, and features that only devices have. tests/emulator
//! emulates a device.

#[path = "cuda_aggregation.rs"]
mod aggregation;
mod bad_input;
#[path = "cuda_coarse.rs"]
mod coarse_matrices;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/device.rs"]
mod device;
#[path = "cuda_choices.rs"]
mod on_a_device;

use aggregation::{
    aggregation_again, aggregation_applied, aggregation_of_awkward_boxes, aggregation_of_components,
    aggregation_of_golden_systems,
};
use coarse_matrices::{coarse_matrices_as_the_reference, lone_vectors, many_null_vectors, many_vectors};
use common::dpcg::{Solver, dpcg_set_monitor, dpcg_set_regions, dpcg_set_stream, dpcg_solve};
use common::{bits, devices, max_abs, max_difference, outcome, status};
use device::{DeviceArray, Queue, Rows};
use on_a_device::{auto_as_the_reference, automatic_backend, crowds_as_on_the_cpu, not_on_a_device};
use rrbsolver::options::info;
use rrbsolver_problems::two_phase::TwoPhase;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Sizes with whole and partial rows, planes and blocks, and boxes one cell thick.
const SIZES: [[usize; 3]; 5] = [[24, 20, 22], [13, 9, 17], [1, 12, 9], [40, 1, 1], [2, 2, 2]];

/// Preconditioners, with the relative error that f32 may cause.
const PRECONDITIONERS: [(&str, f64); 11] = [
    ("none", 1e-12),
    ("jacobi", 1e-12),
    ("neumann order=1", 1e-12),
    ("neumann order=2", 1e-12),
    ("neumann order=5", 1e-12),
    ("multigrid coarsening=vertex sweeps=1 precision=f64", 1e-10),
    ("multigrid coarsening=vertex sweeps=2 precision=f64", 1e-10),
    ("multigrid coarsening=vertex sweeps=2 precision=f32", 1e-3),
    ("multigrid coarsening=cell sweeps=1 precision=f64", 1e-10),
    ("multigrid coarsening=cell sweeps=2 precision=f64", 1e-10),
    ("multigrid coarsening=cell sweeps=2 precision=f32", 1e-3),
];

const DEFLATIONS: [&str; 4] = [
    "none",
    "subdomain subdomains_x=2 subdomains_y=2 subdomains_z=2",
    "levelset",
    "levelset_subdomain subdomains_x=2 subdomains_y=2 subdomains_z=2",
];

/// Compares A x and M^-1 r on two backends.
fn compare_products(cuda: &Solver, reference: &Solver, b: &[f64], off: f64) {
    assert_eq!(cuda.int(info::DEVICE), 0);
    let near = |what: &str, found: &[f64], expected: &[f64], off: f64| {
        let error = max_difference(found, expected) / max_abs(expected).max(f64::MIN_POSITIVE);
        assert!(error <= off, "{what}: {error:e} off");
    };
    // Rounding of sums of seven products.
    near("A x", &cuda.multiply(b), &reference.multiply(b), 1e-14);
    near("M^-1 r", &cuda.apply(b), &reference.apply(b), off);
}

/// Compares the first iterations on two backends, with a tolerance that does not stop them.
fn compare_beginning(a: &TwoPhase, options: &str, off: f64) {
    const ITERATIONS: i64 = 6;
    let b = a.rhs("rand");
    let of = |backend: &str| Solver::of(a, &format!("backend={backend} max_iter={ITERATIONS} rel_tol=1e-14 {options}"));
    let (reference, cuda) = (of("reference"), of("cuda"));
    compare_products(&cuda, &reference, &b, off);
    let [mut x, mut expected] = [vec![0.0; b.len()], vec![0.0; b.len()]];
    assert_eq!(cuda.solve(&b, &mut x).unwrap(), reference.solve(&b, &mut expected).unwrap());
    assert_eq!([cuda.int(info::ITERATIONS), reference.int(info::ITERATIONS)], [ITERATIONS; 2]);
    // The tolerance is the rounding error times the contrast, times its growth in a few iterations.
    let error = max_difference(&x, &expected) / max_abs(&expected);
    assert!(error <= 1e-11, "x is {error:e} off");
}

/// Compares solves on two backends, within 2000 iterations.
fn compare(a: &TwoPhase, options: &str, off: f64) {
    let b = a.rhs("rand");
    let of = |backend: &str| Solver::of(a, &format!("backend={backend} max_iter=2000 {options}"));
    let (reference, cuda) = (of("reference"), of("cuda"));
    compare_products(&cuda, &reference, &b, off);
    let [mut x, mut expected] = [vec![0.0; b.len()], vec![0.0; b.len()]];
    assert_eq!(cuda.solve(&b, &mut x).unwrap(), reference.solve(&b, &mut expected).unwrap());
    let [found, wanted] = [&cuda, &reference].map(|solver| solver.int(info::ITERATIONS));
    // Fused multiply-adds on the device round differently. After hundreds of iterations, when CG has lost
    // orthogonality, the counts therefore differ by 3 to 5 %.
    let allowed = if wanted <= 100 { 1 + wanted / 50 } else { 1 + wanted / 16 };
    assert!((found - wanted).abs() <= allowed, "{found} iterations instead of {wanted}");
    let residual = a.relative_residual(&b, &x);
    assert!(residual <= 1.001e-6, "residual {residual:e}");
    // The next solve starts from this solution at another scale.
    let far: Vec<f64> = b.iter().map(|b| 1e-3 * b).collect();
    x.iter_mut().for_each(|x| *x *= 1e-3);
    cuda.solve(&far, &mut x).unwrap();
    assert_eq!(cuda.int(info::ITERATIONS), 0);
}

/// Compares all combinations on one set, and one deflation on two further sets, for the selected preconditioners. An
/// emulated device uses one deflation on the largest box. It computes only the first iterations of most solves with a
/// hundred iterations.
fn compare_all(wanted: impl Fn(&str) -> bool) {
    let mut rows = Rows::default();
    let emulated = device::emulated();
    for size in SIZES {
        for set in ["9", "9;dir=top", "surf;obs=box"] {
            let a = TwoPhase::new(set, size, 1e-3);
            for (preconditioner, off) in PRECONDITIONERS.into_iter().filter(|(name, _)| wanted(name)) {
                for (k, deflation) in DEFLATIONS.iter().enumerate() {
                    let small = size.contains(&1) || size[0] < 4;
                    // Obstacles divide thin boxes into parts, on which b is incompatible.
                    let left_out = match small {
                        true => k > 0 || set.contains("obs"),
                        false => set != "9" && k != 3,
                    };
                    let (large, multigrid) = (size == SIZES[0], preconditioner.contains("multigrid"));
                    // Solves with hundreds of iterations on the largest box would test nothing else.
                    if left_out || large && k < 3 && (emulated || !multigrid) {
                        continue;
                    }
                    let options = format!("preconditioner={preconditioner} deflation={deflation}");
                    let long = large || size == SIZES[1] && !preconditioner.ends_with("order=2");
                    let body = if emulated && long && !multigrid { compare_beginning } else { compare };
                    rows.row(&format!("{set} {size:?} {options}"), || body(&a, &options, off));
                }
            }
        }
    }
    rows.end();
}

fn series_as_the_reference() {
    compare_all(|name| !name.contains("multigrid"));
}

fn vertex_multigrid_as_the_reference() {
    compare_all(|name| name.contains("vertex"));
}

fn cell_multigrid_as_the_reference() {
    compare_all(|name| name.contains("cell"));
}

/// Boxes that end at or between the ends of tiles of 32 x 16 columns and of pieces of planes.
const TILED: [[usize; 3]; 9] =
    [[66, 34, 20], [65, 5, 3], [64, 17, 4], [33, 18, 7], [17, 33, 1], [3, 40, 5], [1, 2, 40], [5, 1, 1], [2, 2, 2]];

/// Compares fused iterations with unfused steps.
fn fused_as_the_unfused_steps() {
    let mut rows = Rows::default();
    let emulated = device::emulated();
    for mut size in TILED {
        let large = size == TILED[0];
        if large && emulated {
            size[2] = 4;
        }
        let a = TwoPhase::new(if large { "surf;obs=box" } else { "9" }, size, 1e-3);
        for preconditioner in [
            "jacobi",
            "neumann order=1",
            "neumann order=2",
            "multigrid coarsening=vertex precision=f64",
            "multigrid coarsening=cell precision=f64",
        ] {
            for deflation in &DEFLATIONS[..2] {
                if *deflation != "none" && size.iter().any(|&n| n < 3) {
                    continue;
                }
                let limit = match (emulated, large) {
                    (true, true) => 2,
                    (true, false) => 3,
                    _ => 6,
                };
                let options = format!("max_iter={limit} preconditioner={preconditioner} deflation={deflation}");
                rows.row(&format!("{size:?} {options}"), || compare_fused(&a, &options));
            }
        }
    }
    rows.end();
}

fn compare_fused(a: &TwoPhase, options: &str) {
    let b = a.rhs("rand");
    let [(fused, counted), (unfused, expected)] = ["on", "off"].map(|fusion| {
        let solver = Solver::of(a, &format!("backend=cuda fusion={fusion} rel_tol=1e-3 {options}"));
        let mut x = vec![0.0; b.len()];
        solver.solve(&b, &mut x).unwrap();
        (x, solver.int(info::ITERATIONS))
    });
    assert_eq!(counted, expected);
    // The tolerance is the rounding error times the contrast, times its growth in a few iterations.
    let off = max_difference(&fused, &unfused) / max_abs(&unfused).max(f64::MIN_POSITIVE);
    assert!(off <= 1e-11, "{off:e} off");
}

/// Several tiles of a sweep in each direction.
fn many_tiles() {
    let a = TwoPhase::new("9", [70, 43, 11], 1e-3);
    for (options, off) in PRECONDITIONERS.into_iter().filter(|(name, _)| name.contains("vertex")) {
        compare(&a, &format!("preconditioner={options} deflation=none"), off);
    }
}

/// Flat and long cells: grids that are first coarsened in one or two directions only.
fn some_directions() {
    let mut rows = Rows::default();
    let size @ [nx, ny, _] = [20, 18, 16];
    for factors in [[1.0, 1.0, 16.0], [16.0, 1.0, 1.0], [16.0, 1.0, 16.0], [1.0, 16.0, 16.0]] {
        let mut a = TwoPhase::new("9", size, 1e-3);
        for (d, step) in [1, nx, nx * ny].into_iter().enumerate() {
            for c in 0..a.cells() - step {
                let more = (factors[d] - 1.0) * a.forward[d][c];
                // Entries that point out of the box are NaN and remain NaN.
                if more.is_finite() {
                    a.forward[d][c] += more;
                    a.center[c] -= more;
                    a.center[c + step] -= more;
                }
            }
        }
        for (options, off) in PRECONDITIONERS.into_iter().filter(|(name, _)| name.contains("vertex")) {
            rows.row(&format!("{factors:?} {options}"), || {
                compare(&a, &format!("preconditioner={options} deflation=none"), off);
            });
        }
    }
    rows.end();
}

/// Device memory of a handle, including the tables of the survey and lists of labels.
fn bytes_a_cell() {
    let a = TwoPhase::new("9", [96; 3], 1e-3);
    // Bytes per cell: 88 for the matrix and seven vectors, 8 for components and groups, 8 for the tables of the survey.
    for (options, most) in [
        ("preconditioner=neumann deflation=levelset_subdomain", 130.0),
        ("", 180.0),
        ("preconditioner=multigrid coarsening=vertex precision=f64", 180.0),
        ("preconditioner=amg", 660.0),
    ] {
        if options.contains("amg") && device::emulated() {
            continue; // minutes
        }
        let solver = Solver::of(&a, &format!("backend=cuda {options}"));
        let each = solver.int(info::BYTES_DEVICE) as f64 / a.cells() as f64;
        assert!(each <= most, "{options}: {each} bytes a cell");
    }
}

/// All vectors kept, E by its factor, labels of the caller, obstacles.
fn deflation_of_every_kind() {
    let size = if device::emulated() { [16, 16, 12] } else { [20, 18, 16] };
    let a = TwoPhase::new("9", size, 1e-3);
    let mut rows = Rows::default();
    for options in [
        "deflation=subdomain subdomains_x=3 subdomains_y=2 subdomains_z=2 keep_all=1",
        "deflation=subdomain coarse_solver=cholesky",
        "deflation=levelset_subdomain coarse_solver=cholesky keep_all=1",
        "",
        "preconditioner=multigrid",
    ] {
        // Rounding of a single-precision cycle, or double rounding times the condition number of E.
        let off = if options.contains("multigrid") { 1e-3 } else { 1e-10 };
        rows.row(options, || compare(&a, &format!("preconditioner=neumann {options}"), off));
    }
    rows.end();
    let b = a.rhs("rand");
    let labels: Vec<i32> = a.air.iter().map(|&air| if air { 7 } else { -1 }).collect();
    let counts = ["reference", "cuda"].map(|backend| {
        let solver = Solver::new(size, &format!("backend={backend} preconditioner=neumann deflation=levelset"));
        // SAFETY: a live handle; one label per cell.
        outcome(unsafe { dpcg_set_regions(solver.handle, labels.as_ptr()) }).unwrap();
        solver.factorize(&a).unwrap();
        let mut x = vec![0.0; b.len()];
        solver.solve(&b, &mut x).unwrap();
        assert!(a.relative_residual(&b, &x) <= 1.001e-6);
        let (coarse, all) = (solver.real(info::SECONDS_COARSE), solver.real(info::SECONDS_SOLVE));
        assert!(coarse > 0.0 && coarse < all, "{backend}: {coarse} s of {all} s for E");
        solver.int(info::ITERATIONS)
    });
    assert!((counts[0] - counts[1]).abs() <= 1, "{counts:?}");
}

/// Returns the values with padded rows and planes.
fn padded(values: &[f64], [nx, ny, nz]: [usize; 3], ld: usize, plane: usize) -> Vec<f64> {
    let mut wide = vec![f64::NAN; (nz - 1) * plane + (ny - 1) * ld + nx];
    for k in 0..nz {
        for j in 0..ny {
            wide[k * plane + j * ld..][..nx].copy_from_slice(&values[(k * ny + j) * nx..][..nx]);
        }
    }
    wide
}

/// Arrays on the host and on the device, with and without padding: bitwise identical results.
fn arrays_here_and_there() {
    let size = [12, 10, 9];
    let a = TwoPhase::new("9", size, 1e-3);
    let b = a.rhs("cos");
    let mut expected = vec![0.0; b.len()];
    Solver::of(&a, "backend=cuda preconditioner=neumann").solve(&b, &mut expected).unwrap();
    for (ld, plane) in [(12, 120), (15, 150), (13, 137)] {
        let wide = |values: &[f64]| padded(values, size, ld, plane);
        let matrix = [&a.center, &a.forward[0], &a.forward[1], &a.forward[2]].map(|values| wide(values));
        let there = matrix.each_ref().map(|values| DeviceArray::new(values));
        let solver = Solver::new(
            size,
            &format!("backend=cuda preconditioner=neumann leading_dimension={ld} leading_plane={plane}"),
        );
        for (from_device, b_there, x_there) in
            [(false, false, false), (true, true, true), (true, true, false), (true, false, true)]
        {
            let at = |k: usize| if from_device { there[k].0 as *const f64 } else { matrix[k].as_ptr() };
            solver.factorize_at([at(0), at(1), at(2), at(3)]).unwrap();
            let (here, mut x) = (wide(&b), wide(&vec![0.0; b.len()]));
            let (b_device, x_device) = (DeviceArray::new(&here), DeviceArray::new(&x));
            let b_at = if b_there { b_device.0 as *const f64 } else { here.as_ptr() };
            let x_at = if x_there { x_device.0 as *mut f64 } else { x.as_mut_ptr() };
            // SAFETY: a live handle; arrays of its layout.
            outcome(unsafe { dpcg_solve(solver.handle, b_at, x_at) }).unwrap();
            if x_there {
                x = x_device.read(x.len());
            }
            let wanted = wide(&expected);
            assert!(x.iter().zip(&wanted).all(|(x, w)| x.to_bits() == w.to_bits()), "{ld} {plane} {from_device}");
        }
    }
}

/// A second matrix with other densities reuses the memory, and gives the results of a new handle.
fn second_factorizations() {
    let size = [16, 15, 14];
    for options in [
        "preconditioner=neumann",
        "preconditioner=multigrid coarsening=vertex",
        "preconditioner=multigrid coarsening=vertex precision=f64",
        "preconditioner=multigrid coarsening=cell",
    ] {
        let text = format!("backend=cuda {options}");
        let solver = Solver::new(size, &text);
        let b = TwoPhase::new("1", size, 1.0).rhs("rand");
        let mut bytes = 0;
        for (set, contrast) in [("9", 1e-3), ("1", 1e-2), ("9", 1e-3)] {
            let a = TwoPhase::new(set, size, contrast);
            let [mut x, mut expected] = [vec![0.0; b.len()], vec![0.0; b.len()]];
            solver.factorize(&a).unwrap();
            solver.solve(&b, &mut x).unwrap();
            Solver::of(&a, &text).solve(&b, &mut expected).unwrap();
            assert_eq!(bits(&x), bits(&expected), "{text} {set}");
            if set == "9" {
                assert!(bytes == 0 || bytes == solver.int(info::BYTES_DEVICE));
                bytes = solver.int(info::BYTES_DEVICE);
            }
        }
        assert!(bytes > 0);
    }
}

/// A sequence of preconditioners and precisions on one handle, which reuses its memory.
fn one_after_the_other() {
    let a = TwoPhase::new("9", [16, 15, 14], 1e-3);
    let b = a.rhs("rand");
    let solver = Solver::new(a.size, "backend=cuda");
    for options in [
        // These options need no second vector p, which fused iterations have.
        "preconditioner=neumann order=0 fusion=off deflation=none precision=auto",
        "preconditioner=multigrid fusion=on deflation=none precision=f64",
        "preconditioner=multigrid fusion=on deflation=none precision=f32",
        "preconditioner=multigrid fusion=off deflation=levelset precision=f64",
        "preconditioner=neumann order=2 fusion=on deflation=levelset precision=auto",
        "preconditioner=multigrid fusion=on deflation=none precision=f64",
    ] {
        solver.options(options).unwrap();
        let [mut x, mut expected] = [vec![0.0; b.len()], vec![0.0; b.len()]];
        solver.factorize(&a).unwrap();
        solver.solve(&b, &mut x).unwrap();
        Solver::of(&a, &format!("backend=cuda {options}")).solve(&b, &mut expected).unwrap();
        assert_eq!(bits(&x), bits(&expected), "{options}");
    }
}

/// Errors on the device equal errors on the CPU: same statuses and error messages.
fn bad_input_as_on_the_cpu() {
    let mut rows = Rows::default();
    for (name, check) in bad_input::CHECKS {
        rows.row(name, || assert_eq!(check("backend=cuda"), check("backend=reference")));
    }
    rows.end();
}

/// The first nonfinite value is reported, and x is unchanged.
fn bad_values() {
    let a = TwoPhase::new("9", [8; 3], 1e-3);
    let solver = Solver::of(&a, "backend=cuda");
    let (mut b, mut x) = (a.rhs("rand"), vec![0.5; 512]);
    x[100] = f64::NAN;
    b[300] = f64::INFINITY;
    let before = bits(&x);
    solver.solve(&b, &mut x).unwrap_err().expect(status::NOT_FINITE, &["x", "(4, 4, 1)"]);
    assert_eq!(bits(&x), before);
    x[100] = 0.0;
    solver.solve(&b, &mut x).unwrap_err().expect(status::NOT_FINITE, &["b", "(4, 5, 4)"]);
    // The handle remains usable, and the failure has no effect on later solves.
    b[300] = 0.0;
    x.fill(0.0);
    solver.solve(&a.rhs("rand"), &mut x).unwrap();
    solver.solve(&vec![0.0; 512], &mut x).unwrap();
    assert!(x.iter().all(|&x| x == 0.0));
}

unsafe extern "C-unwind" fn stop(user: *mut c_void, iteration: i64, _residual: f64) -> i32 {
    // SAFETY: the test passes a list that outlives the calls.
    unsafe { (*user.cast::<Vec<i64>>()).push(iteration) };
    i32::from(iteration == 3)
}

/// Every iteration is reported, and a monitor may stop the solve, on a stream of the caller.
fn monitors_and_streams() {
    let a = TwoPhase::new("9", [10, 9, 8], 1e-3);
    let solver = Solver::of(&a, "backend=cuda preconditioner=jacobi");
    let (b, mut x, mut seen) = (a.rhs("rand"), vec![0.0; 720], Vec::<i64>::new());
    let queue = Queue::new();
    // SAFETY: a live handle and stream; the list outlives the calls.
    unsafe {
        outcome(dpcg_set_stream(solver.handle, queue.0.cast())).unwrap();
        outcome(dpcg_set_monitor(solver.handle, Some(stop), (&raw mut seen).cast())).unwrap();
    }
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::STOPPED);
    assert!(seen.starts_with(&[0, 1, 2, 3]), "{seen:?}");
    // SAFETY: a live handle.
    unsafe {
        outcome(dpcg_set_monitor(solver.handle, None, null_mut())).unwrap();
        outcome(dpcg_set_stream(solver.handle, null_mut())).unwrap();
    }
    drop(queue);
    assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK);
}

unsafe extern "C-unwind" fn go_on(_user: *mut c_void, _iteration: i64, _residual: f64) -> i32 {
    0
}

/// A loop that a monitor may stop pauses after some iterations. The results are bitwise identical.
fn pauses_change_nothing() {
    let a = TwoPhase::new("9", [12, 10, 9], 1e-3);
    let b = a.rhs("rand");
    for preconditioner in ["jacobi", "neumann order=2", "neumann order=3"] {
        let solver = Solver::of(&a, &format!("backend=cuda deflation=none preconditioner={preconditioner}"));
        let [mut x, mut expected] = [vec![0.0; b.len()], vec![0.0; b.len()]];
        solver.solve(&b, &mut expected).unwrap();
        // More iterations than until the first pause; their number may be odd or even.
        assert!(solver.int(info::ITERATIONS) > 33, "{} iterations", solver.int(info::ITERATIONS));
        // SAFETY: a live handle.
        outcome(unsafe { dpcg_set_monitor(solver.handle, Some(go_on), null_mut()) }).unwrap();
        solver.solve(&b, &mut x).unwrap();
        assert_eq!(bits(&x), bits(&expected), "{preconditioner}");
    }
}

device::device_tests! { devices();
    series_as_the_reference
    fused_as_the_unfused_steps
    vertex_multigrid_as_the_reference
    many_tiles
    some_directions
    bytes_a_cell
    cell_multigrid_as_the_reference
    deflation_of_every_kind
    coarse_matrices_as_the_reference
    many_null_vectors
    lone_vectors
    arrays_here_and_there
    second_factorizations
    one_after_the_other
    not_on_a_device
    bad_input_as_on_the_cpu
    auto_as_the_reference
    crowds_as_on_the_cpu
    automatic_backend
    bad_values
    monitors_and_streams
    pauses_change_nothing
    aggregation_of_golden_systems
    aggregation_of_awkward_boxes
    aggregation_of_components
    aggregation_applied
    aggregation_again;
    not on an emulated device: many_vectors
}
