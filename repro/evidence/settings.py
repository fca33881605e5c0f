"""Comparison of printed hyper-parameters with this repository's configs at the published scale."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from repro.config import flatten, with_later
from repro.evidence import published, random_player, staleness

SettingStatus = Literal["as printed", "differs", "no config yet", "not a field"]
NOT_SETTINGS = ("scale", "num_env_frames", "num_env_steps", "evaluation.episodes", "evaluation.num_envs")
"""Fields in which scales differ by their budget: how long training is and how many games are evaluated."""


@dataclasses.dataclass(frozen=True)
class SettingComparison:
    """Comparison of one printed setting with one experiment.

    Attributes:
        setting: printed setting.
        experiment: one of the setting's experiments.
        ours: value of `setting.field` in the experiment's config at scale `paper`; the word `absent` if the config has
            no such field; None if it was not looked up.
        status: `as printed` or `differs` if `setting.field` was looked up, `not a field` if the setting names no field
            of a config, `no config yet` if the experiment has no config.
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
        paper: short name of the paper.
        configs_dir: folder with a directory of configs for each paper.
        published_dir: folder that holds `<paper>.json`.

    Raises:
        PublishedError: there are no published numbers of this paper, or they are malformed.
        RecordError: a config cannot be loaded.
    """
    return [
        _compare(setting, experiment, configs_dir)
        for setting in published.load(paper, published_dir).settings
        for experiment in setting.experiments
    ]


def config_differences(
    record: Mapping[str, Any], configs_dir: pathlib.Path = staleness.CONFIGS_DIR
) -> dict[str, tuple[Any, Any]]:
    """Returns the fields in which a record's config differs from its agent's at scale `paper`, including the budget.

    Sections that the agent does not read are left out, and so are the names of the scale and of the agent.

    Args:
        record: valid record of any scale.
        configs_dir: folder with a directory of configs for each paper.

    Returns:
        Field to (ours, the paper's).

    Raises:
        RecordError: a config cannot be loaded, or the agent does not exist any more.
    """
    reference = staleness.agent_config(record["paper"], record["experiment"], "paper", record["agent"], configs_dir)
    unread = _unread_sections(record["config"], _variant(record, configs_dir))
    ignored = (*staleness.RUN_FIELDS, "scale", "agent", *sorted(unread))
    return staleness.config_difference(record["config"], reference, ignored)


def differences(
    record: Mapping[str, Any],
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
) -> dict[str, tuple[Any, Any]]:
    """Returns the settings of a record that are not the paper's, apart from its budget: field to (ours, the paper's).

    They are the fields of `config_differences` and those that differ from a printed setting. A setting printed for an
    experiment does not apply to an agent that has its own value of the field, unless it names the agents that it does
    not apply to. Nor does it apply to an agent that does not read its section, and one
    printed for an agent (`variants.<agent>.<field>`) does not apply to other agents. A random player has none.

    Args:
        record: valid record of any scale.
        configs_dir, published_dir: as for `compare_settings`.

    Raises:
        PublishedError: published numbers of the paper are malformed.
        RecordError: a config cannot be loaded, or the agent does not exist any more.
    """
    paper, experiment = record["paper"], record["experiment"]
    if record["agent"] == random_player.AGENT:
        return {}
    every = config_differences(record, configs_dir)
    found = {field: pair for field, pair in every.items() if field not in NOT_SETTINGS}
    variant = _variant(record, configs_dir)
    config = with_later(record["config"])
    own, unread = flatten(variant), _unread_sections(config, variant)
    printed = published.load(paper, published_dir).settings if paper in published.papers(published_dir) else ()
    for setting in printed:
        field = setting.field
        if experiment not in setting.experiments or field is None or record["agent"] in setting.except_agents:
            continue
        if field in own and not setting.except_agents:
            continue
        if field.startswith("variants."):
            _, agent, field = field.split(".", 2)
            if agent != record["agent"]:
                continue
        if field.partition(".")[0] in unread:
            continue
        ours = _look_up(config, field)
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


def _variant(record: Mapping[str, Any], configs_dir: pathlib.Path) -> Mapping[str, Any]:
    """Returns the fields of a record's agent in `variants` at scale `paper`; empty if the experiment has one agent."""
    config = staleness.current_config(record["paper"], record["experiment"], "paper", configs_dir)
    return config.get("variants", {}).get(record["agent"], {})


def _unread_sections(config: Mapping[str, Any], variant: Mapping[str, Any]) -> set[str]:
    """Returns the sections that an agent does not read because its variant has another algorithm with its sections."""
    sections = {name for name, value in variant.items() if isinstance(value, Mapping)}
    if "algorithm" not in variant or not sections:
        return set()
    return {name for name, value in config.items() if isinstance(value, Mapping)} - sections - {"env"}


def _same(ours: Any, printed: Any) -> bool:
    return ours == printed and isinstance(ours, bool) == isinstance(printed, bool)


def _look_up(config: Mapping[str, Any], field: str) -> Any:
    value: Any = config
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return staleness.ABSENT
        value = value[name]
    return value
