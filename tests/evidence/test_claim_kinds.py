"""Kinds of claims, and how they use fields of a row."""

import dataclasses
import json

import numpy as np
import pytest

from repro.evidence import claim_kinds, published
from tests.evidence.claim_rows import printed_claim


def test_a_lead_above_a_human_s_score_counts_for_nothing_in_the_capped_mean():
    """Of two games, ours has 200 and 50 % of a human's score, theirs 100 and 40 %: capped, the lead is 5 points."""
    references = published.normaliser("atari57")

    def final(game, share):
        return references[game]["random"] + share * (references[game]["human"] - references[game]["random"])

    shares = {"pong": (2.0, 1.0), "alien": (0.5, 0.4)}
    tasks = {
        game: [[{"task": game, "evaluation": {"mean": final(game, share)}}] for share in of_agents]
        for game, of_agents in shares.items()
    }
    lead = {}
    for name in ("human_capped_mean_difference", "human_normalised_median_difference"):
        claim = claim_kinds.find_claim(dataclasses.replace(printed_claim(name), normaliser="atari57"))
        numbers = [claim.of_task(by_agent)([np.ones((1, 1))] * 2) for by_agent in tasks.values()]
        lead[name] = claim.over_tasks(np.stack(numbers))
    assert lead["human_capped_mean_difference"] == pytest.approx(5.0)
    assert lead["human_normalised_median_difference"] == pytest.approx(55.0)


def test_scores_are_compared_with_those_in_the_folder_of_the_row(tmp_path):
    row = dataclasses.replace(printed_claim("human_normalised_median_difference"), directory=tmp_path)
    row = dataclasses.replace(row, normaliser="atari57")
    with pytest.raises(published.PublishedError, match="could not be read"):
        claim_kinds.find_claim(row)
    (tmp_path / "normalisers").mkdir()
    scores = {"pong": {"random": 0.0, "human": 200.0}}
    (tmp_path / "normalisers" / "atari57.json").write_text(json.dumps({"tasks": scores}))
    claim = claim_kinds.find_claim(row)
    ours, theirs = ([{"task": "pong", "evaluation": {"mean": mean}}] for mean in (60.0, 20.0))
    assert claim.over_tasks(claim.of_task([ours, theirs])([np.ones((1, 1))] * 2)[None]) == pytest.approx(20.0)


def test_a_publication_is_one_in_the_folder_of_the_row(tmp_path):
    row = printed_claim("difference_from_publication", publication=["dm_control_a3c", "A3C, features, 1e8 steps"])
    claim = claim_kinds.find_claim(row)
    assert [claim.belongs([[{"task": task}]]) for task in ("walker_walk", "humanoid_run")] == [True, False]
    for other in (
        dataclasses.replace(row, directory=tmp_path),
        dataclasses.replace(row, protocol={"publication": ["dm_control_a3c", "A4C"]}),
    ):
        with pytest.raises(published.PublishedError, match="an unknown table or column of context: dm_control_a3c"):
            claim_kinds.find_claim(other)


def test_a_ratio_of_leads_is_of_means_or_of_medians_over_the_games():
    """Of three games, as shares of a human's score: ours 1, 2, 9 and 1, 1, 4 beside it; elsewhere 0, 4, 5 and 1, 1, 4.

    The means are 4 over 2 and 3 over 2, the medians 2 over 1 and 4 over 1.
    """
    scores = np.array([[1.0, 1.0, 0.0, 1.0], [2.0, 1.0, 4.0, 1.0], [9.0, 4.0, 5.0, 4.0]])[..., None]
    for statistic, expected in (("mean", 2 / 1.5), ("median", 2 / 4)):
        name = f"human_normalised_{statistic}_ratio_of_leads"
        claim = claim_kinds.find_claim(dataclasses.replace(printed_claim(name), normaliser="atari57"))
        assert claim.over_tasks(scores) == pytest.approx(expected)


@pytest.mark.parametrize(
    "claim", [None, "better", "rank_correlation", "logged_at_the_end", "human_capped_mean_ratio", "share_of_log_above"]
)
def test_a_claim_that_is_none_or_lacks_a_field_is_refused(claim):
    with pytest.raises(published.PublishedError, match=f"an unknown claim, '{claim}'"):
        claim_kinds.find_claim(printed_claim(claim))
