"""What a loop that TVM has pipelined executes, as straight-line IR that our machine runs.

TVM's result has static trip counts, so each loop is unrolled, each condition and subscript is a
number, and a wait has the count that it has in that step:

    for i in range(14):                                   "async_pipe.scope"() ({
      attr {commit_queue: 0, async_scope: 1}       -->      %x = memref.load %A[%c2]
        B[i % 2] = A[i + 2]                                 memref.store %x, %B[%c0] ...
      attr {wait_queue: 0, inflight_count: 1}             "async_pipe.commit_queue"() {queue = 0}
        C[i] = B[...]                                     "async_pipe.wait_queue"() {count = 1, queue = 0}

A scope's commit stands after it and its wait before it, as the RFC says; every queue is a
FIFO of its own, which is the kindest reading. TVM's classes are told apart by name, since they
moved between its releases.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Any

from tvm_pipelines import Pipeline, split

PARTS = ("prologue", "kernel", "epilogue")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Min": min,
    "Max": max,
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "And": operator.and_,
    "Or": operator.or_,
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
}
TYPES = {"float32": "f32", "int64": "i64"}
ARITHMETIC = {
    ("Add", "f32"): "arith.addf",
    ("Mul", "f32"): "arith.mulf",
    ("Add", "i64"): "arith.addi",
    ("Mul", "i64"): "arith.muli",
}


class NotTraced(Exception):
    """TVM's result has something that this file does not know."""


@dataclass
class Trace:
    """`text` is the module; `waits` the counts executed, by part and step of that part;
    `versions` the versions of each local buffer."""

    waits: dict[str, list[list[int]]] = field(default_factory=lambda: {part: [] for part in PARTS})
    versions: dict[str, int] = field(default_factory=dict)
    text: str = ""

    @property
    def has_negative_count(self) -> bool:
        """Whether a wait that is executed has a count below 0."""
        return any(groups < 0 for part in self.waits.values() for step in part for groups in step)


def trace(function: Any, pipeline: Pipeline, n: int = 0) -> Trace:
    """The trace of `pipeline`'s pipelined and lowered function, its scalar argument being `n`."""
    return _Tracer(pipeline, n).run(function.body)


class _Tracer:
    """Walks TVM's statements with the numbers of its loop variables."""

    def __init__(self, pipeline: Pipeline, n: int) -> None:
        self.result = Trace()
        self.element = TYPES[pipeline.dtype]
        self.shapes = dict(split(pipeline.arguments))
        self.arguments = list(self.shapes)
        self.local = dict(split(pipeline.local))
        self.numbers: dict[str, int] = {"n": n}
        self.lines: list[str] = []
        self.indices: dict[int, str] = {}
        self.fresh = count()
        self.queue: int | None = None
        self.part = PARTS[0]

    def run(self, body: Any) -> Trace:
        statements = list(body.seq) if _kind(body) == "SeqStmt" else [body]
        kernels = [n for n, s in enumerate(statements) if _kind(s) == "For" and int(s.kind) == 0]
        for number, statement in enumerate(statements):
            if kernels:
                self.part = PARTS[1 + (number > kernels[0]) - (number < kernels[0])]
            if self.part != "kernel":
                self.result.waits[self.part].append([])
            self.visit(statement)
        self.result.text = self._module()
        return self.result

    def visit(self, s: Any) -> None:
        match _kind(s):
            case "SeqStmt":
                for each in s.seq:
                    self.visit(each)
            case "For":
                self._loop(s)
            case "IfThenElse":
                taken = s.then_case if self.number(s.condition) else s.else_case
                if taken is not None:
                    self.visit(taken)
            case "AttrStmt":
                self._attribute(s)
            case "AllocBuffer":
                name, shape = s.buffer.name, tuple(int(extent) for extent in s.buffer.shape)
                self.shapes[name] = shape
                self.result.versions[name] = prod(shape) // prod(self.local[name])
            case "BufferStore":
                value = self.value(s.value)
                self.lines.append(f"memref.store {value}, {self.place(s.buffer.name, s.indices)}")
            case other:
                raise NotTraced(f"statement {other}")

    def _loop(self, s: Any) -> None:
        for step in range(int(s.extent)):
            self.numbers[s.loop_var.name] = int(s.min) + step
            if self.part == "kernel":
                self.result.waits["kernel"].append([])
            self.visit(s.body)

    def _attribute(self, s: Any) -> None:
        match s.attr_key:
            case "async_commit_queue_scope":
                self.queue = self.number(s.value)
                self.visit(s.body)
                queue, self.queue = self.queue, None
                self.lines.append(
                    f'%g{next(self.fresh)} = "async_pipe.commit_queue"() {{queue = {queue} : i64}}'
                    " : () -> !nvgpu.device.async.token"
                )
            case "async_wait_queue_scope":
                self._wait(self.number(s.value), self.number(s.body.value))
                self.visit(s.body.body)
            case "async_scope":
                with self._scope():
                    self.visit(s.body)
            case other:
                raise NotTraced(f"attribute {other}")

    def _wait(self, queue: int, groups: int) -> None:
        self.result.waits[self.part][-1].append(groups)
        # No hardware takes a count below 0; the kindest reading is a wait for everything.
        self.lines.append(
            f'"async_pipe.wait_queue"() {{queue = {queue} : i64, count = {max(groups, 0)} : i64}}'
            " : () -> ()"
        )

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self.lines.append('"async_pipe.scope"() ({')
        yield
        self.lines += [
            '"async_pipe.yield"() : () -> ()',
            f"}}) {{queue = {self.queue} : i64}} : () -> ()",
        ]

    def number(self, e: Any) -> int:
        """The value of an integer expression in this step."""
        kind = _kind(e)
        if kind == "IntImm":
            return int(e.value)
        if kind == "Var":
            return self.numbers[e.name]
        if kind == "Not":
            return int(not self.number(e.a))
        if kind == "Cast":
            return self.number(e.value)
        if kind == "Call" and e.op.name.endswith("if_then_else"):
            condition, yes, no = e.args
            return self.number(yes if self.number(condition) else no)
        if kind in OPERATORS:
            return int(OPERATORS[kind](self.number(e.a), self.number(e.b)))
        raise NotTraced(f"expression {kind}")

    def value(self, e: Any) -> str:
        """The name of the value that an expression over buffers has."""
        kind, name, element = _kind(e), f"%v{next(self.fresh)}", self.element
        if kind in ("IntImm", "FloatImm"):
            written = f"{float(e.value):e}" if element == "f32" else int(e.value)
            self.lines.append(f"{name} = arith.constant {written} : {element}")
        elif kind in ("TensorLoad", "BufferLoad"):
            source = e.source if kind == "TensorLoad" else e.buffer
            self.lines.append(f"{name} = memref.load {self.place(source.name, e.indices)}")
        elif (kind, element) in ARITHMETIC:
            a, b = self.value(e.a), self.value(e.b)
            self.lines.append(f"{name} = {ARITHMETIC[kind, element]} {a}, {b} : {element}")
        else:
            raise NotTraced(f"expression {kind}")
        return name

    def place(self, buffer: str, indices: Any) -> str:
        """`%B[%c0, %c1] : memref<2x2xf32>`."""
        numbers = [self.number(index) for index in indices]
        for number in numbers:
            self.indices.setdefault(number, f"%c{number}")
        subscripts = ", ".join(self.indices[number] for number in numbers)
        return f"%{buffer}[{subscripts}] : {self._type(buffer)}"

    def _type(self, buffer: str) -> str:
        return f"memref<{'x'.join(map(str, self.shapes[buffer]))}x{self.element}>"

    def _module(self) -> str:
        arguments = [f"%{name}: {self._type(name)} {{llvm.noalias}}" for name in self.arguments]
        head = [f"func.func @f({', '.join(arguments)}) {{"]
        head += [f"{name} = arith.constant {at} : index" for at, name in self.indices.items()]
        head += [f"%{name} = memref.alloca() : {self._type(name)}" for name in self.result.versions]
        return "\n".join([*head, *self.lines, "return", "}"])


def _kind(node: Any) -> str:
    return type(node).__name__
