"""Measures throughput relative to a bound of this machine: `python -m repro.benchmark --what=impala_atari`."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

from absl import flags

from repro import benchmarks, cli
from repro.environments.lookup import MissingModuleError
from repro.files import headline

NAMES = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.ispkg)
WHAT = flags.DEFINE_enum("what", "impala_atari", NAMES, "What to measure.")
HEADLINES = {name: headline(Path(benchmarks.__path__[0], f"{name}.py")).removeprefix("Benchmark of ") for name in NAMES}
flags.FLAGS["what"].help = "\n".join(["What to measure:", *(f"{name}: {line}" for name, line in HEADLINES.items())])
CONFIG = cli.define_config()
JSON = cli.define_json()
SECONDS = flags.DEFINE_float("seconds", 8.0, "Seconds of each measurement.", 0.1)
REPEATS = flags.DEFINE_integer("repeats", 3, "Number of times that everything is measured.", 1)


def main(argv: list[str]) -> None:
    del argv
    cli.load_tensorflow()
    from rich.console import Console

    from repro.benchmarks.measuring.alternating import ProgramError

    measure = importlib.import_module(f"repro.benchmarks.{WHAT.value}").measure
    settings = {} if CONFIG.value is None else {"config": CONFIG.value}
    if settings and "config" not in inspect.signature(measure).parameters:
        cli.fail(f"--what={WHAT.value} measures its own settings; leave out --config.")
    console = Console()
    cli.say(console, f"Measuring {WHAT.value}: {REPEATS.value} x {SECONDS.value:g} s of each part.")
    try:
        result = measure(SECONDS.value, REPEATS.value, **settings)
    except ValueError as error:
        if CONFIG.value is None and not isinstance(error, MissingModuleError):
            raise
        cli.fail(error)
    except ProgramError as error:
        cli.fail(error, code=1)
    console.print(_table(result))
    cli.write_json(JSON.value, result)


def _table(result: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table("", result["unit"].replace("_", " "), title=result["what"], title_justify="left")
    for name, value in _lines(result):
        table.add_row(name, value)
    return table


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    if "rows" in result:
        lines = [(name, f"{value:,.1f}") for name, value in result["rows"].items()]
        return lines + _ratio_lines(result)
    if "parts" not in result:
        rates = {name: values for name, values in result.items() if isinstance(values, dict)}
        lines = [
            (f"{name} {size}", f"{value:,.0f}")
            for name, values in rates.items()
            for size, value in values.items()
            if isinstance(value, float)
        ]
        step = result["train_step T=20 B=32"]
        return [*lines, ("train step T=20 B=32", f"{step:,.0f}"), ("share", f"{result['share']:.2%}")]
    frames = result.get("frames_per_step")  # for environments that repeat actions
    rates = {**result["parts"], "whole": result["whole"], "serial bound": result["bound"]}
    if "outer_parts" in result:
        rates |= {**result["outer_parts"], "outer bound": result["outer_bound"]}
    lines = [
        (name, f"{value:,.0f}" + (f" ({value * frames:,.0f} frames)" if frames else ""))
        for name, value in rates.items()
    ]
    if "updates_per_second" in result:
        lines.append(("updates", f"{result['updates_per_second']:,.1f}"))
    if "replay_bytes_per_frame" in result:
        lines.append(("replay, bytes per frame", f"{result['replay_bytes_per_frame']:,.0f}"))
    low, high = result["spread"]
    lines.append(("whole / serial bound", f"{result['ratio']:.2f} ({low:.2f} to {high:.2f})"))
    if "outer_ratio" in result:
        low, high = result["outer_spread"]
        lines.append(("whole / outer bound", f"{result['outer_ratio']:.2f} ({low:.2f} to {high:.2f})"))
    return [*lines, *_ratio_lines(result)]


def _ratio_lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    intervals, published = result.get("intervals", {}), result.get("published", {})
    lines = []
    for name, value in result.get("ratios", {}).items():
        interval = " ({:.3f} to {:.3f})".format(*intervals[name]) if name in intervals else ""
        paper = f", paper {published[name]:.3f}" if name in published else ""
        lines.append((name, f"x {value:.3f}{interval}{paper}"))
    return lines


if __name__ == "__mp_main__":  # in a process that a benchmark starts
    cli.quiet()
if __name__ == "__main__":
    cli.run(main)
