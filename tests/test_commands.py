"""The commands as a user meets them: errors in one sentence, stop and resume, evaluate, export, video."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from paper_configs.impala import atari_shallow
from repro import cli
from repro.environments.dmlab_module import FOLDER_VARIABLE, MISSING
from repro.evidence import records, staleness
from repro.training.run_directory import RunDirectory, is_newest, read_progress
from tests.evidence.synthetic_records import make_record, write
from tests.support.commanded_run import wait_for_rows
from tests.support.forked_train import run_command, run_program

CONFIG = "--config=paper_configs/impala/atari_shallow.py:smoke"
SMALL = ("--config.runtime.num_actors=1", "--config.runtime.envs_per_actor=4")
"""Few games, since each takes a tenth of a second to begin."""
POLICY_RATE = "learner.policy_learning_rate"
"""A field that no agent but one of the configuration has."""


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([CONFIG, "--config.env.taks=pong"], "no field 'env.taks'; did you mean 'env.task'?"),
        ([CONFIG, "--config.learning_rate=1.0"], "no field 'learning_rate'; did you mean 'learner.learning_rate'?"),
        ([CONFIG, "--config.learner.batch_size=2.5"], "learner.batch_size='2.5' is not of type int (the file has 32)."),
        ([CONFIG, "--config.learner.learning_rate=fast"], "learner.learning_rate='fast' is not of type float"),
        (["--config=paper_configs/impala/atari_shalow.py"], "did you mean 'paper_configs/impala/atari_shallow.py'?"),
        (["--config=paper_configs/impala/unknown.py"], "(paper_configs/impala has atari_57.py, atari_a3c.py, "),
        (["--config.learner.learning_rate=fast", CONFIG], "learner.learning_rate='fast' is not of type float"),
        (["--config.learner.learning_rate=1e-3", CONFIG, "--sede=1"], "Unknown command line flag 'sede'."),
        (
            [CONFIG, "--config.scale=paper"],
            "scale='paper': a scale changes many fields; give it with the file",
        ),
        ([CONFIG.replace("smoke", "huge")], "Unknown scale 'huge': choose one of smoke, desk, paper."),
        (
            [CONFIG, "--config.env.kwargs.gravity=3"],
            "env.kwargs.gravity cannot be set from the command line; set it in a",
        ),
        (
            [CONFIG, "--config.env.kwargs={'gravity': 3}"],
            '"Arguments of the environment" in docs/custom_environment.md',
        ),
        (
            ["--config.num_env_steps=100"],
            "--config.num_env_steps changes a field of a configuration; name its file with --config=<file>",
        ),
        (
            ["--config=paper_configs/refer/figure_4_vracer.py", "--config.runtime.num_actors=0"],
            "no field 'runtime.num_actors'; did you mean 'variants.acer.runtime.num_actors'?",
        ),
        (
            ["--config=paper_configs/refer/gymnasium.py", "--config.agent=ddpg_refer", f"--config.{POLICY_RATE}=1e-3"],
            f"has its own {POLICY_RATE}; change it with --config.variants.ddpg_refer.{POLICY_RATE}=1e-3.",
        ),
        (CONFIG.split("=") + ["--config.env.taks=pong"], "no field 'env.taks'; did you mean 'env.task'?"),
        ([CONFIG, "--config.env.task=pnog"], "No Atari game is called 'pnog'; did you mean pong"),
        (
            [CONFIG, "--config.agent=impala_deep"],
            "there is no agent 'impala_deep'; did you mean 'impala_shallow'? (there are",
        ),
        ([CONFIG, "--config.num_env_frames=1.25"], "num_env_frames='1.25' is not of type int (the file has 60000)."),
        ([CONFIG, "--seed=x"], "flag --seed=x: 'x' is not a whole number in digits; see "),
        (["--config=paper_configs/impala/gymnasium.py", "--config.network.units=64,x"], "is not of type tuple"),
        ([CONFIG, "--learning_rate=0.1"], "flag 'learning_rate'; did you mean --config.learner.learning_rate?"),
        (["--config=atari_shallow"], "file 'atari_shallow'; did you mean 'paper_configs/impala/atari_shallow.py'?\n"),
        (
            ["--config=paper_configs/stac"],
            "file 'paper_configs/stac' (paper_configs/stac has atari.py, closed_form.py, dm_control_",
        ),
        (["--config="], "no configuration file '' (there are some in paper_configs/acer, paper_configs/ctrace, "),
        (["--config=README.md"], "README.md is not a configuration, a Python file with a function get_config(scale)."),
        ([CONFIG, "--seed=-1"], "--seed=-1"),
        ([CONFIG, "--seed=1000000"], "--seed=1000000"),  # where those of evaluations begin
        ([CONFIG, "--sede=1"], "Unknown command line flag 'sede'. Did you mean: seed"),
        ([CONFIG, "now"], "unexpected argument 'now'"),
        ([CONFIG, "--run_dir="], "--run_dir is empty; see "),
        (["--config=paper_configs/impala/theorems.py"], "repro.reproduce --paper=impala --experiment=theorems"),
    ],
)
def test_input_that_cannot_be_used_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    done = run_command(tmp_path, "repro.train", f"--run_dir={tmp_path / 'x'}", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not (tmp_path / "x").exists()


def test_a_misspelled_field_of_an_own_configuration_is_found(tmp_path):
    file = tmp_path / "mine.py"
    beginning = (
        "from paper_configs.impala import gymnasium\n\n\ndef get_config(scale='desk'):\n"
        "    config = gymnasium.get_config(scale)\n    config.env.kwargs.stride = 0.05\n"
        "    config.variants = {'slow': {'learner': {'learning_rate': 1e-3}}}\n    config.agent = 'slow'\n"
    )
    file.write_text(f"{beginning}    config.learner.learning_rte = 1e-3\n    return config\n")
    done = run_command(tmp_path, "repro.train", f"--config={file}", f"--run_dir={tmp_path / 'x'}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"repro.train: {file}: nothing reads the field 'learner.learning_rte', which no configuration of the suite "
        "has; did you mean 'learner.learning_rate'?\n"
    )

    file.write_text(f"{beginning}    return config\n")  # own arguments and agents are allowed
    done = run_command(tmp_path, "repro.train", f"--config={file}:huge", f"--run_dir={tmp_path / 'x'}")
    assert "Unknown scale 'huge'" in done.stderr
    done = run_command(
        tmp_path, "repro.train", f"--config={file}", f"--run_dir={tmp_path / 'x'}", "--config.learner.x=1"
    )
    assert "the configuration has no field 'learner.x'" in done.stderr


MINE = "from paper_configs.impala import gymnasium\n\n\ndef get_config(scale='desk'):\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import nothing_here\n", ", line 1: ModuleNotFoundError: No module named 'nothing_here'"),
        (f"{MINE}    return gymnasium.get_config(scal)\n", ", line 5: NameError: name 'scal' is not defined"),
        ("def get_config(:\n", ", line 1: SyntaxError: invalid syntax"),
        (f"{MINE}    raise ValueError('no rate')\n", ", line 5: ValueError: no rate"),
        (f"{MINE}    gymnasium.get_config(scale)\n", ": get_config must return a ConfigDict, not NoneType."),
        (
            f"{MINE}    config = gymnasium.get_config(scale)\n    return config.learning['rate']\n",
            ", line 6: AttributeError: \"'learning'\"",
        ),
        (
            f"{MINE}    config = gymnasium.get_config(scale)\n    del config.learner.batch_size\n    return config\n",
            ": the configuration has no field 'learner.batch_size', which all of impala.discrete must have.",
        ),
        (
            "from paper_configs.impala import theorems\n\n\ndef get_config(scale='desk'):\n"
            "    config = theorems.get_config(scale)\n    del config.env\n    return config\n",
            ": the configuration has no field 'env.name', which all of theorems must have.",
        ),
    ],
)
def test_an_own_configuration_that_fails_is_named_with_line_and_error(tmp_path, text, sentence):
    file = tmp_path / "mine.py"
    file.write_text(text)
    done = run_command(tmp_path, "repro.train", f"--config={file}:desk", f"--run_dir={tmp_path / 'x'}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"repro.train: {file}{sentence}\n"


def test_an_own_configuration_needs_no_field_of_another_environment(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import ml_collections\nfrom paper_configs.ctrace import r2d2\n\n\ndef get_config(scale):\n"
        "    config = r2d2.get_config(scale)\n    del config.num_env_frames, config.recorded\n"
        "    config.num_env_steps = 0\n"
        "    config.env = ml_collections.ConfigDict({'name': 'gymnasium', 'task': 'CartPole-v1'})\n    return config\n"
    )
    done = run_command(tmp_path, "repro.train", f"--config={file}:smoke", f"--run_dir={tmp_path / 'x'}")
    assert (done.returncode, done.stderr) == (2, "repro.train: num_env_steps=0: choose a finite number above 0.\n")


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("reverb", ("repro.train", CONFIG)),
        ("mujoco", ("repro.reproduce", "--paper=refer", "--scale=smoke")),
        ("jsonschema", ("repro.check",)),
    ],
)
def test_a_package_that_is_missing_is_one_sentence(tmp_path, monkeypatch, package, arguments):
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('no such module', name={package!r})\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    more = (f"--run_dir={tmp_path / 'x'}",) if arguments[0] == "repro.train" else ()
    done = run(*arguments, *more)
    assert (done.returncode, done.stdout) == (1, "")
    *before, last = done.stderr.splitlines()
    assert last.startswith(
        f"{arguments[0]}: the package {package!r}, which {tmp_path / package}.py imports, is missing; "
        "install all packages of the suite with: "
    )
    if arguments[0] == "repro.train":  # says what it trains before it loads TensorFlow and the agent
        assert len(before) == 1
        assert before[0].startswith("Training impala_shallow on pong, seed 1, for ")
    else:
        assert before == []


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("2", "2")])
def test_a_command_has_one_thread_for_linear_algebra_unless_told_otherwise(monkeypatch, given, expected):
    """It says so before NumPy is imported, which looks once."""
    assert_set_before_import(monkeypatch, "OPENBLAS_NUM_THREADS", "numpy", given, expected)


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("0", "0")])
def test_a_command_has_onednn_unless_told_otherwise(monkeypatch, given, expected):
    """It says so before TensorFlow is imported, which looks once."""
    assert_set_before_import(monkeypatch, "TF_ENABLE_ONEDNN_OPTS", "tensorflow", given, expected)


def assert_set_before_import(monkeypatch, variable, package, given, expected):
    monkeypatch.delenv(variable, raising=False)
    if given:
        monkeypatch.setenv(variable, given)
    code = f"import os, sys\nfrom repro import train\nprint({package!r} in sys.modules, os.environ[{variable!r}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == f"False {expected}\n", done.stderr


@pytest.mark.parametrize("name", ["ENOSPC", "ENOTDIR", "EEXIST"])
def test_a_file_that_cannot_be_written_is_one_sentence(name):
    """On a full disk, or where a file is in the place of a folder."""
    code = (
        "import errno, os\nfrom repro import cli\n\n\ndef main(argv):\n"
        f"    raise OSError(errno.{name}, os.strerror(errno.{name}), 'out.json')\n\n\ncli.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    words = os.strerror(getattr(errno, name))
    assert (done.returncode, done.stderr) == (1, f"-c: out.json could not be read or written ({words}).\n")


MEASURING = {
    "alternate": ("--first=true", "--second=true"),
    "benchmark": ("--what=operators",),
    "benchmarks.dmlab_levels": ("--steps=1000",),
    "benchmarks.peers": ("--peer=cleanrl", "--source=absent"),
    "check": ("--results_dir=absent",),
    "regression": ("--only=absent",),
}
"""Commands with `--json`, with arguments that they would fail for if they began their work, or that take long."""


@pytest.mark.parametrize("name", MEASURING)
def test_a_folder_that_is_not_there_is_found_before_the_work_that_a_file_is_written_of(tmp_path, name):
    for path in (tmp_path / "absent/out.json", tmp_path):
        done = run_command(tmp_path, f"repro.{name}", *MEASURING[name], f"--json={path}")
        sentence = f"flag --json={path}: its folder does not exist, or it is a folder itself"
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert sentence in done.stderr
    assert "--json: Also write the result" in run_command(tmp_path, f"repro.{name}", "--help").stdout


def test_a_result_is_written_whole_or_a_sentence_says_why_not(tmp_path, monkeypatch, capsys):
    path = tmp_path / "out.json"
    cli.write_json(None, {"rate": 1.0})
    cli.write_json(str(path), {"rate": 1.0})
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(SystemExit) as end:
        cli.write_json(str(path), {"rate": 2.0})
    assert end.value.code == 1
    assert capsys.readouterr().err.endswith(f": {path} could not be written (No space left).\n")
    assert (list(tmp_path.iterdir()), json.loads(path.read_text())) == ([path], {"rate": 1.0})


def test_a_file_that_cannot_be_read_is_named_and_no_disk_is_called_full(tmp_path):
    full, folder = OSError(errno.ENOSPC, "No space left on device"), Path("runs/x")
    described = "could not write to runs/x (No space left on device); free some space"
    assert cli.describe_file_error(full, folder) == described
    assert cli.describe_file_error(BrokenPipeError("the peer is gone"), folder) == "BrokenPipeError: the peer is gone"
    code = (
        "from pathlib import Path\nfrom types import SimpleNamespace\nfrom repro import train\n"
        "missing = FileNotFoundError(2, 'No such file or directory', 'doom.wad')\n"
        f"print(train._describe_fault(missing, SimpleNamespace(path=Path({str(tmp_path)!r})), None))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "doom.wad could not be read or written (No such file or directory). Nothing was saved.\n"


def test_an_interrupt_while_a_command_loads_ends_it_without_a_word(tmp_path, monkeypatch):
    (tmp_path / "rich.py").write_text("import os, signal\n\nos.kill(os.getpid(), signal.SIGINT)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    done = subprocess.run(
        [sys.executable, "-m", "repro.check"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_another_python_without_the_packages_is_told_which_one_has_them(monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = os.path.realpath(sys.executable)  # that of the system, which -S keeps from its own packages
    done = subprocess.run([python, "-S", "-m", "repro.train"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"repro.train: the package 'ml_collections', which {Path.cwd() / 'repro/train.py'} imports, is missing; "
        f"run the command with .venv/bin/python instead of {python}, after make setup.\n"
    )


def test_tuples_are_written_with_and_without_brackets():
    config = {"units": (64, 64), "range": (0, 0.5), "names": ("a",)}
    for text in ("32", "32,16", "(32, 16)", "(32,)", "[32]", "()"):
        assert cli._fits(text, config["units"])
    assert cli._fits("1,0.25", config["range"])
    assert cli._fits("b,c", config["names"])
    for text in ("a", "32.5", "", "32,,16", "1e2,64", "64.0"):
        assert not cli._fits(text, config["units"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--config.env.task=pnog"], "pong"),
        (["--config.num_env_frames=-5"], "num_env_frames=-5: choose a finite number above 0."),
        (["--config.learner.learning_rate=-1"], "learner.learning_rate=-1.0: choose a finite number of 0 or more."),
        (["--config.learner.learning_rate=nan"], "learner.learning_rate=nan: choose a finite number of 0 or more."),
        (
            ["--config.network.torso=dense"],
            "network.torso='dense', but the observations are images: choose shallow or deep.",
        ),
        (
            ["--config.network.compute_dtype=float16"],
            "network.compute_dtype='float16': choose float32 or bfloat16 with",
        ),
        (["--config.network.torso=wide"], "network.torso='wide': choose shallow, deep or dense."),
        (["--config.loss.correction=retrace"], "loss.correction='retrace': choose vtrace"),
        (["--config.runtime.schedule=sync"], "runtime.schedule='sync': choose async, lockstep, a3c or processes."),
        (["--config.runtime.compile=jit"], "runtime.compile='jit': choose auto, xla or graph."),
        (
            ["--config.runtime.schedule=a3c", "--config.learner.batch_size=6"],
            "runtime.schedule=a3c: learner.batch_size=6 must divide runtime.envs_per_actor",
        ),
    ],
)
def test_an_impossible_value_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    done = run_command(tmp_path, "repro.train", f"--run_dir={tmp_path / 'x'}", CONFIG, *SMALL, *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    *before, last = done.stderr.splitlines()
    assert sentence in last
    assert [line.startswith("Training impala_shallow on ") for line in before] in ([], [True])
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("config", "field", "lacking"),
    [
        ("impala", "learner.unroll_length", r"Unable to allocate .*"),
        ("impala", "runtime.queue_capacity", r"unrolls take [\d.e+]+ GB, and [\d.]+ GB are available"),
        ("impala", "network.units", r"OOM when allocating tensor with shape ?\[\d+,\d+\]"),
        ("refer", "learner.batch_size", r"Unable to allocate .*"),
    ],
)
def test_sizes_for_which_there_is_no_memory_are_one_sentence(tmp_path, config, field, lacking):
    fields = ["--config.memory.start_steps=300"] if config == "refer" else []
    fields += [f"--config.{field}={10**12}", f"--run_dir={tmp_path / 'x'}"]
    done = run_command(tmp_path, "repro.train", f"--config=paper_configs/{config}/gymnasium.py:smoke", *fields)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    sentence = (
        rf"there is not enough memory \({lacking}\): choose smaller sizes, of which the largest are {field}=\(?1000"
    )
    assert re.search(sentence, done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.parametrize(
    ("config", "setting", "field"),
    [
        ("refer", "learner.method=naf", "exploration"),
        ("refer", "algorithm=refer.ppo", "ppo"),
        ("impala", "algorithm=acer.discrete", "learner.on_policy"),
    ],
)
def test_a_field_that_the_settings_need_and_the_configuration_lacks_is_named(tmp_path, config, setting, field):
    arguments = f"--config=paper_configs/{config}/gymnasium.py:smoke", f"--config.{setting}"
    done = run_command(tmp_path, "repro.train", *arguments, f"--run_dir={tmp_path / 'x'}")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f": the configuration has no field '{field}', which " in done.stderr.splitlines()[-1]
    assert not (tmp_path / "x").exists()


def test_a_run_that_training_evaluates_says_at_its_end_what_counts(tmp_path):
    fields = ["--config.env.task=CartPole-v1", "--config.num_env_steps=480"]
    config = "--config=paper_configs/acer/gymnasium.py:smoke"
    done = run_command(tmp_path, "repro.train", config, *fields, f"--run_dir={tmp_path / 'x'}")
    assert done.returncode == 0, done.stderr
    evaluation = json.loads((tmp_path / "x/complete.json").read_text())["evaluation"]
    said = f"the mean of {evaluation['episodes']} episodes that ended in the last 480 steps of training"
    assert re.search(rf"episodes\. Its score is [\d.]+, {said}", done.stderr)


def test_actions_that_do_not_fit_are_one_sentence_and_the_run_directory_stays_free(tmp_path):
    arguments = ["--config=paper_configs/impala/gymnasium.py:smoke", f"--run_dir={tmp_path / 'x'}"]
    done = run_command(tmp_path, "repro.train", *arguments, "--config.env.task=Pendulum-v1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1:] == [
        "repro.train: agent impala takes Discrete actions, but those of Pendulum-v1 are Box(1,); "
        "take an agent of paper_configs/refer/gymnasium.py, or acer_continuous of paper_configs/acer/gymnasium.py."
    ]
    done = run_command(
        tmp_path, "repro.train", *arguments, "--config.env.task=CartPole-v1", "--config.num_env_steps=1000"
    )
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stderr.splitlines()
    assert first == f"Training impala on CartPole-v1, seed 1, for 1,000 steps in {tmp_path / 'x'}, from the beginning."
    assert re.fullmatch(
        rf"{tmp_path / 'x'} is complete after 1,\d\d\d steps: mean return [\d.]+ of the last \d+ episodes\. "
        rf"Its last checkpoint is in {tmp_path / 'x/checkpoints'}\. "
        rf"Evaluate it with: \S+ -m repro\.evaluate --run_dir={tmp_path / 'x'}",
        last,
    )

    again = run_command(tmp_path, "repro.train", f"--run_dir={tmp_path / 'x'}")
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (0, "", 1)
    assert again.stderr.startswith(
        f"{tmp_path / 'x'} is complete, see {tmp_path / 'x/complete.json'}. Evaluate it with"
    )
    longer = run_command(tmp_path, "repro.train", *arguments, "--config.num_env_steps=2000")
    assert (longer.returncode, longer.stderr.count("\n")) == (2, 1)
    assert "a longer or a different one needs another --run_dir" in longer.stderr

    evaluated = run_command(tmp_path, "repro.evaluate", f"--run_dir={tmp_path / 'x'}", "--episodes=2")
    protocol = "2 episodes of CartPole-v1 after training, sampled actions"
    assert re.fullmatch(rf"[0-9]+\.[0-9] \+- [0-9]+\.[0-9] \(standard deviation over {protocol}\)\n", evaluated.stdout)
    assert "before the end of training" not in evaluated.stderr
    assert json.loads((tmp_path / "x/evaluation.json").read_text())["protocol"] == protocol
    (tmp_path / "x/complete.json").unlink()
    settings = json.loads((tmp_path / "x/config.json").read_text())
    settings["config"]["num_env_steps"] = 2_000
    (tmp_path / "x/config.json").write_text(json.dumps(settings))
    evaluated = run_command(tmp_path, "repro.evaluate", f"--run_dir={tmp_path / 'x'}", "--episodes=2")
    protocol = r"2 episodes of CartPole-v1 after 1\.\d\dk of 2\.00k steps, sampled actions"
    unfinished = re.search(protocol, evaluated.stdout)
    assert unfinished, evaluated.stdout
    assert f"{tmp_path / 'x'}: this policy is from before the end of training, after 1." in evaluated.stderr
    assert json.loads((tmp_path / "x/evaluation.json").read_text())["protocol"] == unfinished[0]

    (tmp_path / "x/complete.json").write_text("{}")
    shutil.rmtree(tmp_path / "x/checkpoints")
    again = run_command(tmp_path, "repro.train", f"--run_dir={tmp_path / 'x'}")
    assert (again.returncode, again.stderr.count("\n")) == (0, 1)
    assert "It cannot be evaluated, since its checkpoints are gone. A longer run is a new one" in again.stderr


COMMANDS = ("train", "reproduce", "evaluate", "campaign", "check", "report", "benchmark", "population", "regression")


@pytest.mark.parametrize("name", [*COMMANDS, "alternate", "benchmarks.dmlab_levels"])
def test_every_help_begins_with_an_example(tmp_path, name):
    done = run_command(tmp_path, f"repro.{name}", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"python -m repro.{name}" in next(line for line in done.stdout.splitlines() if line)


def test_help_lists_config_with_an_example():
    done = run("repro.train", "--help")
    assert "--config: Configuration file and scale, such as" in done.stdout
    assert "paper_configs/impala/atari_shallow.py:desk" in done.stdout
    assert done.stdout.count("\n") < 25


def test_help_lists_the_fields_of_a_configuration_that_is_given():
    done = run(
        "repro.train", "-config", "paper_configs/impala/gymnasium.py:smoke", "-config.num_env_steps=2e5", "--help"
    )
    assert (done.returncode, done.stderr) == (0, "")
    fields = done.stdout.split(
        "Fields of this configuration, with the values of its file, whose comments say units and sources:\n"
    )[1].splitlines()
    assert {"  --config.env.task=CartPole-v1", "  --config.network.units=64,64"} <= set(fields)


def test_a_whole_number_may_have_an_exponent(tmp_path):
    fields = ("--config.env.task=CartPole-v1", "--config.num_env_steps=4e2", "--config.learner.batch_size=16")
    config = "--config=paper_configs/impala/gymnasium.py:smoke"
    done = run_command(tmp_path, "repro.train", config, *fields, f"--run_dir={tmp_path / 'x'}")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "x/config.json").read_text())["config"]["num_env_steps"] == 400


def test_a_command_from_another_folder_says_where_configurations_are(tmp_path):
    done = run_command(tmp_path, "repro.train", f"--run_dir={tmp_path / 'x'}", CONFIG, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("(those of the suite are found from its own folder only)\n")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("config.network.units = 128", "network.units is 128; choose a value like (64, 64)."),
        ("config.runtime.num_actors = 'two'", "runtime.num_actors is 'two'; choose a value like "),
        ("config.learner.batch_size = None", "learner.batch_size is None; choose a value like "),
        ("config.learner.batch_size = 2.5", "learner.batch_size is 2.5; choose a value like "),
        ("config.evaluation.greedy = 1", "evaluation.greedy is 1; choose a value like False."),
        ("config.learner.learning_rate = 1; config.meta.initial_gamma = 5.0", None),
    ],
)
def test_a_value_of_another_type_in_an_own_configuration_is_found(tmp_path, change, sentence):
    file = tmp_path / "mine.py"
    file.write_text(
        "from paper_configs.stac import gymnasium\n\n\ndef get_config(scale='desk'):\n"
        "    config = gymnasium.get_config(scale)\n"
        f"    with config.ignore_type():\n        {change}\n    return config\n"
    )
    arguments = (f"--config={file}", f"--run_dir={tmp_path / 'x'}", "--config.learner.x=1")
    done = run_command(tmp_path, "repro.train", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    expected = "the configuration has no field 'learner.x'" if sentence is None else f"{file}: {sentence}"
    assert expected in done.stderr


def test_a_setting_that_a_sweep_would_replace_is_found(tmp_path):
    arguments = ("--config=paper_configs/impala/dmlab_table2.py:paper", f"--run_dir={tmp_path / 'x'}")
    setting = "--config.learner.learning_rate=1e-3"
    done = run_command(tmp_path, "repro.train", *arguments, setting)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert (
        "learner.learning_rate would not be read, since the sweep samples its value; also give --config.sweep."
        in done.stderr
    )
    for allowed in ("--config.sweep.learning_rate=(1e-4,1e-3)", f"{setting} --config.sweep.sampled=False"):
        done = run_command(tmp_path, "repro.train", *arguments, *allowed.split(), "--config.learner.x=1")
        assert "the configuration has no field 'learner.x'" in done.stderr


@pytest.mark.parametrize("field", ["runtime.compile", "evaluation.greedy"])
def test_a_field_that_only_the_users_algorithm_lacks_is_named_before_training(tmp_path, field):
    """Also one that is read after training; a configuration with an algorithm of one's own may lack any."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from paper_configs.impala import gymnasium\n\n\n"
        "def get_config(scale='desk'):\n    config = gymnasium.get_config(scale)\n"
        "    config.algorithm = 'repro.papers.impala.experiments.discrete:make_experiment'\n"
        f"    del config.{field}\n    return config\n"
    )
    done = run_command(tmp_path, "repro.train", f"--config={file}:smoke", f"--run_dir={tmp_path / 'x'}")
    assert done.returncode == 2, done.stderr
    assert f": the configuration has no field '{field}', which repro.papers.impala" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "x").exists()


def test_the_suites_own_experiments_need_its_root_folder(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "repro.reproduce", "--paper=impala"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        2,
        "repro.reproduce: there is no folder paper_configs here: run the command in the root folder of the suite.\n",
    )


def test_an_algorithm_of_the_users_own_without_an_environment_is_found(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from ml_collections import ConfigDict\n\n\ndef get_config(scale='desk'):\n"
        "    return ConfigDict({'algorithm': 'mine:make', 'agent': 'mine', 'num_env_steps': 100})\n"
    )
    for command in ("repro.train", "repro.population"):
        done = run_command(tmp_path, command, f"--config={file}", f"--run_dir={tmp_path / 'x'}")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"{command}: the configuration has no field 'env', which mine:make reads")


def test_a_folder_whose_config_has_no_agent_is_no_run(tmp_path):
    (tmp_path / "config.json").write_text('{"seed": 1, "config": {"env": {}}}')
    done = run_command(tmp_path, "repro.evaluate", f"--run_dir={tmp_path}")
    assert done.stderr.startswith(f"repro.evaluate: {tmp_path} holds no readable run (no valid config.json); give the ")
    assert done.stderr.count("\n") == 1


def test_reproduce_says_in_one_sentence_how_to_get_deepmind_lab(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    folders = [f"--runs_dir={tmp_path}", f"--results_dir={tmp_path}"]
    done = run("repro.reproduce", "--paper=impala", "--experiment=dmlab_table2", "--scale=smoke", *folders)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"repro.reproduce: {MISSING}\n"


def test_reproduce_names_what_it_knows(tmp_path):
    right, own = tmp_path / "right.py", tmp_path / "own.py"
    right.write_text("from paper_configs.impala.gymnasium import get_config\n")
    own.write_text(f"{MINE}    config = gymnasium.get_config(scale)\n    config.env.speed = 1\n    return config\n")
    folders = [f"--runs_dir={tmp_path}", f"--results_dir={tmp_path}"]
    for arguments, sentence in [
        (
            ["--paper=impalla"],
            "no experiments for paper 'impalla'; did you mean 'impala'? (there are some for acer, ctrace, impala",
        ),
        (["--paper=impala", "--experiment="], "--experiment is empty; see "),
        (["--paper=impala", "--task="], "--task is empty; see "),
        (
            ["--paper=impala", "--experiment=theorems", "--scale=smoke", "--results_dir=/proc/records"],
            "cannot write to --results_dir=/proc/records (No such file or directory); give another one.",
        ),
        (["--paper=impala", "--experiment=atari_shalow"], "did you mean 'atari_shallow'?"),
        (["--paper=impala", "--scale=huge"], "Unknown scale 'huge'"),
        (["--paper=impala", "--task=pnog"], "pong"),
        (
            ["--paper=impala", "--experiment=paper_configs/impala/atari_shalow.py"],
            "did you mean 'atari_shallow'?",
        ),
        (["--paper=impala", "--experiment=my_config.py"], "no configuration file 'my_config.py' (there are some in "),
        (["--paper=impala", f"--experiment={tmp_path}/mine.py"], f"mine.py' ({tmp_path} has own.py, right.py)"),
        (["--paper=impala", "--experiment=/lab/mine.py"], "no configuration file '/lab/mine.py' ("),
        (
            ["--paper=impala", f"--experiment={tmp_path}/rihgt.py"],
            f"no configuration file '{tmp_path}/rihgt.py'; did you mean '{right}'?\n",
        ),
        (["--paper=impala", "--experiment=my/mine.py:desk"], "my/mine.py:desk: give the scale as --scale=desk."),
        (
            ["--paper=impala", f"--experiment={own}"],
            "nothing reads the field 'env.speed', which no configuration of the suite has",
        ),
        (
            ["--paper=impala", f"--experiment={right}", "--cluster=auto", "--spread=runs"],
            f"other machines do not have {right}; move it to paper_configs/impala.",
        ),
    ]:
        done = run_command(tmp_path, "repro.reproduce", *folders, *arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert sentence in done.stderr


def test_a_config_of_the_users_own_has_records_and_a_page(tmp_path):
    """By its path alone, for a random player, who is done in a second."""
    file = tmp_path / "lander.py"
    file.write_text("from paper_configs.impala.gymnasium import get_config\n")
    folders = [f"--runs_dir={tmp_path}", f"--results_dir={tmp_path / 'records'}"]
    arguments = ["--paper=impala", f"--experiment={file}", "--agent=random", "--scale=smoke", *folders]
    done = run_command(tmp_path, "repro.reproduce", *arguments)
    assert done.returncode == 0, done.stderr
    record = records.read_record(next((tmp_path / "records/impala").rglob("seed_1.json")))
    assert record["experiment"] == str(file)
    page = (tmp_path / "report/index.html").read_text()
    assert f"make reproduce-impala EXPERIMENT={file} AGENT=random TASK=CartPole-v1 SCALE=smoke SEEDS=1" in page
    again = run_command(tmp_path, "repro.reproduce", *arguments)
    assert "Nothing is left to run." in again.stdout


def test_runs_in_folders_of_their_own_answer_claims_and_have_a_page_beside_them(tmp_path):
    config = staleness.current_config("refer", "figure_4_vracer", "desk")
    for agent, final in (("vracer_refer", 3000.0), ("vracer_er", 5.0)):
        for seed in (1, 2):
            record = make_record(seed, agent=agent, final=final, config=config, experiment="figure_4_vracer")
            write(tmp_path / "records", record | {"paper": "refer", "task": "HalfCheetah"})
    folders = [f"--runs_dir={tmp_path}", f"--results_dir={tmp_path / 'records'}"]
    arguments = ["--paper=refer", "--task=HalfCheetah", "--agent=vracer_refer,vracer_er", "--seeds=2", *folders]
    done = run_command(tmp_path, "repro.reproduce", *arguments)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"Figure 4 +mujoco_gym +V-RACER,.* undecided: 10 % of the budget, 2 of 5 runs", done.stdout)
    assert len(rows) == 2  # returns and their spread, by the random player of the committed records
    said = f"Nothing is left to run. To train again, give other folders, such as --runs_dir={tmp_path / 'again'} "
    assert said in done.stdout
    assert done.stdout.endswith(f"Page: {tmp_path / 'report/index.html'}\n")


def test_train_needs_a_config_or_a_run(tmp_path):
    done = run("repro.train")
    help_command = f"{sys.executable} -m repro.train --help"
    assert (done.returncode, done.stderr) == (2, f"repro.train: --run_dir is missing; see {help_command}.\n")
    done = run_command(tmp_path, "repro.train", f"--run_dir={tmp_path}")
    assert done.returncode == 2
    assert "holds no readable run (no valid config.json); start one with --config" in done.stderr


def test_all_flags_that_are_missing_are_named(tmp_path):
    done = run_command(tmp_path, "repro.alternate")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("repro.alternate: --first and --second are missing; see ")


def test_evaluate_needs_a_run(tmp_path):
    (tmp_path / "run_1").mkdir()
    (tmp_path / "run_1/config.json").write_text("{}")
    near = f"give the --run_dir of a training, such as {tmp_path / 'run_1'}.\n"
    for run_dir, what in (
        (tmp_path, "holds no readable run (no valid config.json)"),
        (tmp_path / "run_2", "does not exist"),
    ):
        done = run_command(tmp_path, "repro.evaluate", f"--run_dir={run_dir}")
        assert (done.returncode, done.stderr) == (2, f"repro.evaluate: {run_dir} {what}; {near}")
    for run_dir, what in (
        (tmp_path / "elsewhere/x", "does not exist"),
        (tmp_path / "run_1", "holds no readable run (no valid config.json)"),
    ):
        done = run_command(tmp_path, "repro.evaluate", f"--run_dir={run_dir}")
        assert done.stderr == f"repro.evaluate: {run_dir} {what}; give the --run_dir of a training.\n"


@pytest.mark.parametrize(
    ("folder", "flags", "error"),
    [
        ("none", [], "none does not exist; give the --run_dir of a training, such as "),
        ("run", ["--video=game.avi"], "--video=game.avi: the name must end in .webm or .mp4.\n"),
        ("run", ["--export={run}/config.json"], "/run/config.json is a file; choose a folder, which may be new.\n"),
        ("run", ["--task=qbert"], "--task=qbert: the run has one task, pong; leave the flag out.\n"),
    ],
)
def test_flags_of_an_evaluation_are_checked_before_tensorflow_is_loaded(tmp_path, folder, flags, error):
    (tmp_path / "run").mkdir()
    flags = [flag.replace("{run}", str(tmp_path / "run")) for flag in flags]
    settings = {"seed": 1, "config": atari_shallow.get_config("smoke").to_dict()}
    (tmp_path / "run/config.json").write_text(json.dumps(settings))
    code = (
        "import sys\nfrom repro import cli, evaluate\n"
        f"sys.argv = ['evaluate', '--run_dir={tmp_path / folder}', *{flags}]\n"
        "try:\n    cli.run(evaluate.main)\n"
        "except SystemExit as end:\n    print(end.code, 'tensorflow' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "2 False\n", done.stderr
    assert error in done.stderr


def test_games_of_an_evaluation_follow_from_the_seed_of_the_run(tmp_path):
    """They are none of training, whose seeds are far below."""
    settings = {"seed": 7, "config": atari_shallow.get_config("smoke").to_dict()}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    program = (
        "import sys\nfrom types import SimpleNamespace\nfrom repro import cli, evaluate, papers\n"
        "def note(checkpoints, num_envs, seed, warn):\n    print(seed)\n    raise ValueError('enough is known')\n"
        "evaluation = SimpleNamespace(episodes=2, num_envs=2)\n"
        "papers.find_experiment = lambda _: SimpleNamespace(evaluation=evaluation, load_policy=note)\n"
        "cli.run(evaluate.main)\n"
    )
    done = run_program(tmp_path, program, f"--run_dir={tmp_path}")
    assert (done.returncode, done.stdout) == (2, "1000007\n"), done.stderr


def test_an_evaluation_that_is_told_to_stop_cleans_up(tmp_path):
    """Python does not, by its own handler, and ViZDoom's engines leave a folder and shared memory behind."""
    code = (
        "import atexit, os, runpy, signal\nfrom repro import cli\n"
        "atexit.register(print, 'cleaned up')\n"
        "cli.app.run = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)\n"
        "runpy.run_module('repro.evaluate', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (cli.INTERRUPTED, "cleaned up\n", "")


def test_evaluate_names_the_best_member_of_a_population(tmp_path):
    (tmp_path / "config.json").write_text('{"seed": 1, "config": {}}')
    (tmp_path / "lineage.json").write_text("{}")
    for complete, member in (("", "member_00"), ('{"best": 3}', "member_03")):
        if complete:
            (tmp_path / "complete.json").write_text(complete)
        done = run_command(tmp_path, "repro.evaluate", f"--run_dir={tmp_path}")
        assert done.returncode == 2
        assert done.stderr.startswith(f"repro.evaluate: {tmp_path} holds a population; evaluate one of its members")
        assert done.stderr.endswith(f" -m repro.evaluate --run_dir={tmp_path / member}\n")


def test_a_run_whose_checkpoints_are_all_broken_says_so_in_one_sentence(tmp_path):
    arguments = (CONFIG, "--config.num_env_frames=2000", *SMALL, f"--run_dir={tmp_path / 'x'}")
    assert run_command(tmp_path, "repro.train", *arguments).returncode == 0
    (tmp_path / "x/complete.json").unlink()
    for path in (tmp_path / "x/checkpoints").iterdir():
        (path / "state.npz").write_bytes(b"")
    left = sorted((tmp_path / "x/checkpoints").rglob("*"))
    done = run("repro.train", *arguments)
    assert done.returncode == 2
    began, sentence = done.stderr.splitlines()  # and no emulator is called leaked
    assert began.endswith("from its last checkpoint.")
    assert sentence.startswith(f"repro.train: All checkpoints in {tmp_path / 'x/checkpoints'} are broken (checkpoint_")
    assert "Put an intact copy there, or train again with another --run_dir; nothing was removed." in sentence
    assert sorted((tmp_path / "x/checkpoints").rglob("*")) == left


def test_a_second_process_on_a_run_is_refused(tmp_path):
    first = RunDirectory(tmp_path, {}, seed=1)
    second = run_command(tmp_path, "repro.train", CONFIG, f"--run_dir={tmp_path}")
    assert second.returncode == 2
    assert f"Another process is running in {tmp_path}" in second.stderr
    assert second.stderr.count("\n") == 1
    del first


def test_stop_resume_evaluate_export(tmp_path):
    run_dir = tmp_path / "run"
    fields = ("--config.num_env_frames=24000", "--config.env.max_frames=2000", *SMALL)
    arguments = [CONFIG, *fields, f"--run_dir={run_dir}", "--seed=3"]
    first = subprocess.Popen([sys.executable, "-m", "repro.train", *arguments], stderr=subprocess.PIPE, text=True)
    began = first.stderr.readline()
    assert began == f"Training impala_shallow on pong, seed 3, for 24,000 frames in {run_dir}, from the beginning.\n"
    wait_for_rows(run_dir, 3)
    first.send_signal(signal.SIGTERM)
    _, stderr = first.communicate(timeout=60)
    assert first.returncode == 0
    assert f"Resume with: {sys.executable} -m repro.train {' '.join(arguments)}" in stderr
    assert "leaked" not in stderr  # as ALE's emulators are called that live when Python ends

    other = run_command(tmp_path, "repro.train", *arguments, "--config.learner.learning_rate=0.5")
    assert other.returncode == 2
    assert "other settings (learner.learning_rate: 0.0006 there, 0.5 here); " in other.stderr

    resumed = run("repro.train", *arguments)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stderr.splitlines()[0].endswith(f" in {run_dir}, from its last checkpoint.")
    assert f"Resuming {run_dir} at" in resumed.stderr
    assert "Warning" not in resumed.stderr
    assert "leaked" not in resumed.stderr
    updates = [row["updates"] for row in read_progress(run_dir / "progress.csv")]
    assert updates == sorted(set(updates))
    assert json.loads((run_dir / "complete.json").read_text())["num_env_frames"] >= 24_000

    video, export = tmp_path / "game.webm", tmp_path / "runs/x/policy"
    done = run("repro.evaluate", f"--run_dir={run_dir}", "--episodes=3", f"--video={video}", f"--export={export}")
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    assert len(evaluation["returns"]) == evaluation["episodes"] == 3
    assert is_newest(run_dir / "checkpoints", evaluation["updates"])
    assert all(-21 <= score <= 21 and score == int(score) for score in evaluation["returns"])
    assert video.stat().st_size > 10_000
    assert (export / "saved_model.pb").exists()

    snippet = re.search(r"```python\n(.*?)```", Path("README.md").read_text(), re.S)[1]
    shown = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.fullmatch(r"tf\.Tensor\(\[[0-5]\], shape=\(1,\), dtype=int32\)\n", shown.stdout)

    blocked = run_dir / "progress.csv" / "game.webm"  # a file stands where its folder should be
    failed = run_command(tmp_path, "repro.evaluate", f"--run_dir={run_dir}", "--episodes=1", f"--video={blocked}")
    assert failed.returncode == 1
    assert "evaluation.json, but the video or the export failed" in failed.stderr
    assert "Traceback" not in failed.stderr
    named = run_command(tmp_path, "repro.evaluate", f"--run_dir={run_dir}", "--video=game.avi")
    assert (named.returncode, "must end in .webm or .mp4" in named.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_reproduce_stops_and_its_run_is_saved(tmp_path, number):
    folders = [f"--runs_dir={tmp_path}", f"--results_dir={tmp_path / 'records'}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "repro.reproduce", "--paper=impala", "--scale=smoke", *folders],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell in the background ignores it
    )
    run_dir = tmp_path / "impala/atari_shallow/pong/impala_shallow/smoke/seed_1"
    wait_for_rows(run_dir, 3)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "The run is not finished; the same command resumes it." in stdout
    assert "Stopped and saved." in stderr
    assert "Resume with" not in stderr  # training alone would make no record
    newest = max((run_dir / "checkpoints").glob("checkpoint_*"))
    assert int(newest.name.removeprefix("checkpoint_")) >= read_progress(run_dir / "progress.csv")[-1]["updates"]
