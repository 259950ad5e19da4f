"""Random loops of tensor copies in all forms, and mutants of them made by program: lines left out,
predicates, counts and numbers changed. The machine says which of them fail."""

from __future__ import annotations

import dataclasses
import random
import re
from dataclasses import dataclass

import numpy as np

from helpers.check_harness import check_module, codes, verdict
from helpers.cluster_mutants import ClusterKernel, cluster_mutant, random_cluster
from helpers.machine_programs import parse
from helpers.role_kernels import TwoGroups, random_groups, wrong_groups
from helpers.tensor_kernels import Ring
from helpers.tensor_loops import random_loop
from helpers.tensor_memory_mutants import (
    TensorKernel,
    pipelined,
    provable,
    random_gemm,
    random_tensor_kernel,
    tensor_mutant,
)
from helpers.tensor_mutants import APART, EVERYWHERE, PRODUCT, TOGETHER, changed
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.diagnostics import MachineError, UsageError

Kernel = Ring | TwoGroups | ClusterKernel | TensorKernel
# Arguments in the note of an error: "for example with %arg3 = 5, size 1 of %arg2 = 64, in iteration 3".
_NUMBER = re.compile(r"(?:size (\d+) of )?%arg(\d+) = (-?\d+)")
# Of ten seeds this one draws a kernel with products in tensor memory.
OF_TENSOR_MEMORY = 4
SCHEDULES = ("lockstep", "forward", "backward", "random")
# What a mutant may leave out.
_LINES = re.compile(
    r"nvgpu\.mbarrier\.(?:init|try_wait|arrive)|nvgpu\.tma\.async\.load|gpu\.barrier|nvvm\.fence"
    r"|nvvm\.wgmma\.wait|nvvm\.barrier(?:\.arrive)?"
)
_CHANGES = (
    ("predicate = %go", "predicate = %leader"),
    ("predicate = %go", "predicate = %in"),
    ("arith.andi %in, %leader", "arith.andi %in, %in"),
    ("predicate = %leader", "predicate = %true"),
    ("arith.cmpi ult, %j, %tiles", "arith.cmpi ule, %j, %tiles"),
    ("%full[%at]", "%full[%c0]"),
    ("%full[%slot]", "%full[%c0]"),
    ("arith.cmpi eq, %s1, %slots", "arith.cmpi eq, %s1, %ahead"),
    ("arith.addi %slot, %ahead", "arith.addi %slot, %c0"),
    ("%slot, %phase_, %next", "%slot_, %phase, %next"),
    ("arith.divui %tile, %slots", "arith.divui %tile, %c2"),
    ("arith.cmpi eq, %odd, %c1", "arith.cmpi eq, %odd, %c0"),
    ("scf.yield %slot_,", "scf.yield %slot,"),
)


def random_ring(seed: int, *, specialised: bool = False) -> Ring:
    """A loop with as many slots as docs/phases.md asks for, or one more."""
    draw = random.Random(seed)
    products = draw.random() < 0.25
    ahead, in_flight = draw.choice((1, 2, 3)), draw.choice((0, 1, 2)) if products else 0
    order = draw.choice(("after", "before"))
    least = in_flight + 1 if specialised else ahead + in_flight + (order == "before")
    slots = least + draw.choice((0, 0, 1))
    return Ring(
        slots=slots,
        ahead=ahead,
        in_flight=in_flight,
        tiles=draw.choice((2 * slots + 1, draw.randint(1, 2 * slots + 2))),
        executions=draw.choice((1, 2)),
        specialised=specialised,
        reader="products" if products else "loads",
        leader=draw.choice(("thread", "elect", "branch")),
        counted=draw.random() < 0.5,
        parity=draw.choice(("carried", "divided")),
        order=order,
    )


def random_right(seed: int) -> Kernel:
    """A right loop; of three one has roles of its own, every second time with two groups; of eight one
    is of a cluster, and of ten one has products in tensor memory."""
    if seed % 10 == OF_TENSOR_MEMORY:
        return random_tensor_kernel(seed)
    if seed % 8 == 7:
        return random_cluster(seed)
    if seed % 6 == 5:
        return random_groups(seed)
    return random_ring(seed, specialised=seed % 3 == 2)


def made_by_the_expander(seed: int) -> str:
    """The pipeline of a random loop with one slot, or of products in tensor memory."""
    if seed % 10 == OF_TENSOR_MEMORY:
        return pipelined(provable(random_gemm(random.Random(f"made {seed}"))))
    module = parse(random_loop(seed).text())
    pipeline(module, check="none")
    return str(module)


def random_mutant(seed: int) -> tuple[str, Kernel, str]:
    """A kind of mutant, the loop, and its text, which parses: enough tiles and executions to fail."""
    draw = random.Random(f"mutant {seed}")
    while True:
        if seed % 10 == OF_TENSOR_MEMORY:
            found = tensor_mutant(seed, draw)
        else:
            found = _drawn(seed, draw)
        try:
            parse(found[2])
        except ir.MLIRError:
            continue
        return found


def _drawn(seed: int, draw: random.Random) -> tuple[str, Kernel, str]:
    if seed % 6 == 5:
        return cluster_mutant(seed, draw)
    if draw.random() < 0.25:
        groups = random_groups(seed)
        if draw.random() < 0.6:
            name, wrong = wrong_groups(groups, draw)
            return name, wrong, wrong.text()
        return _without_a_line(groups, draw)
    ring = random_ring(seed, specialised=draw.random() < 0.4)
    ring = dataclasses.replace(ring, tiles=2 * ring.slots + 1, executions=2)
    kind = draw.choice(("part", "line", "change", "slots", "beyond"))
    if kind == "beyond":
        number = "%slots = arith.constant {} : index"
        wrong = ring.text().replace(number.format(ring.slots), number.format(ring.slots + 1))
        return "a slot beyond the ring", ring, wrong
    if kind == "slots" and ring.slots > 1:
        fewer = dataclasses.replace(ring, slots=ring.slots - 1)
        return kind, fewer, fewer.text()
    if kind == "part":
        tables = [EVERYWHERE, APART if ring.specialised else TOGETHER]
        table = draw.choice([*tables, PRODUCT] if ring.reader == "products" else tables)
        name = draw.choice(sorted(table))
        mutant = changed(ring, **table[name][0])
        return name, mutant, mutant.text()
    text = ring.text()
    if kind == "change":
        possible = [change for change in _CHANGES if change[0] in text]
        before, after = draw.choice(possible)
        places = [found.start() for found in re.finditer(re.escape(before), text)]
        at = draw.choice(places)
        return f"{before} -> {after}", ring, text[:at] + after + text[at + len(before) :]
    return _without_a_line(ring, draw)


def _without_a_line(
    ring: Ring | TwoGroups, draw: random.Random
) -> tuple[str, Ring | TwoGroups, str]:
    lines = ring.text().split("\n")
    number = draw.choice([n for n, line in enumerate(lines) if _LINES.search(line)])
    name = _LINES.findall(lines[number])[0]
    given = re.match(r"\s*(%\w+) = ", lines[number])
    left = [] if given is None else [lines[number]]
    return f"no {name}", ring, "\n".join([*lines[:number], *left, *lines[number + 1 :]])


@dataclass(frozen=True)
class Said:
    """What the checker says of a kernel: "safe", "unknown" or "unsafe", with which codes or reasons, and
    the arguments, by number, and their sizes, by number and dimension, with which each error says that it
    is met."""

    verdict: str
    codes: str
    examples: tuple[dict[int | tuple[int, int], int], ...]


def checked(text: str) -> Said:
    """Run the checker."""
    report = check_module(parse(text)).report
    found, (summary,) = verdict(report), report.of("checks")
    why = {"unsafe": codes(report), "unknown": summary.reasons}.get(found, ())
    notes = [
        note.message
        for one in report.diagnostics
        if one.severity == "error"
        for note in one.notes
        if note.message.startswith("for example")
    ]
    examples = tuple(
        {
            (int(at), int(size)) if size else int(at): int(number)
            for size, at, number in _NUMBER.findall(note)
        }
        for note in notes
    )
    return Said(found, " ".join(sorted(set(why))), examples)


def with_numbers(ring: Kernel, example: dict[int | tuple[int, int], int]) -> Kernel:
    """The same kernel run with other arguments; one that has none of these is as it was."""
    if isinstance(ring, ClusterKernel):
        given = [example.get(at, one) for at, one in enumerate(ring.given)]
        return dataclasses.replace(ring, given=given)
    if isinstance(ring, TensorKernel):
        # The last argument is k, the one before C, whose columns say how many tiles there are.
        k, columns = example.get(3), example.get((2, 1))
        depth = ring.depth if k is None else -(-max(0, k) // ring.gemm.line)
        tiles = ring.tiles if columns is None else max(1, columns // ring.gemm.tile_n)
        return dataclasses.replace(ring, depth=depth, tiles=tiles)
    if ring.counted or not example:
        return ring
    # The scalars are the last arguments.
    names = ("tiles", "executions") if isinstance(ring, TwoGroups) else ("tiles",)
    first = len(ring.arguments()) - len(names)
    return dataclasses.replace(
        ring, **{name: example[first + n] for n, name in enumerate(names) if first + n in example}
    )


def failure(ring: Kernel, text: str, seed: int) -> str:
    """How the machine makes a kernel fail, "" if it does not: by a race, or by results that depend
    on the completion. (One that always gives the same wrong numbers reads what it asked for.) Of a
    cluster, or of products in tensor memory, there is more that the machine refuses: a wait where all meet
    of who has not arrived there, a grid that is not made of clusters, columns that nobody has."""
    results = []
    more = isinstance(ring, ClusterKernel | TensorKernel)
    grid = ring.grid if more else 1
    for number, completion in enumerate(("late", "eager", f"random:{seed}")):
        try:
            result = machine.run(
                parse(text),
                None,
                ring.arguments(),
                grid=grid,
                threads=ring.threads,
                completion=completion,
                schedule=SCHEDULES[(seed + number) % len(SCHEDULES)],
            )
        except (MachineError, UsageError) as error:
            if not more:
                raise
            return str(error.code)
        if result.races:
            return " ".join(sorted(result.race_codes))
        results.append([np.array(array) for array in result.arrays])
    same = all(
        np.array_equal(one, other)
        for later in results[1:]
        for one, other in zip(results[0], later, strict=True)
    )
    return "" if same else "results differ"
