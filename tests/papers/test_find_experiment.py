"""The algorithm or the study that a config names."""

import pytest

from paper_configs.impala import atari_shallow, theorems
from repro.launch.recorded_job import JobError
from repro.launch.study_job import StudyJob
from repro.papers import find_experiment


def test_an_unknown_algorithm_ends_with_the_choices():
    config = atari_shallow.get_config("smoke")
    config.algorithm = "impala.shallow"
    with pytest.raises(ValueError, match=r"algorithm='impala.shallow': choose impala\.\w+"):
        find_experiment(config)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A module outside the suite, `<name>.py`, with some text."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)

    return write


def test_a_function_outside_the_suite_gets_the_resolved_configuration(outside):
    outside(
        "own_algorithm",
        "class Own:\n    build_trainer = None\n\n\ndef build(config):\n    own = Own()\n"
        "    own.seen = config.agent, config.learner.learning_rate\n    return own\n",
    )
    config = atari_shallow.get_config("smoke")
    config.algorithm, config.agent = "own_algorithm:build", "mine"
    config.variants = {"mine": {"learner": {"learning_rate": 0.5}}}
    assert find_experiment(config).seen == ("mine", 0.5)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("bare", r"it is called with a configuration alone \(too many positional arguments\), see docs/extending"),
        ("Agent", r"it is called with a configuration alone \(missing a required argument: 'spec'\), see docs"),
        ("nothing", r"it returned NoneType instead of an experiment, see docs/extending\.md\.$"),
    ],
)
def test_a_function_that_makes_no_experiment_is_one_sentence(outside, function, sentence):
    outside(
        "own_wrong",
        "def bare():\n    pass\n\n\nclass Agent:\n    def __init__(self, config, spec):\n        pass\n\n\n"
        "def nothing(config):\n    pass\n",
    )
    config = atari_shallow.get_config("smoke")
    config.algorithm = f"own_wrong:{function}"
    with pytest.raises(ValueError, match=rf"^algorithm='own_wrong:{function}': {sentence}"):
        find_experiment(config)


@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        (
            "own_missing:build",
            r"own_missing cannot be imported \(ModuleNotFoundError: No module named 'own_missing'\)\. It",
        ),
        (
            "own_broken:build",
            r"own_broken cannot be imported \(ZeroDivisionError: division by zero\)\. It is looked for",
        ),
        ("own_empty:build", r"own_empty has no function 'build'\.$"),
        ("own_empty:", r"own_empty has no function ''\.$"),
        (":build", r" cannot be imported"),
    ],
)
def test_a_function_that_cannot_be_found_is_one_sentence(outside, algorithm, sentence):
    outside("own_broken", "1 / 0\n")
    outside("own_empty", "build = 1\n")
    config = atari_shallow.get_config("smoke")
    config.algorithm = algorithm
    with pytest.raises(ValueError, match=rf"^algorithm='{algorithm}': {sentence}"):
        find_experiment(config)


def test_a_configuration_of_an_older_version_ends_in_one_sentence():
    config = atari_shallow.get_config("smoke")
    del config.algorithm
    with pytest.raises(ValueError, match=r"no field 'algorithm': an older version wrote it; start a new run\.$"):
        find_experiment(config)


@pytest.mark.parametrize("study", ["theorem", "loss", "experiments", "population"])
def test_an_unknown_study_or_a_module_that_is_none_ends_with_the_choices(tmp_path, study):
    config = theorems.get_config("smoke")
    config.study = study
    job = StudyJob(config, config.env.task, 1, tmp_path)
    with pytest.raises(
        JobError, match=rf"^study='{study}': choose one of closed_form, online_theorem, theorems, tradeoffs\.$"
    ):
        job.run([0], quiet=True)


def test_a_study_of_an_unknown_paper_ends_with_the_papers(tmp_path):
    config = theorems.get_config("smoke")
    config.paper = "impalas"
    with pytest.raises(JobError, match=r"^paper='impalas': choose one of acer, ctrace, impala, refer, stac\.$"):
        StudyJob(config, config.env.task, 1, tmp_path).run([0], quiet=True)
