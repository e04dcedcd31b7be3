//! Drawing that `rrbsolver-plot` and the program `rrbsolver` share: convergence curves, the embedded font, and the
//! writing of files.

pub mod convergence;
pub mod fonts;

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use tempfile::NamedTempFile;

/// A file of a name of its own beside `target`.
fn temporary(target: &Path) -> io::Result<NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Those that a file has which is made by its name, less what the user masks.
    let made = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder);
    // Without the name that nobody asked for.
    made.map_err(|error| error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error))
}

/// Whether `write_whole` can write there: asked before long work whose results would be lost.
pub fn check_writable(path: &Path) -> Result<()> {
    let tried = match path.metadata() {
        Ok(at) if at.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(at) if !at.is_file() => Ok(()),
        _ => temporary(path).map(drop),
    };
    tried.with_context(|| format!("cannot write {}", path.display()))
}

/// Under a temporary name first: what stands under `path` is always a whole file. What is no ordinary file, such as a
/// device or a pipe, is written as it is.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A link stays one, also one that leads to no file yet.
    let linked = || fs::read_link(path).map(|to| path.parent().unwrap_or(Path::new("")).join(to));
    let target = fs::canonicalize(path).or_else(|_| linked()).unwrap_or_else(|_| path.to_owned());
    let there = target.metadata().ok();
    // What /dev/stdout leads to may be a file that others have open, too.
    if path.starts_with("/dev") || there.as_ref().is_some_and(|there| !there.is_file()) {
        return OpenOptions::new().append(true).open(&target)?.write_all(bytes);
    }
    let mut file = temporary(&target)?;
    file.write_all(bytes)?;
    if let Some(there) = there {
        fs::set_permissions(file.path(), there.permissions())?;
    }
    file.persist(&target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A file, one that a link leads to, and what is no ordinary file; neighbours stay as they are.
    #[test]
    fn what_is_written_where() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("x.part"), "half").unwrap();
        check_writable(&at("x")).unwrap();
        write_whole(&at("x"), b"one").unwrap();
        fs::set_permissions(at("x"), Permissions::from_mode(0o640)).unwrap();
        symlink(at("x"), at("link")).unwrap();
        write_whole(&at("link"), b"two").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(at("x")).unwrap(), b"two");
        assert_eq!(at("x").metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read(at("x.part")).unwrap(), b"half");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        symlink(at("new"), at("ahead")).unwrap();
        write_whole(&at("ahead"), b"four").unwrap();
        assert!(at("ahead").is_symlink());
        assert_eq!(fs::read(at("new")).unwrap(), b"four");
        symlink("/dev/null", at("null")).unwrap();
        check_writable(&at("null")).unwrap();
        write_whole(&at("null"), b"three").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        check_writable(folder.path()).unwrap_err();
    }
}
