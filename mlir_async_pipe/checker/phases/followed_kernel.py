"""Decides a kernel by the phases of its mbarriers: all of its paths, with as little told apart as does.

    all threads go one way together      one path state, barriers of the block order everybody
    roles                                the same paths with clocks of warps (`role_memory`)
    blocks of a cluster                  roles, each with memory of its own (`cluster_memory`)

What iteration numbers are known modulo, and which warps act alike, is found while paths are
followed: they begin anew where more of it is needed. What is wrong on a path is told for certain
if numbers of the kernel are found (`witness_numbers`) with which it is met.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import lcm

from mlir_async_pipe.checker.forms import Atom
from mlir_async_pipe.checker.phase_faults import (
    ORDER,
    Ends,
    FoundFault,
    NotFollowedError,
    causes,
)
from mlir_async_pipe.checker.phases.cluster_blocks import blocks_of
from mlir_async_pipe.checker.phases.far_memory import FarMemory
from mlir_async_pipe.checker.phases.fault_examples import example_of
from mlir_async_pipe.checker.phases.loop_turns import CountedError, LoopTurns
from mlir_async_pipe.checker.phases.op_effects import OpEffects
from mlir_async_pipe.checker.phases.open_questions import ModulusError
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.phase_paths import PhasePaths
from mlir_async_pipe.checker.phases.ranges_of_sums import LARGEST_MODULUS
from mlir_async_pipe.checker.phases.role_log import RoleLog
from mlir_async_pipe.checker.phases.states_seen import Merging
from mlir_async_pipe.checker.phases.warp_clocks import SplitError, WarpClasses, warps_of
from mlir_async_pipe.checker.phases.witness_numbers import witnesses
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.vocabulary.launch_ids import Size

# So often a kernel is followed past the faults that were told.
MOST_ROUNDS = 8
# Kernels with numbers that are followed to tell faults for certain, and states that each begins at.
WITNESSES, STATES = 48, 4


@dataclass(frozen=True)
class Followed:
    """What was found: faults, or why the kernel was not followed to its end ("" if it was); what roles
    do, if it has some."""

    faults: tuple[FoundFault, ...]
    reason: str
    ops: tuple[Run, ...]
    roles: RoleLog = field(default_factory=dict)


@contextmanager
def _uncollected() -> Iterator[None]:
    """States hold no circles, and those that were met are kept: looking for garbage among them would take a
    third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_uncollected()
def follow(
    flow: Flow,
    sites: Sites,
    touched: set[int],
    size: Size | None,
    cluster: Callable[[], Size | None],
    far: FarMemory | None = None,
) -> Followed:
    """Follow a kernel in which copies and products touch the roots `touched`, in blocks of a `size`
    and a `cluster` of such a size; with the global memory `far`, if it is given."""
    if size is None:
        return Followed((), "block-size", ())
    if any(sites.roots.may_alias(a, b) for a in touched for b in touched if a < b):
        return Followed((), "may-alias", ())
    effects = OpEffects(sites, touched, far, size[0])
    found = _follow(flow, effects, size, cluster)
    told, new, certain = list(found.faults), found.faults, True
    for _ in range(MOST_ROUNDS):
        first = [f for f in new if f.certain and f.ends not in effects.forgiven.ends]
        if not first:
            break
        effects.forgiven = effects.forgiven.and_also(first)
        new = _follow(flow, effects, size, cluster).faults
        # No run of the kernel comes to what is after a fault that stops it.
        certain = certain and not any(fault.stops for fault in first)
        known = set(chain.from_iterable(causes(fault.ends) for fault in told))
        follows = _following(told, certain) if found.roles else frozenset()
        told += [
            replace(fault, certain=certain)
            for fault in new
            if fault.certain and fault.code not in follows and known.isdisjoint(causes(fault.ends))
        ]
    return replace(found, faults=tuple(told), ops=tuple(effects.ops))


def _following(told: list[FoundFault], certain: bool) -> frozenset[str]:
    """What may follow, between roles, from faults that were told: after one that stops them (what comes
    is not `certain`) all about their order; who is late elsewhere may let a phase be overtaken."""
    if not certain:
        return ORDER
    late = any(fault.code in ORDER for fault in told)
    return frozenset({"phase-overtaken"}) if late else frozenset()


def _follow(
    flow: Flow, effects: OpEffects, size: Size, cluster: Callable[[], Size | None]
) -> Followed:
    """Follow it once, past the faults that are forgiven."""
    numbers = PathNumbers(flow, effects, size)
    classes = None
    try:
        numbers.blocks = blocks_of(flow, size, cluster)
    except NotFollowedError as unknown:
        return Followed((), unknown.reason, ())
    if blocks := numbers.blocks.members_of_all():
        classes = WarpClasses(tuple(warps_of(mask) for mask in blocks))
    paths, short = _any_number(flow, effects, numbers, classes)
    # What one side hands on may be no number of all threads, but one of each role.
    if short.reason in ("specialised", "unknown-number"):
        classes = WarpClasses((warps_of((1 << numbers.threads) - 1),))
        paths, short = _any_number(flow, effects, numbers, classes)
    proven = not short.reason and not short.faults
    if proven or not paths.loops.some_long:
        return _confirmed(short, paths, classes)
    # Of loops of many iterations any number was followed: what is wrong with that may be right.
    followed, exact = _followed(flow, effects, numbers, exact=True, classes=classes)
    if not exact.reason or any(fault.certain for fault in exact.faults):
        return _confirmed(exact, followed, classes)
    return _confirmed(short, paths, classes)


def _any_number(
    flow: Flow, effects: OpEffects, numbers: PathNumbers, classes: WarpClasses | None
) -> tuple[PhasePaths, Followed]:
    """Follow loops of any number of iterations; states of roles merged, if nothing is wrong even so: as
    many as can be, then fewer."""
    for merging in (Merging.ALL, Merging.SAME_ENDS) if classes is not None else ():
        paths, merged = _followed(
            flow, effects, numbers, exact=False, classes=classes, merged=merging
        )
        if not merged.reason:
            return paths, merged
        if merged.reason != "merged":
            break
    return _followed(flow, effects, numbers, exact=False, classes=classes)


def _confirmed(found: Followed, paths: PhasePaths, classes: WarpClasses | None) -> Followed:
    """What is certain: that which is met where the kernel is followed with numbers."""
    met: dict[Ends, FoundFault] = {}
    tried: set[frozenset[tuple[Atom, int]]] = set()
    flow, effects, numbers = paths.flow, paths.effects, paths.numbers
    for fault, states in paths.taken.items():
        ways = (witnesses(state, numbers) for state in states[:STATES])
        for chosen in islice(chain.from_iterable(ways), WITNESSES):
            if fault.ends in met or len(tried) == WITNESSES:
                break
            if frozenset(chosen.items()) in tried:
                continue
            tried.add(frozenset(chosen.items()))
            one = PathNumbers(flow, effects, numbers.size, chosen, blocks=numbers.blocks)
            there, _ = _followed(flow, effects, one, exact=True, classes=classes, witness=True)
            for other, (first, *_) in there.taken.items():
                if other.ends not in met:
                    example = example_of(other, first, flow, chosen)
                    met[other.ends] = replace(other, example=example)
    told = [_told(fault, met.get(fault.ends)) for fault in found.faults]
    known = {fault.ends for fault in told}
    return replace(found, faults=(*told, *(f for ends, f in met.items() if ends not in known)))


def _told(fault: FoundFault, met: FoundFault | None) -> FoundFault:
    return replace(fault, certain=met is not None, example=met.example if met else None)


def _followed(
    flow: Flow,
    effects: OpEffects,
    numbers: PathNumbers,
    *,
    exact: bool,
    classes: WarpClasses | None = None,
    witness: bool = False,
    merged: Merging = Merging.NOTHING,
) -> tuple[PhasePaths, Followed]:
    """Follow all paths, with what iteration numbers are known modulo as small as it may be; with
    roles, if there are `classes` of warps, which are as few as act alike."""
    modulus, reason = 1, "budget"
    counted: dict[int, int] = {}
    while modulus <= LARGEST_MODULUS**2:
        loops = LoopTurns(flow, modulus, exact, classes is not None, counted)
        paths = PhasePaths(flow, effects, numbers, loops, classes, witness, merged)
        try:
            paths.run()
            reason = ""
            break
        except ModulusError as needed:
            modulus = lcm(modulus, needed.modulus)
        except CountedError as needed:
            counted |= dict.fromkeys(needed.loops, needed.counted)
        except SplitError as apart:
            assert classes is not None
            classes = classes.split(apart.warps)
        except NotFollowedError as stopped:
            reason = stopped.reason
            break
    return paths, Followed(tuple(paths.faults), reason, tuple(effects.ops), paths.log)
