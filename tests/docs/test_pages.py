"""README and the other pages: short, links that lead somewhere, commands that exist."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from repro.regression import reference_values
from repro.regression.reference_runs import RUNS
from repro.training.sizes import Machine, choose_sizes
from tests.mutations.training import TRAINING

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "repro/papers").glob("*/README.md"),
        ROOT / "paper_configs/published/README.md",
    ]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FLAG = re.compile(r"DEFINE_\w+\(\s*\"(\w+)\"")
SHARED = re.compile(r"cli\.define_(\w+)\(")
ADOPTED = re.compile(r"adopt_module_key_flags\((\w+)\)")
TARGET = re.compile(r"^([a-z-]+):", re.M)
PAPERS = {path.parent.name for path in ROOT.glob("paper_configs/*/__init__.py")}
VARIABLE = re.compile(r"--(\w+)=\$\((\w+)\)")
DEFAULT = re.compile(r"^([A-Z]+) *\?=", re.M)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose_and_code(text: str) -> tuple[str, list[str]]:
    """Text outside of code blocks, and the lines of code blocks with continued lines joined."""
    prose, code, fenced = [], [], False
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            fenced = not fenced
        else:
            (code if fenced or line.startswith("    ") else prose).append(line)
    return "\n".join(prose), [line.strip() for line in code]


def broken_links(page: Path, text: str) -> list[str]:
    targets = [target.partition("#")[0] for target in LINK.findall(prose_and_code(text)[0])]
    return [name for name in targets if name and "://" not in name and not (page.parent / name).exists()]


def make_faults(words: list[str]) -> list[str]:
    """What a `make` command names that the Makefile does not have."""
    makefile = (ROOT / "Makefile").read_text()
    targets = {*TARGET.findall(makefile), *(f"reproduce-{name}" for name in PAPERS)}
    variables = {*(variable for _, variable in VARIABLE.findall(makefile)), *DEFAULT.findall(makefile)}
    names = [word.partition("=")[0] for word in words]
    return [name for name, word in zip(names, words) if name not in (variables if "=" in word else targets)]


def flag_faults(module: str, words: list[str]) -> list[str]:
    """Flags and config fields of a command of the suite that are not there."""
    source = ROOT / module.replace(".", "/")
    file = source / "__main__.py" if source.is_dir() else source.with_suffix(".py")
    text = file.read_text()
    adopted = [ROOT / f"repro/benchmarks/measuring/{name}.py" for name in ADOPTED.findall(text)]
    known = {*FLAG.findall("".join([text, *(other.read_text() for other in adopted)])), *SHARED.findall(text)}
    given = dict(re.match(r"--([\w.]+)(?:=(.*))?$", word).groups() for word in words if word.startswith("--"))
    faults = [name for name in given if name.partition(".")[0] not in known]
    if "config" in given:
        path, _, scale = given["config"].partition(":")
        if not (ROOT / path).is_file():
            return [*faults, path]
        config = importlib.import_module(path.removesuffix(".py").replace("/", ".")).get_config(scale or "desk")
        fields = [name.removeprefix("config.") for name in given if name.startswith("config.")]
        faults += [field for field in fields if field not in flat(config.to_dict())]
    return faults


def flat(config: dict, prefix: str = "") -> set[str]:
    names = set()
    for name, value in config.items():
        names |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}"}
    return names


def command_faults(line: str) -> list[str]:
    """Everything in a line of a shell example that the suite does not have."""
    words = shlex.split(line.removesuffix("&&"), comments=True)
    if words[:1] == ["make"]:
        return make_faults(words[1:])
    if "-m" in words and words[words.index("-m") + 1].startswith("repro."):
        return flag_faults(words[words.index("-m") + 1], words[words.index("-m") + 2 :])
    return []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_leads_to_a_file(page):
    assert broken_links(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_exists(page):
    lines = [line for line in prose_and_code(page.read_text())[1] if line.startswith(("make ", ".venv/", "python "))]
    assert {line: faults for line in lines if (faults := command_faults(line))} == {}


def test_the_rules_see_each_kind_of_fault():
    assert broken_links(ROOT / "README.md", "[a](docs/none.md) [b](docs/guide.md#check)") == ["docs/none.md"]
    assert command_faults("make reproduce-impla TAKS=pong SCALE=desk") == ["reproduce-impla", "TAKS"]
    assert command_faults("python -m repro.train --sede=1 --run_dir=x") == ["sede"]
    assert command_faults("python -m repro.alternate --first=x --second=y --rounds=2 --round=2") == ["round"]
    assert command_faults("python -m repro.train --config=paper_configs/none.py") == ["paper_configs/none.py"]
    config = "--config=paper_configs/impala/atari_shallow.py:desk --config.env.task=pong"
    assert command_faults(f"python -m repro.train {config} --config.env.taks=pong") == ["env.taks"]
    assert command_faults("make reproduce-impala TASK=pong  # comment") == []


def test_a_page_says_what_each_benchmark_measures():
    table = re.search(r"^\| `--what` \| measures.*?\n\n", (ROOT / "docs/performance.md").read_text(), re.M | re.S)
    assert table is not None
    modules = {path.stem for path in (ROOT / "repro/benchmarks").glob("*.py")} - {"__init__"}
    assert set(re.findall(r"`(\w+)`", re.sub(r"\|[^|]*\|$", "", table[0], flags=re.M))) == modules


def test_a_page_lists_the_reference_runs():
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)`.* of `([\w/]+)\.py`.* \| ([\d,]+) \|$",
        (ROOT / "docs/regression.md").read_text(),
        re.M,
    )
    budgets = {run.name: run.make_config() for run in RUNS}
    steps = {name: config.get("num_env_steps", config.get("num_env_frames")) for name, config in budgets.items()}
    assert rows == [(run.name, run.agent, run.config.replace(".", "/"), f"{steps[run.name]:,}") for run in RUNS]


def test_a_page_says_to_how_many_measures_a_run_is_reduced():
    numbers = {name: len(run.values) for name, run in reference_values.read().items()}
    asynchronous = numbers.pop("impala_cartpole")
    of_stac = [number for name, number in numbers.items() if name.startswith("stac")]
    others = [number for name, number in numbers.items() if not name.startswith("stac")]
    page = (ROOT / "docs/regression.md").read_text()
    sentence = f"reduced to {min(others)} to {max(others)} measures, those of STAC to {min(of_stac)} and more"
    assert sentence in page
    assert asynchronous == 4
    assert "`impala_cartpole` is asynchronous and has only four measures, returns and episodes." in page


def test_a_page_says_how_many_mistakes_training_is_to_catch():
    assert f" of the {len(TRAINING)} mistakes (" in (ROOT / "docs/regression.md").read_text()


def test_a_page_has_the_sizes_that_are_chosen():
    page = (ROOT / "docs/performance.md").read_text()
    header = re.search(r"^\| batch of 32 games .*$", page, re.M)[0]
    cores = [int(number) for number in re.findall(r"(\d+) cores?\b", header)]
    for first, has_gpu, schedule in (
        ("without a GPU", False, "async"),
        ("with a GPU", True, "async"),
        ("`schedule=processes`", False, "processes"),
    ):
        cells = re.search(rf"^\| {first} \| (\d.*) \|$", page, re.M)[1].split(" | ")
        for number, cell in zip(cores, cells, strict=True):
            sizes = choose_sizes(Machine(number, has_gpu), batch_size=32, schedule=schedule)
            actors, envs, threads = [*map(int, re.findall(r"\d+", cell)), 1][:3]
            assert (actors, envs, threads) == (sizes.num_actors, sizes.envs_per_actor, sizes.env_threads), cell


@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_a_paper_s_page_names_all_of_its_experiments(paper):
    page = (ROOT / f"repro/papers/{paper}/README.md").read_text()
    files = [named(path) for path in (ROOT / "paper_configs" / paper).glob("*.py") if path.name != "__init__.py"]
    assert [name for name in files if f"`{name}`" not in page] == []


def test_the_citation_names_the_papers_that_are_reproduced():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    found = {paper["identifiers"][0]["value"]: paper["title"] for paper in citation["references"]}
    printed = [json.loads(path.read_text()) for path in (ROOT / "paper_configs/published").glob("*.json")]
    assert found == {f"arXiv:{paper['citation'].rpartition(' ')[2]}": paper["title"] for paper in printed}
    assert f"version = {citation['version']}\n" in (ROOT / "setup.cfg").read_text()


@pytest.mark.parametrize("folder", ["repro", "paper_configs"])
def test_no_docstring_begins_with_of(folder):
    files = (ROOT / folder).rglob("*.py")
    assert [named(path) for path in files if re.search(r'^\s*"""Of\b', path.read_text(), re.M)] == []
