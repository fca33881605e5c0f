"""The engine of population-based training, on a toy problem whose optimum moves."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paper_configs.impala import dmlab_population, gymnasium
from paper_configs.impala.atari_population import population as population_section
from repro.evidence.commands import Run
from repro.launch import population_display
from repro.launch.jobs import make_job
from repro.launch.lineage import Lineage, MemberRound, PopulationError, read_lineage
from repro.launch.pieces import PieceResult
from repro.launch.population import PARENTS, Population, apply_hparams, find_boundaries, member_folder
from repro.launch.population_display import PopulationDisplay, describe
from repro.launch.population_job import PopulationJob
from repro.launch.recorded_job import Stopped
from repro.papers.impala.population import read_settings
from repro.training.manifest import write_manifest
from repro.training.progress_line import format_score
from repro.training.run_directory import RunDirectoryError, copy_checkpoint, write_json

BUDGET = 100_000
EPISODES = 10


def make_config(**fields):
    config = gymnasium.get_config("smoke")
    config.num_env_steps = BUDGET
    config.population = population_section("")
    values = {
        "size": 6,
        "burn_in": 2_000,
        "interval": 3_000,
        "episodes": EPISODES,
        "threshold": 0.005,
        "learning_rate": (5e-4, 2e-3),
        **fields,
    }
    with config.unlocked(), config.ignore_type():
        config.population.update(values)
    return config


class Toy:
    """Members whose skill, all their weights, grows the faster the nearer their learning rate is to an optimum.

    The optimum falls from 1e-3 by a factor of 33 until the budget is used up. The fitness is the skill.

    Args:
        fail_at: number of the piece at which it stops; the skill of that piece is saved by then.
        diverging: member and number of pieces that diverge.
        episodes: of a piece.
        num_tasks: on each of which the mean return is the skill.
    """

    def __init__(self, fail_at=None, diverging=(), episodes=EPISODES, num_tasks=1):
        self.fail_at, self.diverging, self.episodes, self.num_tasks = fail_at, diverging, episodes, num_tasks
        self.trained = 0

    def __call__(self, pieces):
        for piece in pieces:
            updates, skill = read_skill(piece.folder)
            if updates <= piece.start and piece.end > updates:
                _, skill = (updates, skill) if piece.parent is None else read_checkpoint(piece.parent)
                distance = math.log(piece.config["learner"]["learning_rate"] / optimum(piece.end))
                skill += math.exp(-2 * distance**2) * (piece.end - piece.start) / BUDGET
                if (piece.member, piece.number) in self.diverging:
                    yield piece.member, PieceResult(piece.end, 0, [], diverged=True)
                    continue
                checkpoint = piece.folder / "checkpoints" / f"checkpoint_{piece.end:09d}"
                checkpoint.mkdir(parents=True)
                (checkpoint / "skill.json").write_text(json.dumps([piece.end, skill]))
                write_manifest(checkpoint)
            self.trained += 1
            if self.trained == self.fail_at:
                raise Stopped
            yield piece.member, PieceResult(piece.end, self.episodes, [skill] * self.num_tasks, diverged=False)


def optimum(steps):
    return 1e-3 * 0.03 ** (steps / BUDGET)


def read_checkpoint(checkpoint: Path):
    return json.loads((checkpoint / "skill.json").read_text())


def read_skill(folder: Path):
    checkpoints = sorted((folder / "checkpoints").glob("checkpoint_*"))
    return read_checkpoint(checkpoints[-1]) if checkpoints else (0, 0.0)


def run(path, config, toy=None, seed=1) -> Lineage:
    population = Population(config, seed, path)
    try:
        population.train(toy or Toy(), lambda lineage: None)
    finally:
        population.run.release()
    assert population.lineage == read_lineage(path)
    return population.lineage


def distances(lineage):
    return [abs(math.log(m.hparams["learning_rate"] / optimum(BUDGET))) for m in lineage.rounds[-1]]


def test_a_population_follows_an_optimum_that_moves_and_a_random_search_does_not(tmp_path):
    evolved = run(tmp_path / "pbt", make_config())
    fixed = run(tmp_path / "search", make_config(evolves=False))
    assert fixed.first == evolved.first
    best, best_fixed = (lineage.rounds[-1][lineage.best].fitness for lineage in (evolved, fixed))
    assert best > 1.5 * best_fixed
    assert np.median(distances(evolved)) < 1.0
    assert min(distances(fixed)) > 2.5
    assert [m.hparams for m in fixed.rounds[-1]] == fixed.first
    assert {m.opponent for members in fixed.rounds for m in members} == {None}


def test_boundaries_are_the_burn_in_the_intervals_and_the_budget():
    def of(burn_in, interval, frames):
        return find_boundaries(read_settings(make_config(burn_in=burn_in, interval=interval)), frames)

    assert of(20, 10, 50) == [20, 30, 40, 50]
    assert of(0, 10, 30) == [10, 20, 30]
    assert of(20, 10, 54) == [20, 30, 40, 54]
    assert of(20, 10, 56) == [20, 30, 40, 50, 56]
    assert of(20, 100, 30) == [30]
    with pytest.raises(ValueError, match="population.burn_in=20: choose less than the budget, 20."):
        of(20, 10, 20)


def test_the_weights_go_from_parent_to_child_and_each_skill_is_what_its_descent_gives(tmp_path):
    """The skill of each member at the end, from its lineage alone."""
    lineage = run(tmp_path, make_config(burn_in=40_000, interval=10_000))
    starts, skills = [0, *lineage.boundaries], [0.0] * 6
    adoptions = 0
    for comparison, start, end in zip(lineage.rounds, starts, lineage.boundaries):
        gained = [
            math.exp(-2 * math.log(m.hparams["learning_rate"] / optimum(end)) ** 2) * (end - start) / BUDGET
            for m in comparison
        ]
        skills = [skill + gain for skill, gain in zip(skills, gained)]
        assert [m.mean_return for m in comparison] == pytest.approx(skills)
        skills = [skills[i if m.parent is None else m.parent] for i, m in enumerate(comparison)]
        adoptions += sum(m.parent is not None for m in comparison)
    assert adoptions > 3
    assert skills == pytest.approx([read_skill(member_folder(tmp_path, i))[1] for i in range(6)])


def test_nothing_evolves_in_the_burn_in_nor_at_the_end(tmp_path):
    lineage = run(tmp_path, make_config(burn_in=50_000, interval=10_000, probability=1.0))
    assert lineage.boundaries[0] == 50_000
    for members in (lineage.rounds[0], lineage.rounds[-1]):
        assert [m.next_hparams for m in members] == [m.hparams for m in members]
        assert {m.opponent for m in members} == {None}
    assert all(m.next_hparams != m.hparams for m in lineage.rounds[1])
    assert {m.fitness for m in lineage.rounds[0]} == {None}


def test_returns_of_the_burn_in_and_of_compared_pieces_do_not_count_again(tmp_path):
    """Half of the returns that are needed come in a piece: a member is due at every other comparison."""
    seen = []

    class Half(Toy):
        def __call__(self, pieces):
            seen.append([piece.collects_from_none for piece in pieces])
            collected = EPISODES if len(seen) > 2 and not seen[-1][0] else EPISODES // 2
            for member, result in super().__call__(pieces):
                yield member, result._replace(episodes=collected)

    lineage = run(tmp_path, make_config(burn_in=40_000, interval=10_000), Half())
    assert [first for first, *_ in seen] == [False, True, False, True, False, True, False]
    assert [members[0].due for members in lineage.rounds] == [False, False, True, False, True, False, True]
    for members, before in zip(lineage.rounds[3::2], lineage.rounds[2::2]):
        carried = [before[i if m.parent is None else m.parent].fitness for i, m in enumerate(before)]
        assert [m.fitness for m in members] == carried


@pytest.mark.parametrize("fail_at", [1, 7, 12, 13, 40])
def test_a_population_that_is_stopped_goes_on_as_it_would_have(tmp_path, fail_at):
    config = make_config(burn_in=40_000, interval=10_000)
    whole = run(tmp_path / "whole", config)
    with pytest.raises(Stopped):
        run(tmp_path / "parts", config, Toy(fail_at))
    assert run(tmp_path / "parts", config) == whole
    for i in range(6):
        assert read_skill(member_folder(tmp_path / "parts", i)) == read_skill(member_folder(tmp_path / "whole", i))


@pytest.mark.parametrize("crashes", ["before", "after"])
def test_a_kill_beside_the_writing_of_a_comparison_changes_nothing(tmp_path, monkeypatch, crashes):
    config = make_config(burn_in=40_000, interval=10_000)
    whole = run(tmp_path / "whole", config)
    write, written = Lineage.write, []

    def crash_at_each_first_time(self, path):
        new = len(self.rounds) not in written
        written.append(len(self.rounds))
        if crashes == "before" and new:
            raise KeyboardInterrupt
        write(self, path)
        if crashes == "after" and new:
            raise KeyboardInterrupt

    monkeypatch.setattr(Lineage, "write", crash_at_each_first_time)
    path = tmp_path / "parts"
    for _ in range(20):
        try:
            lineage = run(path, config)
            break
        except KeyboardInterrupt:
            continue
    assert lineage == whole
    assert not (path / PARENTS).exists()


def test_a_copy_that_is_broken_is_made_again_and_a_whole_one_is_not(tmp_path):
    for updates in (1, 2, 3):
        checkpoint = tmp_path / "member" / "checkpoints" / f"checkpoint_{updates:09d}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "skill.json").write_text(str(updates))
        write_manifest(checkpoint)
    (checkpoint / "skill.json").write_text("cut")
    copy = tmp_path / "parents" / "copy"
    copy_checkpoint(tmp_path / "member", copy)
    assert (copy / "skill.json").read_text() == "2"
    (copy / "skill.json").write_text("cut")
    copy_checkpoint(tmp_path / "member", copy)
    assert (copy / "skill.json").read_text() == "2"
    shutil.rmtree(tmp_path / "member")
    copy_checkpoint(tmp_path / "member", copy)
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]
    with pytest.raises(RunDirectoryError, match="member has no intact checkpoint"):
        copy_checkpoint(tmp_path / "member", tmp_path / "other")


def make_config_of_two_games():
    """Of whose scores 100 is 1.0 in boxing, and above 1 in pong."""
    config = make_config(burn_in=40_000, interval=20_000, normaliser="atari57")
    with config.unlocked():
        config.env = {"name": "atari", "task": "two_games", "tasks": ("boxing", "ALE/Pong-v5"), "frame_skip": 4}
        del config.num_env_steps
        config.num_env_frames = BUDGET // 2  # of each game
    return config


def test_of_several_tasks_the_fitness_is_the_mean_of_their_capped_scores(tmp_path):
    class Scores(Toy):
        def __call__(self, pieces):
            for member, result in super().__call__(pieces):
                yield member, result._replace(mean_returns=[0.1 + 1.2 * member, 100.0])

    lineage = run(tmp_path, make_config_of_two_games(), Scores(num_tasks=2))
    assert lineage.boundaries == [40_000, 60_000, 80_000, BUDGET]  # of both games together
    fitness = [m.fitness for m in lineage.rounds[1]]
    assert fitness == pytest.approx([(0.1 * member + 1) / 2 for member in range(6)])  # boxing: random 0.1, human 12.1
    assert [m.mean_return for m in lineage.rounds[1]] == pytest.approx([50.05 + 0.6 * member for member in range(6)])


def test_a_member_is_not_due_until_each_task_has_a_return(tmp_path):
    class OfOneTask(Toy):
        def __call__(self, pieces):
            for member, result in super().__call__(pieces):
                yield member, result._replace(mean_returns=[]) if result.updates < BUDGET else result

    lineage = run(tmp_path, make_config_of_two_games(), OfOneTask(num_tasks=2))
    assert [[m.due for m in members] for members in lineage.rounds] == [[False] * 6] * 3 + [[True] * 6]
    assert {(m.fitness, m.mean_return, m.opponent) for m in lineage.rounds[2]} == {(None, None, None)}


def test_another_population_is_kept_out(tmp_path):
    run(tmp_path, make_config(burn_in=40_000, interval=30_000))
    with pytest.raises(RunDirectoryError, match="other settings .*population.threshold"):
        Population(make_config(burn_in=40_000, interval=30_000, threshold=0.1), 1, tmp_path)
    with pytest.raises(RunDirectoryError, match="other settings .*seed"):
        Population(make_config(burn_in=40_000, interval=30_000), 2, tmp_path)


def test_a_member_that_diverged_rests_until_it_adopts_another(tmp_path):
    config = make_config(burn_in=40_000, interval=10_000)
    toy = Toy(diverging={(2, 0), (3, 4)})
    lineage = run(tmp_path, config, toy)
    for member, first in ((2, 0), (3, 4)):
        rounds = [members[member] for members in lineage.rounds[first:]]
        diverged = [m.diverged for m in rounds]
        rested = diverged.index(False)
        assert all(m.parent is None and m.fitness is None for m in rounds[: rested - 1])
        assert rounds[rested - 1].parent is not None
        assert not any(diverged[rested:])
        assert rounds[rested - 1].updates == lineage.boundaries[first + rested - 1]
    assert {m.parent for members in lineage.rounds for m in members if m.diverged} <= {None, 0, 1, 3, 4, 5}
    assert not lineage.rounds[-1][lineage.best].diverged


def test_all_members_diverged_is_an_error(tmp_path):
    config = make_config(burn_in=40_000, interval=10_000)
    with pytest.raises(PopulationError, match="All members diverged"):
        run(tmp_path, config, Toy(diverging={(i, 0) for i in range(6)}))


def test_no_member_is_best_without_a_return(tmp_path):
    config = make_config(burn_in=40_000, interval=30_000)

    class Silent(Toy):
        def __call__(self, pieces):
            for member, result in super().__call__(pieces):
                yield member, result._replace(episodes=0, mean_returns=[])

    with pytest.raises(PopulationError, match="No member has a fitness"):
        _ = run(tmp_path, config, Silent()).best


def test_of_members_with_the_same_fitness_the_one_with_the_highest_return_is_best():
    def best(*members):
        rounds = [MemberRound({}, 1, 1, mean, True, fitness, False, None, None, {}) for fitness, mean in members]
        return Lineage([], [1], [rounds]).best

    assert best((1.0, 30.0), (1.0, 50.0), (0.9, 90.0), (1.0, 40.0)) == 1
    assert best((1.0, None), (1.0, -5.0), (None, 90.0)) == 1
    assert best((1.0, 7.0), (1.0, 7.0)) == 0


def test_a_config_without_a_field_is_an_error(tmp_path):
    config = gymnasium.get_config("smoke")
    with pytest.raises(ValueError, match="gymnasium has no section 'population'"):
        Population(config, 1, tmp_path)
    with pytest.raises(ValueError, match="population.entropy_cost sets loss.entropy_cost, which"):
        apply_hparams({"loss": {}}, {"entropy_cost": 1.0})
    with pytest.raises(ValueError, match="population.normaliser has no reference scores for CartPole-v1"):
        Population(make_config(normaliser="atari57"), 1, tmp_path)
    with pytest.raises(ValueError, match=r"^population\.normaliser='atari58': choose atari57, "):
        Population(make_config(normaliser="atari58"), 1, tmp_path)
    config = make_config()
    config.runtime.num_learners = 2
    with pytest.raises(ValueError, match="runtime.num_learners=2: choose 1, since a member has one learner"):
        Population(config, 1, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_population_whose_seeds_would_sample_what_it_evolves_is_an_error(tmp_path):
    config = dmlab_population.get_config("smoke")
    config.sweep.sampled = True
    with pytest.raises(ValueError, match="sweep.sampled=True: choose False, since the section population determines"):
        Population(config, 1, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_search_without_evolution_anneals_the_learning_rate_as_agents_without_a_population():
    applied = apply_hparams(make_config(evolves=False).to_dict(), {"learning_rate": 0.5})
    assert (applied["learner"]["learning_rate"], applied["learner"]["final_learning_rate"]) == (0.5, 0.0)


def test_the_learning_rate_is_not_annealed():
    applied = apply_hparams(make_config().to_dict(), {"learning_rate": 0.5, "clip_global_norm": 3.0})
    learner = applied["learner"]
    assert (learner["learning_rate"], learner["final_learning_rate"], learner["clip_global_norm"]) == (0.5, 0.5, 3.0)
    assert make_config().learner.final_learning_rate == 0.0


def test_a_job_records_the_best_member(tmp_path):
    job = make_job(Run("impala", "gymnasium_population", "pbt", "CartPole-v1", "smoke", 1), tmp_path, tmp_path / "runs")
    assert isinstance(job, PopulationJob)
    assert job.share_done() == 0.0
    lineage = run(job.run_dir, make_config(burn_in=40_000, interval=30_000))
    assert job.share_done() == 1.0
    assert job._trained_dir == member_folder(job.run_dir, lineage.best)
    totals = {"num_env_steps": 320, "seconds": 2.0, "gradient_steps": 1, "policy_lag": {"mean": 0.0, "max": 0.0}}
    write_json(job._trained_dir / "complete.json", totals)
    write_json(job._trained_dir / "config.json", {"config": job.config.to_dict(), "seed": 1})
    (job._trained_dir / "progress.csv").write_text("updates,num_env_steps,mean_return\n1,320,9.5\n")
    write_json(job._origin, {"git_commit": "abc"})
    record = job._make_record(totals, "CartPole-v1", {"episodes": 1, "mean": 9.0}, 1)
    assert record["sampled_hparams"] == lineage.rounds[-1][lineage.best].hparams
    assert (record["num_env_steps"], record["curve"]) == (320, [[320, 9.5]])
    Lineage(lineage.first, lineage.boundaries, lineage.rounds[:1]).write(job.run_dir)
    assert job.share_done() == 0.4


def test_each_member_has_a_line_at_each_comparison(tmp_path, capsys):
    lineage = run(tmp_path, make_config(burn_in=40_000, interval=30_000))
    with PopulationDisplay(lineage, [tmp_path] * 6, "steps") as display:
        display.show(lineage)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"member {i}" for i in range(6)]
    last = lineage.rounds[-1][3]
    assert lines[3] == (
        f"member 3  100k steps, fitness {last.fitness:.3f}, return {format_score(last.mean_return)}, 10 episodes, "
        + ", ".join(f"{name} {value:.3g}" for name, value in last.hparams.items())
    )
    adopted = [m._replace(parent=5, diverged=True, fitness=None, mean_return=None) for m in lineage.rounds[-1]]
    text = describe(lineage.with_round(adopted), 0)
    assert text.startswith("10 episodes, diverged, adopts member 5, entropy_cost ")


def test_a_log_that_cannot_be_read_leaves_the_other_bars(tmp_path, monkeypatch):
    monkeypatch.setattr(population_display, "SECONDS_BETWEEN_DRAWINGS", 0.0)
    lineage = run(tmp_path, make_config(burn_in=40_000, interval=30_000))
    folders = [tmp_path / "broken", tmp_path / "whole"]
    for folder, row in zip(folders, ("1", "1,320"), strict=True):
        folder.mkdir()
        (folder / "progress.csv").write_text(f"updates,num_env_steps\n{row}\n")
    display, shown = PopulationDisplay(lineage, folders, "steps"), {}
    display._bars = SimpleNamespace(
        tasks=[SimpleNamespace(id=number, total=1000) for number in range(2)],
        update=lambda number, completed, text: shown.update({number: completed}),
        refresh=display._end.set,
    )
    display._redraw()
    assert shown == {1: 320.0}
