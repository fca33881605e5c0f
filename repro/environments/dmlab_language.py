"""Instructions of levels as numbers of words."""

from __future__ import annotations

import functools
import hashlib

import numpy as np


@functools.lru_cache(maxsize=65536)
def word_id(word: str, vocabulary: int) -> int:
    """Returns the number of a word, the same in every process: a hash, so that words may share one.

        id = 1 + BLAKE2b(word) mod (vocabulary - 1)

    Args:
        word: without blanks.
        vocabulary: numbers there are, at least 2; 0 is no word's.
    """
    digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest) % (vocabulary - 1)


@functools.lru_cache(maxsize=65536)
def encode(instruction: str, vocabulary: int, length: int) -> np.ndarray:
    """Returns the numbers of an instruction's words, int32 [length], zeros after the last.

    Letter case and the kind of blanks make no difference; words beyond the length are left out.

    Args:
        instruction: empty where a level gives none.
        vocabulary: see `word_id`.
        length: most words.
    """
    ids = np.zeros(length, np.int32)
    words = instruction.lower().split()[:length]
    ids[: len(words)] = [word_id(word, vocabulary) for word in words]
    ids.flags.writeable = False
    return ids
