"""Writes the loop of a pipeline as it would run one iteration after the other, to be expanded.

    pipe.loop(0, n, 32, load, use, zero)  -->  %r = scf.for %i = %c0 to %n step %c32 iter_args(%x = %zero) {
                                                 load(%i, slot)
                                                 gpu.barrier
                                                 %y = use(%i, slot, %x)
                                                 gpu.barrier
                                                 scf.yield %y
                                               } {async_pipe.num_stages = 3}

The barriers make it right as it stands; the expander keeps those that the pipeline needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, Value, create
from mlir_async_pipe.bindings.structured_ops import write_for
from mlir_async_pipe.builder.caller import here, located, misuse
from mlir_async_pipe.builder.participants import writer
from mlir_async_pipe.facts.loops.annotations import annotate
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary.barriers import write_fence


@dataclass(frozen=True)
class Loop:
    bounds: tuple[Value | int, ...]
    load: Callable[..., Any]
    use: Callable[..., Any]
    init: Value | Sequence[Value]
    options: dict[str, Any]

    def write(self, slots: Any, depth: int, barriers: bool) -> Any:
        """Write it at the current insertion point; what it carries at its end."""
        build = writer()
        bounds = [build.constant(at) if isinstance(at, int) else at for at in self.bounds]
        init: Any = self.init
        single = isinstance(init, ir.Value)
        initial = [init] if single else list(init)
        loop = write_for(bounds, initial, build.ip, here())
        body = loop.regions[0].blocks[0]
        number, *carried = list(body.arguments)
        with _whole_or_gone(loop), ir.InsertionPoint(body) as ip, located():
            self.load(number, slots)
            if barriers:
                write_fence(("workgroup",), ip, here())
            following = self._following(self.use(number, slots, *carried), initial)
            if barriers:
                write_fence(("workgroup",), ip, here())
            create("scf.yield", following, ip=ip, loc=here())
        annotate(loop, num_stages=depth, **self.options)
        results = tuple(loop.results)
        return results[0] if single else results

    def _following(self, given: Any, initial: list[Value]) -> list[Value]:
        """What `use` returned, as the values that the next iteration is handed."""
        values = _values(given)
        expected = [value.type for value in initial]
        if [value.type for value in values] != expected:
            code = self.use.__code__ if hasattr(self.use, "__code__") else None
            at = Place(code.co_filename, code.co_firstlineno, 1) if code else None
            raise misuse(
                f"'use' returns {_listed(values)}, and the loop carries "
                f"({', '.join(map(str, expected))})",
                code="loop-results",
                at=at,
            )
        return values


@contextmanager
def _whole_or_gone(op: Operation) -> Iterator[None]:
    """An op that is not finished because of an error is erased."""
    try:
        yield
    except BaseException:
        op.erase()
        raise


def _values(given: Any) -> list[Any]:
    """The values of what a function returned: nothing, values, ops (a store has none), or several."""
    if given is None:
        return []
    if isinstance(given, ir.Value):
        return [given]
    if hasattr(given, "operation"):
        return list(given.operation.results)
    return [value for one in given for value in _values(one)]


def _listed(values: list[Any]) -> str:
    return f"({', '.join(str(value.type) for value in values)})"
