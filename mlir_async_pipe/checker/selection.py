"""Which functions of a module threads of a GPU run: these are the kernels that are checked.

    gpu.func @k … kernel           a kernel, and so is llvm.func with nvvm.kernel
    gpu.launch … { … }             a kernel
    func.func @f: gpu.thread_id    a kernel: its author left out the outlining
    func.func @h: calls @f         so is its caller, and @f is followed there
    func.func @host                one thread of the host runs it: not looked at

A function with an async op, or with assembly that may hide one, is looked at alone too, whoever
calls it; where there is one, so are functions that call by a value: it may be that one.

    func.call @f        the @f of the symbol table around the caller: its module or gpu.module
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    SYMBOL_TABLES,
    ancestors,
    enclosing,
    has_body,
    is_function,
    is_kernel,
    operations,
    parent,
    remembered,
    symbol_name,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.values.memory_roots import space_of_type
from mlir_async_pipe.vocabulary import flag_order, is_unseen_copy, named_row, row_of
from mlir_async_pipe.vocabulary.control_flow import ASSEMBLY, CALL_OPS, callee_name
from mlir_async_pipe.vocabulary.launch_ids import is_id_of_threads
from mlir_async_pipe.vocabulary.memory_names import MEMORY_NAMES, names_memory
from mlir_async_pipe.vocabulary.op_table import row_name
from mlir_async_pipe.vocabulary.pure_ops import OPAQUE_CODE, is_opaque_code


def kernels(module: Any) -> list[Any]:
    """The functions and launches that are checked, in the order in which they are met."""
    return list(_kernels(module.operation))


@remembered
def _kernels(module: Any) -> list[Any]:
    found: dict[Any, None] = {}
    threaded: dict[Any, None] = {}
    calls: dict[Any, dict[Any, None]] = {}
    unknown_calls: dict[Any, None] = {}
    callees = callable_functions(module)
    for op in walk_named(module, _shows_threads):
        row = row_of(op)
        copies = is_unseen_copy(op) or row.asynchronous(op)
        if copies or is_opaque_code(op):
            # Who calls it may use what it copies.
            holder = _kernel_around(op)
            if holder is not None and ASSEMBLY not in holder.attributes:
                found[holder] = threaded[holder] = None
        if op.name in KERNEL_OPS and has_body(op) and is_kernel(op):
            threaded[op] = None
        elif is_about_threads(row_name(op)) or (
            names_memory(op) and space_of_type(op.results[0].type) == "workgroup"
        ):
            around = _kernel_around(op)
            if around is not None:
                threaded[around] = None
        elif op.name in CALL_OPS and not row.pure:
            callee, around = callee_of(op, callees), _kernel_around(op)
            if around is not None and callee is None:
                unknown_calls[around] = None
            elif around is not None:
                calls.setdefault(callee, {})[around] = None
    if found:
        # Any function may be called there, one with async ops too.
        threaded.update(unknown_calls)
    for kernel in _without_callees(threaded, calls):
        found[kernel] = None
    return list(found)


def _shows_threads(name: str) -> bool:
    """Whether ops called `name` may be kernels, or say that what is around them is one."""
    return (
        named_row(name).described
        or name in MEMORY_NAMES
        or name in CALL_OPS
        or name in OPAQUE_CODE
        or name in KERNEL_OPS
        or is_about_threads(name)
    )


def _without_callees(
    threaded: dict[Any, None], calls: dict[Any, dict[Any, None]]
) -> dict[Any, None]:
    """The functions that begin a kernel: callers in place of what they call, unless all of them call each other."""
    first: dict[Any, None] = {}
    seen: dict[Any, None] = {}
    pending = list(reversed(threaded))
    while pending:
        function = pending.pop()
        if function in seen:
            continue
        seen[function] = None
        callers: Iterable[Any] = calls.get(function, ())
        pending.extend(callers)
        if is_kernel(function) or not [caller for caller in callers if caller != function]:
            first[function] = None
    called = reached(first, lambda function: [f for f, by in calls.items() if function in by])
    return first | {function: None for function in threaded if function not in called}


def is_about_threads(name: str) -> bool:
    """Whether ops called `name` tell that several threads run: thread ids and barriers do."""
    row = named_row(name)
    if row.barrier is not None:
        return True
    return is_id_of_threads(name)


def _kernel_around(op: Any) -> Any | None:
    """The function or launch that holds an op."""
    around = (above for above in ancestors(op) if above.name in KERNEL_OPS)
    return next(around, None)


def names_in(kernel: Any, callees: Callees) -> set[str]:
    """The names of the ops of a kernel, and of the functions that it calls; what is launched from
    there is a kernel of its own."""
    names: set[str] = set()

    def called(function: Any) -> Iterator[Any]:
        elsewhere: set[Any] = set()
        for op in walk(function):
            if op.name == "gpu.launch" and op != function:
                elsewhere.update(inner for inner in walk(op) if inner != op)
            if op in elsewhere:
                continue
            names.add(row_name(op))
            callee = callee_with_body(op, callees)
            if callee is not None:
                yield callee

    reached([kernel], called)
    return names


Callees = dict[tuple[Any, str], Any]
"""Functions by the op that holds them (None: nobody) and their name."""


def callable_functions(module: Any) -> Callees:
    """The functions of a module, those of its gpu.modules too."""
    if is_function(module):
        return {(parent(module), symbol_name(module)): module}
    if module.name not in SYMBOL_TABLES:
        return {}
    found: Callees = {}
    for region in module.regions:
        for block in region.blocks:
            for op in operations(block):
                found |= callable_functions(op)
    return found


def callee_of(op: Any, callees: Callees) -> Any | None:
    """The function that an op calls by name, which may have no body; None if it is not to be seen from here."""
    name = callee_name(op)
    return None if name is None else callees.get((enclosing(op, SYMBOL_TABLES), name))


def callee_with_body(op: Any, callees: Callees) -> Any | None:
    """The same, if it has a body."""
    callee = callee_of(op, callees)
    return callee if callee is not None and has_body(callee) else None


def with_callees(kernel: Any, callees: Callees) -> Iterator[Any]:
    """The ops of a kernel, and of the functions that it calls."""
    pending = [kernel]
    for function in pending:
        for op in walk(function):
            yield op
            callee = callee_of(op, callees)
            if callee is not None and callee not in pending:
                pending.append(callee)


def releases_flags(kernel: Any, callees: Callees) -> bool:
    """Whether a kernel may tell other threads, by a flag, a fence or an op that nobody knows, that what
    it did before is over."""
    return any(
        flag_order(op).release
        for op in with_callees(kernel, callees)
        if callee_with_body(op, callees) is None
    )
