"""The documentation site: it builds without a warning, has every module, and loads nothing from the network."""

from __future__ import annotations

import html.parser
import os
import posixpath
import re
import subprocess
import sys
from pathlib import Path

import pytest

from repro.papers import __path__ as papers_path

ROOT = Path(__file__).resolve().parents[2]


class Assets(html.parser.HTMLParser):
    """Keeps the addresses that a browser loads by itself; links that a reader may follow are not among them."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        names = {"link": ["href"], "a": []}.get(tag, ["src", "srcset", "data", "poster"])
        self.addresses += [attributes[name] for name in names if attributes.get(name)]
        self.addresses += re.findall(r"url\(['\"]?([^)'\"]+)", attributes.get("style") or "")


def assets(text: str) -> list[str]:
    parser = Assets()
    parser.feed(text)
    return parser.addresses


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", f"--site-dir={out}"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return out, done


@pytest.fixture(scope="module")
def site(built):
    return built[0]


@pytest.fixture(scope="module")
def pages(site):
    """Path in the site of each page, to the addresses that a browser loads with it and those that it links to."""
    texts = {path.relative_to(site).as_posix(): path.read_text() for path in sorted(site.rglob("*.html"))}
    return {name: (assets(text), re.findall(r'<a [^>]*href="([^"#]+)', text)) for name, text in texts.items()}


def test_it_builds_without_a_warning(built):
    _, done = built
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


def test_no_page_loads_anything_from_the_network(pages):
    assert len(pages) > 100
    remote = re.compile(r"(https?:)?//")
    found = {page: [name for name in loaded if remote.match(name)] for page, (loaded, _) in pages.items()}
    assert {page: names for page, names in found.items() if names} == {}


def test_no_style_sheet_loads_anything_from_the_network(site):
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    assert [sheet for sheet in sheets if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text())] == []


def test_every_file_that_a_page_loads_or_links_to_is_there(site, pages):
    there = {path.relative_to(site).as_posix() for path in site.rglob("*")} | {"."}
    missing = []
    for page, (loaded, linked) in pages.items():
        if page == "404.html":  # its addresses start at the root of a server
            continue
        for address in {*loaded, *linked}:
            name = re.split("[?#]", address)[0]
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), name))
            if name and not re.match(r"\w+:", name) and path not in there:
                missing.append((page, address))
    assert missing == []


def test_every_module_has_a_page_with_its_functions(site):
    names = [path.relative_to(ROOT / "repro").with_suffix("") for path in (ROOT / "repro").rglob("*.py")]
    modules = [name for name in names if not name.name.startswith("__")]
    assert [name for name in modules if not (site / "reference" / f"{name}.html").exists()] == []
    text = (site / "reference/ops/v_targets.html").read_text()
    assert 'id="repro.ops.v_targets.vtrace"' in text
    assert "<strong>Gradients:</strong>" in text


def test_every_paper_has_a_page_with_links_to_its_code(site):
    for readme in Path(papers_path[0]).glob("*/README.md"):
        page = site / f"papers/{readme.parent.name}.html"
        assert 'href="../reference/' in page.read_text()


def test_search_works_from_a_file_address(site):
    assert (site / "search/search_index.js").stat().st_size > 100_000
    assert "assets/iframe-worker.js" in (site / "index.html").read_text()


def test_the_rule_sees_each_kind_of_asset():
    addresses = ["https://a/x.js", "https://b/x.css", "//c/x.png", "https://d/x.png"]
    text = '<script src="{}"></script><link href="{}"><img src="{}"><div style="background: url({})"></div>'
    assert assets(text.format(*addresses) + '<a href="https://e">e</a>') == addresses
