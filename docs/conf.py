"""Settings of the site, for Sphinx: ``make docs`` builds it without a network, with warnings as errors."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from html import escape
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import manifoldry
from manifoldry._core.registry import CLUSTERINGS, METHODS
from manifoldry._core.warnings import DOCUMENTATION

for _name in manifoldry._MODULES:  # autodoc imports them by these names
    sys.modules[f"manifoldry.{_name}"] = getattr(manifoldry, _name)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

project = "manifoldry"
author = "The manifoldry developers"
copyright = f"2026, {author}"
version = release = manifoldry.__version__
DESCRIPTION = "Manifold learning and dimensionality reduction with one scikit-learn-style API."

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["**sg_execution_times.rst", "_*", "figures", "gallery/*.ipynb", "**/GALLERY_HEADER.*"]
templates_path = ["_templates"]
default_role = "py:obj"

# Markdown as on GitHub

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_inline"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
GITHUB_MATH = re.compile(r"\$`([^`]+)`\$")
OUTSIDE = re.compile(r"\]\(((?:\.\./)+)([^)#\s]+)(#[^)]*)?\)")
"""A link that leaves the folder of its page."""

# API

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_show_inherited_class_members = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
add_module_names = False

# Other projects: their inventories are stored, so that nothing is fetched (docs/inventories.py).

_SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": "https://scikit-learn.org/stable/",
}
intersphinx_mapping = {name: (site, f"_inventories/{name}.inv") for name, site in _SITES.items()}

# Gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("manifoldry",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": os.environ.get("MANIFOLDRY_GALLERY", "1") != "0",
}

# Pages

html_theme = "pydata_sphinx_theme"
html_title = "manifoldry"
html_baseurl = DOCUMENTATION
html_static_path = [
    "_static",
    str(distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg-full.js")),
]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_context = {"default_mode": "auto"}
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "faq": []}
html_theme_options = {
    "logo": {"text": "manifoldry", "image_light": "_static/favicon.svg", "image_dark": "_static/favicon.svg"},
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "collapse_navigation": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
mathjax_path = "tex-svg-full.js"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


def read_markdown(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn what only GitHub knows into what Sphinx knows, and link a method's page to its class and its examples."""
    if Path(app.env.doc2path(docname)).suffix != ".md":
        return
    text = GITHUB_MATH.sub(r"$\1$", source[0])
    text = OUTSIDE.sub(lambda found: _outside(docname, found), text)
    folder, _, name = docname.rpartition("/")
    if folder in ("reference/methods", "reference/clusterings") and name != "index":
        title, rest = text.split("\n", 1)
        api = f"API: {{py:class}}`manifoldry.{name}`"
        gallery = (
            f"```{{eval-rst}}\n.. minigallery:: manifoldry.{name}\n   :add-heading: Gallery examples with {name}\n```"
        )
        text = f"{title}\n\n{api}\n{rest}\n{gallery}\n"
    source[0] = text


def _outside(docname: str, found: re.Match[str]) -> str:
    """Return a link to a file of the repository that is not a page, as one to its text in the site if it has one."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(docname), found[1] + found[2]))
    if path.startswith("docs/"):
        return found[0]
    page = INCLUDED.get(path)
    if page is None:
        raise ValueError(f"{docname} links to {path}, which is not in the site: add it to INCLUDED in conf.py")
    return f"]({'../' * docname.count('/')}{page}{found[3] or ''})"


INCLUDED = {
    "CONTRIBUTING.md": "development/contributing.md",
    "CHANGELOG.md": "development/changelog.md",
    "references.bib": "reference/references.md",
}
"""Files of the repository, and the pages that have their text."""


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out of a class what its docstring lists, and what scikit-learn's base classes have."""
    ours = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", "")
    if what == "class" and not (callable(obj) and str(ours).startswith("manifoldry")):
        return True
    return None


def link_method_page(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Link the API page of a method to its page, which has its formulas, figure and advice."""
    short = name.removeprefix("manifoldry.")
    folder = "methods" if short in METHODS else "clusterings"
    if what == "class" and (short in METHODS or short in CLUSTERINGS) and lines:
        start = next(i for i, line in enumerate(lines) if line.strip())
        end = next((i for i, line in enumerate(lines) if i > start and not line.strip()), len(lines))
        lines[end:end] = [
            "",
            f":doc:`Formulas, a picture, costs and papers </reference/{folder}/{short}>`.",
        ]


def describe_page(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: Any,
) -> None:
    """Add what other sites show of a page that links to it: title, first sentences, picture."""
    title = re.sub(r"<[^>]+>", "", context.get("title", "")) or project
    text = DESCRIPTION
    if doctree is not None:
        paragraphs = (node.astext() for node in doctree.findall(lambda node: node.tagname == "paragraph"))
        text = next((" ".join(each.split()) for each in paragraphs if len(each) > 60), DESCRIPTION)
    short = text if len(text) < 200 else f"{text[:197].rsplit(' ', 1)[0]} ..."
    values = {
        "og:title": title,
        "og:type": "website",
        "og:site_name": project,
        "og:url": f"{html_baseurl}{pagename}.html",
        "og:description": short,
        "og:image": f"{html_baseurl}_images/holed_roll.png",
    }
    tags = [f'<meta property="{key}" content="{escape(value)}" />' for key, value in values.items()]
    tags.append(f'<meta name="description" content="{escape(short)}" />')
    context["metatags"] = context.get("metatags", "") + "\n".join(tags)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the functions above."""
    app.connect("source-read", read_markdown)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", link_method_page, priority=900)
    app.connect("html-page-context", describe_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
