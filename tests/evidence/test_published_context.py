"""Numbers of other publications: complete, with canonical names, consistent with published facts about them."""

import numpy as np
import pytest

from repro.evidence import published
from repro.evidence.statistics import human_normalised

TABLES = {table.name: table for table in published.context()}
# Cells with or without a number, by hand from the sizes of the sources.
SIZES = {
    "a3c_human_starts": (57, 3),
    "acer_ppo_paper": (49, 3),
    "acer_openai_baselines_curves": (7, 14),
    "dqn_family_no_op": (57, 6),
    "dqn_family_sticky": (55, 4),
    "dqn_nature": (49, 3),
    "dqn_zoo_medians": (1, 7 * 14),
    "dm_control_a3c": (18, 1),
    "dm_control_features_500k": (18, 5),
    "dmlab30_impala_curves": (30, 3),
    "impala_table_c1_others": (57, 2),
    "noisynet_no_op": (57, 4),
    "prioritised_dqn_human_starts": (57, 3),
    "r2d2_atari": (57, 6),
    "r2d2_dmlab30": (30, 4),
    "rainbow_no_op": (54, 3),
    "reactor_no_op": (57, 3),
    "td3_paper": (7, 7),
    "td3_author_seeds": (7, 10),
    "tianshou_mujoco": (9, 11),
}


def normalised(table, column, references=None):
    """Human-normalised scores of one column in percent."""
    references = references or published.normaliser("atari57")
    index = table.columns.index(column)
    return [
        100 * human_normalised(cells[index], references[task]["random"], references[task]["human"])
        for task, cells in table.rows.items()
        if cells[index] is not None
    ]


@pytest.mark.parametrize("name", SIZES)
def test_tables_are_complete(name):
    table = TABLES[name]
    assert (len(table.rows), len(table.columns)) == SIZES[name]


def test_all_tables_are_here_and_small():
    assert len(TABLES) == 48
    assert sum(path.stat().st_size for path in published.CONTEXT_DIR.iterdir()) < 450_000
    assert sum(cell is not None for table in TABLES.values() for cells in table.rows.values() for cell in cells) > 3900


def test_cells_typed_by_hand():
    assert TABLES["acer_openai_baselines_curves"].task_numbers("qbert", "atari")["acer, last point"] == pytest.approx(
        16683, abs=0.5
    )
    assert TABLES["dqn_family_no_op"].task_numbers("alien", "atari")["DQN"] == 1620.0
    assert TABLES["dqn_family_no_op"].task_numbers("alien", "atari")["Double DQN"] == 3747.7
    assert TABLES["td3_paper"].task_numbers("HalfCheetah", "mujoco")["TD3 (v1)"] == 9636.95
    assert TABLES["td3_paper"].spread["HalfCheetah"][0] == 859.065
    assert TABLES["dqn_zoo_medians"].task_numbers("atari57", "atari")["dqn, 200M frames"] == 42.7
    assert TABLES["dqn_zoo_medians"].task_numbers("atari57", "atari")["double_q, 200M frames"] == 89.0
    assert TABLES["r2d2_atari"].task_numbers("zaxxon", "atari")["R2D2 (3 seeds)"] == 224910.7


def test_task_numbers_are_of_their_environment_only():
    table = TABLES["td3_paper"]
    assert table.task_numbers("HalfCheetah", "atari") == {}
    assert table.task_numbers("HalfCheetah-v5", "mujoco") == {}
    rainbow = TABLES["rainbow_no_op"]
    assert "DQN" not in rainbow.task_numbers("alien", "atari")
    assert "DQN" in rainbow.task_numbers("yars_revenge", "atari")


def test_task_names_are_canonical():
    atari = {*published.normaliser("atari57"), "atari57"}
    dmlab = {*published.normaliser("dmlab30"), "dmlab30"}
    control = set(TABLES["dm_control_features_500k"].rows)
    for table in TABLES.values():
        tasks = set(table.rows)
        if table.environment == "atari":
            assert tasks <= atari, table.name
        elif table.environment == "dmlab":
            assert tasks <= dmlab, table.name
        elif table.environment == "dm_control":
            assert tasks <= control or (tasks > control and table.name == "dm_control_cleanrl_ppo"), table.name
        else:
            assert all(task.isalnum() and task[0].isupper() for task in tasks), table.name


def test_spread_belongs_to_cells_with_a_number():
    for table in TABLES.values():
        assert bool(table.spread) == bool(table.spread_of)
        for task, spreads in table.spread.items():
            for cell, spread in zip(table.rows[task], spreads):
                assert cell is not None or spread is None


@pytest.mark.parametrize(
    ("table", "column", "median"),
    [
        ("dqn_family_no_op", "DQN", 79.1),
        ("dqn_family_no_op", "Double DQN", 117.8),
        ("dqn_family_no_op", "Prioritised DQN", 123.7),
        ("impala_table_c1_others", "The Reactor", 186.8),
        ("r2d2_atari", "R2D2 (3 seeds)", 1922.7),
        ("r2d2_atari", "IMPALA, deep, experts (1 seed)", 191.8),
        ("noisynet_no_op", "A3C, 320M frames", 79.7),
    ],
)
def test_medians_recompute(table, column, median):
    assert round(float(np.median(normalised(TABLES[table], column))), 1) == median


def test_r2d2_s_printed_aggregates():
    printed = TABLES["r2d2_atari_aggregates"].task_numbers("atari57", "atari")
    references = dict(published.normaliser("atari57"))
    median = float(np.median(normalised(TABLES["r2d2_atari"], "R2D2 (3 seeds)", references)))
    assert printed["R2D2, median (3 seeds)"] == 1920.6
    assert abs(median / 1920.6 - 1) < 2e-3
    plain = float(np.mean(normalised(TABLES["r2d2_atari"], "R2D2 (3 seeds)", references)))
    references["video_pinball"] = {**references["video_pinball"], "random": 0.0}
    changed = float(np.mean(normalised(TABLES["r2d2_atari"], "R2D2 (3 seeds)", references)))
    assert round(changed, 1) == printed["R2D2, mean (3 seeds)"] == 4024.9
    assert abs(plain - 4024.9) > 1000


def test_r2d2_s_dmlab30_aggregates_follow_with_the_labels_of_impala():
    printed = TABLES["r2d2_dmlab30_aggregates"].task_numbers("dmlab30", "dmlab")
    table, references = TABLES["r2d2_dmlab30"], published.normaliser("dmlab30")
    for column, name in (
        ("R2D2 (3 seeds)", "R2D2, {} (3 seeds)"),
        ("IMPALA deep (re-run) (1 seed)", "IMPALA, deep (re-run, 10B frames), {}"),
    ):
        scores = normalised(table, column, references)
        assert float(np.mean(np.minimum(scores, 100))) == pytest.approx(printed[name.format("mean capped")], abs=0.15)
        assert float(np.median(scores)) == pytest.approx(printed[name.format("median")], abs=0.5)


def test_r2d2_quotes_impala_s_table_c1():
    impala = {(r.column, r.task): r.value for r in published.load("impala").rows if r.table == "C.1"}
    for game in TABLES["r2d2_atari"].rows:
        quoted = TABLES["r2d2_atari"].task_numbers(game, "atari")
        for column in ("IMPALA, shallow, experts", "IMPALA, deep, experts"):
            assert quoted[f"{column} (1 seed)"] == pytest.approx(impala[column, game], abs=0.051)


def test_muesli_quotes_the_medians():
    quoted = TABLES["muesli_medians"].task_numbers("atari57", "atari")
    impala, stac = published.load("impala").rows, published.load("stac").rows
    (deep,) = (r for r in impala if (r.table, r.column, r.statistic) == ("4", "IMPALA, deep, experts", "median"))
    ours = {r.column: r.value for r in stac if r.table == "Section 4.1"}
    assert quoted["IMPALA"] == round(deep.value)
    assert quoted["STAC (i.e. STACX, Zahavy et al. 2020)"] == ours["STACX"] == 364
    assert quoted["LASER"] == ours["LASER (Schmitt et al. 2019)"] == 431
    assert quoted["DQN"] == round(float(np.median(normalised(TABLES["dqn_family_no_op"], "DQN"))))
    assert quoted["Rainbow"] == round(float(np.median(normalised(TABLES["dqn_family_no_op"], "Rainbow"))))
