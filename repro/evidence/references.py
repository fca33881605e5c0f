"""References that results are compared with besides other runs: random players, and the paper's settings."""

import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from repro.evidence import comparisons, published, random_player, settings, staleness

Record = Mapping[str, Any]
Differences = Callable[[Record], Mapping[str, tuple[Any, Any]]]


class References(NamedTuple):
    """References for the runs behind a row.

    random: function from a record to a random player's score in its game; None without a record of one.
    differences: function from a record to its settings that are not the paper's: field to (ours, the paper's).
    """

    random: Callable[[Record], random_player.Level | None]
    differences: Differences

    def random_score(self, used: Iterable[Record]) -> float | None:
        """Returns a random player's mean in the game of some records; None if unknown or different between them."""
        levels = {self.random(record) for record in used}
        level = levels.pop() if len(levels) == 1 else None
        return None if level is None else level.mean

    def differing_settings(self, used: Iterable[Record]) -> dict[str, tuple[Any, Any]]:
        """Returns the settings of some records that are not the paper's: field to (ours, the paper's)."""
        kinds = {(comparisons.key_of(record), record["config_sha256"]): record for record in used}
        return {name: value for record in kinds.values() for name, value in self.differences(record).items()}


def find_references(
    stored: Iterable[Record],
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> References:
    """Returns references made from records and configs.

    Args:
        stored: current records, including those of random players.
        published_dir, configs_dir: as for `settings.differences`.
    """
    levels = random_player.levels(stored)

    def differences(record: Record) -> Mapping[str, tuple[Any, Any]]:
        return settings.differences(record, configs_dir, published_dir)

    return References(lambda record: levels.get(random_player.game_of(record)), differences)
