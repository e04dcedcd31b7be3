//! The C functions of the shared library, loaded at run time. The program embeds no solver.

use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use libloading::Library;
// Only types: a function of this crate would embed the library.
pub use rrbsolver::abi::{dpcg_handle, rrb_handle, sparse_handle};
use rrbsolver::abi::{rrb_log_fn, rrb_monitor_fn};

/// Name for the dynamic linker; its number is the major version.
const SONAME: &str = concat!("librrbsolver.so.", env!("CARGO_PKG_VERSION_MAJOR"));
/// Name of the library in a build tree.
const BUILT: &str = "librrbsolver.so";
/// Library folders of an installed prefix, relative to the folder of this program. CMake can set another one.
const FOLDERS: [Option<&str>; 3] = [option_env!("RRBSOLVER_LIBDIR"), Some("../lib"), Some("../lib64")];

/// Declares the functions as in the header. A call before `load` has returned `Ok` panics.
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> $result,)*
            _library: Library,
        }

        impl Functions {
            fn new(library: Library) -> Result<Self> {
                Ok(Self {
                    // SAFETY: the test below compares the declarations with those of the library.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                    _library: library,
                })
            }
        }

        /// Compiles only if the declarations equal those of the library.
        #[cfg(test)]
        #[test]
        fn declarations_equal_those_of_the_library() {
            $(let _: unsafe extern "C" fn($($type),*) -> $result = rrbsolver::abi::$name;)*
        }

        $(
            /// See rrbsolver.h.
            ///
            /// # Safety
            /// As the header requires.
            #[allow(clippy::too_many_arguments, reason = "as in the header")]
            pub unsafe fn $name($($argument: $type),*) -> $result {
                let functions = FUNCTIONS.get().expect("main loads the library first");
                // SAFETY: guaranteed by the caller.
                unsafe { (functions.$name)($($argument),*) }
            }
        )*
    };
}

functions! {
    rrbsolver_version() -> *const c_char;
    rrbsolver_last_error_based(index_base: i32, buffer: *mut c_char, capacity: i64) -> i64;
    rrbsolver_cuda_device_count(count: *mut i32) -> i32;
    rrbsolver_set_log(callback: rrb_log_fn, user: *mut c_void) -> i32;

    rrb_create(nx: i64, ny: i64, out: *mut *mut rrb_handle) -> i32;
    rrb_destroy(h: *mut *mut rrb_handle) -> i32;
    rrb_set_options(h: *mut rrb_handle, text: *const c_char) -> i32;
    rrb_get_int(h: *const rrb_handle, key: i32, value: *mut i64) -> i32;
    rrb_get_real(h: *const rrb_handle, key: i32, value: *mut f64) -> i32;
    rrb_set_monitor(h: *mut rrb_handle, callback: rrb_monitor_fn, user: *mut c_void) -> i32;
    rrb_get_history(h: *const rrb_handle, residuals: *mut f64, capacity: i64, count: *mut i64) -> i32;
    rrb_factorize(
        h: *mut rrb_handle, center: *const f64, east: *const f64, north: *const f64, northeast: *const f64,
        northwest: *const f64
    ) -> i32;
    rrb_solve(h: *mut rrb_handle, b: *const f64, x: *mut f64) -> i32;
    rrb_multiply(h: *mut rrb_handle, x: *const f64, y: *mut f64) -> i32;

    dpcg_create(nx: i64, ny: i64, nz: i64, out: *mut *mut dpcg_handle) -> i32;
    dpcg_destroy(h: *mut *mut dpcg_handle) -> i32;
    dpcg_set_options(h: *mut dpcg_handle, text: *const c_char) -> i32;
    dpcg_get_int(h: *const dpcg_handle, key: i32, value: *mut i64) -> i32;
    dpcg_get_real(h: *const dpcg_handle, key: i32, value: *mut f64) -> i32;
    dpcg_set_monitor(h: *mut dpcg_handle, callback: rrb_monitor_fn, user: *mut c_void) -> i32;
    dpcg_get_history(h: *const dpcg_handle, residuals: *mut f64, capacity: i64, count: *mut i64) -> i32;
    dpcg_factorize(
        h: *mut dpcg_handle, center: *const f64, east: *const f64, north: *const f64, top: *const f64
    ) -> i32;
    dpcg_solve(h: *mut dpcg_handle, b: *const f64, x: *mut f64) -> i32;
    dpcg_multiply(h: *mut dpcg_handle, x: *const f64, y: *mut f64) -> i32;

    sparse_create_csr(
        rows: i64, cols: i64, nonzeros: i64, ptr: *const c_void, cols_of: *const c_void, values: *const f64,
        index_bytes: i32, index_base: i32, out: *mut *mut sparse_handle
    ) -> i32;
    sparse_read(path: *const c_char, out: *mut *mut sparse_handle) -> i32;
    sparse_write(h: *const sparse_handle, path: *const c_char, file_format: i32) -> i32;
    sparse_get_vector(h: *const sparse_handle, which: i32, k: i64, v: *mut f64) -> i32;
    sparse_sizes(h: *const sparse_handle, format: i32, sizes: *mut i64) -> i32;
    sparse_arrays(
        h: *const sparse_handle, format: i32, i0: *mut i64, i1: *mut i64, i2: *mut i64, values: *mut f64
    ) -> i32;
    sparse_destroy(h: *mut *mut sparse_handle) -> i32;
    sparse_set_options(h: *mut sparse_handle, text: *const c_char) -> i32;
    sparse_get_int(h: *const sparse_handle, key: i32, value: *mut i64) -> i32;
    sparse_get_real(h: *const sparse_handle, key: i32, value: *mut f64) -> i32;
    sparse_set_monitor(h: *mut sparse_handle, callback: rrb_monitor_fn, user: *mut c_void) -> i32;
    sparse_get_history(h: *const sparse_handle, residuals: *mut f64, capacity: i64, count: *mut i64) -> i32;
    sparse_factorize(h: *mut sparse_handle) -> i32;
    sparse_solve(h: *mut sparse_handle, b: *const f64, x: *mut f64) -> i32;
    sparse_multiply(h: *mut sparse_handle, x: *const f64, y: *mut f64) -> i32;
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// Loads the library from the build tree, from the prefix of this program, or through the dynamic linker.
pub fn load() -> Result<()> {
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let folder = program.parent().unwrap_or(Path::new("."));
    let candidates = candidates(folder);
    let name = candidates.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(SONAME));
    // SAFETY: the library has no initializers with requirements of their own.
    let library = unsafe { Library::new(&name) }.with_context(|| {
        format!(
            "cannot load {}: the program expects the library in {}; install both into one prefix or set \
             LD_LIBRARY_PATH",
            name.display(),
            folder.join("../lib").display()
        )
    })?;
    let functions = Functions::new(library).with_context(|| format!("{} has another version", name.display()))?;
    // A second call keeps the first library.
    let _ = FUNCTIONS.set(functions);
    Ok(())
}

/// Paths of the library in order of preference. Cargo writes the library of this program's build into `deps`; a file
/// next to the program may be older.
fn candidates(folder: &Path) -> Vec<PathBuf> {
    let built = [folder.join("deps").join(BUILT), folder.join(BUILT)];
    let installed = FOLDERS.iter().flatten().map(|lib| folder.join(lib).join(SONAME));
    built.into_iter().chain(installed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_tree_precedes_the_prefix() {
        let found = candidates(Path::new("/p/bin"));
        assert_eq!(found[0], Path::new("/p/bin/deps/librrbsolver.so"));
        assert!(found.ends_with(&[Path::new("/p/bin/../lib").join(SONAME), Path::new("/p/bin/../lib64").join(SONAME)]));
    }
}
