"""A record is stale when its config changed, not when the config grew."""

import textwrap

import pytest

from repro.evidence import staleness
from repro.evidence.records import RecordError

CONFIG = """
    from ml_collections import ConfigDict

    def get_config(scale):
        if scale not in ("desk", "paper"):
            raise ValueError(f"Unknown scale {scale!r}.")
        return ConfigDict({"scale": scale, "seed": 1, "env": {"task": "pong", "stack": 4}, "rates": (0.5, 1)})
"""


@pytest.fixture
def configs(tmp_path):
    staleness.current_config.cache_clear()
    path = tmp_path / "configs/impala/atari_shallow.py"
    path.parent.mkdir(parents=True)
    path.write_text(textwrap.dedent(CONFIG))
    return tmp_path / "configs"


def _record(config, scale="desk"):
    return {"paper": "impala", "experiment": "atari_shallow", "agent": "one", "scale": scale, "config": config}


def _config(**env):
    return {"scale": "desk", "seed": 1, "env": {"task": "pong", "stack": 4} | env, "rates": [0.5, 1]}


def test_same_config_is_current_whatever_its_task_and_seed(configs):
    assert staleness.stale_reason(_record(_config()), configs) is None
    assert staleness.stale_reason(_record(_config(task="breakout") | {"seed": 9}), configs) is None


def test_a_record_of_a_file_elsewhere_is_compared_with_this_file(configs):
    own = configs.parent / "mine/lander.py"
    own.parent.mkdir()
    own.write_text(textwrap.dedent(CONFIG).replace('"seed": 1', '"experiment": "atari_shallow"'))
    config = _config() | {"experiment": "mine/lander.py"}
    record = _record(config) | {"experiment": "mine/lander.py"}
    assert staleness.stale_reason(record, configs) is None
    changed = record | {"config": config | {"rates": [1]}}
    assert staleness.stale_reason(changed, configs) == "rates was [1] and is [0.5, 1]"
    moved = record | {"experiment": "mine/rover.py"}
    assert staleness.stale_reason(moved, configs) == f"There is no file {configs.parent / 'mine/rover.py'}"


def test_new_field_in_the_config_leaves_the_record_current(configs):
    config = _config()
    del config["env"]["stack"], config["rates"]
    assert staleness.stale_reason(_record(config), configs) is None


def test_a_record_is_compared_with_what_its_own_agent_reads(configs):
    path = configs / "impala/atari_shallow.py"
    variants = '"variants": {"one": {}, "two": {"env": {"stack": 2}}, "three": {}}'
    path.write_text(path.read_text().replace('"seed": 1,', f'"seed": 1, "agent": "one", {variants},'))
    two = {"agent": "two"}
    assert staleness.stale_reason(_record(_config(stack=2) | two) | two, configs) is None
    assert staleness.stale_reason(_record(_config() | two) | two, configs) == "env.stack was 4 and is 2"
    lost = staleness.stale_reason(_record(_config() | {"agent": "four"}) | {"agent": "four"}, configs)
    assert lost == "The experiment impala/atari_shallow has no such agent now: agent='four': choose one, three, two"


def test_number_and_kind_of_actors_are_free_on_a_cluster_alone(configs):
    path = configs / "impala/atari_shallow.py"
    path.write_text(
        path.read_text().replace('"seed": 1,', '"seed": 1, "runtime": {"schedule": "async", "num_actors": 2},')
    )
    other = _record(_config() | {"runtime": {"schedule": "processes", "num_actors": 64, "num_learners": 2}})
    assert staleness.stale_reason(other | {"machines": 3}, configs) is None
    assert staleness.stale_reason(other | {"learners": 2}, configs) is None
    assert "runtime.schedule was 'processes' and is 'async'" in staleness.stale_reason(other, configs)


@pytest.mark.parametrize("field", ["threads", "checkpoint_seconds", "silent_seconds"])
def test_what_no_algorithm_depends_on_is_free(configs, field):
    path = configs / "impala/atari_shallow.py"
    path.write_text(path.read_text().replace('"seed": 1,', f'"seed": 1, "runtime": {{"{field}": 2, "delay": 1}},'))
    assert staleness.stale_reason(_record(_config() | {"runtime": {field: 9, "delay": 1}}), configs) is None
    other = _record(_config() | {"runtime": {field: 9, "delay": 2}})
    assert staleness.stale_reason(other, configs) == "runtime.delay was 2 and is 1"


def test_the_number_of_actors_is_not_free_where_it_says_how_much_is_played_for_an_update(configs):
    path, learner = configs / "impala/atari_shallow.py", {"learner": {"steps_per_update": 5}}
    current = {"runtime": {"schedule": "lockstep", "num_actors": 2}} | learner
    path.write_text(path.read_text().replace('"seed": 1,', f'"seed": 1, {str(current)[1:-1]},'))
    for number, reason in ((64, "runtime.num_actors was 64 and is 2"), (2, None)):
        other = _record(_config() | {"runtime": {"schedule": "processes", "num_actors": number}} | learner)
        assert staleness.stale_reason(other | {"machines": 3}, configs) == reason


def test_changed_and_lost_fields_are_named_with_both_values(configs):
    assert staleness.stale_reason(_record(_config(stack=3)), configs) == "env.stack was 3 and is 4"
    assert staleness.stale_reason(_record(_config(noop=30)), configs) == "env.noop was 30 and is absent"
    config = _config() | {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert staleness.stale_reason(_record(config), configs).endswith("c was 3 and is absent, and 2 more")


def test_ignored_names_are_fields_and_whole_sections():
    config = {"env": {"task": "pong", "stack": 3}, "environment": 1}
    reference = {"env": {"task": "breakout", "stack": 4}, "environment": 2}
    assert set(staleness.config_difference(config, reference, ("env.task",))) == {"env.stack", "environment"}
    assert set(staleness.config_difference(config, reference, ("env",))) == {"environment"}


def test_lost_experiment_and_lost_scale_make_a_record_stale(configs):
    record = _record(_config())
    assert "no experiment impala/gone" in staleness.stale_reason(record | {"experiment": "gone"}, configs)
    assert "Unknown scale 'smoke'" in staleness.stale_reason(record | {"scale": "smoke"}, configs)


def test_config_that_does_not_load_names_its_file(configs):
    (configs / "impala/broken.py").write_text("import absent_module\n")
    with pytest.raises(RecordError, match="broken.py:desk cannot be loaded"):
        staleness.current_config("impala", "broken", "desk", configs)


@pytest.mark.parametrize("experiment", ["atari_shallow", "atari_deep"])
@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
def test_the_repository_s_own_configs_load(experiment, scale):
    config = staleness.current_config("impala", experiment, scale)
    assert (config["paper"], config["experiment"], config["scale"]) == ("impala", experiment, scale)
