"""Making bands again keeps the old values of a run until its new ones exist."""

import json
import subprocess
import sys

import pytest

from repro.regression import reference_values
from repro.regression.reference_runs import RUNS
from repro.regression.reference_values import ReferenceValues

ONE, OTHER = RUNS[:2]
SCRIPT = """
import functools, pathlib, sys
from repro.regression import __main__ as command
from repro.regression.trainings import Training

path = pathlib.Path(sys.argv[1])
command.reference_values.read = functools.partial(command.reference_values.read, path)
write = command.reference_values.write
command.reference_values.write = lambda values: write(values, path)

def train_all(wanted, jobs, follow):
    for run, seed in wanted:
        failed = run is command.RUNS[1] and seed == 2
        yield Training(run, seed, {"a": 10.0 + seed}, 1.0, "diverged" if failed else "")

command.train_all = train_all
command.make_bands(command.RUNS[:2], 3, 1, again=sys.argv[2] == "again")
"""


@pytest.mark.parametrize("again", [True, False])
def test_a_training_that_fails_loses_no_values_that_were_there(tmp_path, again):
    """The first run has its new values; those of the second, whose second seed fails, are the old ones."""
    path = tmp_path / "values.json"
    old = {run.name: ReferenceValues(run.fingerprint(), 5.0, {"a": [1.0]}) for run in (ONE, OTHER)}
    reference_values.write(old, path)
    command = [sys.executable, "-c", SCRIPT, str(path), "again" if again else "more"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert f"{OTHER.name} seed 2 failed, so no band can be made: diverged" in done.stderr
    found = json.loads(path.read_text())
    assert found[ONE.name]["values"] == {"a": [11.0, 12.0, 13.0] if again else [1.0, 12.0, 13.0]}
    assert found[OTHER.name] == old[OTHER.name]._asdict()
