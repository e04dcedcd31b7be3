//! Compiles kernels/appendix.cu, the kernel with which the device measurements compare block smoothers. Without nvcc or
//! with RRBSOLVER_CUDA=off, the benchmark is built without this kernel and reports that it is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for name in ["RRBSOLVER_CUDA", "CUDA_HOME"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=kernels/appendix.cu");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("appendix.fatbin");
    let off = std::env::var("RRBSOLVER_CUDA").is_ok_and(|v| v == "off");
    let Some(nvcc) = nvcc().filter(|_| !off) else {
        std::fs::write(&out, b"").expect("OUT_DIR can be written");
        return;
    };
    let status = Command::new(&nvcc)
        .args(["-std=c++17", "-O3", "-fatbin", "-gencode", "arch=compute_90,code=sm_90"])
        .args(["-gencode", "arch=compute_75,code=compute_75", "kernels/appendix.cu", "-o"])
        .arg(&out)
        .status();
    assert!(status.is_ok_and(|s| s.success()), "{} failed on kernels/appendix.cu", nvcc.display());
}

/// Finds nvcc in the same folders as the library's build script.
fn nvcc() -> Option<PathBuf> {
    let homes = std::env::var_os("CUDA_HOME").map(PathBuf::from).into_iter();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cuda/nvidia/cu13");
    let path = std::env::var_os("PATH").unwrap_or_default();
    homes
        .chain([own])
        .map(|home| home.join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("nvcc"))
        .find(|program| program.is_file())
}
