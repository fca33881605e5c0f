"""The parts of DeepMind Lab's build that need neither its source nor compilers."""

import json
import subprocess
import sys

import numpy as np
import pytest

from repro.environments.dmlab_build import compiling, packing, source, stand_ins
from repro.environments.dmlab_build.errors import BuildError

BUILD_FILE = """
licenses(["restricted"])
CODE = "code"
COMMON = [CODE + "/a.c"] + glob(include = [CODE + "/b*.c"], exclude = [CODE + "/b2.c"])
OTHER = COMMON + select({"linux": []})
cc_library(name = "engine", srcs = COMMON + [CODE + "/c.h"], copts = COPTS)
test_suite(name = "tests")
[cc_test(name = x) for x in glob(["*.c"])]
"""


@pytest.fixture
def repository(tmp_path):
    """A repository in which one blob of the commit is missing, as in a snapshot without large files."""
    folder = tmp_path / "lab"
    (folder / "python").mkdir(parents=True)
    (folder / "assets/textures/map").mkdir(parents=True)
    (folder / source.MARKER).write_text("module\n")
    (folder / "assets/textures/map/wall_red_d.tga").write_text("a large picture\n")
    (folder / "run.sh").write_text("exit\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(folder)]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    listed = subprocess.run([*git, "ls-tree", "-r", "HEAD"], check=True, capture_output=True, text=True).stdout
    blob = next(line.split()[2] for line in listed.splitlines() if "wall_red" in line)
    (folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    return folder


def test_a_tree_is_written_without_the_files_that_are_missing(repository, tmp_path):
    folder, revision = source.find_source(repository / ".git", "HEAD")
    tree = tmp_path / "tree"
    wall = tree / "assets/textures/map/wall_red_d.tga"
    assert source.write_tree(folder, revision, tree) == ["assets/textures/map/wall_red_d.tga"]
    assert (tree / source.MARKER).read_text() == "module\n"
    assert (tree / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (tree / "link").readlink().name == "run.sh"
    assert not wall.exists()
    wall.parent.mkdir(parents=True, exist_ok=True)
    wall.write_text("a stand-in of an earlier run")
    changed = (tree / source.MARKER).stat().st_mtime_ns
    source.write_tree(folder, revision, tree)
    assert not wall.exists()
    assert (tree / source.MARKER).stat().st_mtime_ns == changed


def test_a_wrong_source_is_one_sentence(repository, tmp_path):
    for folder, commit, message in (
        (tmp_path / "nowhere", "HEAD", "is not a folder; give a clone of"),
        (tmp_path, "HEAD", "is not a git repository with commit HEAD"),
        (repository, "v9", "is not a git repository with commit v9"),
    ):
        with pytest.raises(BuildError, match=message):
            source.find_source(folder, commit)
    subprocess.run(["git", "-C", repository, "rm", "-q", "--cached", source.MARKER], check=True)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(repository)]
    subprocess.run([*git, "commit", "-q", "-m", "y"], check=True)
    with pytest.raises(BuildError, match="is not the source of DeepMind Lab"):
        source.find_source(repository, "HEAD")


def test_missing_programs_and_headers_name_their_packages(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError) as error:
        compiling.check_tools(tmp_path)
    packages = str(error.value).partition("apt install ")[2].split()
    assert {"ninja-build", "zip", "libosmesa6-dev", "liblua5.1-0-dev"} <= set(packages)
    assert packages == sorted(set(packages))


def test_lists_of_a_build_file(tmp_path):
    (tmp_path / "code").mkdir()
    for name in ("a.c", "b1.c", "b2.c", "b3.c"):
        (tmp_path / "code" / name).touch()
    (tmp_path / "BUILD").write_text(BUILD_FILE)
    lists = compiling.read_build_file(tmp_path / "BUILD")
    common = ["code/a.c", "code/b1.c", "code/b3.c"]
    assert lists == {"COMMON": common, "engine": [*common, "code/c.h"]}


def test_a_failed_command_names_its_error_and_its_log(tmp_path):
    log = tmp_path / "cmake.log"
    with pytest.raises(BuildError, match=r"failed \(fatal error: no zlib.h\); see .*cmake.log"):
        compiling._run(log, [sys.executable, "-c", "import sys; print('x'); sys.exit('fatal error: no zlib.h')"])


def colour_of(path):
    data = stand_ins._texture(path)
    width, height = np.frombuffer(data[12:16], "<u2")
    pixels = np.frombuffer(data[18:], np.uint8).reshape(height, width, data[16] // 8)
    return pixels[..., 2::-1].reshape(-1, 3).max(axis=0).astype(int), (height, width, pixels.shape[-1])


def test_textures_have_the_colour_of_their_name():
    red, green, blue = (
        colour_of(f"assets/textures/map/lab_games/lg_style_01_wall_{colour}_d.tga")[0]
        for colour in ("red", "green", "blue")
    )
    assert (red.argmax(), green.argmax(), blue.argmax()) == (0, 1, 2)
    bright, _ = colour_of("assets/textures/map/lab_games/lg_style_01_wall_blue_bright_d.tga")
    assert (bright >= blue).all()
    assert bright.sum() > blue.sum()
    assert colour_of("assets/textures/map/lab_games/lg_style_03_wall_orange_d.tga")[1] == (64, 64, 3)


def test_objects_are_plain_and_as_large_as_the_patterns_laid_over_them():
    assert colour_of("assets/textures/model/lemon_d.tga")[1] == (1024, 1024, 3)
    data = np.frombuffer(stand_ins._texture("assets/textures/model/lemon_d.tga")[18:], np.uint8).reshape(-1, 3)
    assert (data == data[0]).all()
    assert colour_of("assets/textures/model/bush_desert_01_d.tga")[1] == (1024, 1024, 4)


def test_decals_differ():
    pictures = {
        stand_ins._texture(f"assets/textures/decal/lab_games/dec_img_style01_{i:03d}.tga") for i in range(1, 21)
    }
    assert len(pictures) == 20


def test_missing_maps_are_replaced_by_maps_of_their_family(tmp_path):
    maps = tmp_path / "assets/maps/built"
    maps.mkdir(parents=True)
    for name in ("natlab_forage_stm_1", "natlab_forage_variable_1", "natlab_forage_variable_2"):
        (maps / f"{name}.bsp").touch()
    sky = tmp_path / "assets/textures/map/lab_games/sky/lg_sky_02_up.tga"
    sky.parent.mkdir(parents=True)
    sky.write_bytes(bytes(30_000))
    missing = [
        "assets/maps/built/natlab_forage_stm_9.bsp",
        "assets/maps/built/natlab_forage_variable_9.bsp",
        "assets/maps/built/natlab_forage_ltm_dawn.bsp",
        "assets/textures/map/wall_red_d.tga",
        "assets/textures/map/lg_sky_01_up.tga",
    ]
    found = stand_ins.add_stand_ins(tmp_path, missing)
    assert found.maps["natlab_forage_stm_9"] == "natlab_forage_stm_1"
    assert found.maps["natlab_forage_variable_9"].startswith("natlab_forage_variable_")
    assert found.maps["natlab_forage_ltm_dawn"].startswith("natlab_forage_variable_")
    assert (tmp_path / missing[4]).read_bytes() == sky.read_bytes()

    text = stand_ins.write_provenance(tmp_path, "b1db91a" + 33 * "0", tmp_path, found)
    assert text == "commit b1db91a, stand-ins for 2 of 3 textures and 3 of 6 natlab maps"
    assert json.loads((tmp_path / "provenance.json").read_text())["text"] == text

    with pytest.raises(BuildError, match="without a stand-in: 1, the first is assets/models/x.md3"):
        stand_ins.add_stand_ins(tmp_path, ["assets/models/x.md3"])


def test_a_module_that_fails_its_trial_is_one_sentence(tmp_path):
    (tmp_path / "deepmind_lab.py").write_text("raise ImportError('libOSMesa.so.8: cannot open shared object file')")
    with pytest.raises(BuildError, match="fails at its first step: ImportError: libOSMesa.so.8"):
        packing.try_module(tmp_path)


def test_the_command_has_a_help_and_one_sentence_for_an_error(tmp_path):
    command = [sys.executable, "-m", "repro.environments.dmlab_build"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "--source" in shown.stdout
    failed = subprocess.run([*command, f"--source={tmp_path}", f"--out={tmp_path}/x"], capture_output=True, text=True)
    assert failed.returncode == 1
    assert failed.stderr.startswith("make dmlab: ")
    assert failed.stderr.count("\n") == 1
