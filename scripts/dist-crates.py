"""dist-crates.py TREE: empties the crates in TREE/vendor that no Linux build uses, writes TREE/THIRD-PARTY-LICENCES."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
PREFIXES = ("licen", "copying", "notice", "unlicense", "ofl", "ufl")
# Sections of a manifest that the resolver reads.
KEPT = ("[package]", "[dependencies", "[dev-dependencies", "[build-dependencies", "[target.", "[features]")
HEAD = """\
Licences of the crates in vendor/

rrbsolver itself: see LICENSE-MIT and LICENSE-APACHE. The programs and the library contain code of these crates, under
the licences that the crates state, and of the Rust standard library (MIT OR Apache-2.0). The texts follow the list; a
text that several crates share appears once.
"""


def packages(tree):
    """All packages that Linux builds use, without those of the workspace."""
    found = {}
    for target in TARGETS:
        command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline", f"--filter-platform={target}"]
        data = json.loads(subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE).stdout)
        used = {node["id"] for node in data["resolve"]["nodes"]}
        for package in data["packages"]:
            if package["id"] in used and package["source"]:
                found[package["name"], package["version"]] = package
    return [found[key] for key in sorted(found)]


def empty(folder):
    """Keeps the manifest, which the resolver reads, and an empty library."""
    checksum = json.loads((folder / ".cargo-checksum.json").read_text())
    manifest = (folder / "Cargo.toml").read_text()
    shutil.rmtree(folder)
    (folder / "src").mkdir(parents=True)
    (folder / "src/lib.rs").touch()
    # Of the rest, targets name files that are gone.
    kept, keep = [], True
    for line in manifest.splitlines(keepends=True):
        if re.fullmatch(r"\[.*\]", line.strip()) and line.startswith("["):
            keep = line.startswith(KEPT)
        if keep and not line.startswith(("build = ", "links = ", "readme = ", "license-file = ")):
            kept.append(line)
    (folder / "Cargo.toml").write_text("".join(kept) + '\n[lib]\npath = "src/lib.rs"\n')
    (folder / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksum["package"]}))


def licences(tree, used):
    texts = {}
    lines = []
    for package in used:
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or f"see {package['license_file']}"
        lines.append(f"{name:36} {licence:48} {package['repository'] or ''}".rstrip())
        folder = tree / "vendor" / f"{package['name']}-{package['version']}"
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            if not path.name.lower().startswith(PREFIXES):
                continue
            if path.suffix.lower() in ("", ".md", ".txt", ".apache", ".mit") or path.name.lower().startswith("licen"):
                text = "\n".join(line.rstrip() for line in path.read_text(errors="replace").splitlines()).strip()
                texts.setdefault(text, []).append(f"{name}: {path.relative_to(folder)}")
    parts = [HEAD, "\n".join(lines) + "\n"]
    for text, owners in sorted(texts.items(), key=lambda item: item[1]):
        parts.append("=" * 100 + "\n" + "\n".join(owners) + "\n" + "=" * 100 + f"\n\n{text}\n")
    (tree / "THIRD-PARTY-LICENCES").write_text("\n".join(parts))


tree = pathlib.Path(sys.argv[1])
used = packages(tree)
kept = {f"{package['name']}-{package['version']}" for package in used}
for folder in (tree / "vendor").iterdir():
    if folder.name not in kept:
        empty(folder)
licences(tree, used)
