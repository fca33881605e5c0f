"""Settings that all studies share: those of experiments that train nothing."""

import ml_collections

from repro.config import SCALES, unknown_scale


def study_config(
    paper: str, study: str, answers: tuple[str, ...], scale: str, suite: str, task: str
) -> ml_collections.ConfigDict:
    """Returns a study without its own settings and the number of its cases, `evaluation.episodes`.

    Args:
        paper: short name; `repro/papers/<paper>/<study>.py` runs the study.
        study: name of the experiment and of the module that runs it.
        answers: names of the answers, one record each; their sentences are in `published/<paper>.json`.
        scale: one of `SCALES`.
        suite: environment suite.
        task: name in records.

    Raises:
        ValueError: unknown scale.
    """
    if scale not in SCALES:
        raise unknown_scale(scale)
    config = ml_collections.ConfigDict()
    config.paper = paper
    config.experiment = study
    config.study = study  # module of the paper's package that runs it; nothing is trained
    config.agent = answers[0]
    config.answers = answers
    config.scale = scale

    config.env = ml_collections.ConfigDict()
    config.env.name = suite  # environment suite
    config.env.task = task

    config.evaluation = ml_collections.ConfigDict()
    return config
