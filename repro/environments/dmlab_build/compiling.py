"""Compiles the source tree with CMake, using the lists of files in its Bazel BUILD file."""

from __future__ import annotations

import ast
import fnmatch
import glob
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from repro.environments.dmlab_build.errors import BuildError

CMAKE = Path(__file__).parent / "cmake"

TOOLS = {"git": "git", "cmake": "cmake", "ninja": "ninja-build", "gcc": "gcc", "g++": "g++", "pkg-config": "pkg-config"}
"""Programs that the build calls, and the Debian packages that contain them."""

RUN_TIME_TOOLS = {"zip": "zip", "bash": "bash"}
"""Programs that levels call to compile maps, and the Debian packages that contain them."""

HEADERS = {
    "absl/container/flat_hash_map.h": "libabsl-dev",
    "eigen3/Eigen/Core": "libeigen3-dev",
    "glib-2.0/glib.h": "libglib2.0-dev",
    "jpeglib.h": "libjpeg-dev",
    "libxml2/libxml/parser.h": "libxml2-dev",
    "png.h": "libpng-dev",
    "zlib.h": "zlib1g-dev",
    "lua5.1/lua.h": "liblua5.1-0-dev",
    "SDL2/SDL.h": "libsdl2-dev",
    "GL/osmesa.h": "libosmesa6-dev",
}
"""Headers in /usr/include, and the Debian packages that contain them."""

LISTS = {
    "CGAME_UNITS": "CGAME_QVM_ASMS",
    "GAME_UNITS": "QAGAME_QVM_ASMS",
    "UI_UNITS": "Q3UI_QVM_ASMS",
    "ENGINE_SOURCES": "game_lib_headless_osmesa",
    "BSPC_SOURCES": "bspc",
}
"""CMake variables, and the list or rule of the BUILD file that each is made from."""


def check_tools(include: Path = Path("/usr/include")) -> None:
    """Checks that programs and headers are installed.

    Args:
        include: folder of the headers.

    Raises:
        BuildError: some are missing; the message names the Debian packages to install.
    """
    lacking = [package for tool, package in (TOOLS | RUN_TIME_TOOLS).items() if not shutil.which(tool)]
    lacking += [package for header, package in HEADERS.items() if not (include / header).exists()]
    if lacking:
        raise BuildError(f"programs or headers are missing; on Debian: apt install {' '.join(sorted(set(lacking)))}")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise BuildError("Python.h is missing; on Debian: apt install python3-dev")


def compile_tree(tree: Path, objects: Path, jobs: int) -> None:
    """Compiles the engine, the Python module, the map compilers and the games' byte code.

    Args:
        tree: source tree with stand-ins.
        objects: folder for the output.
        jobs: number of parallel compilers.

    Raises:
        BuildError: CMake or a compiler failed.
    """
    objects.mkdir(parents=True, exist_ok=True)
    _write_if_changed(objects / "lists.cmake", _cmake_lists(tree))
    includes = f"{sysconfig.get_path('include')};{np.get_include()}"
    _run(
        objects / "cmake.log",
        ["cmake", "-G", "Ninja", "-S", CMAKE, "-B", objects, f"-DTREE={tree}", f"-DPYTHON_INCLUDES={includes}"],
    )
    _run(objects / "ninja.log", ["ninja", "-C", objects, "-j", str(jobs)])


def _run(log: Path, command: Sequence[Any]) -> None:
    with log.open("w") as output:
        code = subprocess.run([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT).returncode
    if code:
        lines = log.read_text(errors="replace").splitlines()
        reason = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else f"exit code {code}")
        raise BuildError(f"{command[0]} failed ({reason.strip()}); see {log}.")


def _write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _cmake_lists(tree: Path) -> str:
    values = read_build_file(tree / "BUILD")
    lists = []
    for variable, name in LISTS.items():
        if name not in values:
            raise BuildError(f"{tree / 'BUILD'} has no {name}; it may be another version of DeepMind Lab.")
        sources = [unit for unit in values[name] if not unit.endswith(".h")]
        lists.append(f"set({variable}\n  " + "\n  ".join(sources) + ")\n")
    return "".join(lists)


def read_build_file(path: Path) -> dict[str, list[str]]:
    """Returns the lists of a Bazel BUILD file by name: assigned variables, and the `srcs` of rules.

    Expressions that need other functions than `glob` are skipped.

    Args:
        path: the file; patterns are resolved in its folder.
    """
    folder = path.parent

    def find(include: Sequence[str] = (), exclude: Sequence[str] = (), **_: Any) -> list[str]:
        found = {name for pattern in include for name in glob.glob(pattern, root_dir=folder, recursive=True)}
        return sorted(name for name in found if not any(fnmatch.fnmatch(name, pattern) for pattern in exclude))

    names: dict[str, Any] = {}

    def evaluate(node: ast.expr) -> Any:
        scope = {"__builtins__": {}, "glob": find, **names}
        try:
            return eval(compile(ast.Expression(node), str(path), "eval"), scope)
        except NameError:
            return None

    rules = {}
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            names[statement.targets[0].id] = evaluate(statement.value)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            fields = {keyword.arg: keyword.value for keyword in statement.value.keywords}
            if "name" in fields and "srcs" in fields:
                rules[evaluate(fields["name"])] = evaluate(fields["srcs"])
    return {name: value for name, value in (names | rules).items() if isinstance(value, list)}
