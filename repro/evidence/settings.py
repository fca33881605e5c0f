"""Printed hyper-parameters beside those of this repository's configs at the published scale."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Literal

from repro.evidence import published, staleness

Judgement = Literal["as printed", "differs", "no config yet", "not a field"]
ABSENT = "absent"


@dataclasses.dataclass(frozen=True)
class SettingComparison:
    """One printed setting for one experiment.

    Attributes:
        setting: as printed.
        experiment: one of its experiments.
        ours: value of `setting.field` in the experiment's config at scale `paper`; the word `absent` where the
            config has no such field; None where it was not looked up.
        judgement: `as printed` or `differs` where `setting.field` was looked up, `not a field` where the setting
            has no field of a config to go by, `no config yet` where the experiment has no config.
    """

    setting: published.PublishedSetting
    experiment: str
    ours: Any
    judgement: Judgement


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


def _compare(setting: published.PublishedSetting, experiment: str, configs_dir: pathlib.Path) -> SettingComparison:
    if not staleness.config_path(setting.paper, experiment, configs_dir).is_file():
        return SettingComparison(setting, experiment, None, "no config yet")
    if setting.field is None:
        return SettingComparison(setting, experiment, None, "not a field")
    ours = _look_up(staleness.current_config(setting.paper, experiment, "paper", configs_dir), setting.field)
    same = ours == setting.equals and isinstance(ours, bool) == isinstance(setting.equals, bool)
    return SettingComparison(setting, experiment, ours, "as printed" if same else "differs")


def _look_up(config: Mapping[str, Any], field: str) -> Any:
    value: Any = config
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return ABSENT
        value = value[name]
    return value
