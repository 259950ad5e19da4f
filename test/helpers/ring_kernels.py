"""A family of correct pipelined kernels, written out by hand-made rules, for mutation tests.

    prologue       depth groups, slots 0 .. depth-1
    kernel         order "wait-first": wait, barrier, copy, use        V = depth + 1
                   order "copy-first": copy, wait, barrier, use, barrier   V = depth + 1
    after it      wait for everything

Rows of 32 (NVIDIA) or 64 (AMD) floats, one thread a float; each thread reads the mirrored
element, so every row crosses threads. None of our passes had a hand in these kernels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Ring:
    """One kernel. `buffers` rows arrive an iteration, in one group or (`split`) one group each.

    `depth` iterations run ahead; `slots` is how the slot is counted; `trips` None is dynamic.
    """

    vendor: str = "nvidia"
    depth: int = 2
    buffers: int = 1
    split: bool = False
    order: str = "wait-first"
    slots: str = "carried"
    trips: int | None = None

    @property
    def versions(self) -> int:
        return self.depth + 1

    @property
    def target(self) -> str:
        return "nvvm:sm_80" if self.vendor == "nvidia" else "rocdl:gfx950"

    def __str__(self) -> str:
        groups = "split" if self.split else "joint"
        trips = "n" if self.trips is None else self.trips
        return (
            f"{self.vendor}-{self.depth}-{self.buffers}{groups}-{self.order}-{self.slots}-{trips}"
        )


def family() -> Iterator[Ring]:
    """All kernels of the family."""
    for vendor, depth, (buffers, split), order, slots in itertools.product(
        ("nvidia", "amd"),
        (1, 2, 3),
        ((1, False), (2, False), (2, True)),
        ("wait-first", "copy-first"),
        ("carried", "remainder"),
    ):
        yield Ring(vendor, depth, buffers, split, order, slots)
    yield Ring(trips=8)
    yield Ring(trips=3, depth=3, slots="remainder")
    yield Ring("amd", trips=1)


def text(ring: Ring) -> str:
    """The kernel as MLIR."""
    lanes = 32 if ring.vendor == "nvidia" else 64
    row = f"memref<{ring.versions}x{lanes}xf32, #gpu.address_space<workgroup>>"
    source = f"memref<16x{lanes}xf32>"
    names = [f"b{i}" for i in range(ring.buffers)]
    arguments = ", ".join(f"%{n}in: {source} {{llvm.noalias}}" for n in names)
    rings = ", ".join(f"%{n}: {row}" for n in names)
    lines = [
        "gpu.module @kernels {",
        f"gpu.func @ring({arguments}, %C: memref<{lanes}xf32> {{llvm.noalias}}, %n: index)",
        f"    workgroup({rings})",
        f"    kernel attributes {{known_block_size = array<i32: {lanes}, 1, 1>}} {{",
    ]
    numbers = sorted({*range(ring.versions + 2), lanes - 1, ring.trips or 0})
    lines += [f"%c{i} = arith.constant {i} : index" for i in numbers]
    lines += ["%zero = arith.constant 0.0 : f32", "%t = gpu.thread_id x"]
    lines.append(f"%mirror = arith.subi %c{lanes - 1}, %t : index")
    for p in range(ring.depth):
        lines += _group(ring, names, f"%c{p}", f"%c{p}", f"p{p}", source, row)
    bound = "%n" if ring.trips is None else f"%c{ring.trips}"
    carried = ring.slots == "carried"
    extra = f", %read = %c0, %write = %c{ring.depth}" if carried else ""
    types = "f32, index, index" if carried else "f32"
    results = "%r:3" if carried else "%r"
    lines.append(
        f"{results} = scf.for %i = %c0 to {bound} step %c1 iter_args(%sum = %zero{extra}) -> ({types}) {{"
    )
    lines += _body(ring, names, source, row)
    lines.append("}")
    lines.append(_wait(ring, 0))
    lines.append(f"memref.store %r{'#0' if carried else ''}, %C[%t] : memref<{lanes}xf32>")
    lines += ["gpu.return", "}", "}"]
    return "\n".join(lines) + "\n"


def _body(ring: Ring, names: list[str], source: str, row: str) -> list[str]:
    carried = ring.slots == "carried"
    write, read = ("%write", "%read") if carried else ("%w", "%r0")
    slots = [f"%ahead = arith.addi %i, %c{ring.depth} : index"]
    if not carried:
        slots += [
            f"%w = arith.remui %ahead, %c{ring.versions} : index",
            f"%r0 = arith.remui %i, %c{ring.versions} : index",
        ]
    copies = _group(ring, names, "%ahead", write, "k", source, row)
    barrier = "gpu.barrier"
    uses, total = [], "%sum"
    for i, name in enumerate(names):
        uses += [
            f"%x{i} = memref.load %{name}[{read}, %mirror] : {row}",
            f"%s{i} = arith.addf {total}, %x{i} : f32",
        ]
        total = f"%s{i}"
    groups = ring.buffers if ring.split else 1
    if ring.order == "wait-first":
        body = [*slots, _wait(ring, (ring.depth - 1) * groups), barrier, *copies, *uses]
    else:
        body = [*slots, *copies, _wait(ring, ring.depth * groups), barrier, *uses, barrier]
    if not carried:
        return [*body, f"scf.yield {total} : f32"]
    return [
        *body,
        "%up = arith.addi %read, %c1 : index",
        f"%full = arith.cmpi eq, %up, %c{ring.versions} : index",
        "%next = arith.select %full, %c0, %up : index",
        "%up2 = arith.addi %write, %c1 : index",
        f"%full2 = arith.cmpi eq, %up2, %c{ring.versions} : index",
        "%next2 = arith.select %full2, %c0, %up2 : index",
        f"scf.yield {total}, %next, %next2 : f32, index, index",
    ]


def _group(
    ring: Ring, names: list[str], iteration: str, slot: str, tag: str, source: str, row: str
) -> list[str]:
    lines = []
    for name in names:
        if ring.vendor == "nvidia":
            lines.append(
                f"%{tag}{name} = nvgpu.device_async_copy %{name}in[{iteration}, %t], "
                f"%{name}[{slot}, %t], 1 : {source} to {row}"
            )
        else:
            lines.append(
                f"amdgpu.gather_to_lds async %{name}in[{iteration}, %t], %{name}[{slot}, %c0]"
                f" : f32, {source}, {row}"
            )
        if ring.split:
            lines.append(_commit(ring))
    return lines if ring.split else [*lines, _commit(ring)]


def _commit(ring: Ring) -> str:
    return "nvvm.cp.async.commit.group" if ring.vendor == "nvidia" else "rocdl.asyncmark"


def _wait(ring: Ring, count: int) -> str:
    name = "nvvm.cp.async.wait.group" if ring.vendor == "nvidia" else "rocdl.wait.asyncmark"
    return f"{name} {count}"
