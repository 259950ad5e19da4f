"""Docstrings on the site: lines that begin with a name become a list.

`smem_limit`: workgroup memory of a block in bytes     -->  - `smem_limit`: workgroup memory …
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class DocstringLists(griffe.Extension):
    """What mkdocstrings asks after it has read each object."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Rewrite the docstring of a module, class or function that has one."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """The text with a blank line and a dash before each run of lines "`name`: …"."""
    marked = re.sub(r"^(`\w+`: )", r"- \1", text, flags=re.MULTILINE)
    return re.sub(r"(?<!\n)\n(- `\w+`: )", _separated, marked)


def _separated(match: re.Match[str]) -> str:
    before = match.string[: match.start()].rpartition("\n")[2]
    inside = before.startswith(("- `", "  "))
    return ("\n" if inside else "\n\n") + match[1]
