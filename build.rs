//! Compiles the kernels of each family into a fatbin that the library embeds (src/backend/cuda/launch/), and names the
//! shared library.
//!
//! nvcc is that of `CUDA_HOME`, of the folder .cuda that scripts/setup fills, or of the PATH, in that order.
//! `RRBSOLVER_CUDA=off` builds a library without kernels, which says so (`RRB_INFO_CUDA_KERNELS`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Architectures that get machine code. Code of one minor version runs on later ones: that of 8.0 on 8.6 and 8.9. The
/// kernels have no path for these two, and their code would take two sevenths of the time and size. The last
/// architecture gets PTX too, for later ones.
const ARCHITECTURES: [u32; 5] = [75, 80, 90, 100, 120];

/// Of these, the ones with links to other devices.
const LINKED: [u32; 3] = [80, 90, 100];

/// Translation units in kernels/, each in the folder of its family, and the architectures that it is compiled for.
const UNITS: [(&str, &[u32]); 4] =
    [("dpcg", &ARCHITECTURES), ("rrb", &ARCHITECTURES), ("rrb_divided", &LINKED), ("smoother", &ARCHITECTURES)];

fn main() {
    for name in ["RRBSOLVER_CUDA", "CUDA_HOME", "RRBSOLVER_CUDA_ARCHITECTURES"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rustc-check-cfg=cfg(rrbsolver_kernels)");
    // The promise of CHANGELOG.md: one SONAME per major version. CMakeLists.txt makes the symlink of this name.
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets the version");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librrbsolver.so.{major}");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let out = |unit: &str| folder.join(unit).with_extension("fatbin");
    match std::env::var("RRBSOLVER_CUDA").as_deref() {
        Ok("off") => {
            UNITS.iter().for_each(|(unit, _)| std::fs::write(out(unit), b"").expect("OUT_DIR can be written"));
            return;
        }
        Ok("on" | "") | Err(_) => {}
        Ok(other) => panic!("RRBSOLVER_CUDA must be on or off, got {other}"),
    }
    let Some(nvcc) = nvcc() else {
        panic!(
            "nvcc is missing: run `make setup`, which downloads it into .cuda, or set CUDA_HOME to CUDA 13.0, or set \
             RRBSOLVER_CUDA=off for a library without device kernels"
        );
    };
    println!("cargo:rerun-if-changed={}", nvcc.display());
    // At the same time: where one waits for its last architecture, another one has some left.
    let started = UNITS.map(|(unit, architectures)| (unit, start(&nvcc, unit, architectures, &out(unit))));
    started.into_iter().for_each(|(unit, child)| end(&nvcc, unit, child));
    println!("cargo:rustc-cfg=rrbsolver_kernels");
}

fn nvcc() -> Option<PathBuf> {
    let homes = std::env::var_os("CUDA_HOME").map(PathBuf::from).into_iter();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join(".cuda/nvidia/cu13");
    let path = std::env::var_os("PATH").unwrap_or_default();
    homes
        .chain([own])
        .map(|home| home.join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("nvcc"))
        .find(|program| program.is_file())
}

/// Begins to compile a translation unit.
fn start(nvcc: &Path, unit: &str, architectures: &[u32], out: &Path) -> Child {
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-O3", "-fatbin", "--threads", "0", "-Xcompiler", "-Wall"]);
    // A seventh of the bytes; drivers of CUDA 12.4 and newer read it, and older ones do not run this library.
    command.arg("--compress-mode=size");
    // While working on the kernels, RRBSOLVER_CUDA_ARCHITECTURES=90 saves time. The code then has line numbers for
    // profilers, which would double the size of the library.
    let wanted = std::env::var("RRBSOLVER_CUDA_ARCHITECTURES").unwrap_or_default();
    let wanted: Vec<u32> = wanted.split(',').filter_map(|a| a.trim().parse().ok()).collect();
    if !wanted.is_empty() {
        command.arg("-lineinfo");
    }
    let architectures = if wanted.is_empty() { architectures } else { &wanted };
    for (k, a) in architectures.iter().enumerate() {
        let code = if k + 1 == architectures.len() { format!("[sm_{a},compute_{a}]") } else { format!("sm_{a}") };
        command.arg("-gencode").arg(format!("arch=compute_{a},code={code}"));
    }
    let folder = unit.split('_').next().unwrap_or(unit);
    command.arg(format!("kernels/{folder}/{unit}.cu")).arg("-o").arg(out);
    command.spawn().unwrap_or_else(|error| panic!("{} cannot be run: {error}", nvcc.display()))
}

fn end(nvcc: &Path, unit: &str, mut child: Child) {
    let status = child.wait().expect("a child of this program");
    assert!(status.success(), "{} ended with {status} on kernels/.../{unit}.cu", nvcc.display());
}
