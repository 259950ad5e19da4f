"""Decides a kernel by the phases of its mbarriers: all of its paths, with as few distinctions as suffice (`precision`).

    all threads take one path together   clocks of threads, a barrier of the block shows all to everybody
    roles                                the same paths with clocks of warps
    blocks of a cluster                  roles, each with memory of its own

What is wrong on a path is certain
if numbers of the kernel are found (`witness_numbers`) with which it is met.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, count, islice, zip_longest
from itertools import product as pairs
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import is_block_argument, is_function, raw
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, AtomRange, Form, factors
from mlir_async_pipe.checker.phase_faults import (
    FENCES,
    ORDER,
    Ends,
    Example,
    FoundFault,
    NotFollowedError,
    causes,
)
from mlir_async_pipe.checker.phases.cluster_blocks import blocks_of
from mlir_async_pipe.checker.phases.global_memory import GlobalMemory
from mlir_async_pipe.checker.phases.loop_iterations import LoopIterations, iteration_of
from mlir_async_pipe.checker.phases.mbarrier_state import ByThreads, RoleLog
from mlir_async_pipe.checker.phases.op_effects import OpEffects
from mlir_async_pipe.checker.phases.path_numbers import PathNumbers
from mlir_async_pipe.checker.phases.path_state import PathState, RoleState
from mlir_async_pipe.checker.phases.phase_paths import PhasePaths
from mlir_async_pipe.checker.phases.ranges_of_sums import (
    LARGEST_MODULUS,
    RATIO,
    Direction,
    Range,
    first_range,
    mentions,
    parts_of,
)
from mlir_async_pipe.checker.phases.rotations import Rotations
from mlir_async_pipe.checker.phases.warp_clocks import WarpClasses, warps_of
from mlir_async_pipe.checker.precision import MERGED, Precision, Rung, refined
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.facts.values import sums
from mlir_async_pipe.vocabulary.launch_ids import Size

# So often a kernel is followed past the faults that were reported.
MOST_ROUNDS = 8
# Kernels with numbers that are followed to tell faults for certain, and states that each begins at.
WITNESSES, STATES = 48, 4


@dataclass(frozen=True)
class Followed:
    """Faults, or why the kernel was not followed to its end ("" if it was); what roles do, if it has some."""

    faults: tuple[FoundFault, ...]
    reason: str
    ops: tuple[Run, ...]
    roles: RoleLog = field(default_factory=dict)


@contextmanager
def _uncollected() -> Iterator[None]:
    """States hold no circles: looking for garbage among those that were met would take a third of the time."""
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
    cluster: Size | None,
    by_threads: OrderedByPhases | None = None,
    in_global: GlobalMemory | None = None,
    alternating: frozenset[int] = frozenset(),
    *,
    until_found: bool = False,
) -> Followed:
    """Follow a kernel in which copies and products touch the roots `touched`, in blocks of a `size`
    and a `cluster` of such a size; with the global memory `in_global`, if it is given, and the order in which
    roles come to the roots `alternating`, which no copy touches, and that of accesses `by_threads`. `until_found`: not past the
    faults that are met first, which may be none."""
    if size is None:
        return Followed((), "block-size", ())
    if any(sites.roots.may_alias(a, b) for a in touched for b in touched if a < b):
        return Followed((), "may-alias", ())
    effects = OpEffects(
        sites, touched, in_global, size[0], alternating=alternating, until_found=until_found
    )
    if by_threads is not None:
        effects.by_threads = _numbered(by_threads, flow, effects)
    found = _follow(flow, effects, size, cluster)
    if until_found:
        return found
    reported, new, certain = list(found.faults), found.faults, True
    # Blocks of a cluster that are late for each other let more go wrong than can be distinguished.
    in_cluster = cluster not in (None, (1, 1, 1))
    for _ in range(MOST_ROUNDS):
        first = [f for f in new if f.certain and f.ends not in effects.forgiven.ends]
        first = [f for f in first if f.code in FENCES or not in_cluster]
        if not first:
            break
        effects.forgiven = effects.forgiven.and_also(first)
        new = _follow(flow, effects, size, cluster).faults
        # No run of the kernel comes to what is after a fault that stops it.
        certain = certain and not any(fault.stops for fault in first)
        known = set(chain.from_iterable(causes(fault.ends) for fault in reported))
        follows = _following(reported, certain) if found.roles else frozenset()
        reported += [
            replace(fault, certain=certain)
            for fault in new
            if fault.certain and fault.code not in follows and known.isdisjoint(causes(fault.ends))
        ]
    return replace(found, faults=tuple(reported), ops=tuple(effects.ops))


Step = tuple[Any, int]
"""An op, and the frame that it runs in."""


OrderedByPhases = ByThreads[Step]


def _numbered(asked: OrderedByPhases, flow: Flow, effects: OpEffects) -> ByThreads[int]:
    numbers: dict[Step, list[int]] = {}
    for run in flow.runs():
        if not run.makes_values and run.row.accesses:
            numbers.setdefault((run.op, run.frame), []).append(effects.number(run))
    ops = frozenset(number for step in asked.ops for number in numbers.get(step, ()))
    if asked.met is None:
        return ByThreads(ops, None, asked.on_mbarriers)
    met: dict[frozenset[int], bool] = {}
    for steps, sure in asked.met.items():
        first, *_, last = (*steps, *steps)
        for one, other in pairs(numbers.get(first, ()), numbers.get(last, ())):
            met[frozenset({one, other})] = sure
    return ByThreads(ops, met, asked.on_mbarriers)


def _following(reported: list[FoundFault], certain: bool) -> frozenset[str]:
    """What may follow, between roles, from faults that were reported: after one that stops them (what comes
    is not `certain`) all about their order; who is late elsewhere may let a phase be overtaken."""
    if not certain:
        return ORDER
    late = any(fault.code in ORDER for fault in reported)
    return frozenset({"phase-overtaken"}) if late else frozenset()


def _follow(flow: Flow, effects: OpEffects, size: Size, cluster: Size | None) -> Followed:
    """Follow it once, past the faults that are forgiven."""
    numbers = PathNumbers(flow, effects, size)
    try:
        numbers.blocks = blocks_of(flow, size, cluster)
    except NotFollowedError as unknown:
        return Followed((), unknown.reason, ())
    blocks, everybody, lost = numbers.blocks, (1 << numbers.threads) - 1, "specialised"
    if not blocks.threads:
        classes = WarpClasses((everybody,), together=True)
        paths, short = _followed(numbers, classes, Rung.TOGETHER)
        lost = short.reason
    # What one side forwards may be no number of all threads, but one of each role.
    if lost in ("specialised", "unknown-number"):
        apart = map(blocks.members, range(blocks.count)) if blocks.threads else [everybody]
        paths, short = _roles(numbers, WarpClasses(tuple(map(warps_of, apart))))
    proven = not short.reason and not short.faults
    if proven or not paths.loops.some_long:
        return _confirmed(short, paths)
    # Of loops of many iterations any number was followed: what is wrong with that may be right.
    followed, exact = _followed(numbers, paths.classes, Rung.EXACT)
    if exact.reason and not any(fault.certain for fault in exact.faults):
        exact, followed = short, paths
    return _confirmed(exact, followed)


def _roles(numbers: PathNumbers, classes: WarpClasses) -> tuple[PhasePaths, Followed]:
    """Follow roles in loops of any length; as many states merged as can be if nothing is wrong even so, then fewer."""
    forgiven = numbers.effects.forgiven
    if numbers.effects.until_found:
        # Merged states come to a fault after all others.
        paths, found = _followed(numbers, classes, Rung.ROLES, at_once=True)
        if found.faults or not found.reason:
            return paths, found
    rings = None if forgiven else Rotations.of(numbers)
    for rung in MERGED:
        # A wait whose parity is forgiven depends on who waited before.
        if (rung is not Rung.DONE and forgiven) or (rung is Rung.ROTATED and not rings):
            continue
        turning = rings if rung is Rung.ROTATED else None
        paths, merged = _followed(numbers, classes, rung, turning)
        unordered = (others for step, others in merged.roles.items() if step.does == "touches")
        if not merged.reason and (rung is Rung.DONE or not any(unordered)):
            return paths, merged
        if rung is not Rung.ROTATED and merged.reason not in ("", "merged"):
            break
    return _followed(numbers, classes, Rung.ROLES)


def _confirmed(found: Followed, paths: PhasePaths) -> Followed:
    """What is certain: that which is met where the kernel is followed with numbers; nothing where a fault is enough."""
    if paths.numbers.effects.until_found:
        return replace(found, faults=tuple(replace(f, certain=False) for f in found.faults))
    met: dict[Ends, FoundFault] = {}
    tried: set[frozenset[tuple[Atom, int]]] = set()
    numbers = paths.numbers
    for fault, states in paths.taken.items():
        lists = (witnesses(state, numbers) for state in states[:STATES])
        for chosen in islice(chain.from_iterable(lists), WITNESSES):
            if fault.ends in met or len(tried) == WITNESSES:
                break
            if frozenset(chosen.items()) in tried:
                continue
            tried.add(frozenset(chosen.items()))
            one = PathNumbers(
                numbers.flow, numbers.effects, numbers.size, chosen, blocks=numbers.blocks
            )
            there, _ = _followed(one, paths.classes, Rung.NUMBERS)
            for other, (first, *_) in there.taken.items():
                if other.ends not in met:
                    example = example_of(other, first, numbers.flow, chosen)
                    met[other.ends] = replace(other, example=example)
    reported = [
        replace(f, certain=f.ends in met, example=met[f.ends].example if f.ends in met else None)
        for f in found.faults
    ]
    known = {fault.ends for fault in reported}
    return replace(found, faults=(*reported, *(f for ends, f in met.items() if ends not in known)))


def _followed(
    numbers: PathNumbers,
    classes: WarpClasses,
    rung: Rung,
    rings: Rotations | None = None,
    *,
    at_once: bool = False,
) -> tuple[PhasePaths, Followed]:
    """Follow all paths on a rung; of the `classes` of warps as few are distinguished as act alike."""
    paths, effects = PhasePaths(numbers, rung, rings, at_once), numbers.effects

    def run(precision: Precision) -> str:
        if precision.modulus > LARGEST_MODULUS**2:
            return "budget"
        effects.apart = precision.apart
        if rings is not None:
            rings.know(precision.rings)
        loops = LoopIterations(numbers.flow, precision, rung, not classes.together)
        try:
            paths.run(loops, classes.refined(precision))
        except NotFollowedError as stopped:
            return stopped.reason
        return ""

    reason = refined(run, Precision(apart=effects.apart))
    return paths, Followed(tuple(paths.faults), reason, tuple(effects.ops), paths.log)


# With which numbers of a kernel a fault is met, as a note tells it.
#
# note: for example with %arg2 = 5, in iteration 3 of this loop       or n = 5, where the front end left the name

# Numbers that a note names; others are as they were chosen, small.
NAMED_NUMBERS = 4


def example_of(
    fault: FoundFault, state: PathState, flow: Flow, chosen: Mapping[Atom, int]
) -> Example | None:
    """The numbers and the innermost loop, with its iteration, where a fault was met; None without either."""
    # Of roles that all wait the one that is named is the one that counts.
    strands: list[RoleState] = [
        role for role in state.others if role.blocked and role.blocked[0].op == fault.later
    ]
    where = (strands if fault.code == "deadlock" and strands else [state])[0]
    named = [(name, number) for atom, number in chosen.items() if (name := _name(atom, flow))]
    # In the order of the arguments: %arg2 before %arg10.
    listed = sorted(named[:NAMED_NUMBERS], key=lambda each: (len(each[0]), each[0]))
    numbers = ", ".join(f"{name} = {number}" for name, number in listed)
    for loop in reversed(where.iterations):
        number = iteration_of(flow.loops[loop], where)
        if number is not None:
            with_them = f"with {numbers}, " if numbers else ""
            text = f"for example {with_them}in iteration {number} of this loop"
            return Example(text, flow.loops[loop].place)
    return Example(f"for example with {numbers}", None) if numbers else None


def _name(atom: Atom, flow: Flow) -> str:
    """An argument of the kernel as its location or else MLIR names it, or a size of one; "" for other unknowns."""
    key: Any = atom.key
    if isinstance(key, int):
        return _argument(flow.values[key][1])
    if key[0] == "dim":
        memory = _argument(flow.values[key[1]][1])
        return f"size {key[2]} of {memory}" if memory else ""
    if key[0] == "block" and isinstance(key[1], int):
        return f"block id {'xyz'[key[1]]}"
    return ""


def _argument(value: Any) -> str:
    """Of an argument of another block nobody would know which block's it is."""
    if not hasattr(value, "type") or not is_block_argument(value):
        return ""
    argument = ir.BlockArgument(value)
    block = argument.owner
    if not is_function(raw(block.owner)) or block != block.region.blocks[0]:
        return ""
    given = getattr(getattr(value, "location", None), "name_str", None)
    return given or f"%arg{argument.arg_number}"


# Numbers of a kernel with which a path is taken, if there are such numbers.
#
#     n - 64 k in [1, 64], k = 1 mod 6        k = 1, n = 65; k = 1, n = 66; k = 7, n = 449; …
#
# What a path knows is less than what led to it: of quotients of unknowns, of two loops with one
# bound or of three conditions in a circle no numbers may be left. So these are tried: the kernel is
# followed with them (`followed_kernel`), and only a fault that is met then is certain.

Numbers = Mapping[Atom, int]


# Steps away from the smallest numbers that are gone, and numbers that are chosen in all: conditions that
# no numbers fit would be tried with each choice of all others.
FARTHEST = 12
CHOICES = 4000
# Ids, and what they are below.
_IDS = {"block": "grid_size", "cluster": "cluster_count"}
# What a path counts by, or takes arguments apart into: these are chosen first.
_COUNTING = ("loop", "trip", "rest", "quotient", "remainder", RATIO)


def witnesses(state: PathState, kernel: PathNumbers) -> Iterator[dict[Atom, int]]:
    """The unknowns of a kernel as numbers with which the path to a state may be taken, small ones
    first. Alternately the quotients of unknowns are chosen, and the ends of loops from these, or the
    ends themselves."""
    atoms = {atom for direction in state.known.ranges for atom, _ in direction}
    ratios = sorted((atom for atom in atoms if atom.kind == RATIO), key=repr)
    lists = [_choices(state, kernel, chosen) for chosen in ([ratios, []] if ratios else [[]])]
    return (
        numbers for together in zip_longest(*lists) for numbers in together if numbers is not None
    )


def _choices(
    state: PathState, kernel: PathNumbers, ratios: list[Atom]
) -> Iterator[dict[Atom, int]]:
    known, given = state.known, kernel.unknowns
    made = {number: _made_of(number, atom, state, ratios) for number, atom in given.items()}
    ranges = {
        direction: ends
        for direction, ends in {**known.past, **known.ranges}.items()
        if all(_is_free(atom) or atom in ratios for atom, _ in direction)
    }
    wanted = {part for form in made.values() for atom, _ in form.terms for part in factors(atom)}
    wanted |= {atom for direction in ranges for atom, _ in direction}
    ranges |= _ids_within_sizes(wanted)
    order = sorted(wanted, key=lambda atom: (atom.kind not in _COUNTING, repr(atom)))
    grains, choices = kernel.divisors(), count(1)

    def chosen(left: list[Atom], numbers: dict[Atom, int], steps: int) -> Iterator[Numbers]:
        """Numbers for the unknowns that are left beside those chosen already, so many steps from the smallest ones together."""
        if not left:
            yield from () if steps else (numbers,)
            return
        atom, *rest = left
        ends = _ends(atom, ranges, numbers)
        found = _candidates(atom, ends, known.residues.get(atom), grains.get(atom, 1))
        for position, number in enumerate(islice(found, steps + 1)):
            if next(choices) > CHOICES:
                return
            yield from chosen(rest, {**numbers, atom: number}, steps - position)

    for steps in range(FARTHEST + 1):
        for numbers in chosen(order, {}, steps):
            if all(_holds(direction, ends, numbers) for direction, ends in known.ranges.items()):
                yield {given[n]: _number(form, numbers) for n, form in made.items()}


def _holds(direction: Direction, ends: Range, numbers: Numbers) -> bool:
    """Whether a condition may hold of chosen numbers: of a product none is chosen by itself."""
    if not all(part in numbers for atom, _ in direction for part in factors(atom)):
        return True
    low, high = ends
    number = _number(Form(0, direction), numbers)
    return (low is None or low <= number) and (high is None or number <= high)


def _made_of(number: int, atom: Atom, state: PathState, ratios: list[Atom]) -> Form:
    """What the kernel was given: an unknown, or quotients and a remainder of one taken apart; the end of
    a loop whose step s is not known as its beginning, 1 and q s."""
    value, own = state.env.get(number), forms.of_atom(atom)
    if isinstance(value, Form):
        return value
    for quotient in {inner for direction in state.known.ranges for inner, _ in direction}:
        if quotient.kind == "quotient" and quotient.tag == atom:
            return Form(0, frozenset({(quotient, quotient.key[1])}))  # type: ignore[index]
    for ratio in ratios:
        total, step = parts_of(ratio)
        rest = forms.subtract(own, total)
        if not mentions(rest, atom) and not mentions(step, atom):
            return forms.add(forms.multiplied(forms.of_atom(ratio), step), rest)
    return own


def _is_free(atom: Atom) -> bool:
    """Whether nothing but its conditions says what an unknown is."""
    own = isinstance(atom.key, int) or (atom.kind == "size" and isinstance(atom.key[0], str))  # type: ignore[index]
    return atom.kind in _COUNTING[:-1] or (own and atom.kind in ("size", "unknown", "bit"))


def _ids_within_sizes(atoms: set[Atom]) -> dict[Direction, Range]:
    """Ids of blocks are below the size of the grid, those of clusters below their number."""
    found: dict[Direction, Range] = {}
    for axis, (block, grid) in pairs(range(3), _IDS.items()):
        one, size = Atom("size", (block, axis)), Atom("size", (grid, axis))
        if one in atoms and size in atoms:
            found[frozenset({(size, 1), (one, -1)})] = 1, None
    return found


def _ends(atom: Atom, ranges: Mapping[Direction, Range], numbers: Numbers) -> Range:
    """What is left for an unknown by the conditions on it and chosen numbers."""
    left = first_range(atom)
    for direction, ends in ranges.items():
        terms = dict(direction)
        by = terms.pop(atom, 0)
        if by and all(other in numbers for other in terms):
            chosen = sum(factor * numbers[other] for other, factor in terms.items())
            left = sums.both(left, sums.factor(sums.moved(ends, -chosen), by))
    return left


def _candidates(
    atom: Atom, ends: Range, known: tuple[int, int] | None, grain: int
) -> Iterable[int]:
    """Numbers in a range with a residue, the smallest first; without conditions 1, 2, 3 times what divides it."""
    # Of counts and ids 0 tells the most, of sizes and steps 1.
    from_zero = atom.kind in _COUNTING or atom.tag in _IDS
    if not ends[0] and ends[1] is None and known is None and not from_zero:
        return count(grain, grain)
    residue, modulus = known or (0, 1)
    low, high = AtomRange(*ends, residue, modulus).tightened().ends
    if high is None:
        return count(residue if low is None else low, modulus)
    return count(high, -modulus) if low is None else range(low, high + 1, modulus)


def _number(form: Form, numbers: Numbers) -> int:
    return form.constant + sum(
        coefficient * prod(numbers[part] for part in factors(atom))
        for atom, coefficient in form.terms
    )
