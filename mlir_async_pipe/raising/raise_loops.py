"""The pass `async-pipe-raise-loops`: loops between blocks become `scf.for`, or stay as they are.

    iterator in memory, branches --promote--> block arguments --read, count, write--> scf.for

Front ends keep loop variables and iterators in small private arrays; MLIR's `sroa` and `mem2reg`
make values of them first. Each loop is read whole before anything of it is written: one that
branches in a way that `scf` has no form for, or whose iterations nobody counts, stays with a remark
that says why, and so do the loops around it; those inside it are tried by themselves. A function
without a raised loop stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import passmanager
from mlir_async_pipe.bindings.raw_ops import Block, Operation, functions, symbol_name
from mlir_async_pipe.bindings.run_on_copy import become
from mlir_async_pipe.raising.counted import count
from mlir_async_pipe.raising.loop_shapes import BlockGraph, If, Loop, Way, read_loop
from mlir_async_pipe.raising.write_loops import replace_loop
from mlir_async_pipe.session.diagnostics import PipelineError, Place
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session

_PROMOTE = "canonicalize,sroa,mem2reg,canonicalize,cse"
_CLEAN_UP = "canonicalize,cse"


@dataclass(frozen=True)
class RaisedLoop:
    """A loop of blocks that became an `scf.for`, by the place of its test."""

    function: str
    place: Place


@register("async-pipe-raise-loops", "make scf.for of loops between blocks", NoOptions)
def run(module: Any, options: NoOptions, session: Session) -> None:
    """Raise the loops of every function that has some."""
    root = module.operation
    if not any(_has_loops(function) for function in functions(root)):
        return
    copy = root.clone(ip=False).operation
    _run_passes(copy, _PROMOTE)
    # By number: the passes drop no function with a body.
    pairs = list(zip(functions(root), functions(copy), strict=True))
    changed = [_raise_all(promoted, session) for _, promoted in pairs]
    if not any(changed):
        return
    _run_passes(copy, _CLEAN_UP)
    for (old, _), new, raised in zip(pairs, functions(copy), changed, strict=True):
        if raised:
            become(old, new)


def _has_loops(function: Operation) -> bool:
    region = function.regions[0]
    return len(list(region.blocks)) > 1 and bool(BlockGraph(region).loops)


def _run_passes(root: Operation, names: str) -> None:
    with root.context:
        passmanager.PassManager.parse(f"any({names})").run(root)


def _raise_all(function: Operation, session: Session) -> bool:
    """Raise what can be raised, outer loops with all that is in them first."""
    tried: set[Block] = set()
    said: set[Any] = set()
    raised = False
    while True:
        graph = BlockGraph(function.regions[0])
        header = next((block for block in graph.loops if block not in tried), None)
        if header is None:
            return raised
        tried.add(header)
        try:
            loop = read_loop(graph, header, tuple(header.arguments))
            counts = {inner.header: count(inner) for inner in _loops(loop)}
        except PipelineError as error:
            if error.diagnostic not in said:
                _tell(error, session)
            said.add(error.diagnostic)
            continue
        name, place = symbol_name(function), Place.of(loop.test)
        replace_loop(loop, counts)
        session.record("raised", RaisedLoop(name, place))
        raised = True


def _loops(loop: Loop) -> list[Loop]:
    """A loop and those inside it."""
    return [loop, *_loops_of(loop.body)]


def _loops_of(way: Way) -> list[Loop]:
    found: list[Loop] = []
    for item in way.items:
        if isinstance(item, Loop):
            found += _loops(item)
        elif isinstance(item, If):
            found += [loop for arm in item.ways for loop in _loops_of(arm)]
    return found


def _tell(error: PipelineError, session: Session) -> None:
    found = error.diagnostic
    session.diagnostics.remark(found.message, code=found.code, at=found.place)
