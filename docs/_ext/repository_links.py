"""Checks the links of Markdown files that are not pages of the site: README.md, CONTRIBUTING.md, those of examples/.

Sphinx checks links between pages. A dead link in the other files is a warning too, and a warning fails `make docs`.
External links are not checked: the build uses no network.
"""

import re
import subprocess
from pathlib import Path

from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```+|~~~+).*?^\1", re.M | re.S)
log = logging.getLogger(__name__)


def anchors(text):
    """Anchors of the headings, by the rule of GitHub and of myst_heading_anchors."""
    found = set()
    for title in re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.M):
        title = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def check(app):
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    for name in listed.split() or ["README.md", "CONTRIBUTING.md"]:
        file = ROOT / name
        if name.startswith("docs/") or not file.exists():
            continue
        text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", file.read_text()))
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / path) if path else file
            if not target.exists():
                log.warning("%s: dead link to %s", name, link)
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                log.warning("%s: dead anchor %s", name, link)


def setup(app):
    app.connect("builder-inited", check)
    return {"parallel_read_safe": True}
