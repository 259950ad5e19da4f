"""`machine.run`: arguments in, one function on a grid of blocks, results and findings out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlir_async_pipe.bindings.raw_ops import (
    has_body,
    is_function,
    plain_values,
    raw,
    symbol_name,
    walk,
)
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.machine import dialects  # noqa: F401  (fills the table of semantics)
from mlir_async_pipe.machine.barrier_phases import StuckError
from mlir_async_pipe.machine.decode import Decoder, Function, Unit
from mlir_async_pipe.machine.detector import Detector, Race
from mlir_async_pipe.machine.kinds import Kind, kind_of, stored_kind
from mlir_async_pipe.machine.lane_values import Array, MemRef, TensorMap, uniform
from mlir_async_pipe.machine.launch import Launch, LaunchOptions, RunOptions
from mlir_async_pipe.machine.long_arrays import APART, LongArray
from mlir_async_pipe.machine.memory import (
    GLOBAL,
    PRIVATE,
    WORKGROUP,
    Memory,
    MemRefShape,
    memref_shape,
)
from mlir_async_pipe.machine.terms import as_array, contiguous, is_symbolic
from mlir_async_pipe.machine.timeline import Timeline, Trace, WaitRun, lay_out
from mlir_async_pipe.machine.warp_clock import ClockedDetector, Flags, WarpClock
from mlir_async_pipe.machine.warp_order import scheduler_of
from mlir_async_pipe.ptx import with_assembly_read
from mlir_async_pipe.session.called_from import called_by_users, takes
from mlir_async_pipe.session.diagnostics import MachineError, UsageError

# The clocks of so many threads, in each granule of memory, are no burden.
_FEW_THREADS = 128


@dataclass(frozen=True)
class RunResult:
    """What a run gives.

    `results` are the function's results of thread 0 of block 0; `arrays` has, for each
    argument, the array as it is after the run (None for scalars). `races` are the findings,
    `waits` one record for each wait op, `trace` what thread 0 did, `globals` the bytes of global variables
    before the run and after it.
    """

    results: tuple[Any, ...]
    arrays: tuple[Array | None, ...]
    races: tuple[Race, ...]
    waits: tuple[WaitRun, ...]
    trace: Trace
    globals: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    @property
    def race_codes(self) -> frozenset[str]:
        return frozenset(race.code for race in self.races)

    def timeline(self, cost: str = "", target: Target | str | None = None) -> Timeline:
        """What thread 0 did, in cycles of a model: `cost` says what things cost ("latency=500,
        nvgpu.mma.sync=4.7"), "" what they do on the chip of `target`.

        Raises UsageError (bad-cost, unknown-target).
        """
        chip = Target.parse(target) if isinstance(target, str) else target
        return lay_out(self.trace, CostModel.parse(cost, chip))

    def raise_for_races(self) -> None:
        """Raise MachineError (the first finding's code) if there are findings."""
        if self.races:
            text = "\n".join(str(race) for race in self.races)
            first = self.races[0]
            raise MachineError(text, code=first.code, at=first.place)


@called_by_users
@plain_values()
@takes(RunOptions)
def run(
    module: Any, function: str | None = None, arguments: Sequence[Any] = (), **options: Any
) -> RunResult:
    """Run `function` of `module` on the CPU.

    `module`: an ir.Module or a module op; it stays as it is.
    `function`: its symbol name, with or without "@"; None where the module has one with a body.
    `arguments`: a NumPy array for each memref, of its shape and element type (bf16 and 8-bit
    floats as arrays of their bit patterns, uint16 and uint8; a dynamic size is that of the array),
    a number for each scalar. The arrays given are not changed: `arrays` of the result are copies.
    `options`: the fields of `RunOptions`, as `threads=128`.

    Raises UsageError for wrong arguments (bad-argument, no-function, unknown-target), MachineError
    for programs that it cannot run and for more than `step_limit` steps; races are no exceptions
    but `races` of the result.
    """
    return run_in(Memory(), decoded(module, function, RunOptions(**options)), arguments)


@dataclass(frozen=True, eq=False)
class Decoded:
    """A function and its launch, to be run any number of times: nothing that a run changes is in it."""

    decoder: Decoder
    function: Function
    granule: int
    options: LaunchOptions


def decoded(module: Any, function: str | None, given: RunOptions, around: Any = None) -> Decoded:
    """A function of a module, which may change from here on; `around` is the decoder's."""
    root = with_assembly_read(raw(module))
    decoder = Decoder(root, given.chip_target, around)
    name = function_name(module, function)
    options = given.launch(decoder.entry(name))
    found = Decoded(decoder, decoder.function(name), granule_of(root), options)
    _check_cluster(options)
    decoder.forget_handles()
    return found


def run_in(
    memory: Memory, program: Decoded, arguments: Sequence[Any], handed: Handed | None = None
) -> RunResult:
    """`run` in a memory that is empty yet. Machine code is `handed` its arguments in pieces."""
    function, options = program.function, program.options
    detector = _detector(memory, program.decoder, program.granule, options)
    launch = Launch(program.decoder, options, memory, detector)
    types = function.argument_types if handed is None else handed.types
    values, arrays = pass_arguments(launch, function, arguments, types)
    if handed is not None:
        values = handed.pieces(values, function)
    with np.errstate(all="ignore"):
        results = run_grid(launch, function, values)
    return RunResult(
        tuple(plain(value, memory) for value in results),
        tuple(None if entry is None else _read_back(memory, *entry) for entry in arrays),
        tuple(detector.races.values()),
        launch.waits.all(),
        launch.trace,
        launch.global_bytes(),
    )


def _detector(memory: Memory, decoder: Decoder, granule: int, options: LaunchOptions) -> Detector:
    """The race detector; only programs with mbarriers or flags, and clusters, need one that keeps
    clocks: of each thread where few threads have flags, else of each warp."""
    threads, blocks = int(np.prod(options.threads)), int(np.prod(options.cluster))
    with_flags = any(site.reads_flag for site in decoder.sites)
    with_phases = any(site.needs_clocks for site in decoder.sites)
    if blocks == 1 and not with_flags and not with_phases:
        return Detector(memory, decoder.sites, granule, options.warp)
    if with_flags and blocks == 1:
        blocks = int(np.prod(options.grid))
    if with_flags and with_phases and blocks > 1 and threads % options.warp:
        raise UsageError(
            f"blocks that wait for each other, and have mbarriers, have whole warps of {options.warp}, "
            f"not {threads} threads",
            code="bad-argument",
        )
    few = threads * blocks <= _FEW_THREADS or threads % options.warp
    lanes = 1 if with_flags and few and not with_phases else options.warp
    warps = -(-threads // lanes)
    clock = WarpClock(warps * blocks, lanes)
    flags = Flags(clock, warps) if with_flags else None
    return ClockedDetector(memory, decoder.sites, granule, clock, flags)


def _check_cluster(options: LaunchOptions) -> None:
    """Clusters must cover the grid, with blocks of whole warps."""
    cluster, threads = options.cluster, int(np.prod(options.threads))
    if any(blocks % size for blocks, size in zip(options.grid, cluster, strict=True)):
        raise UsageError(
            f"a grid of {options.grid} blocks is not made of clusters of {cluster}",
            code="bad-argument",
        )
    if int(np.prod(cluster)) > 1 and threads % options.warp:
        raise UsageError(
            f"blocks of a cluster have whole warps of {options.warp}, not {threads} threads",
            code="bad-argument",
        )


def run_grid(launch: Launch, function: Function, arguments: tuple[Any, ...]) -> list[Any]:
    """Run all clusters of blocks, x fastest; returns the results of the first unit of the first block."""
    first: list[Any] | None = None
    given = launch.options.dynamic_shared_bytes
    launch.dynamic_shared_bytes = function.shared_bytes if given is None else given
    for number in range(int(np.prod(launch.options.grid)) // launch.together):
        launch.begin_cluster(number, function)
        try:
            results = run_cluster(launch, function, arguments)
        except StuckError:
            break
        first = results if first is None else first
        launch.end_cluster()
    return first or []


def run_cluster(launch: Launch, function: Function, arguments: tuple[Any, ...]) -> list[Any]:
    """Run the blocks of one cluster; whatever is in flight at its end arrives then, and is reported."""
    units: list[Unit] = []

    def body(unit: Unit) -> list[Any]:
        units.append(unit)
        extra = launch.attributions(unit, function)
        return unit.call(function, (*arguments, *extra))

    options = launch.options
    results = scheduler_of(options.schedule, options.seed, launch).run(launch, body)
    launch.check_ends(function)
    for unit in units:
        launch.enter(unit.rank)
        _finish(unit)
    if launch.mbarriers is not None:
        launch.mbarriers.finish(function.site.number)
    if launch.tensor_memory is not None:
        launch.tensor_memory.finish()
    return results[0]


def _finish(unit: Unit) -> None:
    for operation in unit.queues.pending():
        if operation.on_mbarrier:
            continue
        left = operation.lanes & ~operation.covered
        lane = int(np.flatnonzero(left)[0])
        thread = int(unit.grid_threads([lane])[0])
        code = "unwaited-copy" if unit.queues.is_committed(operation, lane) else "uncommitted-copy"
        # What it writes is there when the kernel has ended; what it reads must be its own until then.
        if not operation.released[left].all():
            unit.launch.detector.report(code, operation.site, thread=thread)
        operation.move(left)
        unit.launch.detector.complete(operation, left)
        unit.launch.detector.retire(operation)


def function_name(module: Any, name: str | None) -> str:
    if name is not None:
        return name.removeprefix("@")
    names = [symbol_name(op) for op in walk(raw(module)) if is_function(op) and has_body(op)]
    if len(names) != 1:
        raise UsageError(
            f"which function to run? the module has {len(names)}",
            code="no-function",
            advice=", ".join(names) or None,
        )
    return names[0]


# Granules ------------------------------------------------------------------------------------

# Types of one byte and ops that see memory as bytes; any of them asks for granules of 1.
# A dimension may stand right before the type, as in 32xf16, so that no word begins there.
_BYTE_TYPES = re.compile(r"[x<](?:[us]?i(?:1|4|8)\b|f8E)")
_HALF_TYPES = re.compile(r"[x<](?:[us]?i16|b?f16)\b")


def granule_of(module: Any) -> int:
    """1, 2 or 4: the size of the smallest element that memory of this module holds."""
    found: set[str] = set()
    for op in walk(module):
        for value in (*op.operands, *op.results):
            found.add(str(value.type))
        for region in op.regions:
            for block in region.blocks:
                found.update(str(argument.type) for argument in block.arguments)
    memory = [text for text in found if text.startswith("memref<") or "llvm." in text]
    if any("llvm." in text or _BYTE_TYPES.search(text) for text in memory):
        return 1
    return 2 if any(_HALF_TYPES.search(text) for text in memory) else 4


@dataclass(frozen=True)
class Handed:
    """How a launch hands arguments of these MLIR `types` over to machine code.

    memref<?x64xf16>  -->  pointer, pointer, offset, size, size, stride, stride

    Of each of the `parameters` its `kind` ("pointer", "offset", "size", "stride", "number") says what it is of argument number
    `argument`, `dimension` of which dimension (`lowering.lower.EntryParameter`).
    """

    types: tuple[Any, ...]
    parameters: tuple[Any, ...]

    def pieces(self, values: Sequence[Any], function: Function) -> tuple[Any, ...]:
        """The values of the parameters. Raises UsageError (bad-signature)."""
        kinds = [kind_of(one, function.site.place) for one in function.argument_types]
        if len(kinds) != len(self.parameters):
            raise UsageError(
                f"'{function.name}' has {len(kinds)} parameters in machine code, and is handed {len(self.parameters)}",
                code="bad-signature",
                at=function.site.place,
            )
        return tuple(
            _piece(one, values[one.argument], kind)
            for one, kind in zip(self.parameters, kinds, strict=True)
        )


def _piece(parameter: Any, value: Any, kind: Kind) -> Any:
    if parameter.kind == "number":
        same = value.dtype.itemsize == kind.dtype.itemsize
        return value.view(kind.dtype) if same else value.astype(kind.dtype)
    if not isinstance(value, MemRef):
        return value
    if parameter.kind in ("pointer", "offset"):
        return value.base if parameter.kind == "pointer" else value.offset
    return (value.sizes if parameter.kind == "size" else value.strides)[parameter.dimension]


def pass_arguments(
    launch: Launch, function: Function, arguments: Sequence[Any], types: Sequence[Any]
) -> tuple[tuple[Any, ...], list[tuple[Any, Array] | None]]:
    """Put arguments of these types into memory; their values, and for arrays where they
    are and of what form. Raises UsageError (bad-argument)."""
    if len(arguments) != len(types):
        raise UsageError(
            f"'{function.name}' takes {len(types)} arguments, {len(arguments)} given",
            code="bad-argument",
            advice=", ".join(map(str, types)) or None,
        )
    values: list[Any] = []
    arrays: list[tuple[Any, Array] | None] = []
    for number, (given, kind) in enumerate(zip(arguments, types, strict=True)):
        text, at = str(kind), function.site.place
        long = given.array if isinstance(given, TensorMap) else given
        if isinstance(long, LongArray):
            shape_or_none = memref_shape(kind, at) if text.startswith("memref<") else None
            values.append(long.view(shape_or_none))
            arrays.append(None)
            launch.tensors[long.number * APART] = given
        elif text.startswith("memref<"):
            shape = memref_shape(kind, at)
            array = as_array(given)
            value = _pass_array(launch, f"argument {number}", array, shape)
            values.append(value)
            # Arrays come back in the type of memory, which for bf16 and 8-bit floats is bits.
            arrays.append((value, array.astype(shape.element.stored, copy=False)))
        elif text.startswith("!llvm.ptr") or (text == "i64" and np.ndim(long)):
            # An i64 that PTX is given may be a pointer that nobody follows.
            array = contiguous(given.array if isinstance(given, TensorMap) else given)
            buffer = launch.memory.allocate(
                array.size * array.dtype.itemsize,
                GLOBAL,
                f"argument {number}",
                contents=array.reshape(-1).view(np.uint8),
            )
            values.append(uniform(buffer.base))
            passed = replace(given, array=array) if isinstance(given, TensorMap) else array
            launch.tensors[buffer.base] = passed
            arrays.append((buffer.base, array))
        elif "tensormap" in text:
            raise MachineError(
                f"'{function.name}' cannot be handed a tensor map as {text}",
                code="unsupported-type",
                at=at,
                advice="take !llvm.ptr, and make it one by builtin.unrealized_conversion_cast",
            )
        else:
            scalar, array = kind_of(kind, at), as_array(given)
            if array.size != np.prod(scalar.shape):
                raise UsageError(
                    f"argument {number} has shape {array.shape}, expected {text}",
                    code="bad-argument",
                )
            values.append(scalar.settle(array.reshape((1, *scalar.shape))))
            arrays.append(None)
    return tuple(values), arrays


def _pass_array(launch: Launch, name: str, array: Array, shape: MemRefShape) -> MemRef:
    """Copy an array into memory, contiguous, and describe it by the memref type's strides."""
    element = shape.element
    wanted = len(shape.sizes) + len(element.shape)
    fits = array.ndim == wanted and all(
        size is None or size == given for size, given in zip(shape.sizes, array.shape, strict=False)
    )
    if not fits or array.shape[len(shape.sizes) :] != element.shape:
        raise UsageError(
            f"{name} has shape {array.shape}, expected {shape.sizes + element.shape}",
            code="bad-argument",
        )
    stored = _stored(name, array, element)
    sizes = [uniform(size) for size in array.shape[: len(shape.sizes)]]
    identity = replace(shape, sizes=(None,) * len(sizes), strides=shape.strides)
    view = identity.over(uniform(0), sizes)
    total = max(int(shape.extent_bytes(view)[0]), 0)
    space = shape.space if shape.space in (WORKGROUP, PRIVATE) else GLOBAL
    buffer = launch.memory.allocate(total, space, name)
    view = replace(view, base=uniform(buffer.base))
    launch.memory.store(_places(view, stored.shape), stored, stored_kind(stored.dtype))
    launch.memory.initialised[buffer.base : buffer.base + total] = True
    return view


def _stored(name: str, array: Array, element: Kind) -> Array:
    """An argument in its memory form: bit patterns stay, numbers are converted if it is exact
    to do so by kind (floats to floats, integers to integers)."""
    if element.name == "i4" and not is_symbolic(array) and (np.asarray(array) > 15).any():
        raise UsageError(f"{name} holds {array.max()}, expected i4", code="bad-argument")
    if array.dtype == element.stored:
        return array
    if element.stored.kind == "f" and array.dtype.kind == "f":
        return array.astype(element.stored)
    if element.stored.kind in "iu" and array.dtype.kind in "iub" and element.dtype.kind != "f":
        return array.astype(element.stored)
    if element.dtype.kind == "f" and array.dtype.kind == "f":
        return element.encode(element.settle(array))
    raise UsageError(f"{name} holds {array.dtype}, expected {element.name}", code="bad-argument")


def _places(view: MemRef, shape: tuple[int, ...]) -> Array:
    """The byte address of each element of a uniform memref."""
    strides = [int(stride[0]) * view.element_bytes for stride in view.strides]
    places = np.full((), int(view.address[0]))
    for size, stride in zip(shape, (*strides, *view.element.byte_strides), strict=True):
        places = places[..., None] + stride * np.arange(size)
    return places


def _read_back(memory: Memory, where: Any, like: Array) -> Array:
    """An argument as memory holds it: `where` is its memref, or its address."""
    if isinstance(where, MemRef):
        return memory.load(_places(where, like.shape), stored_kind(like.dtype))
    size = like.size * like.dtype.itemsize
    return memory.data[where : where + size].copy().view(like.dtype).reshape(like.shape)


def plain(value: Any, memory: Memory) -> Any:
    if is_symbolic(value):
        return value[0]
    if isinstance(value, np.ndarray):
        return value[0].item() if value.ndim == 1 else value[0]
    if isinstance(value, MemRef):
        sizes = tuple(int(size[0]) for size in value.sizes)
        return memory.load(
            _places(value, (*sizes, *value.element.shape)), stored_kind(value.element.stored)
        )
    return value
