"""Whether what a function does beside the tensor copies of some of its loops is proven without the barriers of these loops.

    for { copy -> %A; wait; %s = products of %A               for { %s = unknown
          barrier                                    -->
          store %C[%k, %t] }                                        store %C[%k, %t] }

On a copy of the function, once for all of its loops: a pipeline that hands tiles on by mbarriers needs none of these barriers then.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    before,
    create,
    edits,
    enclosing,
    outermost,
    walk,
)
from mlir_async_pipe.checker.kernel import KernelVerdict, check_kernel, surroundings
from mlir_async_pipe.checker.promises import CheckOptions
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.facts.values.memory_roots import Root, may_alias, root_of
from mlir_async_pipe.vocabulary import accesses, flag_order, row_of
from mlir_async_pipe.vocabulary.rows import UNORDERED


def are_proven_apart(loops: Iterable[Operation], noalias_arguments: bool) -> bool:
    """Whether the checker proves the function of the first of the loops so, without those of the loops that are in it."""
    chosen = set(loops)
    function = enclosing(next(iter(loops)), FUNCTION_OPS)
    if function is None:
        return False
    places = [number for number, op in enumerate(walk(function)) if op in chosen]
    promised = CheckOptions(assume_noalias_arguments=noalias_arguments, assume_several_threads=True)
    with edits():
        copy = function.clone(ip=before(function)).operation
        try:
            ops = list(walk(copy))
            touched = [each for number in places for each in _take_out(ops[number])]
            if any(flag_order(op) != UNORDERED for op in walk(copy)):
                return False
            read = [root for root, writes in touched if not writes]
            if len(read) < len(touched) or _are_written(read, copy, noalias_arguments):
                return False
            found = kernels(copy)
            shared = surroundings(outermost(copy), found)
            return bool(found) and all(
                _is_proven(check_kernel(kernel, shared, None, promised, until_found=True))
                for kernel in found
            )
        finally:
            copy.erase()


def _take_out(loop: Operation) -> list[tuple[Root, bool]]:
    """Erase what copies tiles, reads them, or lets threads and blocks wait for each other, and a loop that does nothing else;
    returns what else that touched, and whether it wrote it."""
    tiles = {
        root_of(access.memory).identity
        for op in walk(loop)
        if row_of(op).by_proxy
        for access in accesses(op)
        if access.writes
    }
    found = []
    for op in reversed(list(walk(loop))):
        row = row_of(op)
        roots = [(root_of(access.memory), access.writes) for access in accesses(op)]
        waits = row.synchronises or row.phase or row.tensor or row.meeting or row.fence
        if waits or row.by_proxy or row.queue or any(root.identity in tiles for root, _ in roots):
            found += [each for each in roots if each[0].identity not in tiles]
            _erase(op)
    if all(row_of(op).does in ("value", "nothing") for op in walk(loop)):
        _erase(loop)
    return found


def _erase(op: Operation) -> None:
    """Nobody knows what its results are."""
    kinds = [result.type for result in op.results]
    if kinds:
        unknown = create(
            "builtin.unrealized_conversion_cast", (), kinds, ip=before(op), loc=op.location
        )
        for old, new in zip(op.results, unknown.results, strict=True):
            old.replace_all_uses_with(new)
    op.erase()


def _are_written(read: list[Root], function: Operation, noalias_arguments: bool) -> bool:
    """Whether the function may write what was read."""
    written = {
        root.identity: root
        for op in walk(function)
        for access in accesses(op)
        if access.writes
        for root in (root_of(access.memory),)
    }
    return any(
        root.identity == identity
        or may_alias(root, other, assume_noalias_arguments=noalias_arguments)
        for root in {root.identity: root for root in read}.values()
        for identity, other in written.items()
    )


def _is_proven(outcome: KernelVerdict) -> bool:
    """Whether threads of one block race nowhere; barriers order nothing between blocks."""
    found = any(finding.cause != "other-block" for finding in outcome.findings)
    return not (found or outcome.in_scope or any(site.atomic for site in outcome.sites))
