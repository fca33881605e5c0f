"""Printed hyper-parameters beside those of this repository's configs at the published scale."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from repro.config import flatten
from repro.evidence import published, random_player, staleness

SettingStatus = Literal["as printed", "differs", "no config yet", "not a field"]
ABSENT = "absent"
NOT_SETTINGS = ("scale", "num_env_frames", "num_env_steps", "evaluation.episodes", "evaluation.num_envs")
"""Fields by which scales differ in budget: how long is trained, and how many games are played then."""


@dataclasses.dataclass(frozen=True)
class SettingComparison:
    """One printed setting for one experiment.

    Attributes:
        setting: as printed.
        experiment: one of its experiments.
        ours: value of `setting.field` in the experiment's config at scale `paper`; the word `absent` where the
            config has no such field; None where it was not looked up.
        status: `as printed` or `differs` where `setting.field` was looked up, `not a field` where the setting
            has no field of a config to go by, `no config yet` where the experiment has no config.
    """

    setting: published.PublishedSetting
    experiment: str
    ours: Any
    status: SettingStatus


def compare_settings(
    paper: str,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
) -> list[SettingComparison]:
    """Returns every printed setting of a paper beside ours, in printed order, once for each of its experiments.

    Args:
        paper: short name.
        configs_dir: holds a directory of configs for each paper.
        published_dir: holds `<paper>.json`.

    Raises:
        PublishedError: no published numbers of this paper, or malformed ones.
        RecordError: a config that cannot be loaded.
    """
    return [
        _compare(setting, experiment, configs_dir)
        for setting in published.load(paper, published_dir).settings
        for experiment in setting.experiments
    ]


def differences(
    record: Mapping[str, Any],
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
) -> dict[str, tuple[Any, Any]]:
    """Returns the settings of a record that are not the paper's, apart from its budget: field to (ours, the paper's).

    They are fields in which its configuration differs from that of the same agent at scale `paper`, and fields that
    differ from a printed setting. Settings printed for an experiment are not those of an agent with its own value of
    the field, and those printed for one agent (`variants.<agent>.<field>`) are no other agent's.

    Args:
        record: a valid record, of a scale `paper` or less.
        configs_dir, published_dir: as in `compare_settings`.

    Raises:
        PublishedError, RecordError: as `compare_settings`.
    """
    paper, experiment = record["paper"], record["experiment"]
    if record["agent"] == random_player.AGENT:
        return {}
    reference = staleness.agent_config(paper, experiment, "paper", record["agent"], configs_dir)
    ignored = (*staleness.RUN_FIELDS, *NOT_SETTINGS)
    found = staleness.config_difference(record["config"], reference, ignored)
    variants = staleness.current_config(paper, experiment, "paper", configs_dir).get("variants", {})
    own = flatten(variants.get(record["agent"], {}))
    printed = published.load(paper, published_dir).settings if paper in published.papers(published_dir) else ()
    for setting in printed:
        field = setting.field
        if experiment not in setting.experiments or field is None or field in own:
            continue
        if field.startswith("variants."):
            _, agent, field = field.split(".", 2)
            if agent != record["agent"]:
                continue
        ours = _look_up(record["config"], field)
        if field not in NOT_SETTINGS and not _same(ours, setting.equals):
            found[field] = (ours, setting.equals)
    return found


def _compare(setting: published.PublishedSetting, experiment: str, configs_dir: pathlib.Path) -> SettingComparison:
    if not staleness.config_path(setting.paper, experiment, configs_dir).is_file():
        return SettingComparison(setting, experiment, None, "no config yet")
    if setting.field is None:
        return SettingComparison(setting, experiment, None, "not a field")
    ours = _look_up(staleness.current_config(setting.paper, experiment, "paper", configs_dir), setting.field)
    return SettingComparison(setting, experiment, ours, "as printed" if _same(ours, setting.equals) else "differs")


def _same(ours: Any, printed: Any) -> bool:
    return ours == printed and isinstance(ours, bool) == isinstance(printed, bool)


def _look_up(config: Mapping[str, Any], field: str) -> Any:
    value: Any = config
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return ABSENT
        value = value[name]
    return value
