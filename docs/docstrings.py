"""How docstrings of the suite are read for the API reference, where they go beyond Google style.

A paragraph such as `Gradients: none to ...` with indented further lines is text, not a titled note. A paragraph of
lines `name: meaning`, as named tuples have, is a list.
"""

from __future__ import annotations

import re
import textwrap

import griffe

_TITLED = re.compile(r"[A-Z]\w*: \S")
_FIELD = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): ")


class ParagraphExtension(griffe.Extension):
    """Rewrites the docstring of each object before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = rewrite(obj.docstring.value)


def rewrite(docstring: str) -> str:
    """Returns a docstring as Google style and Markdown have it.

    Args:
        docstring: without the indentation of its source.
    """
    return "\n\n".join(_paragraph(text) for text in docstring.split("\n\n"))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if _TITLED.match(lines[0]) and all(line.startswith("    ") for line in lines[1:]):
        title, _, rest = lines[0].partition(": ")
        return f"**{title}:** {rest}\n{textwrap.dedent(chr(10).join(lines[1:]))}".rstrip()
    fields = [_FIELD.match(line) for line in lines]
    if fields[0] and sum(map(bool, fields)) > 1 and all(f or line.startswith("    ") for f, line in zip(fields, lines)):
        return "\n".join(f"- `{f[1]}`: {line[f.end() :]}" if f else line for f, line in zip(fields, lines))
    return text
