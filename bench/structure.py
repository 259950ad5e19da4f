"""How much there is to read, and how far a reader walks: the table of docs/architecture.md.

    python bench/structure.py [--arrows]

Lines and files of the package; boxes (folders and files that stand directly in it, and the package
itself) and the imports between them, lazy ones and those for types included; circles of modules; and
for two runs in a warm process, without a cache, how many of our files are entered and how often a
call leaves one file for another (`sys.setprofile`).
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "mlir_async_pipe"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arrows", action="store_true", help="print which box imports which")
    arguments = parser.parse_args()
    modules = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    imports = {name: set(imported(name, path, modules)) for name, path in modules.items()}
    boxes = {box_of(name) for name in modules}
    arrows = {
        (box_of(a), box_of(b))
        for a, others in imports.items()
        for b in others
        if box_of(a) != box_of(b)
    }
    print(
        f"lines                {sum(len(p.read_text().splitlines()) for p in modules.values()):,}"
    )
    print(f"files                {len(modules)}")
    print(f"boxes / arrows       {len(boxes)} / {len(arrows)}")
    print(f"circle               {' -> '.join(circle(imports)) or 'none'}")
    for title, run in trips().items():
        entered, switches = walked(run)
        print(f"{title:20} {entered} files entered, {switches:,} switches between files")
    if arguments.arrows:
        for box in sorted(boxes):
            print(f"{box:16} -> {', '.join(sorted(b for a, b in arrows if a == box))}")
    return 0


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def box_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def imported(name: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that this one names in an import, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [full if full in modules else node.module for full in found]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        yield from (other for other in found if other in modules and other != name)


def circle(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def trips() -> dict[str, Callable[[], object]]:
    import mlir_async_pipe
    from mlir_async_pipe.bindings import ir, new_context

    def pipeline() -> None:
        with new_context():
            module = ir.Module.parse((ROOT / "examples" / "gemm.mlir").read_text())
            mlir_async_pipe.pipeline(module, target="nvvm:sm_80", cache=False)

    def check() -> None:
        with new_context():
            text = (ROOT / "examples" / "handwritten" / "gemm_tile.mlir").read_text()
            mlir_async_pipe.check(ir.Module.parse(text))

    return {"pipeline() of a GEMM": pipeline, "check() by hand": check}


def walked(run: Callable[[], object]) -> tuple[int, int]:
    """Files of ours that calls enter, and how often a call goes from one of them into another."""
    run()
    prefix, entered, switches = str(PACKAGE), set(), 0
    stack = [""]

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal switches
        if event == "call":
            file = frame.f_code.co_filename
            ours = file if file.startswith(prefix) else stack[-1]
            if ours != stack[-1]:
                entered.add(ours)
                switches += 1
            stack.append(ours)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(entered), switches


if __name__ == "__main__":
    sys.exit(main())
