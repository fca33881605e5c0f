"""Published rows whose experiment or agent does not exist, so that no record could ever answer them."""

from __future__ import annotations

import difflib
import pathlib
from collections.abc import Iterable

from repro.evidence import published, staleness
from repro.evidence.records import RecordError, ValidationError


def find_errors(
    papers: Iterable[str],
    published_dir: pathlib.Path = published.PUBLISHED_DIR,
    configs_dir: pathlib.Path = staleness.CONFIGS_DIR,
) -> list[ValidationError]:
    """Returns an error for each experiment and agent that rows name and that the configs of their paper lack.

    Rows that cannot run are left out, since their agents may not be built. So are the agents of an experiment without
    `variants`, such as a study: they are the names of its answers.

    Args:
        papers: short names of the papers.
        published_dir: folder of the published numbers.
        configs_dir: folder of the current configs.

    Raises:
        PublishedError: the published numbers cannot be read.
    """
    errors = []
    for paper in papers:
        rows = [row for row in published.load(paper, published_dir).rows if row.experiment and not row.cannot_run]
        for experiment, agent in sorted({(str(row.experiment), str(row.agent)) for row in rows}):
            file = published_dir / f"{paper}.json"
            try:
                known = staleness.current_config(paper, experiment, "paper", configs_dir).get("variants", {agent: None})
            except RecordError as error:
                errors.append(ValidationError(file, f"Rows of {file} name an experiment that cannot be used: {error}"))
                continue
            if agent not in known:
                near = difflib.get_close_matches(agent, known, n=1)
                meant = f"; did you mean {near[0]!r}?" if near else "."
                sentence = f"Rows of {file} name an agent {agent!r}, which {paper}/{experiment} does not have{meant}"
                errors.append(ValidationError(file, sentence))
    return errors
