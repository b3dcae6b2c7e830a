"""Settings of Sphinx: `make docs` builds the site, without a network and with every warning an error."""

import shutil
import sys
from importlib.metadata import files
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

import consensus

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent)]

from public import aliases  # noqa: E402

project = "consensus"
author = "the consensus authors"
copyright = author
version = release = consensus.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_codeautolink",  # before the gallery, which adds links of its own to what is left
    "sphinx_gallery.gen_gallery",
    "equations",
    "inventories",
    "public",
]
exclude_patterns = [
    "_build",
    "_extensions",
    "gallery",
    "gallery/**",
    "_templates",
    "inventories",
    "notebooks/.ipynb_checkpoints",
]
templates_path = ["_templates"]
nitpicky = True
suppress_warnings = [
    "autosummary.import_cycle",  # names in the reference are written in full
    "codeautolink.match_name",  # names in the gallery, which it has linked already
    "config.cache",  # settings that are functions cannot be kept from one build to the next
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # parameters have their types in the docstrings
highlight_language = "none"
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_score_request"
}  # scikit-learn's, with links to its own pages
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # words that are no names
numpydoc_xref_aliases = aliases()

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
codeautolink_global_preface = "import consensus, topologies"

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["examples"],
    "filename_pattern": "/plot_",
    "ignore_pattern": r"__init__\.py" if find_spec("torch") else r"__init__\.py|plot_torch\.py",
    "subsection_order": [
        f"gallery/{folder}" for folder in ("start", "networks", "solvers", "messages", "problems")
    ],
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "write_computation_times": False,
    "parallel": 2,
    "backreferences_dir": "reference/examples",
    "doc_module": ("consensus", "topologies"),
    "reference_url": {"consensus": None, "topologies": None},
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"consensus {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
}

mathjax_path = "mathjax/tex-chtml.js"


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Take MathJax from its wheel, the script and its fonts alone: the site is read without a network, too."""
    for file in files("sphinx-mathjax-offline") or ():
        _, found, name = file.as_posix().partition("/static/mathjax/")
        if found and (name == "tex-chtml.js" or name.startswith("output/chtml/fonts/woff-v2/")):
            target = Path(app.outdir, "_static", "mathjax", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target)


def setup(app: Sphinx) -> None:
    """Add MathJax to the site."""
    app.connect("build-finished", copy_mathjax)
