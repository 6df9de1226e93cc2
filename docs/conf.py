"""How the documentation is built; docs/README.md has the command."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_extensions")]

import pwan  # noqa: E402

project = "pwan"
author = "the authors of pwan"
version = release = pwan.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "generated_pages",
    "references",
]
exclude_patterns = ["README.md", "examples", "_*"]
nitpicky = True  # a reference that leads nowhere is a warning, and the build takes warnings as errors
nitpick_ignore = [("py:class", "DataclassInstance")]  # of typeshed, which type checkers alone have
templates_path = ["_templates"]
html_static_path = ["_static"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # attributes as a list below their class
napoleon_attr_annotations = False  # the text says shape and type
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "generated/examples",
    "filename_pattern": r"/\w+\.py",
    "image_scrapers": ("figures.found_figures",),
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (520, 300),
    "show_signature": False,
    "write_computation_times": False,
    "capture_repr": ("__repr__",),
    "backreferences_dir": None,
    "only_warn_on_example_error": False,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "pwan"
html_css_files = ["pwan.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "glossary": []}
copyright = "the authors of pwan; MIT licence"
