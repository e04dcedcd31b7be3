//! What the programs of this folder share: curves of residuals, the font of all pictures, and how files are
//! written.

pub mod convergence;
pub mod fonts;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Under a temporary name first: what stands under `path` is always a whole file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path)).with_context(|| {
        let _ = std::fs::remove_file(&part);
        format!("cannot write {}", path.display())
    })
}
