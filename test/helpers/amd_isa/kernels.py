"""Random pipelined kernels for AMD, and what they compute by NumPy.

    for outer: for i: copy A (and C) to LDS; commit; wait; barrier; B[i] = f(LDS of other threads)

A kernel copies one or two tiles, in one group or two; threads read what other threads copied. On gfx1250
the tensor data mover may copy, for each wave its part of a tile, or for the block by the first wave. f may be a product of
matrices: what a wave read of A, by what it read of C (of A again without C).
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace

import numpy as np

from helpers.amd_isa.matrix import floats, product

WG, GLOBAL = "#gpu.address_space<workgroup>", "#gpu.address_space<global>"
BUFFER = "#amdgpu.address_space<fat_raw_buffer>"
CHIPS = {"gfx942": (1, 4), "gfx950": (1, 4), "gfx1250": (1, 2, 4)}
LANES = {"gfx942": 64, "gfx950": 64, "gfx1250": 32}
# Shapes (m, n, k) of products by element type. Operands of WMMA are whole vectors of 16, of MFMA in single precision scalars.
PRODUCTS: dict[str, dict[str, tuple[tuple[int, int, int], ...]]] = {
    "gfx942": {
        "f16": ((16, 16, 16), (32, 32, 8)),
        "bf16": ((16, 16, 16), (32, 32, 8)),
        "f32": ((16, 16, 4), (32, 32, 2)),
    },
    "gfx950": {
        "f16": ((16, 16, 32), (32, 32, 16)),
        "bf16": ((16, 16, 32), (32, 32, 16)),
        "f32": ((16, 16, 4), (32, 32, 2)),
    },
    "gfx1250": {"f16": ((16, 16, 32),), "bf16": ((16, 16, 32),)},
}


@dataclass(frozen=True)
class Kernel:
    """One kernel: `width` elements of i32 a thread, `tiles` 1 or 2, `groups` 1 or 2; `mover`: who copies by
    the tensor data mover, "waves" or one "wave", "" if lanes copy. `apart`: each thread reads a row of its own, of
    arrays of dynamic strides; `buffers`: the arrays are copied from as buffers. `product`: the element type of a product
    of matrices, "" if there is none, and its `shape`."""

    chip: str
    stages: int
    trips: int
    dynamic: bool
    width: int
    waves: int
    tiles: int
    groups: int
    reads: str
    outer: int
    carried: bool
    rows: int
    masked: bool
    number: int
    mover: str = ""
    apart: bool = False
    buffers: bool = False
    product: str = ""
    shape: tuple[int, int, int] = (0, 0, 0)

    @property
    def threads(self) -> int:
        return self.waves * LANES[self.chip]

    @property
    def block(self) -> tuple[int, int]:
        """Threads in x and y."""
        return self.threads // self.rows, self.rows

    @property
    def limit(self) -> int:
        """Elements of A and C from this one on are zeros where copies are masked."""
        return self.number % self.length

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.threads * self.width

    @property
    def length(self) -> int:
        """Elements of each array."""
        return self.outer * self.trips * self.tile

    def features(self) -> list[str]:
        """The names under which a report counts this kernel."""
        found = [f"stages {self.stages}", f"{4 * self.width} bytes", f"waves {self.waves}"]
        found += [f"reads {self.reads}", "dynamic trips" if self.dynamic else "static trips"]
        found += ["nest"] if self.outer > 1 else []
        found += ["carried sum"] if self.carried else []
        found += ["2-D blocks"] if self.rows > 1 else []
        found += ["masked copies"] if self.masked else []
        found += [f"tensor copies by {self.mover}"] if self.mover else []
        found += ["rows of dynamic stride"] if self.apart else []
        found += ["buffers"] if self.buffers else []
        found += [f"products of {self.product}"] if self.product else []
        found += ["two tiles, two groups" if self.groups == 2 else "two tiles"] * (self.tiles == 2)
        found += ["fewer iterations than stages"] if self.trips < self.stages else []
        return found

    def describe(self) -> dict[str, object]:
        return asdict(self)


def random_kernel(chip: str, seed: int) -> Kernel:
    """The kernel of a seed."""
    choose = random.Random(f"{chip} {seed}")
    tiles = choose.choice([1, 1, 2])
    movers = ("", "", "waves", "wave") if chip == "gfx1250" else ("",)
    made = Kernel(
        chip,
        choose.randint(2, 4),
        choose.choice([1, 2, 3, 4, 5, 7, 9, 12]),
        choose.random() < 0.4,
        choose.choice(CHIPS[chip]),
        choose.choice([1, 2, 2, 4]),
        tiles,
        choose.randint(1, tiles),
        choose.choice(["own", "reversed", "rotated", "exchanged"]),
        choose.choice([1, 1, 1, 2]),
        choose.random() < 0.4,
        choose.choice([1, 1, 2, 4]),
        choose.random() < 0.3,
        choose.randrange(1, 1 << 20),
        choose.choice(movers),
    )
    apart = not made.mover and not made.masked and choose.random() < 0.5
    buffers = chip != "gfx1250" and not apart and not made.masked and choose.random() < 0.5
    kind = choose.choice(["", "", *PRODUCTS[chip]])
    shape = choose.choice(PRODUCTS[chip][kind]) if kind else (0, 0, 0)
    return replace(made, apart=apart, buffers=buffers, product=kind, shape=shape)


def text_of(k: Kernel) -> str:
    """The annotated loop as MLIR."""
    n, w = k.tile, k.width
    array, tile, row = (
        f"memref<{k.length}xi32, {GLOBAL}>",
        f"memref<{n}xi32, {WG}>",
        f"vector<{w}xi32>",
    )
    names = "ac"[: k.tiles]
    read = f"memref<?x?xi32, {GLOBAL}>" if k.apart else array
    copied = array.replace(GLOBAL, BUFFER) if k.buffers else read
    from_ = {t: f"%{t.upper()}{'_buffer' if k.buffers else ''}" for t in names}
    casts = [
        f"%{t.upper()}_buffer = amdgpu.fat_raw_buffer_cast %{t.upper()} : {array} to {copied}"
        for t in (names if k.buffers else "")
    ]
    at = "%my_row, %column" if k.apart else "%at"
    given, written = (f"{kind} {{llvm.align = 16 : i64, llvm.noalias}}" for kind in (read, array))
    kept = ", %kept" if k.masked else ""
    theirs = {
        "own": "%theirs = arith.addi %tid, %c0 : index",
        "reversed": "%theirs = arith.subi %last, %tid : index",
        "rotated": "%next = arith.addi %tid, %c1 : index\n"
        "%theirs = arith.remui %next, %threads : index",
        "exchanged": "%theirs = arith.xori %tid, %c1 : index",
    }[k.reads]
    copies = [
        f"%copy_{t} = nvgpu.device_async_copy {from_[t]}[{at}], %t{t}[%mine], {w}{kept} : {copied} to {tile}"
        for t in names
    ]
    groups = [f"%group_{t} = nvgpu.device_async_create_group %copy_{t}" for t in names]
    if k.tiles == 2 and k.groups == 1:
        groups = ["", "%group_c = nvgpu.device_async_create_group %copy_a, %copy_c"]
    issued = "\n".join(line for pair in zip(copies, groups, strict=True) for line in pair)
    waits = "\n".join(
        f"nvgpu.device_async_wait %group_{t}" for t in (names if k.groups == k.tiles else "c")
    )
    if k.mover:
        issued, waits = _tensor_copies(k, names, array, tile), "rocdl.s.wait.tensorcnt 0"
    loads = "\n".join(f"%v{t} = vector.load %t{t}[%from] : {tile}, {row}" for t in names)
    joined = (
        f"%j = arith.xori %va, %vc : {row}" if k.tiles == 2 else f"%j = arith.addi %va, %va : {row}"
    )
    sums = f"vector<{_held(k)}xf32>" if k.product else row
    carried = (
        (
            f" iter_args(%sum = %zero) -> ({sums})",
            f"%next_sum = arith.addi %sum, %w : {row}\n" if not k.product else "",
            f"scf.yield %{'acc' if k.product else 'next_sum'} : {sums}",
            "%w" if k.product else "%next_sum",
        )
        if k.carried
        else ("", "", "", "%w")
    )
    if k.product:
        joined = _multiplied(k)
    inner = f"""{"%r = " if k.carried else ""}scf.for %{"column" if k.apart else "i"} = %c0 to %ub step %{"width" if k.apart else "step"}{carried[0]} {{
        {"%i = arith.muli %column, %threads : index" if k.apart else ""}
        %row = arith.addi %i, %base : index
        %at = arith.addi %row, %mine : index
        %left = arith.subi %limit, %at : index
        %some = arith.maxsi %left, %c0 : index
        %kept = arith.minsi %some, %width : index
        {issued}
        {waits}
        gpu.barrier
        {loads}
        {joined}
        %w = arith.addi %j, %k : {row}
        {carried[1]}vector.store {carried[3]}, %B[%at] : {array}, {row}
        gpu.barrier
        {carried[2]}
      }} {{async_pipe.num_stages = {k.stages} : i64}}"""
    ub = (
        f"%ub = arith.muli %n, %{'width' if k.apart else 'step'} : index"
        if k.dynamic
        else f"%ub = arith.constant {k.trips * (w if k.apart else n)} : index"
    )
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
    gpu.func @k(%A : {given}, %C : {given}, %B : {written}, %n : index, %limit : index)
      workgroup({", ".join(f"%t{t} : {tile}" for t in names)}) kernel
      attributes {{known_block_size = array<i32: {k.block[0]}, {k.block[1]}, 1>}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %last = arith.constant {k.threads - 1} : index
      %threads = arith.constant {k.threads} : index
      %width = arith.constant {w} : index
      %step = arith.constant {n} : index
      %rows = arith.constant {k.trips * n} : index
      %all = arith.constant {k.length} : index
      {ub}
      {" ".join(casts)}
      %x = gpu.thread_id x
      %y = gpu.thread_id y
      %columns = arith.constant {k.block[0]} : index
      %before = arith.muli %y, %columns : index
      %tid = arith.addi %x, %before : index
      %mine = arith.muli %tid, %width : index
      {_waves(k)}
      {theirs}
      %from = arith.muli %theirs, %width : index
      %k = arith.constant dense<{k.number}> : {row}
      %zero = arith.constant dense<{"0.0" if k.product else "0"}> : {sums}
      %per_row = arith.constant {k.trips * w} : index
      scf.for %base = %c0 to %all step %rows {{
      %first_row = arith.divui %base, %per_row : index
      %my_row = arith.addi %first_row, %tid : index
      {inner}
      gpu.barrier
      }}
      gpu.return }} }} }}"""


def _waves(k: Kernel) -> str:
    """The first element of this wave's part of a tile."""
    if k.mover != "waves":
        return f"""%lanes = arith.constant {LANES[k.chip]} : index
      %first_wave = arith.cmpi ult, %tid, %lanes : index
      %first = arith.constant 0 : index"""
    return f"""%lanes = arith.constant {LANES[k.chip]} : index
      %wave = arith.divui %tid, %lanes : index
      %size = arith.constant {k.tile // k.waves} : index
      %first = arith.muli %wave, %size : index"""


def _held(k: Kernel) -> int:
    """Numbers of the product that a lane holds."""
    return k.shape[0] * k.shape[1] // LANES[k.chip]


def _operands(k: Kernel) -> tuple[int, int, int]:
    """Elements that a lane has read of a tile, those of one operand, and the instructions that use all up."""
    read = k.width * (1 if k.product == "f32" else 2)
    one = k.shape[0] * k.shape[2] // LANES[k.chip]
    return read, one, max(1, read // one)


def _multiplied(k: Kernel) -> str:
    """%acc, the sums of products, and %j, their bits."""
    read, one, instructions = _operands(k)
    whole, part = f"vector<{read}x{k.product}>", f"vector<{one}x{k.product}>"
    scalar = k.product == "f32"
    lines, last = [], "%sum" if k.carried else "%zero"
    names = ("a", "c" if k.tiles == 2 else "a")
    for t in dict.fromkeys(names):
        lines.append(f"%f{t} = vector.bitcast %v{t} : vector<{k.width}xi32> to {whole}")
        for n in range(instructions):
            if scalar:
                lines.append(f"%f{t}{n} = vector.extract %f{t}[{n}] : f32 from {whole}")
            else:
                # Too few are taken again.
                places = [(n * one + j) % read for j in range(one)]
                lines.append(f"%f{t}{n} = vector.shuffle %f{t}, %f{t} {places} : {whole}, {whole}")
    kind, held = "f32" if scalar else part, f"vector<{_held(k)}xf32>"
    op = "amdgpu.wmma" if LANES[k.chip] == 32 else "amdgpu.mfma"
    shape = "x".join(map(str, k.shape))
    rest = "" if LANES[k.chip] == 32 else " blgp = none"
    for n in range(instructions):
        name = "%acc" if n == instructions - 1 else f"%acc{n}"
        a, b = f"%f{names[0]}{n}", f"%f{names[1]}{n}"
        lines.append(f"{name} = {op} {shape} {a} * {b} + {last}{rest} : {kind}, {kind}, {held}")
        last = name
    bits, row = f"vector<{_held(k)}xi32>", f"vector<{k.width}xi32>"
    lines.append(f"%bits = vector.bitcast %acc : {held} to {bits}")
    parts = range(_held(k) // k.width)
    lines += [
        f"%bits{n} = vector.extract_strided_slice %bits {{offsets = [{n * k.width}], sizes = [{k.width}], strides = [1]}} : {bits} to {row}"
        for n in parts
    ]
    joined = "%bits0"
    for n in parts[1:]:
        lines.append(f"%x{n} = arith.xori {joined}, %bits{n} : {row}")
        joined = f"%x{n}"
    return "\n".join(
        [
            *lines,
            f"%none = arith.constant dense<0> : {row}",
            f"%j = arith.ori {joined}, %none : {row}",
        ]
    )


def _tensor_copies(k: Kernel, names: str, array: str, tile: str) -> str:
    """Each wave's part of the tiles, or all by the first wave; elements from the limit on are zeros."""
    size = k.tile if k.mover == "wave" else k.tile // k.waves
    lines = ["%part = arith.addi %row, %first : index"]
    if k.masked:
        lines += [
            "%rest = arith.subi %limit, %part : index",
            "%there = arith.maxsi %rest, %c0 : index",
        ]
    issue = []
    for t in names:
        lines.append(
            f"""%base_{t} = amdgpu.make_dma_base %{t.upper()}[%part], %t{t}[%first] : {array}, {tile} -> !amdgpu.tdm_base<i32>
            %d_{t} = amdgpu.make_dma_descriptor %base_{t} globalSize [{"%there" if k.masked else size}]
              globalStride [1] sharedSize [{size}] : !amdgpu.tdm_base<i32> -> !amdgpu.tdm_descriptor"""
        )
        issue.append(f"amdgpu.tensor_load_to_lds %d_{t} : !amdgpu.tdm_descriptor")
    if k.mover == "wave":
        issue = ["scf.if %first_wave {", *issue, "}"]
    return "\n".join([*lines, *issue])


def inputs_of(k: Kernel) -> tuple[np.ndarray, np.ndarray]:
    """A and C."""
    numbers = np.random.default_rng(k.number)
    if k.product:
        # Sums of so many such products are exact.
        each = 1 if k.product == "f32" else 2
        small = numbers.integers(-3, 4, (2, each * k.length)).astype(np.float32)
        if k.product == "bf16":
            a, c = (small.view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)
        else:
            a, c = small.astype(np.float16 if each == 2 else np.float32).view(np.uint32)
        return a, c
    a, c = numbers.integers(0, 1 << 32, (2, k.length), np.uint32)
    return a, c


UNWRITTEN = 0xDEADBEEF


def trip_counts(k: Kernel) -> list[int]:
    """The numbers of iterations to run: short ones and the longest where the count is an argument."""
    if not k.dynamic:
        return [k.trips]
    return sorted({*range(min(k.stages + 1, k.trips)), k.trips - 1, k.trips})


def expected(k: Kernel, trips: int, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """B by NumPy, after `trips` iterations of each inner loop."""
    threads = np.arange(k.threads)
    theirs = {
        "own": threads,
        "reversed": k.threads - 1 - threads,
        "rotated": (threads + 1) % k.threads,
        "exchanged": threads ^ 1,
    }[k.reads]
    if k.masked:
        inside = np.arange(k.length) < k.limit
        a, c = a * inside, c * inside
    shape = (k.outer, k.trips, k.threads, k.width)
    own_a, own_c = a.reshape(shape)[:, :, theirs], c.reshape(shape)[:, :, theirs]
    joined = own_a ^ own_c if k.tiles == 2 else own_a + own_a
    if k.product:
        joined = _products(k, own_a, own_c if k.tiles == 2 else own_a)
    result = joined + np.uint32(k.number)
    if k.carried and not k.product:
        result = np.cumsum(result, axis=1, dtype=np.uint32)
    result[:, trips:] = UNWRITTEN
    return result.reshape(-1)


def _products(k: Kernel, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The bits of the sums of each thread, from what it read in each iteration."""
    read, one, instructions = _operands(k)
    lanes = LANES[k.chip]
    by_wave = (k.outer, k.trips, k.waves, lanes)
    left, right = (
        floats(np.ascontiguousarray(x).view(np.uint8), k.product).reshape(*by_wave, read)
        for x in (a, c)
    )
    sums = np.zeros((*by_wave, _held(k)), np.float32)
    for n in range(instructions):
        places = (n * one + np.arange(one)) % read
        sums += product(left[..., places], right[..., places], *k.shape, lanes)
    if k.carried:
        sums = np.cumsum(sums, axis=1, dtype=np.float32)
    bits = sums.view(np.uint32).reshape(k.outer, k.trips, k.threads, -1, k.width)
    return np.bitwise_xor.reduce(bits, axis=-2)
