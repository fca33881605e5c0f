"""An actor of `small.make_loop` in a process of its own; its arguments are those of `small.play_catch`."""

import sys
from pathlib import Path

from tests.papers.ctrace.small import play_catch

if __name__ == "__main__":
    address, *numbers, file = sys.argv[1:]
    play_catch(address, *map(int, numbers), Path(file))
