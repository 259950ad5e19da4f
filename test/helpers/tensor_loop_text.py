"""The modules of `tensor_loops`: what a front end would write for each.

The index constant n is %in; tiles, tensor maps and arrays of box n are %bn, %mn and %mn_.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers import ldmatrix_loops
from helpers.descriptor_loops import output_element, products_text, store_text, struct_of
from helpers.descriptor_products import TYPES

if TYPE_CHECKING:
    from helpers.tensor_loops import Box, TensorLoop

CHUNK = 16
LINE = 128
# Bytes of a row that each swizzle permutes.
SWIZZLES = {"none": 0, "swizzle_32b": 32, "swizzle_64b": 64, "swizzle_128b": 128}


def text_of(loop: TensorLoop) -> str:
    """The annotated module."""
    used = sorted({box.transaction for box in loop.boxes})
    group = f"!nvgpu.mbarrier.group<memorySpace = WG, num_barriers = {used[-1] + 1}>"
    maps = [map_type(loop, box) for box in loop.boxes]
    kinds = [f"memref<{box.shape}x{element_of(loop, box)[0]}, WG>" for box in loop.boxes]
    parameters = [f"%m{n}_: !llvm.ptr" for n in range(len(loop.boxes))]
    element = output_element(loop)
    parameters.append(f"%out: memref<?x{loop.output[1]}x{element}> {{llvm.noalias}}")
    parameters += [] if loop.static else ["%upper: index"]
    lines = []
    if loop.memory == "global":
        lines += [
            f'memref.global "private" @b{n} : {kind} {{alignment = 1024 : i64}}'
            for n, kind in enumerate(kinds)
        ]
    lines.append(
        f"func.func @f({', '.join(parameters)}) "
        f"attributes {{gpu.known_block_size = array<i32: {loop.threads}, 1, 1>}} {{"
    )
    for n, kind in enumerate(kinds):
        made = f"memref.get_global @b{n}" if loop.memory == "global" else "memref.alloc()"
        lines.append(f"%b{n} = {made} : {kind}")
        lines.append(f"%m{n} = builtin.unrealized_conversion_cast %m{n}_ : !llvm.ptr to {maps[n]}")
    lines.append(_constants(loop))
    lines += ["%t = gpu.thread_id x", _LEADERS[loop.leader]]
    lines.append(f"%full = nvgpu.mbarrier.create -> {group}")
    lines += [f"nvgpu.mbarrier.init %full[%i{n}], %i1, predicate = %leader : {group}" for n in used]
    if loop.fenced:
        lines += ["nvvm.fence.mbarrier.init", "gpu.barrier"]
    lines += [_executions(loop, _pipelined(loop, group, maps, kinds)), "return", "}"]
    return "\n".join(lines)


_LEADERS = {
    "index": "%leader = arith.cmpi eq, %t, %i0 : index",
    "i32": "%t32 = arith.index_cast %t : index to i32\n"
    "%leader = arith.cmpi eq, %t32, %zero32 : i32",
    "lane": "%leader = arith.cmpi ult, %t, %i1 : index",
}
ACCUMULATOR = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>"


def element_of(loop: TensorLoop, box: Box) -> tuple[str, int]:
    """The type of a box's elements, and their bytes."""
    if box.types:
        return TYPES[box.types]
    return ("f16", 2) if loop.reader in ("products", "matrices") else ("f32", 4)


def map_type(loop: TensorLoop, box: Box) -> str:
    element, _ = element_of(loop, box)
    return (
        f"!nvgpu.tensormap.descriptor<tensor = memref<{box.shape}x{element}, 3>, "
        f"swizzle = {box.swizzle}, l2promo = none, oob = zero, interleave = none>"
    )


def _constants(loop: TensorLoop) -> str:
    numbers = {0, 1, 2, 3, 4, 64, loop.lower, loop.step, loop.trips, loop.executions, loop.skip}
    numbers |= {loop.lower + loop.trips * loop.step, loop.threads}
    numbers |= {box.rows for box in loop.boxes}
    for box in loop.boxes:
        size = box.rows * box.columns
        numbers |= {size, size - 1, box.columns, box.columns * 4, LINE, loop.skip - 1}
        numbers |= {n * loop.threads for n in range(-(-size // loop.threads))}
        numbers.add(max(1, SWIZZLES[box.swizzle] // CHUNK))
    numbers |= set(_bytes(loop).values())
    if loop.reader == "matrices":
        numbers |= ldmatrix_loops.constants(loop)
    lines = [f"%i{n} = arith.constant {n} : index" for n in sorted(numbers) if n >= 0]
    lines += ["%false = arith.constant false", "%true = arith.constant true"]
    lines += ["%zero32 = arith.constant 0 : i32", "%zero = arith.constant 0.0 : f32"]
    if loop.static:
        lines.append(f"%upper = arith.constant {loop.lower + loop.trips * loop.step} : index")
    return "\n".join(lines)


def _bytes(loop: TensorLoop) -> dict[int, int]:
    """What each transaction announces."""
    found: dict[int, int] = {}
    for box in loop.boxes:
        size = box.rows * box.columns * element_of(loop, box)[1]
        found[box.transaction] = found.get(box.transaction, 0) + size
    return found


def _executions(loop: TensorLoop, inner: str) -> str:
    """The loop in its outer loop, which carries the phase."""
    start = "%first = arith.muli %e, %i" + f"{loop.trips} : index\n"
    if loop.executed == "odd":
        inner = (
            "%rest = arith.remui %e, %i2 : index\n%odd = arith.cmpi eq, %rest, %i1 : index\n"
            f"%phase_ = scf.if %odd -> (i1) {{\n{inner}\nscf.yield %r#1 : i1\n}} else {{\n"
            "scf.yield %phase0 : i1\n}"
        )
        last = "%phase_"
    else:
        last = "%r#1"
    if loop.executions == 1:
        return inner.replace("%phase0", "%false").replace("%first", "%i0").replace("%e,", "%i0,")
    return (
        f"%end = scf.for %e = %i0 to %i{loop.executions} step %i1 iter_args(%phase0 = %false) "
        f"-> (i1) {{\n{start}{inner}\nscf.yield {last} : i1\n}}"
    )


def _pipelined(loop: TensorLoop, group: str, maps: list[str], kinds: list[str]) -> str:
    """The annotated loop, and what stores its sum."""
    products = loop.reader == "products"
    sum_kind, start = "index", ""
    if products:
        sum_kind, start = ACCUMULATOR, f"nvgpu.warpgroup.mma.init.accumulator -> {ACCUMULATOR}"
    elif loop.reader == "descriptors":
        sum_kind = struct_of(loop)
        start = f"llvm.mlir.zero : {sum_kind}"
    elif loop.reader == "matrices":
        sum_kind, start = ldmatrix_loops.SUMS, ldmatrix_loops.START
    notes = [f"async_pipe.num_stages = {loop.stages} : i64"]
    notes += [f'async_pipe.issue = "{loop.issue}"'] if loop.issue else []
    if loop.in_flight is not None:
        notes.append(f"async_pipe.in_flight = {loop.in_flight} : i64")
    notes += [f'async_pipe.roles = "{loop.roles}"'] if loop.roles else []
    lines = [
        f"%sum0 = {start}" if start else "",
        f"%r:3 = scf.for %x = %i{loop.lower} to %upper step %i{loop.step} iter_args("
        f"%at = %first, %phase = %phase0, %sum = {'%sum0' if start else '%i0'}) "
        f"-> (index, i1, {sum_kind}) {{",
        _tile(loop),
        *_copies(loop, group, maps, kinds),
        *_uses(loop, maps, kinds),
        "gpu.barrier",
        "%next = arith.addi %at, %i1 : index",
        "%flip = arith.xori %phase, %true : i1",
        f"scf.yield %next, %flip, {'%made' if start else '%sum'} : index, i1, {sum_kind}",
        f"}} {{{', '.join(notes)}}}",
    ]
    if products:
        lines += [
            "%rows = arith.muli %e, %i64 : index",
            "%part = memref.subview %out[%rows, 0][64, 64][1, 1] : memref<?x64xf32> to "
            "memref<64x64xf32, strided<[64, 1], offset: ?>>",
            f"nvgpu.warpgroup.mma.store %r#2, %part : {ACCUMULATOR} to "
            "memref<64x64xf32, strided<[64, 1], offset: ?>>",
        ]
    elif loop.reader == "matrices":
        lines += ldmatrix_loops.store_text()
    elif start:
        lines += store_text(loop)
    return "\n".join(lines)


def _uses(loop: TensorLoop, maps: list[str], kinds: list[str]) -> list[str]:
    if loop.reader == "descriptors":
        return products_text(loop, kinds)
    if loop.reader == "matrices":
        return ldmatrix_loops.products_text(loop, kinds)
    return _products(maps, kinds) if loop.reader == "products" else _loads(loop, kinds)


def _tile(loop: TensorLoop) -> str:
    """The number of the iteration, %i, and of its tile."""
    lines = [
        f"%from = arith.subi %x, %i{loop.lower} : index",
        f"%i = arith.divui %from, %i{loop.step} : index",
        f"%tile = arith.addi {'%at, %i0' if loop.carried else '%first, %i'} : index",
    ]
    if loop.skip:
        lines += [
            f"%left = arith.remui %i, %i{loop.skip} : index",
            f"%there = arith.cmpi ne, %left, %i{loop.skip - 1} : index",
            "%go = arith.andi %leader, %there : i1",
        ]
    return "\n".join(lines)


def _copies(loop: TensorLoop, group: str, maps: list[str], kinds: list[str]) -> list[str]:
    lines = []
    for number, size in _bytes(loop).items():
        announced = f"%i{size}"
        if loop.skip:
            announced = f"%size{number}"
            lines.append(f"{announced} = arith.select %there, %i{size}, %i0 : index")
        lines.append(
            f"nvgpu.mbarrier.arrive.expect_tx %full[%i{number}], {announced}, "
            f"predicate = %leader : {group}"
        )
    for n, box in enumerate(loop.boxes):
        by_rows = not box.by_k or (loop.reader == "products" and n == 1)
        wide = box.rows if by_rows else box.columns
        lines.append(f"%col{n} = arith.muli %tile, %i{wide} : index")
        at = f"%i0, %col{n}" if by_rows else f"%col{n}, %i0"
        lines.append(
            f"nvgpu.tma.async.load %m{n}[{at}], %full[%i{box.transaction}] to %b{n}, "
            f"predicate = {'%go' if loop.skip else '%leader'} : {maps[n]}, {group} -> {kinds[n]}"
        )
    if loop.branch:
        inside = [line.replace(", predicate = %leader", "") for line in lines]
        inside = [line.replace("predicate = %go", "predicate = %there") for line in inside]
        lines = ["scf.if %leader {", *inside, "}"]
    lines += [
        f"nvgpu.mbarrier.try_wait.parity %full[%i{number}], %phase, %i64 : {group}"
        for number in _bytes(loop)
    ]
    return lines


def _products(maps: list[str], kinds: list[str]) -> list[str]:
    tile = "!nvgpu.warpgroup.descriptor<tensor = memref<64x64xf16, 3>>"
    lines = [
        f"%d{n} = nvgpu.warpgroup.generate.descriptor %b{n}, %m{n} : {kinds[n]}, {maps[n]} -> {tile}"
        for n in range(2)
    ]
    return [
        *lines,
        "%made = nvgpu.warpgroup.mma %d0, %d1, %sum {transposeB, waitGroup = 0 : i64} : "
        f"{tile}, {tile}, {ACCUMULATOR} -> {ACCUMULATOR}",
    ]


def _loads(loop: TensorLoop, kinds: list[str]) -> list[str]:
    lines, sums = [], "%zero"
    for n, box in enumerate(loop.boxes):
        size, columns = box.rows * box.columns, box.columns
        chunks = max(1, SWIZZLES[box.swizzle] // CHUNK)
        for part in range(-(-size // loop.threads)):
            s = f"{n}_{part}"
            lines += [
                f"%k{s} = arith.addi %t, %i{part * loop.threads} : index",
                f"%in{s} = arith.cmpi ult, %k{s}, %i{size} : index",
                f"%m{s} = arith.subi %i{size - 1}, %k{s} : index",
                f"%f{s} = arith.select %in{s}, %m{s}, %i0 : index",
                f"%row{s} = arith.divui %f{s}, %i{columns} : index",
                f"%c{s} = arith.remui %f{s}, %i{columns} : index",
                # The chunk of 16 bytes lies where its number and that of its line say.
                f"%chunk{s} = arith.divui %c{s}, %i4 : index",
                f"%in_chunk{s} = arith.remui %c{s}, %i4 : index",
                f"%byte{s} = arith.muli %row{s}, %i{columns * 4} : index",
                f"%line{s} = arith.divui %byte{s}, %i{LINE} : index",
                f"%by{s} = arith.remui %line{s}, %i{chunks} : index",
                f"%where{s} = arith.xori %chunk{s}, %by{s} : index",
                f"%start{s} = arith.muli %where{s}, %i4 : index",
                f"%column{s} = arith.addi %start{s}, %in_chunk{s} : index",
                f"%v{s} = memref.load %b{n}[%row{s}, %column{s}] : {kinds[n]}",
                f"%w{s} = arith.select %in{s}, %v{s}, %zero : f32",
                f"%s{s} = arith.addf {sums}, %w{s} : f32",
            ]
            sums = f"%s{s}"
    lines.append(f"memref.store {sums}, %out[%tile, %t] : memref<?x{loop.threads}xf32>")
    return ["scf.if %there {", *lines, "}"] if loop.skip else lines
