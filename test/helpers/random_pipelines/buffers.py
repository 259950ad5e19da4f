"""The workgroup buffers of a random kernel, and the views through which it reaches them."""

from __future__ import annotations

from dataclasses import dataclass

from helpers.random_pipelines.shape import Copy, Shape

WORKGROUP = "#gpu.address_space<workgroup>"


@dataclass(frozen=True)
class Buffer:
    """How one copied row is written and read: names, types, and indices before the row's own.

    `setup` are the ops that make it, before the loop."""

    setup: tuple[str, ...]
    write_name: str
    write_type: str
    read_name: str
    read_type: str
    write_first: tuple[str, ...] = ()
    read_first: tuple[str, ...] = ()

    @property
    def memory(self) -> list[str]:
        """The ops of `setup` that name memory."""
        return [line for line in self.setup if "memref.alloc" in line or "get_global" in line]

    @property
    def views(self) -> list[str]:
        """Those that name views of it."""
        return [line for line in self.setup if line not in self.memory]

    def to(self, indices: str) -> str:
        """Where an element is written."""
        return f"{self.write_name}[{', '.join([*self.write_first, indices])}]"

    def at(self, indices: str) -> str:
        """Where an element is read."""
        return f"{self.read_name}[{', '.join([*self.read_first, indices])}]"


def declare(shape: Shape) -> tuple[list[Buffer], list[str]]:
    """A buffer for each copy, and what stands outside of the function."""
    outside: list[str] = []
    shared = [n for n, copy in enumerate(shape.copies) if copy.buffer == "shared"]
    buffers = []
    for number, copy in enumerate(shape.copies):
        if copy.buffer == "global":
            outside.append(f'memref.global "private" @tile{number} : {_type(shape.lanes, copy)}')
        buffers.append(_buffer(number, copy, shape.lanes, shared))
    return buffers, outside


def _type(dimensions: tuple[int, ...], copy: Copy, layout: str = "") -> str:
    sizes = "x".join(map(str, dimensions))
    return f"memref<{sizes}x{copy.element}{layout}, {WORKGROUP}>"


def _buffer(number: int, copy: Copy, lanes: tuple[int, ...], shared: list[int]) -> Buffer:
    name, base = f"%buf{number}", f"%base{number}"
    plain, tall = _type(lanes, copy), _type((1, *lanes), copy)
    groups = ", ".join(["[0, 1]", *(f"[{n + 2}]" for n in range(len(lanes) - 1))])
    match copy.buffer:
        case "alloc":
            return Buffer((f"{name} = memref.alloc() : {plain}",), name, plain, name, plain)
        case "global":
            made = f"{name} = memref.get_global @tile{number} : {plain}"
            return Buffer((made,), name, plain, name, plain)
        case "expanded":
            sizes = ", ".join(map(str, (1, *lanes)))
            made = (
                f"{base} = memref.alloc() : {plain}",
                f"{name} = memref.expand_shape {base} [{groups}] output_shape [{sizes}] : "
                f"{plain} into {tall}",
            )
            return Buffer(made, base, plain, name, tall, read_first=("%c0",))
        case "collapsed":
            made = (
                f"{base} = memref.alloc() : {tall}",
                f"{name} = memref.collapse_shape {base} [{groups}] : {tall} into {plain}",
            )
            return Buffer(made, base, tall, name, plain, write_first=("%c0",))
        case "reinterpreted":
            view = _type(lanes, copy, f", strided<{list(_strides(lanes))}>")
            made = (
                f"{base} = memref.alloc() : {plain}",
                f"{name} = memref.reinterpret_cast {base} to offset: [0], sizes: {list(lanes)}, "
                f"strides: {list(_strides(lanes))} : {plain} to {view}",
            )
            return Buffer(made, base, plain, name, view)
    rows = len(shared) if copy.buffer == "shared" else 2
    row = shared.index(number) if copy.buffer == "shared" else 1
    if copy.buffer == "shared":
        base = "%shared"
    size = _strides((rows, *lanes))[0]
    whole = _type((rows, *lanes), copy)
    view = _type(lanes, copy, f", strided<{list(_strides(lanes))}, offset: {row * size}>")
    offsets = ", ".join(map(str, (row, *(0 for _ in lanes))))
    sizes = ", ".join(map(str, (1, *lanes)))
    ones = ", ".join("1" for _ in (1, *lanes))
    subview = f"{name} = memref.subview {base}[{offsets}] [{sizes}] [{ones}] : {whole} to {view}"
    first = copy.buffer != "shared" or number == shared[0]
    made = (f"{base} = memref.alloc() : {whole}", subview) if first else (subview,)
    return Buffer(made, name, view, name, view)


def _strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides)
