"""Python examples of the documentation run and print the output below them."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import ml_collections
import pytest

from paper_configs.impala import gymnasium
from paper_configs.refer import figure_4_vracer
from repro.config import resolve
from tests.support.forked_train import run_program

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/operators.md").read_text(), re.S)
QUIET = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def run(tmp_path):
    def run(code: str) -> str:
        done = run_program(tmp_path, code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize(
    "code", EXAMPLES, ids=["vtrace", "retrace", "ctrace", "acer", "trust_region", "refer_memory", "refer_loss"]
)
def test_an_example_of_the_operators_prints_what_it_says(run, code):
    (said,) = re.findall(r"^print\(.*\n# (.*)$", code, re.M)
    assert run(code) == f"{said}\n"


def test_the_example_that_reads_records_has_the_scores_of_all_seeds(run):
    (code,) = re.findall(
        r"```python\n(from repro.evidence import records\n.*?)```", (ROOT / "docs/guide.md").read_text(), re.S
    )
    assert len(eval(run(code))) >= 5


def indented(page: str, first: str) -> str:
    """The code of an indented block that begins with a line."""
    text = (ROOT / page).read_text()
    lines = itertools.takewhile(
        lambda line: not line or line.startswith("    "), text[text.index(f"    {first}") :].split("\n")
    )
    return "\n".join(line[4:] for line in lines)


def test_the_example_of_a_curve_is_saved(run, tmp_path):
    folder = tmp_path / "runs/cartpole"
    folder.mkdir(parents=True)
    (folder / "progress.csv").write_text("num_env_steps,mean_return\n100,nan\n200,20.5\n")
    run(f"import os\nos.chdir({str(tmp_path)!r})\n{indented('docs/custom_environment.md', 'import csv')}")
    assert (tmp_path / "cartpole.png").stat().st_size > 1000


def test_the_example_of_an_own_config_has_its_argument_and_that_of_a_variant_its_fields():
    names: dict = {}
    exec(indented("docs/custom_environment.md", "# my_config.py"), names)
    config = names["get_config"]("smoke")
    assert (config.env.task, config.env.kwargs.stride) == ("my_module:MyEnv-v0", 0.05)
    code, of_none, of_sweep, *_ = re.findall(r"```python\n(.*?)```", (ROOT / "docs/extending.md").read_text(), re.S)
    config = figure_4_vracer.get_config("smoke")
    exec(code, {"config": config})
    exec(of_sweep, {"config": config})
    for agent, rate in (("vracer_fast", 1e-3), ("vracer_rate_3e-04", 3e-4), ("vracer_rate_1e-03", 1e-3)):
        config.agent = agent
        assert resolve(config).learner.learning_rate == resolve(config).refer.beta_step_size == rate
    config = gymnasium.get_config("smoke")
    exec(of_none, {"config": config, "ml_collections": ml_collections})
    assert resolve(config).loss.correction == "vtrace"
    config.agent = "impala_one_step"
    assert resolve(config).loss.correction == "one_step"


def test_operators_need_tensorflow_alone():
    modules = "repro.ops.v_targets, repro.ops.q_targets, repro.papers.acer.loss, repro.replay.refer"
    heavy = "{'tf_agents', 'reverb', 'gymnasium', 'ale_py', 'mujoco'}"
    command = [sys.executable, "-c", f"import sys, {modules}\nprint({heavy} & set(sys.modules))"]
    done = subprocess.run(command, cwd=ROOT, env=QUIET, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr


def test_the_agent_outside_the_suite_trains_and_is_evaluated(tmp_path):
    *_, agent, config = re.findall(r"```python\n(.*?)```", (ROOT / "docs/extending.md").read_text(), re.S)
    for code in (agent, config):
        (tmp_path / re.match(r"# (\w+\.py)", code)[1]).write_text(code)
    settings = "--config=my_config.py:smoke", "--config.num_env_steps=400", "--run_dir=run"
    for command in (("repro.train", *settings), ("repro.evaluate", "--run_dir=run", "--episodes=2")):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=QUIET, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "run/config.json").read_text())["config"]
    assert (config["algorithm"], config["agent"]) == ("my_agent:MyExperiment", "impala_asinh")
    assert "standard deviation over 2 episodes of CartPole-v1" in done.stdout
