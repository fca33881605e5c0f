"""The algorithm that a configuration names."""

import pytest

from paper_configs.impala import atari_shallow
from repro.papers import find_experiment


def test_an_unknown_algorithm_ends_with_the_choices():
    config = atari_shallow.get_config("smoke")
    config.algorithm = "impala.shallow"
    with pytest.raises(ValueError, match=r"algorithm='impala.shallow': choose impala\.\w+"):
        find_experiment(config)


def test_a_configuration_of_an_older_version_ends_in_one_sentence():
    config = atari_shallow.get_config("smoke")
    del config.algorithm
    with pytest.raises(ValueError, match=r"no field 'algorithm': it is of an older version; begin a new run\.$"):
        find_experiment(config)
