"""The Python calls: `pipeline`, `count_waits`, `check`, `lower`, on anybody's module.

    report = mlir_async_pipe.pipeline(module, target="nvvm:sm_80")

`module` is an ir.Module or a module op of the bindings in use; its context has to allow
unregistered dialects where the abstract ops of `async_pipe` occur. Handles to ops inside of
functions are dead after a call that rewrote the module, as after any pass; after an error they
live.

Every call takes `target`, a `Target` or its text ("nvvm:sm_80"; `Target.parse` lists what there
is); without one each abstract queue is a FIFO of its own and no chip's limits hold. Every call
raises UsageError for what is no module (not-a-module), an unknown target (unknown-target) and bad
values of options (bad-option-value). Numbers of stages, groups and versions are counts, memory is
in bytes, times are in cycles.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from mlir_async_pipe import cache as kept
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.arguments import operation_of, whole_number
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import HazardError, UsageError
from mlir_async_pipe.session.report import Report, Session

# The one step of a result that an earlier call of this process has computed.
KEPT = "kept result"

if TYPE_CHECKING:
    from mlir_async_pipe.lowering.lower import Lowered


def _page(report: Report) -> str:
    from mlir_async_pipe.reports.page import fragment

    return fragment(report)


def _words(report: Report) -> str:
    from mlir_async_pipe.reports.page import text

    return text(report)


Report.page, Report.text = _page, _words


@called_by_users
def pipeline(
    module: Any,
    target: Target | str | None = None,
    *,
    num_stages: int = 0,
    issue: Literal["auto", "first", "spread", "last"] = "auto",
    max_stages: int = 8,
    smem_limit: int = 0,
    cost: str = "",
    overlap_outer: bool = False,
    assume_noalias_arguments: bool = False,
    roles: Literal[
        "auto", "together", "specialised", "grouped", "alternating", "ping-pong"
    ] = "auto",
    cluster: str = "",
    check: Literal["error", "warn", "none"] = "error",
    witnesses: bool = True,
    cache: bool = True,
) -> Report:
    """Pipeline all annotated loops, count their waits exactly and check the result.

    `num_stages`: replaces the number of stages on loops that carry one (0 keeps it).
    `issue`: where in an iteration the copies of these loops are issued ("auto" leaves it to the
    loop, and what the loop leaves open to the costs).
    `max_stages`: the most stages that a schedule by latencies may have.
    `smem_limit`: workgroup memory of a block in bytes (0: what the chip has).
    `cost`: cycles for schedules by latencies, "latency=500,OP=300,throughput.QUEUE=8".
    `overlap_outer`: a loop in a sequential loop begins its next execution in this one's epilogue.
    `assume_noalias_arguments`: no two arguments (or bindings) of a function share memory.
    `roles`: "specialised" gives tensor copies to warps that are added to the block, "grouped" what is independent in
    tensor memory to groups of threads as well, "alternating" lets two warpgroups issue their products in turn as well, "ping-pong" gives the tiles around to two groups in turn, "together" the copies
    to warps that are there ("auto" leaves it to the loop).
    `cluster`: "2,1,1" lets kernels of tensor copies have clusters of so many blocks along x, y and z,
    where nothing says how large they are.
    `check`: "error" raises for a hazard, "warn" makes it a warning, "none" leaves the check out.
    `witnesses`: without them the records of waits have no reason and no path that attains the
    count, which saves time on large modules.
    `cache`: a module that this process has pipelined before, to the last location, becomes what it
    became then, and the report is that report (its `seconds` say so). `MLIR_ASYNC_PIPE_CACHE=off`
    switches that off, too.

    The report holds remarks and warnings, and records of the kinds "schedules", "loops", "waits",
    "relaxed", "drains", "simplifications", "hazards" and "checks" (see `Report.of`).

    On an error the module is as it was. Raises InputError for annotations that are wrong,
    PipelineError for loops that cannot be pipelined as they say, HazardError if the result may
    race; all are AsyncPipeErrors with a code and a place."""
    known, options = _target(target), _of_the_pass(locals())

    def ask() -> Report:
        return _rewrite("async-pipe", module, known, options, witnesses)

    return (
        _kept_or_asked(operation_of(module), (known, options, witnesses), ask) if cache else ask()
    )


@called_by_users
def count_waits(
    module: Any,
    target: Target | str | None = None,
    *,
    check: bool = False,
    mode: Literal["static", "dynamic"] = "static",
    keep_given: bool = False,
    witnesses: bool = True,
) -> Report:
    """Give every token wait its exact count of groups that may stay in flight.

    `check`: verifies the counts that stand there instead of writing; one that is too large is an
    error.
    `mode`: with "dynamic" groups that are committed under conditions are counted at run time, and
    waits switch on that number.
    `keep_given`: leaves waits alone that have a count.
    `witnesses`: without them the records have no reason and no path that attains the count, which
    saves up to two thirds of the time.

    The report holds records of the kind "waits": for each its count, in groups. On an error the
    module is as it was. Raises AsyncPipeError."""
    return _rewrite("async-pipe-count-waits", module, target, _of_the_pass(locals()), witnesses)


@called_by_users
def run_pass(
    name: str, module: Any, target: Target | str | None = None, **options: bool | int | str
) -> Report:
    """Run any registered pass by its name, with its own options, on a module or a function. On an error the module
    is as it was. Raises AsyncPipeError."""
    return _rewrite(name, module, target, options, witnesses=True)


@called_by_users
def check(
    module: Any,
    target: Target | str | None = None,
    *,
    assume_noalias_arguments: bool = False,
    assume_several_blocks: bool = False,
    assume_several_threads: bool = False,
    assume_noalias_maps: bool = False,
    assume_no_overflow: bool = False,
    assume_independent: bool = False,
    assume_boxes: str = "",
    assume_block_size: str = "",
    assume_cluster_size: str = "",
) -> Report:
    """Check every access against every async op that may be in flight; the module stays as it is.

    `assume_noalias_arguments`: no two arguments (or bindings) of a function share memory.
    `assume_several_blocks`: a grid of unknown size may have several blocks along axes that the
    kernel never reads.
    `assume_several_threads`: the same of a block of unknown size and its threads.
    `assume_noalias_maps`: no two tensor maps that a kernel is given describe one memory.
    `assume_no_overflow`: integers of 32 bits or more do not wrap, as signed numbers, `x << 3` among them.
    `assume_independent`: no two threads or blocks of a kernel meet in global memory where it cannot be decided
    whether they do (`async_pipe.independent` of each kernel).
    `assume_boxes`: the boxes of tensor maps that a kernel is given, "0=128x64xf16,1=64x64xf16" by the
    numbers of its arguments.
    `assume_block_size`: the threads of the blocks of kernels that do not say it, "128" or "gemm:16x8,256"; and
    `assume_cluster_size` the blocks of their clusters.

    The report holds records of the kinds "hazards" (an access that may race, with both ends) and
    "checks" (for each kernel how many accesses are safe, unsafe and unknown). Hazards are errors
    among the report's diagnostics; nothing is raised for them."""
    options = _of_the_pass(locals())
    # The stack is chosen when the pass is imported, so that use("…") can come first.
    from mlir_async_pipe.bindings.raw_ops import plain_values
    from mlir_async_pipe.pipeliner.async_pipe_pass import CHECK, run_check

    session = Session(target=_target(target))
    with plain_values():
        run_check(operation_of(module), _options(CHECK, options, session), session)
    return session.report()


@called_by_users
def lower(
    module: Any,
    *,
    target: Target | str,
    emit: Literal["llvm", "ptx", "cubin", "isa", "hsaco"] = "ptx",
    strict: bool = False,
    bare_pointers: bool = False,
    bypass_l1: Literal["all", "formed"] = "all",
    l2_lines: bool = True,
    resources: bool | None = None,
    cache: bool = True,
) -> Lowered:
    """Lower a module, which stays as it is, to a target and emit code.

    `emit`: "ptx" and "cubin" need an NVIDIA target, "isa" and "hsaco" an AMD one, "llvm" is the
    LLVM dialect of either.
    `strict`: a scope that the chip cannot run asynchronously is an error, not a remark.
    `bare_pointers`: a launch hands over a memref of static shape as one pointer, not as MLIR's
    descriptor.
    `bypass_l1` and `l2_lines`, on NVIDIA chips: which asynchronous copies of 16 bytes bypass the
    first-level cache, all or those that the lowering forms and those that say so; and whether copies of
    parts of a line have the second-level cache fetch all of it.
    `resources`: whether ptxas, where it is installed, is asked at once what PTX needs; a kernel that
    spills is then made again. None: where a kernel may spill or ptxas may find something wrong, else when
    `resources` of a kernel are read. True: always. False: never.

    `cache`: code that this process has made of the same module with the same options is not made again;
    nor is that of another process with the same versions, nor is ptxas asked about PTX that it has seen,
    where the extra `cache` is installed (`mlir_async_pipe.cache`).

    The result has the text, or the bytes of a "cubin" or "hsaco", `parameters` and `arguments` for a
    launch, and the waits, registers and shared memory (bytes) of each kernel as read back from it. Raises LoweringError where the chip
    or its tools refuse the module, UsageError for a kind that the target does not have."""
    from mlir_async_pipe.bindings.raw_ops import plain_values
    from mlir_async_pipe.bindings.run_on_copy import bytes_of

    lowering = importlib.import_module("mlir_async_pipe.lowering.lower")
    root, known = operation_of(module), Target.parse(target)
    if bypass_l1 not in ("all", "formed"):
        why = f"bypass_l1 is {bypass_l1!r}, expected 'all' or 'formed'"
        raise UsageError(why, code="bad-option-value")
    if resources not in (None, True, False):
        why = f"resources is {resources!r}, expected None, True or False"
        raise UsageError(why, code="bad-argument")
    options = lowering.CodeOptions(strict, bare_pointers, bypass_l1, l2_lines, resources, cache)

    def make() -> Lowered:
        with plain_values():
            made: Lowered = lowering.lower(module, target=known, emit=emit, options=options)
        return made

    if not cache or kept.is_off():
        return make()
    # With locations: what is said of the code names them.
    return cast("Lowered", kept.found_or_made(("code", bytes_of(root), known, emit, options), make))


def _kept_or_asked(root: Any, parts: tuple[Any, ...], ask: Callable[[], Report]) -> Report:
    """What `ask` makes of a module and tells of it; both are taken from an earlier call that asked the
    same. What an error ends is not kept."""
    from mlir_async_pipe.bindings.run_on_copy import become_bytes, bytes_of, stands_alone

    if kept.is_off() or not stands_alone(root):
        return ask()
    began = time.perf_counter()
    key = kept.key_here("pipeline", bytes_of(root), *parts)
    found = kept.RECENT.get(key)
    if found is not None and become_bytes(root, found[0]):
        report: Report = found[1]
        return replace(report, seconds={KEPT: time.perf_counter() - began})
    report = ask()
    kept.RECENT.put(key, (bytes_of(root), report))
    return report


def _of_the_pass(keywords: dict[str, Any]) -> dict[str, Any]:
    """Of the arguments of a call those that are options of its pass."""
    ours = ("module", "target", "witnesses", "cache")
    return {name: value for name, value in keywords.items() if name not in ours}


def _rewrite(
    name: str, module: Any, target: Target | str | None, options: dict[str, Any], witnesses: bool
) -> Report:
    """Run a pass on a copy, which the module becomes if that went well."""
    # Like the passes, this needs the bindings, which may be chosen until the first call.
    from mlir_async_pipe.bindings.raw_ops import plain_values
    from mlir_async_pipe.bindings.run_on_copy import run_on_copy

    session = Session(target=_target(target), witnesses=witnesses)
    with plain_values():
        return run_on_copy(operation_of(module), lambda copy: _run(name, copy, options, session))


def _run(name: str, op: Any, options: dict[str, Any], session: Session) -> Report:
    # It imports the bindings, too.
    from mlir_async_pipe.reports.limits import name_roles, record_outlines

    passes.find(name).run(op, _options(name, options, session), session)
    if session.witnesses:
        record_outlines(op, session)
        name_roles(session)
    errors = session.diagnostics.with_severity("error")
    if errors:
        raise HazardError.of(errors[0])
    return session.report()


def _options(name: str, options: dict[str, Any], session: Session) -> Any:
    found = passes.find(name)
    for entry in fields(found.options):
        if str(entry.type).startswith("int") and entry.name in options:
            whole_number(entry.name, options[entry.name], 0, "bad-option-value")
    read = passes.read_options(found, ((key, _text(value)) for key, value in options.items()))
    values = {} if session.target is None else {"chip": session.target.chip.name}
    return passes.with_defaults(read, values)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _target(target: Target | str | None) -> Target | None:
    return None if target is None else Target.parse(target)
