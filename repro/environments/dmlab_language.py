"""Encodes the instructions of levels as word ids."""

from __future__ import annotations

import functools
import hashlib

import numpy as np


@functools.lru_cache(maxsize=65536)
def word_id(word: str, vocabulary: int) -> int:
    """Returns the id of a word, a hash that is the same in every process; words may share an id.

        id = 1 + BLAKE2b(word) mod (vocabulary - 1)

    Args:
        word: a word without blanks.
        vocabulary: number of ids, at least 2; id 0 stands for no word.
    """
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest) % (vocabulary - 1)


@functools.lru_cache(maxsize=65536)
def encode(instruction: str, vocabulary: int, length: int) -> np.ndarray:
    """Returns the ids of an instruction's words, int32 [length], padded with zeros; the array is read-only.

    Letter case and the kind of blanks make no difference; words beyond the length are left out.

    Args:
        instruction: the instruction; empty where a level gives none.
        vocabulary: number of ids, see `word_id`.
        length: largest number of words.
    """
    ids = np.zeros(length, np.int32)
    words = instruction.lower().split()[:length]
    ids[: len(words)] = [word_id(word, vocabulary) for word in words]
    ids.flags.writeable = False
    return ids
