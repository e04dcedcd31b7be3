//! What the programs of this folder share: curves of residuals, the font of all pictures, and how files are
//! written.

pub mod convergence;
pub mod fonts;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The temporary name under which a file is written.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Whether `write_whole` can write there: asked before long work whose results would be lost.
pub fn check_writable(path: &Path) -> Result<()> {
    let part = part_of(path);
    let tried = if path.is_dir() {
        Err(std::io::Error::from(std::io::ErrorKind::IsADirectory))
    } else {
        std::fs::write(&part, []).and_then(|()| std::fs::remove_file(&part))
    };
    tried.with_context(|| format!("cannot write {}", path.display()))
}

/// Under a temporary name first: what stands under `path` is always a whole file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = part_of(path);
    std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path)).with_context(|| {
        let _ = std::fs::remove_file(&part);
        format!("cannot write {}", path.display())
    })
}
