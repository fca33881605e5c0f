"""A stand-in for the engine: the interface that the adapter uses, episodes of 10 frames, and faults where asked.

An episode's frame shows in its first pixels what led there. The variable FAKE_DMLAB holds `<fault>:<seed>`, with a
fault `raise`, `exit` or `hang` that strikes at the first step of the episode with that seed, or `broken`, which strikes
in every episode.
"""

import os
import pathlib
import sys
import time

import numpy as np

EPISODE_FRAMES = 10
LEVELS = ("lt_chasm", "seekavoid_arena_01", "contributed/dmlab30/")


class Lab:
    def __init__(self, level, observations, config, renderer, level_cache, temp_folder):
        if not level.startswith(LEVELS):
            raise RuntimeError(f"Invalid level flag {level}")
        assert type(observations) is list
        assert all(type(x) is str for x in (*config, *config.values()))
        assert renderer == "software"
        self._names, self._level, self._cache = observations, level, level_cache
        self._size = int(config["height"]), int(config["width"])
        self._mixer = int(config["mixerSeed"])
        self._scratch = pathlib.Path(temp_folder)
        self._frames = EPISODE_FRAMES

    def reset(self, seed):
        self._seed, self._frames, self._action = seed, 0, np.zeros(7, np.intc)
        map_file, key = self._scratch / "map.pk3", f"{self._level.replace('/', '_')}_{self._mixer}_{seed}"
        self._fetched = self._cache is not None and self._cache.fetch(key, str(map_file))
        if not self._fetched:
            map_file.write_text(key)
            if self._cache is not None:
                self._cache.write(key, str(map_file))
        assert map_file.read_text() == key
        self._fail("broken")
        return True

    def step(self, action, num_steps):
        assert action.dtype == np.intc
        assert action.shape == (7,)
        if not self.is_running():
            raise RuntimeError("Environment in wrong status to advance")
        if self._frames == 0:
            self._fail("raise", "exit", "hang")
        frames = min(num_steps, EPISODE_FRAMES - self._frames)
        self._frames += frames
        self._action = action
        return frames * (1.0 + 0.5 * float(action[4]))

    def is_running(self):
        return self._frames < EPISODE_FRAMES

    def observations(self):
        if not self.is_running():
            raise RuntimeError("Environment in wrong status for call to observations()")
        frame = np.zeros((*self._size, 3), np.uint8)
        frame[0, 0] = self._frames, self._seed % 256, self._seed // 256 % 256
        frame[0, 1] = np.frombuffer(self._mixer.to_bytes(4, "little"), np.uint8)[:3]
        frame[0, 2] = self._mixer >> 31, self._fetched, 0
        frame[1, :7, 0] = self._action + 128
        text = f"Pick up the red ball {self._seed}" if "language" in self._level else ""
        return {"RGB_INTERLEAVED": frame, "INSTR": text}

    def _fail(self, *faults):
        fault, _, seed = os.environ.get("FAKE_DMLAB", "").partition(":")
        if fault not in faults or (seed and int(seed) != self._seed):
            return
        if fault == "hang":
            time.sleep(600)
        if fault == "exit":
            print("Segmentation fault in the renderer", file=sys.stderr, flush=True)
            os._exit(139)
        raise RuntimeError("The level script failed")
