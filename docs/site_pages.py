"""What the documentation site has beside the files of docs/: pages made from other files, and links between them.

The README of the repository is the home page and each paper's README a page of its own. Every module of `repro` has a
page in the API reference. Links to files of the repository lead to the page made from that file; links to files
without a page become plain text. Paths of modules in code spans become links to the API reference.
"""

from __future__ import annotations

import ast
import functools
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAPERS = ("impala", "acer", "refer", "ctrace", "stac")
SOURCES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "published.md": "paper_configs/published/README.md",
    **{f"papers/{paper}.md": f"repro/papers/{paper}/README.md" for paper in PAPERS},
}
"""Page to the file that it is made from."""
MEDIA = (".png", ".svg", ".json", ".cff")
"""Files outside docs/ that are copied to the site where a page links to them."""
ALONE = {"index.md"}
"""Pages without siblings, which need no navigation beside them."""
NO_PAGE = {"__main__.py"}

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_MODULE = re.compile(r"(?<!\[)`((?:[\w.]+/)*\w+\.py)((?:: [^`]*)?)`")
_NESTED = re.compile(r"^ {2,3}(?=[-*] )")  # an inner list; Python-Markdown asks for four spaces
_FENCE = re.compile(r"^\s*(```|~~~)")


@functools.cache
def modules() -> dict[str, str]:
    """Path of each module of `repro` that has a docstring, to its page; packages come before their modules."""
    found = {}
    for path in sorted(
        (ROOT / "repro").rglob("*.py"), key=lambda path: (path.parent, path.name != "__init__.py", path)
    ):
        if path.name in NO_PAGE or _docstring(path) is None:
            continue
        name = path.relative_to(ROOT / "repro")
        page = name.with_name("index.md") if name.name == "__init__.py" else name.with_suffix(".md")
        found[str(path.relative_to(ROOT))] = f"reference/{page}"
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts papers and modules into the navigation."""
    modules.cache_clear()
    config.watch += [str(ROOT / "repro"), *(str(ROOT / source) for source in SOURCES.values())]
    for entry in config.nav:
        if "Papers" in entry:
            entry["Papers"] = [f"papers/{paper}.md" for paper in PAPERS] + entry["Papers"]
        if "API reference" in entry:
            first, *others = _tree(list(modules().values()))
            entry["API reference"] = [first, *sorted(others, key=lambda other: isinstance(other, str))]  # commands last
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not files of docs/."""
    for page, source in SOURCES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for source, page in modules().items():
        files.append(File.generated(config, page, content=_module_page(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links to files of the repository lead to their pages."""
    here = page.file.src_uri
    if here in ALONE:
        page.meta["hide"] = ["navigation"]
    if here.startswith("reference/"):
        return markdown
    links = _Links(here, config, files)
    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= bool(_FENCE.match(line))
        is_code = fenced or line.startswith("    ")
        linked = _MODULE.sub(links.module, _LINK.sub(links.file, line))
        lines.append(line if is_code else _NESTED.sub("    ", linked))
    return "\n".join(lines)


class _Links:
    """Replaces the links of one page."""

    def __init__(self, here: str, config: MkDocsConfig, files: Files) -> None:
        self._here, self._config, self._files = here, config, files
        self._folder = posixpath.dirname(SOURCES.get(here, f"docs/{here}"))
        self._pages = {source: page for page, source in SOURCES.items()} | modules()

    def file(self, match: re.Match[str]) -> str:
        """A link or a picture."""
        mark, text, target, anchor = match.groups(default="")
        path = posixpath.normpath(posixpath.join(self._folder, target))
        if not target or ":" in target or not (ROOT / path).exists():
            return match[0]
        page = self._page(path)
        return f"{mark}[{text}]({self._relative(page)}{anchor})" if page else text

    def module(self, match: re.Match[str]) -> str:
        """A code span with the path of a module from the root, or its name in the folder of this page's file."""
        path, rest = match.groups()
        page = modules().get(path) or modules().get(f"{self._folder}/{path}")
        return f"[`{path}{rest}`]({self._relative(page)})" if page else match[0]

    def _page(self, path: str) -> str | None:
        """Page or copy of a file of the repository; None for one that the site does not have."""
        if path.startswith("docs/"):
            return path.removeprefix("docs/")
        if path.endswith(MEDIA) and self._files.get_file_from_path(path) is None:
            self._files.append(File.generated(self._config, path, abs_src_path=str(ROOT / path)))
        return path if path.endswith(MEDIA) else self._pages.get(path)

    def _relative(self, page: str) -> str:
        return posixpath.relpath(page, posixpath.dirname(self._here) or ".")


def _module_page(source: str) -> str:
    name = source.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if name == "repro":
        return "# API reference\n\n| package | holds |\n| --- | --- |\n" + "".join(_package_rows())
    return f"---\ntitle: {name.rpartition('.')[2]}\n---\n\n# `{name}`\n\n::: {name}\n"


def _package_rows() -> Iterator[str]:
    for path in sorted((ROOT / "repro").rglob("__init__.py")):
        name = ".".join(path.relative_to(ROOT).parts[:-1])
        if name.count(".") and (docstring := _docstring(path)):
            page = path.relative_to(ROOT / "repro").with_name("index.md")
            yield f"| [`{name}`]({page}) | {docstring.splitlines()[0]} |\n"


def _docstring(path: Path) -> str | None:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def _tree(pages: list[str]) -> list[Any]:
    """Navigation of nested packages, each a section that begins with its own page."""
    nav: list[Any] = []
    for page in pages:
        level = nav
        for part in page.split("/")[1:-1]:
            section = next((entry[part] for entry in level if isinstance(entry, dict) and part in entry), None)
            if section is None:
                section = []
                level.append({part: section})
            level = section
        level.append(page)
    return nav
