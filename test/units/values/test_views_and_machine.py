"""Where random chains of views and pointers lead, beside the machine that executes them.

linear forms     of the checker's paths: the element's byte
intervals        of the proof of phases: its byte
divisors         divide its byte
dependence       subscripts in the coordinates of the buffer, or of a view of it

Covers: facts/values/views.py, facts/values/alignment.py, checker/phases/byte_places.py, pipeliner/dependence/regions.py
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import constant_value, defining_op, walk
from mlir_async_pipe.checker.phases import byte_places
from mlir_async_pipe.facts.values import views
from mlir_async_pipe.facts.values.alignment import access_alignment
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.sums import Form
from mlir_async_pipe.pipeliner.dependence.regions import regions_of
from mlir_async_pipe.vocabulary.memory_layout import strides_and_offset

ELEMENTS = 192
RAW = f"memref<{4 * ELEMENTS}xi8>"


class Chain:
    """A random chain of views of `%raw`, with the type of the last one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.constants: dict[int, str] = {}
        shift = 4 * self.random.choice([0, 0, 16, 48])
        self.shape, self.strides, self.offset = [4, 6, 6], [36, 6, 1], 0
        self.name, self.kind = "%raw", RAW
        at = self.number(shift)
        self.add(f"memref.view %raw[{at}][] : {RAW} to ", "memref<4x6x6xf32>")
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(
                [self.subview, self.subview, self.expand, self.collapse, self.cast, self.turn]
            )()

    def number(self, value: int) -> str:
        """A constant that is an operand."""
        name = f"%n{len(self.constants)}_{len(self.lines)}"
        self.lines.append(f"{name} = arith.constant {value} : index")
        return name

    def mixed(self, value: int) -> tuple[str, bool]:
        """A number in brackets: static, or an operand."""
        if self.random.random() < 0.5:
            return str(value), False
        return self.number(value), True

    def typed(self, dynamic_offset: bool, *, regrouped: bool = False) -> str:
        if regrouped and "strided" not in self.kind:
            return f"memref<{''.join(f'{size}x' for size in self.shape)}f32>"
        offset = "?" if dynamic_offset else self.offset
        strides = ", ".join(map(str, self.strides))
        shape = "".join(f"{size}x" for size in self.shape)
        return f"memref<{shape}f32, strided<[{strides}], offset: {offset}>>"

    def add(self, op: str, kind: str) -> None:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {op}{kind}")
        self.name, self.kind = name, kind

    @property
    def open(self) -> bool:
        return "offset: ?" in self.kind

    def subview(self) -> None:
        offsets, sizes, strides, open_offset = [], [], [], self.open
        kept: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            step = self.random.choice([1, 1, 2])
            length = self.random.randint(1, max(1, size // step))
            first = self.random.randint(0, size - 1 - (length - 1) * step)
            text, is_open = self.mixed(first)
            offsets.append(text)
            open_offset |= is_open
            sizes.append(str(length))
            strides.append(str(step))
            self.offset += first * stride
            if length > 1 or self.random.random() < 0.5:
                kept.append((length, stride * step))
        source, name = self.kind, self.name
        self.shape = [length for length, _ in kept]
        self.strides = [stride for _, stride in kept]
        window = f"[{', '.join(offsets)}] [{', '.join(sizes)}] [{', '.join(strides)}]"
        self.add(f"memref.subview {name}{window} : {source} to ", self.typed(open_offset))

    def expand(self) -> None:
        splits = [n for n, size in enumerate(self.shape) if size % 2 == 0]
        if not splits:
            return
        at = self.random.choice(splits)
        groups = [
            f"[{n + (n > at)}]" if n != at else f"[{n}, {n + 1}]" for n in range(len(self.shape))
        ]
        source, name = self.kind, self.name
        self.shape[at : at + 1] = [self.shape[at] // 2, 2]
        self.strides[at : at + 1] = [2 * self.strides[at], self.strides[at]]
        self.add(
            f"memref.expand_shape {name} [{', '.join(groups)}] output_shape {self.shape} : {source} into ",
            self.typed(self.open, regrouped=True),
        )

    def collapse(self) -> None:
        joined = [
            n
            for n in range(len(self.shape) - 1)
            if self.strides[n] == self.strides[n + 1] * self.shape[n + 1]
        ]
        if not joined:
            return
        at = self.random.choice(joined)
        groups = [
            f"[{n}, {n + 1}]" if n == at else f"[{n + (n > at)}]"
            for n in range(len(self.shape) - 1)
        ]
        source, name = self.kind, self.name
        self.shape[at : at + 2] = [self.shape[at] * self.shape[at + 1]]
        self.strides[at : at + 2] = [self.strides[at + 1]]
        self.add(
            f"memref.collapse_shape {name} [{', '.join(groups)}] : {source} into ",
            self.typed(self.open, regrouped=True),
        )

    def turn(self) -> None:
        if len(self.shape) != 2:
            return
        source, name = self.kind, self.name
        self.shape.reverse()
        self.strides.reverse()
        self.add(f"memref.transpose {name} (a, b) -> (b, a) : {source} to ", self.typed(self.open))

    def cast(self) -> None:
        """What lies anywhere after the aligned pointer."""
        size = self.random.randint(2, 5)
        self.offset = self.random.randint(0, 40)
        text, is_open = self.mixed(self.offset)
        source, name = self.kind, self.name
        self.shape, self.strides = [size, 3], [self.random.choice([3, 7]), 1]
        self.add(
            f"memref.reinterpret_cast {name} to offset: [{text}], sizes: {self.shape}, "
            f"strides: {self.strides} : {source} to ",
            self.typed(is_open),
        )

    def program(self) -> str:
        subscripts = [self.number(self.random.randrange(size)) for size in self.shape]
        self.lines.append("%one = arith.constant 1.0 : f32")
        self.lines.append(f"memref.store %one, {self.name}[{', '.join(subscripts)}] : {self.kind}")
        body = "\n".join(self.lines)
        return f"func.func @f(%raw: {RAW} {{llvm.align = 64 : i64}}) {{\n{body}\nreturn\n}}"


def _chain(memory: Any) -> Iterator[Any]:
    """The ops that make a view, the first one first."""
    op = defining_op(memory)
    if op is not None:
        yield from _chain(op.operands[0])
        yield op


@pytest.mark.parametrize("seed", range(60))
def test_every_domain_agrees_with_the_machine(seed: int) -> None:
    with new_context():
        module = ir.Module.parse(Chain(seed).program())
        raw = np.zeros(4 * ELEMENTS, np.int8)
        result = machine.run(module, arguments=[raw], threads=1)
        assert not result.races
        (after,) = result.arrays
        assert after is not None
        (word,) = np.flatnonzero(after.view(np.float32))
        (store,) = [op for op in walk(module) if op.name == "memref.store"]
        memory, indices = store.operands[1], list(store.operands)[2:]
        numbers = [constant_value(index) or 0 for index in indices]
        ops = list(_chain(memory))

        view = views.root_view(0, ops[0].operands[0].type)
        place: Any = byte_places.root_place(0, ops[0].operands[0].type)
        for op in ops:
            given = [0, *(constant_value(o) or 0 for o in list(op.operands)[1:])]
            view = views.viewed(op, view, lambda n, given=given: Form(given[n]))
            place = byte_places.value_of(op, [place, *given[1:]])
        region = views.as_bytes(views.region_of(view, [Form(n) for n in numbers], (1,)))
        assert region is not None
        assert region.pieces == (views.Piece(Form(4 * int(word)), (), 4),)

        touched = byte_places.region_of_access(place, memory.type, numbers, (1,) * len(numbers))
        assert (touched.low, touched.high) == (4 * word, 4 * word + 4)
        assert 4 * word % min(access_alignment(memory, indices), 64) == 0
        _compare_dependence(store, int(word))


def _compare_dependence(store: Any, word: int) -> None:
    """The subscripts in the coordinates of the base, and where the base begins."""
    (region,) = regions_of([store], Arithmetic())
    assert region.subscripts is not None
    at = [form.constant for form in region.subscripts]
    strides, _ = strides_and_offset(ir.MemRefType(region.base.type))
    begin = views.root_view(0, _raw())
    for op in _chain(region.base):
        given = [0, *(constant_value(o) or 0 for o in list(op.operands)[1:])]
        begin = views.viewed(op, begin, lambda n, given=given: Form(given[n]))
    first = views.start_bytes(begin)
    assert first is not None
    assert first.constant + 4 * sum(n * s for n, s in zip(at, strides, strict=True)) == 4 * word


def _raw() -> Any:
    return ir.Type.parse(RAW)


WINDOW = """
gpu.module @m {{
  gpu.func @k(%A: memref<16x128xf32> {{llvm.noalias}}, %B: memref<128xf32> {{llvm.noalias}})
      kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1024 = arith.constant 1024 : index
    %t = gpu.thread_id x
    %all = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %w = memref.view %all[%c1024][] : memref<?xi8, #gpu.address_space<workgroup>>
      to memref<2x64xf32, #gpu.address_space<workgroup>>
    %f = {view}
    %r = memref.reinterpret_cast %f to offset: [0], sizes: [128], strides: [1]
      : memref<128xf32, #gpu.address_space<workgroup>> to memref<128xf32, #gpu.address_space<workgroup>>
    %a = nvgpu.device_async_copy %A[%c0, %t], %f[%t], 1
      : memref<16x128xf32> to memref<128xf32, #gpu.address_space<workgroup>>
    %g = nvgpu.device_async_create_group %a
    {before}
    %x = memref.load %r[%t] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %x, %B[%t] : memref<128xf32>
    {after}
    gpu.return
  }}
}}
"""
FLAT = "memref<128xf32, #gpu.address_space<workgroup>>"
WAIT = "nvgpu.device_async_wait %g {numGroups = 0 : i32}"


@pytest.mark.parametrize(
    "view",
    [
        f"memref.collapse_shape %w [[0, 1]] : memref<2x64xf32, #gpu.address_space<workgroup>> into {FLAT}",
        "memref.reinterpret_cast %w to offset: [0], sizes: [128], strides: [1] : "
        f"memref<2x64xf32, #gpu.address_space<workgroup>> to {FLAT}",
    ],
)
def test_a_cast_of_a_view_of_a_window_counts_from_the_window(view: str) -> None:
    """Its aligned pointer is that of the window, not the first byte of dynamic memory."""
    late = check_text(WINDOW.format(view=view, before="", after=WAIT), "nvvm:sm_80")
    assert late.unsafe
    early = check_text(WINDOW.format(view=view, before=WAIT, after=""), "nvvm:sm_80")
    assert (early.unsafe, early.unknown) == (frozenset(), frozenset())


def test_a_cast_of_an_argument_with_an_offset_counts_from_its_aligned_pointer() -> None:
    kind = "memref<128xf32, strided<[1], offset: 64>, #gpu.address_space<workgroup>>"
    text = f"""
gpu.module @m {{
  gpu.func @k(%A: memref<128xf32> {{llvm.noalias}}, %B: memref<128xf32> {{llvm.noalias}}, %s: {kind})
      kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %t = gpu.thread_id x
    %r = memref.reinterpret_cast %s to offset: [64], sizes: [128], strides: [1] : {kind} to {kind}
    %a = nvgpu.device_async_copy %A[%t], %s[%t], 1 : memref<128xf32> to {kind}
    %g = nvgpu.device_async_create_group %a
    %x = memref.load %r[%t] : {kind}
    memref.store %x, %B[%t] : memref<128xf32>
    {WAIT}
    gpu.return
  }}
}}
"""
    assert check_text(text, "nvvm:sm_80").unsafe
