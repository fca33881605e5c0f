"""What all commands share, besides what `test_commands.py` tests through them."""

from __future__ import annotations

import io

from rich.console import Console

from repro import cli


def test_texts_are_shown_as_they_are():
    """Brackets are no markup, of which some would vanish and others raise an error, and long lines are not broken."""
    text = f"seed 1 failed: [red] is no colour [/tmp/{'x' * 100}/log.txt]"
    shown = io.StringIO()
    cli.say(Console(file=shown, width=40), text, style="red")
    assert shown.getvalue() == f"{text}\n"
