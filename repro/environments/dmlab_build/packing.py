"""Combines compiled files and the game's files into the importable package `deepmind_lab`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from repro.environments.dmlab_build.errors import BuildError
from repro.environments.dmlab_module import FOLDER_VARIABLE

ARCHIVES = {
    "assets_oa.pk3": ("assets_oa", ("scripts/shaderlist.txt", "scripts/*.shader")),
    "assets_bots.pk3": ("assets_oa", ("scripts/bots.txt", "botfiles/**/*")),
    "assets.pk3": (
        "assets",
        (
            "scripts/shaderlist.txt",
            "scripts/*.shader",
            "gfx/**/*.tga",
            "icons/**/*.tga",
            "menu/**/*.jpg",
            "menu/**/*.tga",
            "models/**/*",
            "textures/**/*.tga",
        ),
    ),
}
"""Archives of the engine: a folder of the source tree, and patterns of its files."""

COPIES = (
    ("assets", ("default.cfg", "q3config.cfg"), "baselab"),
    ("game_scripts", ("**/*.lua", "**/*.png"), "baselab/game_scripts"),
    ("assets/maps/built", ("**/*.aas", "**/*.bsp"), "baselab/maps"),
    ("deepmind/level_generation", ("compile_map.sh",), "deepmind/level_generation"),
    ("", ("LICENSE",), ""),
)
"""Files of the source tree that are not archived: folder, patterns of files, folder in the package."""

COMPILED = {
    "deepmind_lab.so": "",
    "libdmlab_headless_sw.so": "",
    "bspc": "",
    "q3map2": "q3map2",
}
"""Compiled files, and their folders in the package."""

INIT = '''\
"""DeepMind Lab. The compiled module replaces this package in `sys.modules`: it looks itself up there by this name."""

import importlib.util
import pathlib
import sys

_spec = importlib.util.spec_from_file_location(__name__, pathlib.Path(__file__).with_name("deepmind_lab.so"))
_module = importlib.util.module_from_spec(_spec)
sys.modules[__name__] = _module
_spec.loader.exec_module(_module)
'''

TRIAL = """
import numpy, deepmind_lab
env = deepmind_lab.Lab("seekavoid_arena_01", ["RGB_INTERLEAVED"], config={"width": "96", "height": "72"})
env.reset(seed=1)
env.step(numpy.array([0, 0, 0, 1, 0, 0, 0], numpy.intc), num_steps=4)
assert env.observations()["RGB_INTERLEAVED"].std() > 1
"""


def pack(tree: Path, objects: Path, out: Path, maps: Mapping[str, str]) -> None:
    """Creates or replaces `out/deepmind_lab`.

    Args:
        tree: source tree with stand-ins.
        objects: folder of the compiled files.
        out: folder that holds the package.
        maps: name of each missing map, and of the map that replaces it.
    """
    package = out / "deepmind_lab.part"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(INIT)
    for folder, patterns, target in COPIES:
        for path in _matching(tree / folder, patterns):
            _copy(tree / folder / path, package / target / path)
    for name, target in COMPILED.items():
        _copy(objects / name, package / target / name)
    for name, (folder, patterns) in ARCHIVES.items():
        _archive(package / "baselab" / name, tree / folder, patterns)
    _archive(package / "baselab/vm.pk3", objects, ("vm/*.qvm",))
    for missing, present in maps.items():
        (package / "baselab/maps" / f"{missing}.bsp").symlink_to(f"{present}.bsp")
    shutil.rmtree(out / "deepmind_lab", ignore_errors=True)
    package.rename(out / "deepmind_lab")


def try_module(out: Path) -> None:
    """Plays one step of a level in a separate process.

    Args:
        out: folder that holds the package.

    Raises:
        BuildError: the step fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(out), FOLDER_VARIABLE: str(out)}
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, env=environment)
    if trial.returncode:
        lines = trial.stderr.strip().splitlines() or [f"exit code {trial.returncode}"]
        raise BuildError(f"the module in {out} was built but fails at its first step: {lines[-1]}")


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(folder) for path in found)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _archive(target: Path, folder: Path, patterns: Sequence[str]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        for path in _matching(folder, patterns):
            archive.write(folder / path, path)
