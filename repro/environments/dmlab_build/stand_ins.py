"""Stand-ins for the textures and maps that a repository of DeepMind Lab lacks, and a record of them."""

from __future__ import annotations

import colorsys
import dataclasses
import json
import re
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from repro.environments.dmlab_build.errors import BuildError
from repro.environments.dmlab_module import PROVENANCE

SIDE = 64
"""Side of a generated texture in pixels."""
OBJECT_SIDE = 1024
"""Side of an object's texture in pixels: language levels lay patterns of this size over them."""

COLOURS = {
    **dict.fromkeys(("red", "redskin", "r", "apple", "cherry", "toadstool", "can"), (0.68, 0.22, 0.20)),
    **dict.fromkeys(("blue", "blueskin", "b", "disc"), (0.22, 0.36, 0.72)),
    **dict.fromkeys(("green", "watermelon", "cactus", "tree", "bottle"), (0.33, 0.56, 0.33)),
    **dict.fromkeys(("yellow", "lemon", "bee", "key", "pencil"), (0.82, 0.74, 0.30)),
    **dict.fromkeys(("orange", "mango"), (0.82, 0.50, 0.24)),
    **dict.fromkeys(("sandground", "rockface", "rock", "guitar", "chair", "hammer"), (0.66, 0.52, 0.38)),
    **dict.fromkeys(("fork", "knife", "spoon", "fridge", "white", "skin1", "ceiling", "4tile"), (0.75, 0.75, 0.77)),
    "dblue": (0.14, 0.21, 0.50),
    "lgreen": (0.58, 0.80, 0.47),
    "dorange": (0.62, 0.33, 0.14),
    "purple": (0.50, 0.31, 0.64),
    "cerise": (0.74, 0.24, 0.45),
    "cyan": (0.31, 0.68, 0.70),
    "sky": (0.47, 0.63, 0.86),
    "bush": (0.37, 0.47, 0.24),
    "mushroom": (0.85, 0.82, 0.76),
    "lg_floor": (0.92, 0.92, 0.92),  # its shaders tint it
}
"""Red, green and blue in [0, 1] for words in the names of textures; the last known word of a name decides."""


@dataclasses.dataclass(frozen=True)
class StandIns:
    """Stand-ins for missing files.

    Attributes:
        textures: paths of generated or copied textures in the tree.
        maps: name of each missing map, and of the map that replaces it.
    """

    textures: tuple[str, ...]
    maps: dict[str, str]


def add_stand_ins(tree: Path, missing: Sequence[str]) -> StandIns:
    """Creates missing textures, and replaces each missing map by one of its family, or else of another family.

    Args:
        tree: source tree.
        missing: paths in the tree that are missing.

    Raises:
        BuildError: another kind of file is missing, or no natlab map can replace a missing one.
    """
    textures = [path for path in missing if path.endswith(".tga")]
    maps = [path for path in missing if re.search(r"/natlab_[^/]*\.bsp$", path)]
    others = sorted(set(missing) - set(textures) - set(maps))
    if others:
        raise BuildError(f"missing files without a stand-in: {len(others)}, the first is {others[0]}.")
    for path in textures:
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        sky = _other_sky(target, tree)
        target.write_bytes(sky.read_bytes() if sky else _texture(path))
    return StandIns(tuple(textures), _other_maps(tree, maps))


def write_provenance(out: Path, revision: str, tree: Path, stand_ins: StandIns) -> str:
    """Writes the module's commit and its stand-ins to a file; returns a summary in words, for records.

    Args:
        out: folder of the module.
        revision: the commit.
        tree: source tree with stand-ins.
        stand_ins: the stand-ins in the tree.
    """
    textures = len(list(tree.glob("assets/**/*.tga")))
    natlab_maps = len(list(tree.glob("assets/maps/built/natlab_*.bsp"))) + len(stand_ins.maps)
    text = f"commit {revision[:7]}"
    if stand_ins.textures or stand_ins.maps:
        text += (
            f", stand-ins for {len(stand_ins.textures)} of {textures} textures "
            f"and {len(stand_ins.maps)} of {natlab_maps} natlab maps"
        )
    provenance = {"text": text, "commit": revision, **dataclasses.asdict(stand_ins)}
    (out / PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n")
    return text


def _other_maps(tree: Path, missing: Sequence[str]) -> dict[str, str]:
    present = sorted(path.stem for path in tree.glob("assets/maps/built/natlab_*.bsp"))
    chosen = {}
    for name in (Path(path).stem for path in missing):
        family = name.rpartition("_")[0]
        # The large maps are missing together; a small map of the other family replaces them.
        choices = [map_name for map_name in present if map_name.startswith(family)] or [
            map_name for map_name in present if "variable" in map_name
        ]
        if not choices:
            raise BuildError(f"the source has neither {name}.bsp nor a map that could replace it.")
        chosen[name] = choices[zlib.crc32(name.encode()) % len(choices)]
    return chosen


def _other_sky(target: Path, tree: Path) -> Path | None:
    """Returns the same side of another sky in the tree; None if there is none, or if the target is no sky's side."""
    side = re.search(r"lg_sky_\d+(_[a-z]{2}\.tga)$", target.name)
    if not side:
        return None
    skies = (tree / "assets/textures/map").glob(f"**/lg_sky_*{side[1]}")
    own = [path for path in sorted(skies) if path.name != target.name and path.stat().st_size > 20_000]
    return own[0] if own else None


def _texture(path: str) -> bytes:
    """Returns a TGA file with the colour that the name suggests and the pattern of its style."""
    name = Path(path).stem
    words = name.split("_")
    y, x = np.mgrid[:SIDE, :SIDE]
    decal = re.match(r"dec_img_style(\d+)_(\d+)$", name)
    if decal:
        picture = _decal(zlib.crc32(name.encode()))
    elif words[-1] in ("m", "e") or name in ("thruster_glow", "spawn_d", "beam_d", "disc_impact_d"):
        picture = np.where((y // 16 % 4 == 1)[..., np.newaxis], 0.4, 0.0) * np.ones(3)  # added to the background
    elif "/model" in path and words[-1] == "d":
        picture = np.broadcast_to(_colour(words), (OBJECT_SIDE, OBJECT_SIDE, 3))
    else:
        style = re.search(r"style_(\d+)", name)
        number = int(style[1]) if style else zlib.crc32(name.encode())
        patterns = (
            (x % 16 < 2) | (y % 16 < 2),  # tiles
            (y % 16 < 2) | ((x + y // 16 % 2 * 8) % 32 < 2),  # bricks
            (x // 16 + y // 16) % 2 == 0,  # a chess board
            (x + y) % 16 < 4,  # diagonals
            x % 8 < 2,  # stripes
        )
        picture = _colour(words) * np.where(patterns[number % len(patterns)], 0.75, 1.0)[..., np.newaxis]
    opaque = np.mgrid[: len(picture), : len(picture)].sum(axis=0) % 11 < 6 if "bush" in words else None
    return _tga(picture, opaque)


def _colour(words: Sequence[str]) -> np.ndarray:
    name = "_".join(words[:2])
    known = [COLOURS[word] for word in (name, *words) if word in COLOURS and "placeholder" not in words]
    colour = known[-1] if known else colorsys.hsv_to_rgb(zlib.crc32("_".join(words).encode()) % 360 / 360, 0.45, 0.7)
    return np.minimum(np.array(colour) * (1.3 if "bright" in words else 1.0), 1.0)


def _decal(number: int) -> np.ndarray:
    """Returns a symmetric picture of 5 x 5 squares on a light background, which depends on the number."""
    rng = np.random.default_rng(number)
    half = rng.random((5, 3)) < 0.5
    squares = np.pad(np.kron(np.hstack([half, half[:, 1::-1]]), np.ones((8, 8))), 12) > 0
    return np.where(squares[..., np.newaxis], rng.uniform(0.1, 0.6, 3), 0.87)


def _tga(picture: np.ndarray, opaque: np.ndarray | None) -> bytes:
    """Returns an uncompressed TGA file of an RGB picture [H, W, 3] in [0, 1], opaque where a mask [H, W] is true."""
    pixels = (np.clip(picture, 0, 1) * 255).astype(np.uint8)[..., ::-1]
    if opaque is not None:
        pixels = np.dstack([pixels, opaque.astype(np.uint8) * 255])
    height, width, channels = pixels.shape
    alpha_bits = 8 if channels == 4 else 0
    header = struct.pack("<3B5x4H2B", 0, 0, 2, 0, 0, width, height, 8 * channels, alpha_bits)
    return header + np.ascontiguousarray(pixels[::-1]).tobytes()  # from the bottom up
