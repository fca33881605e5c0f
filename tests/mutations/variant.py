"""A wrong variant of one source file."""

from __future__ import annotations

from typing import NamedTuple


class Variant(NamedTuple):
    """One substitution in one file, and the test that must fail because of it.

    name: what is wrong, in a few words.
    file: path from the repository's root.
    old: text that occurs exactly once in the file.
    new: what replaces it.
    test: a test file, or a test in it as `path::function`.
    slow: the test is marked slow, takes some seconds, or is skipped on some machines; `--fast` leaves it out.
    """

    name: str
    file: str
    old: str
    new: str
    test: str
    slow: bool = False

    def apply(self, source: str) -> str:
        """The wrong file, of the right one.

        Raises:
            ValueError: `old` occurs not exactly once, so that the variant is not what it was written to be.
        """
        count = source.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: its text must occur once in {self.file}, and occurs {count} times")
        return source.replace(self.old, self.new)
