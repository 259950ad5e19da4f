"""Writes docs/passes.md from the registry: what each pass does, its rewrite, and its options.

python cmake-free-scripts/write_passes.py
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "passes.md"
HEAD = """# Passes

Every pass of this package by its flag (`async-pipe-opt --NAME`, or its name in `--pass-pipeline`), in the
order in which `--async-pipe` runs those that belong to it. `--mlir-print-ir-after=NAME` shows what one of
them did. Text and options are those of the sources: `cmake-free-scripts/write_passes.py` writes this page.
"""


def page() -> str:
    """The page, a section a pass."""
    from mlir_async_pipe.session import passes

    return "\n".join([HEAD, *(_section(passes.find(name)) for name in passes.names())])


def _section(found: object) -> str:
    from mlir_async_pipe.session.passes import NoOptions

    parts = [f"## `--{found.name}`", "", f"{found.summary[0].upper()}{found.summary[1:]}.", ""]
    parts += [_as_markdown(_docstring(found)), ""]
    if found.options is not NoOptions:
        parts += ["| option | values | default |", "|---|---|---|"]
        for field in dataclasses.fields(found.options):
            values = ", ".join(field.metadata.get("choices", ())) or _kind(field)
            default = str(field.default).lower() if field.type == "bool" else field.default
            parts.append(f"| `{field.name.replace('_', '-')}` | {values} | `{default or 'none'}` |")
        parts.append("")
    return "\n".join(parts)


def _docstring(found: object) -> str:
    """That of its module, of its function where the module has another pass."""
    from mlir_async_pipe.session import passes

    run = found.run.__wrapped__
    text = importlib.import_module(run.__module__).__doc__ or ""
    beside = [name for name in passes.names() if _module(passes.find(name)) == run.__module__]
    if len(beside) > 1 and f"`{found.name}`" not in text:
        return inspect.cleandoc(run.__doc__ or "")
    return text


def _module(found: object) -> str:
    return str(found.run.__wrapped__.__module__)


def _kind(field: dataclasses.Field) -> str:
    return {"int": "a whole number", "bool": "true, false"}.get(str(field.type), "text")


def _as_markdown(docstring: str) -> str:
    """Indented lines are code already; a "<" outside of code would begin HTML."""
    code = re.compile(r"(`[^`]*`|^ {4}.*$)", re.MULTILINE)
    pieces = code.split(docstring.strip())
    return "".join(p if number % 2 else p.replace("<", "&lt;") for number, p in enumerate(pieces))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page())
