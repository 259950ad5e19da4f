"""Random kernels whose blocks hand rows to each other through flags, as MLIR text.

    producer p, iteration i: copy A[i] to a tile, turn it round, store D[p, i], signal F[p, i]
    consumer, iteration i:   wait for F[p, i], copy D[p, i] to a tile, turn it round, store E

Signals and waits stand in the loops, or behind and before them. A producer may *sum* and store behind its
loop, a consumer may copy another input and read D directly. *Flat* kernels have both loops in each block,
of which one makes no iteration. A *ring* has two rows of D for each producer, which it may overwrite once
the consumer has signalled G. A *twin* has no flags: its consumer reads another input. Loops are annotated
with num_stages; they copy asynchronously or through registers, or only load. `judge` (not imported from here: it needs the package) pipelines and runs a program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

FUNCTION = "f"
WORKGROUP = "#gpu.address_space<workgroup>"
MEMREF_WAITS = ("rmw", "first rmw")
WAITS = ("acquire", "volatile", "first acquire", "first volatile", *MEMREF_WAITS)
MEMREF_SIGNALS = ("each rmw", "first rmw")
SIGNALS = ("first release", "first fence", *MEMREF_SIGNALS)


@dataclass(frozen=True)
class Side:
    """One of the two loops: how it copies ("loads": not at all, each thread reads its own), how many stages it asks for (0: it is not annotated),
    and whether it signals or waits in each iteration. `apart`: the producer sums, the consumer copies
    another input and reads directly."""

    copies: str = "async"
    stages: int = 3
    each: bool = True
    turned: bool = True
    other_input: bool = False
    apart: bool = False


@dataclass(frozen=True)
class FlagProgram:
    """One kernel; `seed` makes it again. `pairs` producers and as many consumers, of `threads`."""

    seed: int
    threads: int = 2
    pairs: int = 1
    trips: int = 4
    signal: str = "first release"
    wait: str = "first acquire"
    scope: str = ""
    ring: bool = False
    flat: bool = False
    has_flags: bool = True
    producer: Side = Side()
    consumer: Side = Side()
    target: str | None = None

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"{self.seed}{'' if self.has_flags else ' twin'}"

    @property
    def twin(self) -> FlagProgram:
        """The same without flags."""
        return replace(self, has_flags=False, ring=False)

    @property
    def grid(self) -> int:
        """Blocks: the producers first."""
        return 2 * self.pairs

    @property
    def kind(self) -> str:
        """What a report counts it under."""
        if not self.has_flags:
            return "no flags"
        places = f"{'each' if self.producer.each else 'after'}, {'each' if self.consumer.each else 'before'}"
        return "ring" if self.ring else f"signal {places.replace(', ', ', wait ')}"

    def arguments(self) -> list[Any]:
        """Inputs of small integers, what is written, flags, and the trip count."""
        random = np.random.default_rng(7)
        rows = self.pairs * (max(self.trips, 2) + 1)
        shape = rows, self.threads
        inputs = [random.integers(0, 9, shape).astype(np.float32) for _ in range(2)]
        outputs = [np.full(shape, -1, np.float32) for _ in range(2)]
        flags = [np.zeros(rows, np.int32) for _ in range(2)]
        return [*inputs, *outputs, *flags, self.trips]

    @property
    def text(self) -> str:
        """The module."""
        return write(self)


def draw(seed: int) -> FlagProgram:
    """The program of a seed."""
    random = Random(f"flags {seed}")
    memref = random.random() < 0.4
    found = FlagProgram(
        seed,
        threads=random.choice([2, 4]),
        pairs=random.choice([1, 1, 2]),
        trips=random.choice([1, 2, 3, 4, 5, 6]),
        signal=random.choice(MEMREF_SIGNALS if memref else SIGNALS),
        wait=random.choice(MEMREF_WAITS if memref else WAITS),
        scope=random.choice(["", "device"]),
        ring=random.random() < 0.25,
        flat=random.random() < 0.4,
        producer=_side(random),
        consumer=_side(random),
        target=random.choice([None, "nvvm:sm_80"]),
    )
    if found.producer.apart:
        return replace(found, ring=False, producer=replace(found.producer, each=False))
    if found.ring:
        sides = (replace(side, each=True) for side in (found.producer, found.consumer))
        found = replace(found, **dict(zip(("producer", "consumer"), sides, strict=True)))
    return found


def _side(random: Random) -> Side:
    return Side(
        copies=random.choice(["async", "async", "registers", "loads"]),
        stages=random.choice([0, 2, 3, 3, 4]),
        each=random.random() < 0.7,
        turned=random.random() < 0.7,
        other_input=random.random() < 0.3,
        apart=random.random() < 0.25,
    )


def write(p: FlagProgram) -> str:
    """The module of a program."""
    rows = _rows(p)
    flags = "memref<?xi32>" if _in_memref(p) else "!llvm.ptr<1>"
    return f"""
func.func @{FUNCTION}(%A: {rows} {{llvm.noalias}}, %C: {rows} {{llvm.noalias}}, %D: {rows} {{llvm.noalias}},
    %E: {rows} {{llvm.noalias}}, %F: {flags} {{llvm.noalias}}, %G: {flags} {{llvm.noalias}}, %n: index)
    attributes {{known_block_size = array<i32: {p.threads}, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %last = arith.constant {p.threads - 1} : index
  %pairs = arith.constant {p.pairs} : index
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %all = arith.constant {p.threads if p.signal.startswith("each") else 1} : i32
  %one_f = arith.constant 1.0 : f32
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %other = arith.subi %last, %t : index
  %is_first = arith.cmpi eq, %t, %c0 : index
  %produces = arith.cmpi slt, %b, %pairs : index
  %pair = arith.remui %b, %pairs : index
  %base = arith.muli %pair, %n : index
  %end = arith.subi %n, %c1 : index
  %final = arith.addi %base, %end : index
  %tile = memref.alloc() : {_tile(p)}
{_flat(p) if p.flat else _branches(p)}
  return
}}"""


def _rows(p: FlagProgram) -> str:
    return f"memref<?x{p.threads}xf32>"


def _tile(p: FlagProgram) -> str:
    return f"memref<{p.threads}xf32, {WORKGROUP}>"


def _branches(p: FlagProgram) -> str:
    """Each block has a role."""
    ready = _wait(p, "F", "%final", "%all") if p.has_flags and not _waits_each(p) else ""
    return f"""  scf.if %produces {{
{_produce(p, "%n", "%final")}
  }} else {{
{ready}
{_consume(p, "%n")}
  }}"""


def _flat(p: FlagProgram) -> str:
    """Each block has both loops, of which one makes no iteration; what is behind the first or before
    the second goes to a row that is for nobody, or waits for nothing."""
    ready = _wait(p, "F", "%final", "%sought") if p.has_flags and not _waits_each(p) else ""
    return f"""  %spare = arith.constant {p.pairs * max(p.trips, 2)} : index
  %nowhere = arith.addi %spare, %pair : index
  %place = arith.select %produces, %final, %nowhere : index
  %sought = arith.select %produces, %none, %all : i32
  %produced = arith.select %produces, %n, %c0 : index
  %consumed = arith.select %produces, %c0, %n : index
{_produce(p, "%produced", "%place")}
{ready}
{_consume(p, "%consumed")}"""


def _in_memref(p: FlagProgram) -> bool:
    return p.signal in MEMREF_SIGNALS and p.wait in MEMREF_WAITS


def _waits_each(p: FlagProgram) -> bool:
    """Behind the producer's loop only the last flag is set."""
    return p.consumer.each and p.producer.each


def _produce(p: FlagProgram, trips: str, place: str) -> str:
    """The producer's loop; what stands behind it goes to `place`."""
    side, rows = p.producer, _rows(p)
    before = _when_reused(_wait(p, "G", "%before", "%all")) if p.ring else ""
    signal = _signal(p, "F", "%at") if p.has_flags and side.each else ""
    behind = _signal(p, "F", place) if p.has_flags and not side.each else ""
    if not side.apart:
        store = f"memref.store %w, %D[%slot, %t] : {rows}"
        return f"""  scf.for %i = %c0 to {trips} step %c1 {{
{_body(p, side, before, "%A[%at, %t]")}
    {store}
    gpu.barrier
    {signal}
  }}{_annotation(side)}
{behind}"""
    return f"""  %whole = scf.for %i = %c0 to {trips} step %c1 iter_args(%sum = %one_f) -> (f32) {{
{_body(p, side, before, "%A[%at, %t]")}
    %more = arith.addf %sum, %w : f32
    gpu.barrier
    scf.yield %more : f32
  }}{_annotation(side)}
  memref.store %whole, %D[{place}, %t] : {rows}
  {"" if p.signal.startswith("each") else "gpu.barrier"}
{behind}"""


def _consume(p: FlagProgram, trips: str) -> str:
    side, rows = p.consumer, _rows(p)
    source = "%D[%slot, %t]" if p.has_flags else "%A[%at, %t]"
    wait = _wait(p, "F", "%at", "%all") if p.has_flags and _waits_each(p) else ""
    body = _body(p, side, wait, source)
    if side.apart:
        body = f"""{_body(p, side, "", "%C[%at, %t]")}
    {wait}
    %d = memref.load {source} : {rows}
    %x = arith.addf %w, %d : f32"""
    return f"""  scf.for %i = %c0 to {trips} step %c1 {{
{body}
    memref.store {"%x" if side.apart else "%w"}, %E[%at, %t] : {rows}
    gpu.barrier
    {_signal(p, "G", "%at") if p.ring else ""}
  }}{_annotation(side)}"""


def _annotation(side: Side) -> str:
    return f" {{async_pipe.num_stages = {side.stages} : i64}}" if side.stages else ""


def _body(p: FlagProgram, side: Side, before: str, source: str) -> str:
    """Copies a row to the tile and reads it from there: %w."""
    rows, tile = _rows(p), _tile(p)
    copy = f"""nvgpu.device_async_copy {source}, %tile[%t], 1 : {rows} to {tile}
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group"""
    if side.copies == "registers":
        copy = f"""memref.load {source} : {rows}
    memref.store %copy, %tile[%t] : {tile}"""
    slot = "%slot = arith.addi %base, %i : index"
    if p.ring:
        slot = """%odd = arith.remui %i, %c2 : index
    %two = arith.muli %pair, %c2 : index
    %slot = arith.addi %two, %odd : index"""
    extra = "%w = arith.addf %v, %one_f : f32"
    if side.other_input:
        extra = f"""%c = memref.load %C[%at, %t] : {rows}
    %w = arith.addf %v, %c : f32"""
    read = f"""%copy = {copy}
    gpu.barrier
    %v = memref.load %tile[{"%other" if side.turned else "%t"}] : {tile}"""
    if side.copies == "loads":
        read = f"%v = memref.load {source} : {rows}"
    return f"""    %at = arith.addi %base, %i : index
    {slot}
    {before}
    {read}
    {extra}"""


def _when_reused(wait: str) -> str:
    """The third row and those after it take the place of others."""
    return f"""%reuses = arith.cmpi sge, %i, %c2 : index
    %before = arith.subi %at, %c2 : index
    scf.if %reuses {{
    {wait}
    }}"""


def _first(text: str) -> str:
    return f"scf.if %is_first {{\n{text}\n}}"


def _signal(p: FlagProgram, flags: str, at: str) -> str:
    """What tells those who wait; all threads have come to the barrier before it."""
    who, how = p.signal.split()
    scope = f'syncscope("{p.scope}") ' if p.scope else ""
    if how == "rmw" and _in_memref(p):
        text = f"%old = memref.atomic_rmw addi %one, %{flags}[{at}] : (i32, memref<?xi32>) -> i32"
    else:
        text = _pointer(f"%to{flags}", flags, at)
        if how == "rmw":
            text += (
                f"\n%old = llvm.atomicrmw add %to{flags}, %one {scope}acq_rel : !llvm.ptr<1>, i32"
            )
        elif how == "release":
            text += _store(flags, f"atomic {scope}release")
        else:
            text += "\nnvvm.memory.barrier #nvvm.mem_scope<gpu>" + _store(
                flags, f"atomic {scope}monotonic"
            )
    return text if who == "each" else _first(text)


def _store(flags: str, order: str) -> str:
    return f"\nllvm.store %one, %to{flags} {order} {{alignment = 4 : i64}} : i32, !llvm.ptr<1>"


def _pointer(name: str, flags: str, at: str) -> str:
    return f"""{name}_at = arith.index_cast {at} : index to i64
    {name} = llvm.getelementptr %{flags}[{name}_at] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i32"""


def _wait(p: FlagProgram, flags: str, at: str, sought: str) -> str:
    """Spin until so many have signalled."""
    how = p.wait.removeprefix("first ")
    scope = f'syncscope("{p.scope}") ' if p.scope else ""
    pointer, after = _pointer(f"%from{flags}", flags, at), ""
    if how == "rmw" and _in_memref(p):
        pointer = ""
        read = f"memref.atomic_rmw addi %none, %{flags}[{at}] : (i32, memref<?xi32>) -> i32"
    elif how == "rmw":
        read = f"llvm.atomicrmw add %from{flags}, %none {scope}acquire : !llvm.ptr<1>, i32"
    elif how == "acquire":
        read = f"llvm.load %from{flags} atomic {scope}acquire {{alignment = 4 : i64}} : !llvm.ptr<1> -> i32"
    else:
        read = f"llvm.load volatile %from{flags} : !llvm.ptr<1> -> i32"
        after = "nvvm.memory.barrier #nvvm.mem_scope<gpu>"
    text = f"""{pointer}
    scf.while : () -> () {{
      %seen = {read}
      %go = arith.cmpi slt, %seen, {sought} : i32
      scf.condition(%go)
    }} do {{
      scf.yield
    }}
    {after}"""
    return f"{_first(text)}\ngpu.barrier" if p.wait.startswith("first") else text
