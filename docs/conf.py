"""How Sphinx builds the site: ``make docs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jsa

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

# The notebook's process shares its processor with others.
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "jsa"
author = "The jsa developers"
copyright = author
release = version = jsa.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "command_reference",
    "drawings",
    "math_markup",
    "short_signatures",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "jsa"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00649a", "color-brand-content": "#00649a"},
    "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
}
# Dashes become dashes; quotation marks stay as they are in code.
smartquotes_action = "D"
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["attrs_block", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
# The formulas are MathML, which needs no script.
myst_update_mathjax = False

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_member_order = "bysource"
# A method that overrides says what its base says, once.
autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False

# What the reader copies are the commands, without prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
