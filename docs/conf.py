"""Configuration of the documentation site. `make docs` builds it; `scripts/docs` has the commands."""

import re
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "rrbsolver"
author = "the authors of rrbsolver"
release = re.search(r'^version = "(.*)"', (HERE.parent / "Cargo.toml").read_text(), re.M).group(1)
version = release

extensions = ["myst_parser", "sphinx_design", "sphinx.ext.mathjax", "repository_links"]
exclude_patterns = ["_*", "requirements.txt"]
nitpicky = True
highlight_language = "text"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
# Anchors of headings, for links such as page.md#heading.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"rrbsolver {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
# The search page fetches these summaries by HTTP, which browsers refuse for pages opened from disk.
html_show_search_summary = False

# MathJax draws formulas as SVG from one script, without fonts and without a network. Native MathML would need no
# script, but it depends on the mathematical fonts of the reader's system, and its converters for Python do not support
# `aligned`. The script comes from the PyPI package, not from a CDN.
mathjax_path = "mathjax/tex-svg-full.js"
mathjax_options = {"defer": "defer"}
mathjax3_config = {
    "tex": {"macros": {"norm": [r"\lVert #1 \rVert", 1]}},
    "svg": {"fontCache": "global"},
    "options": {"enableMenu": False},
}


def copy_mathjax(app, exception):
    """Copies the script of MathJax into the site."""
    if exception is None and app.builder.format == "html":
        files = metadata.files("sphinx-mathjax-offline")
        script = next(f for f in files if f.name == Path(mathjax_path).name).locate()
        target = Path(app.outdir) / "_static" / mathjax_path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(script).read_bytes())


def setup(app):
    app.connect("build-finished", copy_mathjax)
