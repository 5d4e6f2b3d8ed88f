"""How the documentation is built: ``python checks.py docs``, then open build/docs/index.html."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from robustruct import __version__

project = "robustruct"
author = "The robustruct developers"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # the pages show formulas without a network
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
default_role = "autolink"  # names in single backticks lead to their page where there is one
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]

autodoc_default_options = {"members": True, "inherited-members": False}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say what a parameter is
autosummary_generate = True
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

html_theme = "furo"
html_title = "robustruct"
html_copy_source = False

# The gallery takes the readers of corpora from the experiments.
sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

# Examples on real data run only where the data are.
_home = os.environ.get("ROBUSTRUCT_DATA")
_has_data = bool(_home) and Path(_home).is_dir()
if _has_data:
    tags.add("data")  # noqa: F821 (Sphinx puts it there)
rst_prolog = ".. |data_note| replace:: " + (
    "The data are read from the folder named by ``ROBUSTRUCT_DATA``."
    if _has_data
    else "**Not run here:** the data are read from the folder named by ``ROBUSTRUCT_DATA``, which "
    "was not set when this page was built."
)
_pattern = r"plot_certificate"
if _has_data:
    _pattern = r"plot_" if find_spec("torch") else r"plot_(?!torch)"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": _pattern,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": "ExampleTitleSortKey",
    "show_memory": False,
}
