"""Decides a kernel by the phases of its mbarriers: all of its paths, with as little told apart as does.

    all threads go one way together      one path state, barriers of the block order everybody
    roles                                the same paths with clocks of warps (`role_memory`)

What iteration numbers are known modulo, and which warps act alike, is found while paths are
followed: they begin anew where more of it is needed.
"""

from __future__ import annotations

from dataclasses import field
from math import lcm

from mlir_async_pipe.checker.phase_faults import FoundFault, NotFollowedError
from mlir_async_pipe.checker.phases.loop_turns import COUNTED, CountedError, LoopTurns
from mlir_async_pipe.checker.phases.op_effects import OpEffects
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.phase_paths import PhasePaths
from mlir_async_pipe.checker.phases.ranges_of_sums import LARGEST_MODULUS, ModulusError
from mlir_async_pipe.checker.phases.role_log import RoleLog
from mlir_async_pipe.checker.phases.warp_clocks import SplitError, WarpClasses, warps_of
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.session.light_dataclass import dataclass


@dataclass(frozen=True)
class Followed:
    """What was found: faults, or why the kernel was not followed to its end ("" if it was); what roles
    do, if it has some."""

    faults: tuple[FoundFault, ...]
    reason: str
    ops: tuple[Run, ...]
    roles: RoleLog = field(default_factory=dict)


def follow(
    flow: Flow, sites: Sites, touched: set[int], size: tuple[int, int, int] | None
) -> Followed:
    """Follow a kernel in which copies and products touch the roots `touched`."""
    if size is None:
        return Followed((), "block-size", ())
    if any(sites.roots.may_alias(a, b) for a in touched for b in touched if a < b):
        return Followed((), "may-alias", ())
    effects = OpEffects(sites, touched)
    numbers = PathNumbers(flow, effects, size)
    classes = None
    loops, short = _followed(flow, effects, numbers, exact=False)
    if short.reason == "specialised":
        classes = WarpClasses((warps_of((1 << numbers.threads) - 1),))
        loops, short = _followed(flow, effects, numbers, exact=False, classes=classes)
    proven = not short.reason and not short.faults
    if proven or not loops.some_long:
        return short
    # Of loops of many iterations any number was followed: what is wrong with that may be right.
    _, exact = _followed(flow, effects, numbers, exact=True, classes=classes)
    is_better = not exact.reason or any(fault.certain for fault in exact.faults)
    return exact if is_better else short


def _followed(
    flow: Flow,
    effects: OpEffects,
    numbers: PathNumbers,
    *,
    exact: bool,
    classes: WarpClasses | None = None,
) -> tuple[LoopTurns, Followed]:
    """Follow all paths, with what iteration numbers are known modulo as small as it may be; with
    roles, if there are `classes` of warps, which are as few as act alike."""
    modulus, counted, reason = 1, COUNTED, "budget"
    while modulus <= LARGEST_MODULUS**2:
        loops = LoopTurns(flow, modulus, exact, classes is not None, counted)
        paths = PhasePaths(flow, effects, numbers, loops, classes)
        try:
            paths.run()
            reason = ""
            break
        except ModulusError as needed:
            modulus = lcm(modulus, needed.modulus)
        except CountedError as needed:
            counted = needed.counted
        except SplitError as apart:
            assert classes is not None
            classes = classes.split(apart.warps)
        except NotFollowedError as stopped:
            reason = stopped.reason
            break
    return loops, Followed(tuple(paths.faults), reason, tuple(effects.ops), paths.log)
