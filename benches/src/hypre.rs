//! Comparison with hypre: the drivers in benches/peers are compiled if hypre and MPI are found.

use crate::contest::Contender;
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Value of `--peer`.
pub const NAME: &str = "hypre";

const SYSTEM: &str = include_str!("../peers/system.h");

/// Name, file and source of each driver.
const DRIVERS: [(&str, &str, &str); 2] = [
    ("hypre PFMG-PCG", "hypre_pfmg", include_str!("../peers/hypre_pfmg.c")),
    ("hypre BoomerAMG-PCG", "hypre_boomeramg", include_str!("../peers/hypre_boomeramg.c")),
];

const MISSING: &str = "--peer hypre needs mpicc, mpirun and hypre with its headers: install libhypre-dev and \
    openmpi-bin, or set HYPRE_DIR to the folder with hypre's include and lib";

/// Returns hypre's solvers, on two processes each. Their programs remain in the folder.
pub fn contenders(rel_tol: f64, folder: &Path) -> Result<Vec<Contender>> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text);
    write("system.h", SYSTEM).with_context(|| format!("cannot write {}", folder.display()))?;
    let mut found = Vec::new();
    for (name, file, text) in DRIVERS {
        let (source, program) = (folder.join(file).with_extension("c"), folder.join(file));
        std::fs::write(&source, text).with_context(|| format!("cannot write {}", source.display()))?;
        compile(&source, &program)?;
        // Otherwise, Open MPI refuses to start for root, the only user of a container.
        let words = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "-n", "2"];
        let tolerance = format!("{rel_tol:e}");
        let program = program.to_str().context("a path is not UTF-8")?;
        let words = words.into_iter().chain([program, "{}", &tolerance]).map(str::to_owned).collect();
        found.push(Contender::Program(name.to_owned(), words));
    }
    Ok(found)
}

fn compile(source: &Path, program: &Path) -> Result<()> {
    let mut compiler = Command::new("mpicc");
    compiler.args(["-O2", "-o"]).arg(program).arg(source);
    if let Some(home) = std::env::var_os("HYPRE_DIR").map(PathBuf::from) {
        compiler.arg("-I").arg(home.join("include")).arg("-L").arg(home.join("lib"));
        compiler.arg(format!("-Wl,-rpath,{}", home.join("lib").display()));
    }
    let made = compiler.args(["-I", "/usr/include/hypre", "-lHYPRE", "-lm"]).output().context(MISSING)?;
    if !made.status.success() {
        let complaint = String::from_utf8_lossy(&made.stderr);
        bail!("{MISSING} (mpicc: {})", complaint.lines().find(|line| line.contains("error")).unwrap_or_default());
    }
    Ok(())
}
