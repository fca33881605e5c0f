"""Builds the `deepmind_lab` module: `python -m repro.environments.dmlab_build --source=<git directory or checkout>`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from repro.environments.dmlab_build.compiling import check_tools, compile_tree
from repro.environments.dmlab_build.errors import BuildError
from repro.environments.dmlab_build.packing import pack, try_module
from repro.environments.dmlab_build.source import find_source, write_tree
from repro.environments.dmlab_build.stand_ins import add_stand_ins, write_provenance
from repro.environments.dmlab_module import DEFAULT_FOLDER


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make dmlab",
        description="Builds the deepmind_lab module, headless with software rendering, for the Python that runs this. "
        "It takes some minutes and 1 GB in --work; a second run compiles only what has changed.",
    )
    parser.add_argument(
        "--source", required=True, type=Path, help="checkout or git directory (bare or not) of DeepMind Lab"
    )
    parser.add_argument("--commit", default="HEAD", help="commit to build (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=DEFAULT_FOLDER, help="folder of the module (default: %(default)s)")
    parser.add_argument("--work", type=Path, help="folder of source tree and object files (default: <out>_work)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="parallel compilers (default: %(default)s)")
    args = parser.parse_args()
    work = args.work or Path(f"{args.out}_work")
    try:
        build(args.source, args.commit, args.out.resolve(), work.resolve(), args.jobs)
    except BuildError as error:
        sys.exit(f"make dmlab: {error}")


def build(source: Path, commit: str, out: Path, work: Path, jobs: int) -> None:
    """Builds the module and plays a step with it.

    Args:
        source: a checkout or git directory of DeepMind Lab.
        commit: commit to build.
        out: folder that will hold the package `deepmind_lab`.
        work: folder for the source tree and the object files.
        jobs: number of parallel compilers.

    Raises:
        BuildError: a program, header or file is missing, or a step of the build fails.
    """
    start = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {what}", flush=True)

    check_tools()
    repository, revision = find_source(source, commit)
    say(f"writing the source of {revision[:7]} to {work / 'tree'}")
    missing = write_tree(repository, revision, work / "tree")
    stand_ins = add_stand_ins(work / "tree", missing)
    say(f"compiling with {jobs} jobs")
    compile_tree(work / "tree", work / "objects", jobs)
    say(f"packing into {out}")
    pack(work / "tree", work / "objects", out, stand_ins.maps)
    text = write_provenance(out, revision, work / "tree", stand_ins)
    try_module(out)
    say(f"done: {text}")


if __name__ == "__main__":
    main()
