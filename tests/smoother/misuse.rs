//! Wrong calls of the `smoother_` family; tests/misuse.rs has those that several families refuse. Each returns its
//! status and error message, and the handle remains usable.

use crate::common;
use common::smoother::*;
use common::{outcome, status};
use std::ptr::{null, null_mut};

fn good() -> (Smoother, Level) {
    let mut level = Level::new(&[([0; 3], [8, 8, 8]), ([8, 0, 0], [5, 8, 8])]);
    level.random(1);
    (Smoother::of(&stencil("poisson7"), [4; 3], "", &level), level)
}

#[track_caller]
fn assert_alive(smoother: &Smoother) {
    let mut level = Level::cube(8);
    level.random(1);
    smoother.patches(&level).unwrap();
    let start = smoother.norm(&mut level);
    assert_eq!(smoother.apply(&mut level, 2), Ok(status::OK));
    assert!(smoother.norm(&mut level) < start);
}

#[test]
fn creation() {
    let s = stencil("poisson7");
    let mut h = null_mut();
    // SAFETY: pointers are live or NULL, which is what is tested.
    unsafe {
        outcome(smoother_create(7, null(), 4, 4, 4, &mut h)).unwrap_err().expect(status::NULL, &["stencil"]);
        for points in [0, -7, 5, 9, 26] {
            let failure = outcome(smoother_create(points, s.as_ptr(), 4, 4, 4, &mut h)).unwrap_err();
            failure.expect(status::ARGUMENT, &["stencil_points", "7 or 27", &points.to_string()]);
        }
    }
    assert!(h.is_null());
    for side in [0, -3, i64::MIN] {
        let failure = Smoother::try_new(&s, [4, side, 4]).err().unwrap();
        failure.expect(status::DIMENSION, &["by", "[1, 8]", &side.to_string()]);
    }
    Smoother::try_new(&s, [9, 4, 4]).err().unwrap().expect(status::ARGUMENT, &["bx", "[1, 8]", "9"]);
    for bad in [f64::NAN, f64::INFINITY] {
        let mut s = stencil("fe27");
        s[20] = bad;
        Smoother::try_new(&s, [4; 3]).err().unwrap().expect(status::NOT_FINITE, &["stencil", "20"]);
    }
}

#[test]
fn patches() {
    let (smoother, _) = good();
    let h = smoother.handle;
    let (lower, size) = ([[0i64; 3], [8, 0, 0]], [[8i64; 3], [8; 3]]);
    // SAFETY: lists of two, or NULL.
    unsafe {
        let refused = |status, name: &str| outcome(status).unwrap_err().expect(common::status::NULL, &[name]);
        refused(smoother_set_patches(null_mut(), 2, lower.as_ptr(), size.as_ptr()), "handle");
        refused(smoother_set_patches(h, 2, null(), size.as_ptr()), "lower");
        refused(smoother_set_patches(h, 2, lower.as_ptr(), null()), "size");
        outcome(smoother_set_patches(h, -1, lower.as_ptr(), size.as_ptr()))
            .unwrap_err()
            .expect(status::DIMENSION, &["count", "-1"]);
    }
    for bad in [0, -8] {
        let level = Level { size: vec![[8; 3], [8, 8, bad]], ..Level::new(&[([0; 3], [8; 3]), ([8, 0, 0], [8; 3])]) };
        smoother.patches(&level).unwrap_err().expect(status::DIMENSION, &["patch 1", "z", &bad.to_string()]);
    }
    let huge = Level { size: vec![[1 << 40; 3]], lower: vec![[0; 3]], u: Vec::new(), f: Vec::new() };
    smoother.patches(&huge).unwrap_err().expect(status::DIMENSION, &["patch 0"]);
    let far = Level { size: vec![[8; 3]], lower: vec![[0, i64::MIN, 0]], u: Vec::new(), f: Vec::new() };
    smoother.patches(&far).unwrap_err().expect(status::DIMENSION, &["lower of patch 0 in y"]);
    let far = Level { lower: vec![[0, 0, 1 << 61]], ..far };
    smoother
        .patches(&far)
        .unwrap_err()
        .expect(status::DIMENSION, &["lower of patch 0 in z", "2^60", "2305843009213693952"]);
    let mut overlapping = Level::new(&[([0; 3], [8; 3]), ([20, 0, 0], [8; 3]), ([7, 7, 7], [8; 3])]);
    smoother.patches(&overlapping).unwrap_err().expect(status::ARGUMENT, &["patches 0 and 2", "overlap"]);
    // After a failure, there are no patches.
    smoother.apply(&mut overlapping, 1).unwrap_err().expect(status::STATE, &["smoother_set_patches"]);
    // An empty list of patches is valid.
    let mut none = Level::new(&[]);
    smoother.patches(&none).unwrap();
    assert_eq!(smoother.apply(&mut none, 3), Ok(status::OK));
    assert_alive(&smoother);
}

#[test]
fn singular_blocks() {
    let zero = [0.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0];
    for options in ["", "block_solver=dense", "backend=reference"] {
        let level = Level::new(&[([2, 0, 0], [4, 2, 2]), ([2, 2, 0], [1, 1, 1])]);
        // 2 x 2 x 2 has the eigenvalues 3, 1, -1, -3 with their multiplicities; a single cell has 0.
        let smoother = Smoother::new(&zero, [2, 2, 2], options);
        smoother
            .patches(&level)
            .unwrap_err()
            .expect(status::MATRIX, &["1 x 1 x 1", "(2, 2, 0)", "patch 1", "singular"]);
        let none = Smoother::new(&[0.0; 7], [4, 4, 4], options);
        none.patches(&level).unwrap_err().expect(status::MATRIX, &["singular", "patch 0"]);
    }
    // A staggered division into blocks may have a singular block that the plain division lacks. The call that sets the
    // option then fails, and the option is unchanged.
    let level = Level::new(&[([0, 0, 0], [2, 2, 2])]);
    let smoother = Smoother::of(&zero, [2, 2, 2], "", &level);
    smoother.options("stagger=1").unwrap_err().expect(status::MATRIX, &["1 x 1 x 1", "(0, 0, 0)"]);
    assert_eq!(smoother.int(key::STAGGER), 0);
}

/// Inverses that exceed the range of doubles are an error; they must not contain infinities.
#[test]
fn tiny_stencils_are_refused() {
    for name in ["poisson7", "fe27"] {
        let [tiny, small] = [1e-310, 1e-290].map(|scale| stencil(name).iter().map(|v| v * scale).collect::<Vec<_>>());
        for options in ["", "block_solver=dense", "backend=reference"] {
            let mut level = Level::cube(8);
            level.random(4);
            let smoother = Smoother::new(&tiny, [4; 3], options);
            smoother.patches(&level).unwrap_err().expect(status::MATRIX, &["4 x 4 x 4", "patch 0", "singular"]);
            level.f.iter_mut().flatten().for_each(|f| *f *= 1e-290);
            Smoother::of(&small, [4; 3], options, &level).apply(&mut level, 1).unwrap();
            assert!(level.u.iter().flatten().all(|u| u.is_finite()), "{name} {options}");
        }
    }
}

/// A stencil that is symmetric up to rounding keeps its fast inverses, and these equal the dense inverses.
#[test]
fn rounding_keeps_fast_inverses() {
    let (mut face, mut corner) = (stencil("fe27"), stencil("fe27"));
    face[14] = 1e-17;
    corner[26] *= 1.0 + 1e-14;
    for values in [face, corner] {
        let [fast, dense] = ["", "block_solver=dense"].map(|options| {
            let mut level = Level::cube(8);
            level.random(6);
            let smoother = Smoother::of(&values, [8; 3], options, &level);
            let expected = if options.is_empty() { FAST_DIAGONALIZATION } else { DENSE };
            assert_eq!(smoother.int(key::INFO_BLOCK_SOLVER), expected);
            smoother.apply(&mut level, 1).unwrap();
            level
        });
        // The values have magnitude 1.
        let error = common::max_difference(&fast.u[0], &dense.u[0]);
        assert!(error <= 1e-13, "{error:e}");
    }
}

/// With `remainder=overlap`, blocks that are moved inwards are an error, but only if a cut in use has such blocks.
#[test]
fn overlap_checks_the_cuts_in_use() {
    let mut level = Level::cube(8);
    level.random(3);
    let smoother = Smoother::of(&stencil("poisson7"), [4; 3], "remainder=overlap", &level);
    assert_eq!(smoother.apply(&mut level, 2), Ok(status::OK));
    for stagger in ["stagger=1", "stagger=2"] {
        smoother.options(stagger).unwrap();
        smoother.apply(&mut level, 2).unwrap_err().expect(status::UNSUPPORTED, &["overlap", "patch 0", "exact"]);
        smoother.options("stagger=0").unwrap();
        assert_eq!(smoother.apply(&mut level, 2), Ok(status::OK));
    }
}

#[test]
fn arrays() {
    let (smoother, mut level) = good();
    let before = level.clone();
    let h = smoother.handle;
    let (u, f) = (level.u_table(), level.f_table());
    let mut r: Vec<Vec<f64>> = level.f.clone();
    let r: Vec<*mut f64> = r.iter_mut().map(|r| r.as_mut_ptr()).collect();
    // SAFETY: tables of two patches with live or NULL entries.
    unsafe {
        let refused = |code, status: i32, words: &[&str]| outcome(code).unwrap_err().expect(status, words);
        let (no_u, no_f) = (null::<*mut f64>(), null::<*const f64>());
        refused(smoother_apply(null_mut(), u.as_ptr(), f.as_ptr(), 1), status::NULL, &["handle"]);
        refused(smoother_apply(h, no_u, f.as_ptr(), 1), status::NULL, &["u"]);
        refused(smoother_apply(h, u.as_ptr(), no_f, 1), status::NULL, &["f"]);
        refused(smoother_apply(h, no_u, no_f, 1), status::STATE, &["smoother_upload"]);
        refused(smoother_exchange(h, no_u), status::NULL, &["u"]);
        refused(smoother_download(h, u.as_ptr()), status::STATE, &["smoother_upload"]);
        refused(smoother_device_pointers(h, null_mut(), null_mut()), status::STATE, &["smoother_upload"]);
        refused(smoother_apply(h, u.as_ptr(), f.as_ptr(), -1), status::ARGUMENT, &["sweeps", "-1"]);
        refused(smoother_apply(h, [u[0], null_mut()].as_ptr(), f.as_ptr(), 1), status::NULL, &["u of patch 1"]);
        refused(smoother_apply(h, u.as_ptr(), [null(), f[1]].as_ptr(), 1), status::NULL, &["f of patch 0"]);
        let overlap: &[&str] = &["must not overlap"];
        refused(smoother_apply(h, [u[0], u[0]].as_ptr(), f.as_ptr(), 1), status::ARGUMENT, overlap);
        refused(smoother_apply(h, [u[0], u[0].add(999)].as_ptr(), f.as_ptr(), 1), status::ARGUMENT, overlap);
        refused(smoother_apply(h, u.as_ptr(), [u[1].cast_const(), f[1]].as_ptr(), 1), status::ARGUMENT, overlap);
        let astray = [u[0], u[1].byte_add(4)];
        let message: &[&str] = &["u of patch 1", "8-byte aligned"];
        refused(smoother_apply(h, astray.as_ptr(), f.as_ptr(), 1), status::ARGUMENT, message);
        // The tables, and the arrays of other calls, must be aligned too.
        let unaligned = |status: i32, name: &str| {
            let message = format!("{name} must be 8-byte aligned");
            refused(status, status::ARGUMENT, &[&message]);
        };
        let (u_astray, f_astray) = (u.as_ptr().wrapping_byte_add(1), f.as_ptr().wrapping_byte_add(1));
        unaligned(smoother_apply(h, u_astray, f.as_ptr(), 1), "u");
        unaligned(smoother_apply(h, u.as_ptr(), f_astray, 1), "f");
        unaligned(smoother_exchange(h, u_astray), "u");
        unaligned(smoother_upload(h, u_astray.cast(), null()), "u");
        unaligned(smoother_upload(h, null(), f_astray), "f");
        unaligned(smoother_download(h, u_astray), "u");
        unaligned(smoother_residual(h, u.as_ptr(), f.as_ptr(), r.as_ptr().wrapping_byte_add(1), null_mut()), "r");
        let mut another = null_mut();
        unaligned(smoother_create(7, level.f[0].as_ptr().wrapping_byte_add(1), 4, 4, 4, &mut another), "stencil");
        let (lower, size) = (level.lower.as_ptr(), level.size.as_ptr());
        unaligned(smoother_set_patches(h, 2, lower.wrapping_byte_add(1), size), "lower");
        unaligned(smoother_set_patches(h, 2, lower, size.wrapping_byte_add(1)), "size");
        outcome(smoother_set_patches(h, 2, lower, size)).unwrap();
        let (table, norm) = ([r[0], f[1].cast_mut()], null_mut());
        refused(smoother_residual(h, u.as_ptr(), f.as_ptr(), table.as_ptr(), norm), status::ARGUMENT, overlap);
        refused(smoother_residual(h, u.as_ptr(), no_f, r.as_ptr(), norm), status::NULL, &["f"]);
        // Right-hand sides are only read and may be shared.
        let shared = [f[0], f[0]];
        outcome(smoother_apply(h, u.as_ptr(), shared.as_ptr(), 0)).unwrap();
    }
    assert_eq!(level.u, before.u);
    assert_alive(&smoother);
}

#[test]
fn numbers() {
    for backend in ["cpu threads=2", "reference"] {
        let (_, level) = good();
        let smoother = Smoother::of(&stencil("poisson7"), [4; 3], &format!("backend={backend}"), &level);
        let mut bad = level.clone();
        bad.f[1][(5 * 8 + 3) * 5 + 2] = f64::INFINITY;
        let before = bad.clone();
        smoother
            .apply(&mut bad, 2)
            .unwrap_err()
            .expect(status::NOT_FINITE, &["f holds inf", "(10, 3, 5)", "patch 1", "finite"]);
        assert_eq!(bad.u, before.u, "outputs are as given");
        bad.u[0][((4 + 1) * 10 + 6 + 1) * 10 + 7 + 1] = f64::NAN;
        smoother.apply(&mut bad, 2).unwrap_err().expect(status::NOT_FINITE, &["u holds NaN", "(7, 6, 4)", "patch 0"]);
        // Without the option check_input, nothing is checked.
        smoother.options("check_input=0").unwrap();
        assert_eq!(smoother.apply(&mut bad, 1), Ok(status::OK));
        assert_alive(&smoother);
    }
}

#[test]
fn methods_by_number() {
    let (smoother, _) = good();
    // SAFETY: a live handle.
    let failure = outcome(unsafe { smoother_set_int(smoother.handle, 300, 7) }).unwrap_err();
    failure.expect(status::ARGUMENT, &["method", "7"]);
    assert_alive(&smoother);
}

/// Ten thousand patches are allowed, including patches of 1 x 1 x 1 cells.
#[test]
fn many_patches() {
    for side in [1, 3] {
        let n = 22;
        let corner = |q: i64| [q % n * side, q / n % n * side, q / n / n * side];
        let patches: Vec<_> = (0..10_000).map(|q| (corner(q), [side; 3])).collect();
        let mut level = Level::new(&patches);
        level.random(2);
        let smoother = Smoother::of(&stencil("poisson7"), [8; 3], "threads=2", &level);
        let start = smoother.norm(&mut level);
        for _ in 0..3 {
            assert_eq!(smoother.apply(&mut level, 2), Ok(status::OK));
        }
        let end = smoother.norm(&mut level);
        assert!(end < 0.5 * start, "{side}: {start} {end}");
    }
}
