"""Every row that contradicts a paper has a paragraph on its page: our number, what differs, what was tried."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pytest

from paper_configs.impala import tradeoffs
from repro.evidence import published
from repro.papers.refer import closed_form_advantages
from repro.papers.refer.advantages import num_coefficients
from repro.report import tables
from repro.tabular import mdps, vtrace
from repro.tabular.vtrace import Weights
from tests.docs.test_numbers import ROOT, page, records, unwrapped

HEADING = "## What contradicts the paper\n"


class Contradicted(NamedTuple):
    """A row of the page of results that contradicts a paper."""

    sentence: str
    table: str
    number: float
    verdict: str


def contradicted(paper: str) -> dict[str, list[Contradicted]]:
    """The rows of a paper by their sentence, as docs/results.md has them, which other tests hold to the records."""
    printed = {(tables.named(row.table), row.column): row.sentence or row.column for row in published.load(paper).rows}
    section = (ROOT / "docs/results.md").read_text().split(f"\n## {tables.PAPERS[paper]}\n")[1].split("\n## ")[0]
    found: dict[str, list[Contradicted]] = {}
    for part in section.split("\n### ")[1:]:
        table = part.split(":")[0].splitlines()[0]
        for cells in (line.split(" | ") for line in part.splitlines() if line.startswith("| ")):
            if verdict := {"disagrees", "contradicts"} & {*cells}:
                (ours,) = (cell for cell in cells if re.fullmatch(r"-?[\d.]+ [\[(].*[\])]", cell))
                sentence = printed[table, cells[1]]
                row = Contradicted(sentence, table, float(ours.split()[0]), verdict.pop())
                found.setdefault(sentence, []).append(row)
    return found


def paragraphs(paper: str) -> list[tuple[str, str, str]]:
    """Heading, verdict and text of each paragraph."""
    if HEADING not in page(paper):
        return []
    section = page(paper).split(HEADING)[1].split("\n## ")[0]
    return re.findall(r"^\*\*([^*]+)\*\* \((\w+)\)\. (.+)$", "\n".join(map(unwrapped, section.split("\n\n"))), re.M)


@pytest.mark.parametrize("paper", tables.PAPERS)
def test_every_contradiction_has_a_paragraph_with_its_numbers(paper):
    by_sentence = contradicted(paper)
    for sentence, rows in by_sentence.items():
        numbers = {f"{row.number:g}" if row.number == 0 else tables.number(abs(row.number)) for row in rows}
        fitting = [
            text
            for heading, verdict, text in paragraphs(paper)
            if {verdict} == {row.verdict for row in rows}
            and all(row.table in heading for row in rows)
            and all(re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", text) for number in numbers)
        ]
        assert len(fitting) == 1, (sentence, numbers)
        assert "What differs" in fitting[0]
        assert re.search(r"[Tt]ried|Other ways", fitting[0])
    assert len(paragraphs(paper)) == len(by_sentence)


@pytest.mark.parametrize(("paper", "name"), tables.PAPERS.items())
def test_all_that_contradict_are_found(paper, name):
    counts = re.search(rf"^\| {name} \| (.+) \|$", (ROOT / "docs/results.md").read_text(), re.M)[1].split(" | ")
    assert len(contradicted(paper)) == int(counts[2]) + int(counts[3])


def test_the_policy_of_v_trace_need_not_lie_between_its_two_policies():
    mu, pi = np.array([[0.2, 0.3, 0.5]]), np.array([[0.6, 0.3, 0.1]])
    mdp = mdps.dirichlet_uniform(1, 3, 0.9, np.random.default_rng(0))
    policy = vtrace.evaluated_policy(mdps.Problem(mdp, pi, mu), Weights(1.0, 1.0))[0]
    assert policy[1] == pytest.approx(0.5, abs=1e-6)
    page = unwrapped((ROOT / "paper_configs/published/README.md").read_text())
    words = "with mu of {}, {} and {}, pi of {}, {} and {} and a rho_bar of 1 it takes the second action with 0.5."
    assert words.format(*mu[0], *pi[0]) in page


def test_how_the_bias_of_impala_goes_with_rho_bar():
    """The policy comes nearer at each doubling, its value need not."""
    config = tradeoffs.get_config("paper")
    env, bounds = config.env, (config.env.min_discount, config.env.max_discount)
    falls, rises, nearer = [], [], []
    for number in range(200):
        rng = np.random.default_rng([1, number])
        problem = mdps.random_problem(env.num_states, env.num_actions, bounds, rng)
        evaluated = [vtrace.evaluated_policy(problem, Weights(rho_bar, 1.0)) for rho_bar in config.rho_bars]
        values = np.array([mdps.state_values(problem.mdp, policy) for policy in evaluated])
        errors = np.abs(values - mdps.state_values(problem.mdp, problem.pi))
        measures = errors.max(1), np.sqrt((errors**2).mean(1)), errors.mean(1)
        falls.append([*((np.diff(bias) < 1e-5).all() for bias in measures), measures[0][-1] < measures[0][0] + 1e-5])
        rises.append(np.diff(measures[0]).max() / measures[0][0])
        distances = np.array([np.abs(policy - problem.pi).sum(1) for policy in evaluated])
        nearer.append((np.diff(distances, axis=0) < 1e-9).all())
    largest, squared, mean, ends = np.mean(falls, 0)
    (text,) = (text for heading, _, text in paragraphs("impala") if "Remark 3" in heading)
    assert all(nearer)
    assert f"on {largest:.3f} of the 200 random problems the bias rises at no doubling" in text
    assert f"in place of the largest distance the share is {squared:.3f}, with the mean distance {mean:.3f}." in text
    assert f"From 1 to 16 the bias falls on {ends:.3f} of the problems" in text
    median = np.median([rise for rise, (fell, *_) in zip(rises, falls) if not fell])
    assert f"the largest rise is {median:.2f} of the bias at a rho_bar of 1 in the median" in text


def test_the_quickest_runs_with_plain_replay_on_halfcheetah():
    intel = [
        [
            record["wall_seconds"] / 3600
            for record in records("refer", experiment, "HalfCheetah", agent)
            if "Intel" in record["hardware"]["cpu"]
        ]
        for experiment, agent in (("figure_4_vracer", "vracer_er"), ("figure_1_ddpg", "ddpg_er"))
    ]
    (text,) = (text for heading, _, text in paragraphs("refer") if "cost" in heading)
    vracer, ddpg = map(min, intel)
    assert f"took {vracer:.2f} hours for V-RACER and {ddpg:.2f} for DDPG" in text


def test_where_the_asymmetric_gaussian_advantage_is_convex(monkeypatch):
    """Its share of second differences above 0 with all outputs 0, for the first policy and for a narrower one."""

    def with_outputs_of_0(rng, form, num_actions):
        return rng.normal(size=(1, num_actions)), np.zeros((1, num_coefficients(form, num_actions)))

    monkeypatch.setattr(closed_form_advantages, "_random_state", with_outputs_of_0)
    shares = {}
    for actions, std in ((6, 0.2**0.5), (1, 0.2**0.5), (6, 0.2**0.5 / 4), (1, 0.2**0.5 / 4)):
        rng = np.random.default_rng(0)
        found = [closed_form_advantages.second_differences(rng, "gaussian", actions, std) for _ in range(100)]
        shares[actions, std] = np.mean(np.array(found) > 0)
    six, one, *narrow = shares.values()
    (text,) = (text for heading, _, text in paragraphs("refer") if "concavity" in heading)
    assert f"{100 * six:.1f} % of the second differences at six actions" in text
    assert one == pytest.approx(six, abs=0.002)
    assert narrow == [0, 0]
