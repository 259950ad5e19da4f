"""One candidate: pipelined, compiled, read back, and run on the machine if there are inputs.

Runs in a process of any executor: a `Task` and its `Outcome` hold texts, numbers and arrays only.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from mlir_async_pipe import api
from mlir_async_pipe.bindings import current, ir, new_context, use
from mlir_async_pipe.bindings.raw_ops import functions
from mlir_async_pipe.chips.occupancy import resident_blocks
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.machine import run
from mlir_async_pipe.machine.timeline import lay_out
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.tuning.outcome import Outcome
from mlir_async_pipe.vocabulary.launch_ids import block_size

# Code that the chip runs, by lowering: ptxas and the AMD back end tell registers.
_EMITTED: dict[str, Literal["cubin", "isa"]] = {"nvvm": "cubin", "rocdl": "isa"}


@dataclass(frozen=True)
class Task:
    """A candidate, ready to be sent: the annotated module's text and what to do with it.

    `options` are keywords of `pipeline`. `inputs` are the arguments of a run on the machine, None
    for none. `stack` names the bindings.
    """

    parameters: dict[str, Any]
    text: str
    target: str
    options: dict[str, Any]
    inputs: tuple[Any, ...] | None
    stack: str

    @property
    def key(self) -> str:
        """The hash of all that the outcome depends on."""
        found = hashlib.sha256()
        version = importlib.metadata.version("mlir-async-pipe")
        for part in (version, self.stack, self.target, self.text, sorted(self.options.items())):
            found.update(repr(part).encode())
        for value in self.inputs or ():
            found.update(repr((np.shape(value), str(np.asarray(value).dtype))).encode())
            found.update(np.ascontiguousarray(value).tobytes())
        found.update(repr(self.inputs is None).encode())
        return found.hexdigest()


def task(
    parameters: dict[str, Any],
    text: str,
    target: str,
    options: dict[str, Any],
    inputs: tuple[Any, ...] | None,
) -> Task:
    """A task for the bindings of this process."""
    return Task(parameters, text, target, options, inputs, current().name)


def evaluate(asked: Task) -> Outcome:
    """The figures of one candidate; one that fails says why, and nothing is raised."""
    try:
        if current().name != asked.stack:
            use(asked.stack)
        with new_context(), ir.Location.unknown():
            return _evaluate(asked)
    except AsyncPipeError as error:
        return Outcome(asked.parameters, error.code, error.diagnostic.message)
    except Exception as error:
        # One bad candidate must not end a search of hours.
        return Outcome(
            asked.parameters, code="internal-error", message=f"{type(error).__name__}: {error}"
        )


def _evaluate(asked: Task) -> Outcome:
    module = ir.Module.parse(asked.text)
    target = Target.parse(asked.target)
    api.pipeline(module, target, witnesses=False, **asked.options)
    lowered = api.lower(module, target=target, emit=_EMITTED[target.lowering])
    found = _read_back(asked, target, module, lowered)
    if asked.inputs is None:
        return found
    ran = run(module, None, asked.inputs, target=target, completion="late")
    if ran.races:
        return replace(found, code=ran.races[0].code, message=str(ran.races[0]))
    timeline = lay_out(ran.trace, CostModel.parse("", target))
    return replace(found, cycles=timeline.total, stalls=timeline.stalls)


def _read_back(asked: Task, target: Target, module: Any, lowered: Any) -> Outcome:
    """Registers, spills and memory of the first kernel, and how many blocks fit with them."""
    kernel = lowered.kernels[0]
    if target.lowering == "nvvm":
        used = kernel.resources
        registers, memory = used.registers, used.static_shared_bytes + kernel.dynamic_shared_bytes
        spills = used.spill_store_bytes + used.spill_load_bytes
    else:
        registers, memory = kernel.vector_registers, kernel.workgroup_bytes or 0
        spills = 4 * ((kernel.vector_spills or 0) + (kernel.scalar_spills or 0))
    threads = _threads(module)
    blocks = None if threads is None else resident_blocks(target.chip, threads, registers, memory)
    return Outcome(
        asked.parameters,
        registers=registers,
        spill_bytes=spills,
        shared_bytes=memory,
        blocks=blocks,
        text=lowered.text,
        binary=lowered.binary,
    )


def _threads(module: Any) -> int | None:
    """Threads of a block of the one kernel, None where nothing says so."""
    sizes = {block_size(function) for function in functions(module.operation)}
    size = sizes.pop() if len(sizes) == 1 else None
    return None if size is None else size[0] * size[1] * size[2]
