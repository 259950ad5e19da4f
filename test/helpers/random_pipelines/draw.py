"""Draws a kernel for a feature: a plain one, with the feature put in and some company.

Schedules are mostly legal (producers in earlier stages than consumers); what a feature makes
illegal is refused by the package, which the report counts by reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from helpers.random_pipelines.shape import BITS, Carried, Copy, Shape

Feature = Callable[[Shape, Random], Shape]


def draw(feature: str, random: Random) -> Shape:
    """One kernel with `feature`, and one in three times with another feature that goes with it."""
    shape = FEATURES[feature](_plain(random), random)
    if random.random() < 0.33:
        shape = FEATURES[random.choice(COMPANY)](shape, random)
    return _settled(shape)


def _plain(random: Random) -> Shape:
    count = random.choice([1, 1, 2])
    hows = [random.choice(["native", "native", "pair"]) for _ in range(count)]
    stages = random.choice([2, 3, 3, 4])
    return Shape(
        block=(random.choice([1, 2, 4]), 1, 1),
        target=random.choice([None, "nvvm:sm_80"]),
        copies=tuple(Copy(how=how, ahead=random.choice([0, 0, 1, 3])) for how in hows),
        sinks=tuple(random.choice(["store", "flat", "sum"]) for _ in range(random.choice([1, 2]))),
        across=random.random() < 0.6,
        trips=random.choice([3, 4, 5, 6, 7]),
        dynamic=random.random() < 0.3,
        form=random.choice(["num_stages", "num_stages", "arrays", "arrays"]),
        stages=stages,
        order=random.choice(["textual", "textual", "consumers first"]),
    )


def _settled(shape: Shape) -> Shape:
    """Mend what does not go together."""
    if shape.trips < shape.stages - 1 and not shape.dynamic:
        shape = replace(shape, trips=shape.stages)
    if shape.form != "arrays" and shape.middle == "async":
        shape = replace(shape, form="arrays")
    if any(copy.how == "late" for copy in shape.copies):
        shape = replace(shape, form="arrays", stages=max(shape.stages, 3))
    if shape.guard and shape.across and shape.guard == "thread":
        shape = replace(shape, across=False)
    return shape


def _nest(shape: Shape, random: Random) -> Shape:
    kind = random.choice(["around", "around", "inside", "both"])
    if kind in ("inside", "both"):
        shape = replace(shape, sinks=(*shape.sinks[:-1], "loop"))
    if kind in ("around", "both"):
        shape = replace(shape, outer=random.choice([1, 2, 3]))
    return shape


def _carried(*distances: int) -> Feature:
    def put(shape: Shape, random: Random) -> Shape:
        what = random.choice(["sum", "sum", "memory", "rows"])
        return replace(shape, carried=(Carried(what, random.choice(distances)),))

    return put


def _swapped(shape: Shape, random: Random) -> Shape:
    chosen = random.choice([["swap"], ["swap late"], ["swap", "swap late"]])
    return replace(shape, carried=tuple(Carried(what) for what in chosen))


def _guards(shape: Shape, random: Random) -> Shape:
    how = random.choice(["guarded", "guarded", "filled"])
    guard = random.choice(["iteration", "iteration", "thread", "argument"])
    copies = tuple(replace(copy, how=how) for copy in shape.copies)
    sinks = shape.sinks if how == "filled" else tuple("if" for _ in shape.sinks)
    return replace(shape, copies=copies, guard=guard, sinks=sinks, across=guard != "thread")


def _aliases(shape: Shape, random: Random) -> Shape:
    views = ["subview", "expanded", "collapsed", "reinterpreted", "shared", "shared"]
    copies = tuple(replace(copy, buffer=random.choice(views)) for copy in shape.copies)
    return replace(shape, copies=copies, views_outside=random.random() < 0.2)


def _globals(shape: Shape, random: Random) -> Shape:
    return replace(shape, copies=tuple(replace(copy, buffer="global") for copy in shape.copies))


def _dynamic(shape: Shape, random: Random) -> Shape:
    return replace(shape, dynamic=True, trips=random.choice([0, 1, 2, 3, 5, 6]))


def _wrapping(shape: Shape, random: Random) -> Shape:
    """The upper bound is the largest number of its type, or the next steps pass it."""
    counter = random.choice(["i8", "i8", "i32", "i64", "index"])
    unsigned = random.random() < 0.4
    step = random.choice([1, 2, 5])
    trips = random.choice([4, 5, 6])
    rest = random.randint(1, step)
    largest = (1 << BITS[counter] - (0 if unsigned else 1)) - 1
    first = largest - random.choice([0, 0, 1]) - ((trips - 1) * step + rest)
    return replace(
        shape,
        counter=counter,
        unsigned=unsigned,
        step=step,
        rest=rest,
        trips=trips,
        first=first,
        stages=min(shape.stages, trips),
        dynamic=random.random() < 0.6,
    )


def _counter(kind: str) -> Feature:
    def put(shape: Shape, random: Random) -> Shape:
        step = random.choice([1, 1, 2, 3])
        return replace(
            shape,
            counter=kind,
            first=random.choice([0, 0, -3, 5]),
            step=step,
            rest=random.randint(1, step),
        )

    return put


def _unsigned(shape: Shape, random: Random) -> Shape:
    counter = random.choice(["index", "i8", "i32", "i64"])
    half = 1 << (BITS[counter] - 1)
    first = random.choice([0, 3, half - 2, half + 4])
    step = random.choice([1, 2])
    return replace(shape, counter=counter, unsigned=True, first=first, step=step)


def _queues(shape: Shape, random: Random) -> Shape:
    kinds = random.choice([("native", "pair"), ("pair", "pair"), ("native", "native")])
    element = random.choice(["f32", "f32", "i16"])
    copies = tuple(
        Copy(how=how, element=element if how == "pair" else "f32", ahead=number)
        for number, how in enumerate(kinds)
    )
    middle = random.choice(["async", "async", "sync", ""])
    return replace(shape, copies=copies, middle=middle)


def _block(*sizes: tuple[int, int, int]) -> Feature:
    return lambda shape, random: replace(shape, block=random.choice(sizes))


def _calls(shape: Shape, random: Random) -> Shape:
    kind = random.choice(["call value", "call value", "call store"])
    return replace(shape, sinks=(*shape.sinks[:-1], kind))


def _atomics(shape: Shape, random: Random) -> Shape:
    return replace(shape, sinks=(*shape.sinks[:-1], random.choice(["atomic", "atomic all"])))


def _smem_limit(shape: Shape, random: Random) -> Shape:
    x, y, z = shape.block
    needed = len(shape.copies) * x * y * z * 4 * shape.stages
    return replace(shape, smem_limit=max(16, needed - random.choice([0, 0, 4, 16, 32])))


def _latency(shape: Shape, random: Random) -> Shape:
    return replace(shape, form="latency", copies=shape.copies[:2], sinks=("flat",), trips=8)


def _overlap(shape: Shape, random: Random) -> Shape:
    return replace(
        shape,
        outer=random.choice([2, 3]),
        overlap_outer=True,
        dynamic=random.random() < 0.3,
        carried=(Carried("sum"),) if random.random() < 0.5 else (),
    )


def _predicate(shape: Shape, random: Random) -> Shape:
    return replace(shape, extra=('async_pipe.epilogue = "predicate"',))


def _short_trip(shape: Shape, random: Random) -> Shape:
    kind = random.choice(["version", "predicate"])
    return replace(
        shape,
        extra=(f'async_pipe.short_trip = "{kind}"',),
        dynamic=True,
        trips=random.choice([0, 1, 2, 3, 5]),
    )


def _registers(shape: Shape, random: Random) -> Shape:
    copies = tuple(replace(copy, how="late") for copy in shape.copies)
    return replace(shape, copies=copies, form="arrays", stages=random.choice([3, 4]))


def _stage_through(shape: Shape, random: Random) -> Shape:
    """Loads ahead into registers, whose stores run an iteration early from three stages on."""
    copies = tuple(replace(copy, how="pair") for copy in shape.copies)
    return replace(
        shape,
        copies=copies,
        form="num_stages",
        stages=random.choice([2, 3, 3, 4]),
        extra=('async_pipe.stage_through = "registers"',),
    )


def _issue(shape: Shape, random: Random) -> Shape:
    issue = random.choice(["first", "spread", "spread", "last"])
    hows = [random.choice(["native", "native", "native", "pair"]) for _ in range(3)]
    return replace(
        shape,
        copies=tuple(Copy(how=how) for how in hows[: random.choice([1, 2, 3])]),
        form="num_stages",
        sinks=(*shape.sinks[:-1], random.choice(["products", "products", "flat"])),
        extra=(f'async_pipe.issue = "{issue}"',),
    )


def _fragments(shape: Shape, random: Random) -> Shape:
    issue = random.choice(["auto", "spread", "last"])
    hows = [random.choice(["native", "native", "native", "pair"]) for _ in range(3)]
    return replace(
        shape,
        copies=tuple(Copy(how=how) for how in hows[: random.choice([1, 2, 3])]),
        form="num_stages",
        sinks=(random.choice(["products", "products", "products last"]),),
        extra=('async_pipe.fragments = "ahead"', f'async_pipe.issue = "{issue}"'),
        trips=shape.trips + shape.stages,
    )


FEATURES: dict[str, Feature] = {
    "plain": lambda shape, random: shape,
    "nests": _nest,
    "carried-1": _carried(1),
    "carried-2": _carried(2),
    "carried-3": _carried(3),
    "swapped": _swapped,
    "guards": _guards,
    "aliases": _aliases,
    "globals": _globals,
    "dynamic-bounds": _dynamic,
    "wrapping-bounds": _wrapping,
    "i8": _counter("i8"),
    "i32": _counter("i32"),
    "i64": _counter("i64"),
    "unsigned": _unsigned,
    "queues": _queues,
    "2-D": _block((2, 2, 1), (4, 2, 1), (1, 3, 1)),
    "3-D": _block((2, 2, 2), (1, 2, 3), (3, 1, 2)),
    "calls": _calls,
    "atomics": _atomics,
    "smem-limit": _smem_limit,
    "latency": _latency,
    "overlap-outer": _overlap,
    "predicate": _predicate,
    "short-trip": _short_trip,
    "registers": _registers,
    "stage-through": _stage_through,
    "issue": _issue,
    "fragments": _fragments,
}

COMPANY = ("nests", "carried-1", "carried-2", "swapped", "dynamic-bounds", "i32", "unsigned", "2-D")
"""What may stand beside any other feature."""
