"""How the site is built: make docs. Warnings are errors there."""

import importlib.metadata

project = "mqdssm"
author = "The mqdssm founders"
copyright = "2026, the mqdssm founders; Apache-2.0"
release = importlib.metadata.version("mqdssm")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build", "changes"]
html_theme = "furo"
html_title = f"mqdssm {release}"

autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "model_config",
    "ignore-module-all": True,  # each name once, in the module that defines it
}
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = [
    "myst.xref_missing",  # files outside docs/ are linked for readers of the source tree
    "ref.python",  # several modules have a type of one name: it stays unlinked
]
