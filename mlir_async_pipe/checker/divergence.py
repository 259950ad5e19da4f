"""Accesses on the two sides of a branch that the threads of a block take differently.

    scf.if %is_warp_0 { copy to s }  else { load from s }      both run, in no order

A path follows one side only, so it never has both, and no barrier can stand between them:
where one writes and they may touch the same memory, it cannot be told.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.checker.conflicts import Finding, Judge
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.values import differs
from mlir_async_pipe.ir_helpers import ancestors

REASON = "divergent-branch"


def judge_divergent_branches(judge: Judge, sites: Sites) -> None:
    """Add a finding for each pair of accesses on both sides of a divergent scf.if."""
    if not judge.comparer.threads.several:
        return
    sides: dict[Any, tuple[list[int], list[int]]] = {}
    for number, site in enumerate(sites.sites):
        if site.space == "private" or not sites.matters(number):
            continue
        for branch, side in _branches(site.op):
            if differs(branch.operands[0], site.frame):
                sides.setdefault(branch, ([], []))[side].append(number)
    for then, otherwise in sides.values():
        for earlier in then:
            for later in otherwise:
                if _may_race(judge, sites, earlier, later):
                    judge.findings.setdefault(
                        (later, earlier, "missing-barrier"),
                        Finding(later, earlier, "missing-barrier", False, False, REASON),
                    )


def _branches(op: Any) -> list[tuple[Any, int]]:
    """Each scf.if around an op that has two sides, and on which of them the op is."""
    found = []
    below = op
    for above in ancestors(op):
        if above.name == "scf.if" and len(list(above.regions[1].blocks)):
            found.append((above, int(below.block == above.regions[1].blocks[0])))
        below = above
    return found


def _may_race(judge: Judge, sites: Sites, a: int, b: int) -> bool:
    one, other = sites.sites[a], sites.sites[b]
    return (
        (one.asynchronous or other.asynchronous or one.space == other.space == "workgroup")
        and (one.writes or other.writes)
        and one.frame == other.frame
        and judge.roots.may_alias(sites.static_root(a), sites.static_root(b))
    )
