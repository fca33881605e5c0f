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
    with pytest.raises(JobError, match=rf"^study='{study}': choose one of online_theorem, theorems, tradeoffs\.$"):
        job.run([0], quiet=True)


def test_a_study_of_an_unknown_paper_ends_with_the_papers(tmp_path):
    config = theorems.get_config("smoke")
    config.paper = "impalas"
    with pytest.raises(JobError, match=r"^paper='impalas': choose one of acer, ctrace, impala, refer, stac\.$"):
        StudyJob(config, config.env.task, 1, tmp_path).run([0], quiet=True)
