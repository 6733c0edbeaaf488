"""The site: Sphinx with MyST and the PyData theme. Built by make docs, with warnings as errors."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

project = "Corelet"
author = "The Corelet developers"
copyright = author
version = release = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M).group(1)

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["requirements.txt", "gallery/*.rst", "sg_execution_times.rst", "examples/sg_execution_times.rst"]
nitpicky = False
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "none"
default_role = "code"
toc_object_entries_show_parents = "all"

# The package is read, not imported for use: its native part need not be built.
autodoc_mock_imports = [
    "corelet._lib", "arviz", "dask", "distributed", "formulaic", "jax", "numba", "numpyro", "nutpie", "pandas", "pyarrow", "pymc", "pyspark",
    "pytensor", "scipy", "sklearn", "threadpoolctl", "xarray",
]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False

# Examples are shown as they are written; make gallery runs them, and keeps what they print and draw in gallery/results.
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "plot_gallery": False,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "ignore_pattern": r"_shown\.py",
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "Corelet"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "show_nav_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
}
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True
