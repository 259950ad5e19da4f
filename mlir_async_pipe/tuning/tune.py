"""Tries every candidate of a space, and tells them in order.

    found = tune(build, {"num_stages": [2, 3, 4], "tile": [64, 128]}, target="nvvm:sm_80")
    print(found.table())
    found.best.parameters

Modules are built here, one after the other; pipelining, compiling and runs on the machine go to
an executor, as text. What fails is a row that says why, not the end of the search.
"""

from __future__ import annotations

import csv
import inspect
import io
import itertools
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mlir_async_pipe import api
from mlir_async_pipe.bindings import current, ir, new_context, use
from mlir_async_pipe.bindings.raw_ops import functions
from mlir_async_pipe.cache import key_here
from mlir_async_pipe.chips.occupancy import resident_blocks
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.machine import run
from mlir_async_pipe.machine.timeline import lay_out
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError
from mlir_async_pipe.session.plugins import library
from mlir_async_pipe.vocabulary.launch_ids import block_size

_COLUMNS = ("registers", "spill_bytes", "shared_bytes", "blocks", "cycles", "stalls", "cost")


@dataclass(frozen=True)
class Tuning:
    """The outcomes of a search, the best one first, those without code last."""

    outcomes: tuple[Outcome, ...]

    @property
    def best(self) -> Outcome:
        """The first one. Raises UsageError (no-candidate) if none has code."""
        first = self.outcomes[0]
        if first.failed:
            raise UsageError(
                f"no candidate has code: {first.parameters} fails with [{first.code}] {first.message}",
                code="no-candidate",
            )
        return first

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a candidate: its parameters, then its figures."""
        return [
            {**o.parameters, **{c: getattr(o, c) for c in _COLUMNS}, "failure": o.code}
            for o in self.outcomes
        ]

    def table(self) -> str:
        """The rows as text. Needs `rich` (pip install '.[tune]')."""
        rich_console, rich_table = _extra("rich.console"), _extra("rich.table")
        rows = self.rows()
        table = rich_table.Table(*rows[0])
        for row in rows:
            table.add_row(*("" if value is None else str(value) for value in row.values()))
        text = io.StringIO()
        rich_console.Console(file=text, width=200).print(table)
        return text.getvalue()

    def to_csv(self, path: str | Path) -> None:
        rows = self.rows()
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def plot(self, path: str | Path) -> None:
        """Draw what candidates were sorted by, a bar each; the file's ending says the format.
        Needs `matplotlib` (pip install '.[tune]')."""
        figure_of = _extra("matplotlib.figure").Figure
        shown = [o for o in self.outcomes if not o.failed]
        by_cost = any(o.cost is not None for o in shown)
        heights = [(o.cost if by_cost else o.cycles_of_work) or 0 for o in shown]
        figure = figure_of(figsize=(6, 1 + 0.3 * len(shown)), layout="constrained")
        axes = figure.subplots()
        names = [" ".join(f"{k}={v}" for k, v in o.parameters.items()) for o in shown]
        axes.barh(range(len(shown)), heights, tick_label=names)
        axes.invert_yaxis()
        axes.set_xlabel("measured cost" if by_cost else "cycles for a unit of work")
        figure.savefig(path)


@called_by_users
def tune(
    build: Callable[..., Any],
    space: Mapping[str, Sequence[Any]],
    *,
    target: Target | str,
    cost: Callable[[Outcome], float] | None = None,
    inputs: Callable[..., Iterable[Any]] | None = None,
    work: Callable[..., float] | None = None,
    keep: int | None = None,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: bool = False,
) -> Tuning:
    """Try every candidate of `space`.

    `build`: makes the annotated module (or its text) from the parameters that it names; it is
    called inside of a context. The other parameters are options of `pipeline`.
    `space`: the values of each parameter.
    `cost`: measures one candidate (its `binary` or `text` on a GPU, say), less is better; called
    here, one after the other. Without it candidates are sorted by their figures (`Outcome.order`).
    `inputs`: makes the kernel's arguments from the parameters that it names; then each candidate
    runs on the machine with late completion: one that races is a failure, and cycles are reported.
    `work`: how much one block does in that run, from the parameters that it names (elements of C
    times k, say), so that tiles of different sizes compare; else all do the same.
    `keep`: only so many of the best by figures are measured.
    `executor`: any `concurrent.futures.Executor`; a pool of processes by default. `map` is not
    used, so a cluster's will do (docs/tuning.md).
    `store`: an SQLite file that keeps outcomes and costs; what it has is not tried again, so
    another way to measure takes another file.
    `progress`: shows a bar on standard error (needs `rich`).

    Raises UsageError (empty-space, unknown-parameter, unknown-target, bad-store)."""
    if isinstance(target, str):
        target = Target.parse(target)
    chosen = candidates(space)
    divided(build, chosen[0])
    with closing(Store(store)) as kept:
        found: dict[int, Outcome] = {}
        tasks: dict[int, Task] = {}
        for number, parameters in enumerate(chosen):
            try:
                tasks[number] = _task(build, parameters, str(target), inputs)
            except Exception as error:
                found[number] = _failure(parameters, error, code="build-failed")
        keys = {number: task.key for number, task in tasks.items()}
        for number, key in keys.items():
            before = kept.get(key)
            if before is not None:
                found[number] = replace(before, parameters=chosen[number])
        left = {number: task for number, task in tasks.items() if number not in found}
        with _bar(progress, len(left)) as advance:
            for number, outcome in _evaluated(left, executor):
                found[number] = outcome
                # What the next attempt may do better is not kept.
                if outcome.code != "worker-failed":
                    kept.put(keys[number], outcome)
                advance()
        if work is not None:
            for number, outcome in found.items():
                done = _of_its_own(work, outcome.parameters)
                found[number] = replace(outcome, work=done)
        if cost is None:
            found = {number: replace(outcome, cost=None) for number, outcome in found.items()}
        else:
            for number in _best(found, keep):
                found[number] = _measured(found[number], cost)
                kept.put(keys[number], found[number])
    return Tuning(tuple(sorted(found.values(), key=lambda outcome: outcome.order)))


def _task(
    build: Callable[..., Any],
    parameters: dict[str, Any],
    target: str,
    inputs: Callable[..., Iterable[Any]] | None,
) -> Task:
    built, options = divided(build, parameters)
    with new_context(), ir.Location.unknown():
        text = str(build(**built))
    arguments = None if inputs is None else tuple(_of_its_own(inputs, parameters))
    return Task(parameters, text, target, options, arguments, current().name)


def _of_its_own(function: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
    """What a function makes of the parameters that it names."""
    wanted = inspect.signature(function).parameters
    return function(**{name: value for name, value in parameters.items() if name in wanted})


def _evaluated(tasks: dict[int, Task], executor: Executor | None) -> Iterator[tuple[int, Outcome]]:
    """The outcomes as they come."""
    if not tasks:
        return
    if executor is None:
        workers = min(len(tasks), os.cpu_count() or 1)
        # A forked process would share the bindings' threads and locks.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield from _evaluated(tasks, pool)
        return
    futures = {executor.submit(evaluate, task): number for number, task in tasks.items()}
    for future in as_completed(futures):
        number = futures[future]
        # A process may die, and a cluster may lose one.
        try:
            yield number, future.result()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            yield number, Outcome(tasks[number].parameters, code="worker-failed", message=said)


def _best(found: dict[int, Outcome], keep: int | None) -> list[int]:
    """The candidates to be measured: the best `keep` by figures that have no cost yet."""
    usable = [number for number, outcome in found.items() if not outcome.failed]
    usable.sort(key=lambda number: replace(found[number], cost=None).order)
    return [number for number in usable[:keep] if found[number].cost is None]


def _measured(outcome: Outcome, cost: Callable[[Outcome], float]) -> Outcome:
    """The outcome with its cost; one that cannot be measured is a failure."""
    try:
        return replace(outcome, cost=float(cost(outcome)))
    except Exception as error:
        return replace(outcome, code="cost-failed", message=f"{type(error).__name__}: {error}")


@contextmanager
def _bar(shown: bool, total: int) -> Iterator[Callable[[], None]]:
    if not shown:
        yield lambda: None
        return
    console = _extra("rich.console").Console(stderr=True)
    with _extra("rich.progress").Progress(console=console) as progress:
        bar = progress.add_task("candidates", total=total)
        yield lambda: progress.advance(bar)


def _extra(module: str) -> Any:
    return library(module, extra="tune", wanted_by="a table, plot or progress bar of a search")


# What is tried -------------------------------------------------------------------------------

# What `pipeline` is given here itself.
_NOT_OPTIONS = frozenset({"module", "target", "check", "witnesses"})
OPTIONS = frozenset(inspect.signature(api.pipeline).parameters) - _NOT_OPTIONS


def candidates(space: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every choice of one value for each parameter, the last parameter changing fastest. Raises UsageError
    (empty-space) for a space without candidates."""
    empty = [name for name, values in space.items() if not len(values)]
    if empty or not space:
        raise UsageError(
            f"parameter '{empty[0]}' has no values" if empty else "the space has no parameters",
            code="empty-space",
            advice="tune(build, {'num_stages': [2, 3, 4]}, …)",
        )
    return [dict(zip(space, chosen, strict=True)) for chosen in itertools.product(*space.values())]


def divided(
    build: Callable[..., Any], parameters: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `build`, and the options of `pipeline`. Raises UsageError (unknown-parameter) for a
    parameter that neither takes."""
    taken = inspect.signature(build).parameters
    takes_all = any(given.kind is given.VAR_KEYWORD for given in taken.values())
    built = {n: v for n, v in parameters.items() if n in taken or (takes_all and n not in OPTIONS)}
    options = {name: value for name, value in parameters.items() if name not in built}
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"parameter '{name}' is neither an argument of the builder nor an option of pipeline",
                code="unknown-parameter",
                advice=f"pipeline has {', '.join(sorted(OPTIONS))}",
            )
    return built, options


# What is kept --------------------------------------------------------------------------------

_TABLE = """
CREATE TABLE IF NOT EXISTS outcomes (
  key TEXT PRIMARY KEY, figures TEXT NOT NULL, text TEXT NOT NULL, binary BLOB NOT NULL
)"""


class Store:
    """The outcomes in the file at `path`; in memory without one."""

    def __init__(self, path: str | Path | None) -> None:
        """Raises UsageError (bad-store) for a file that is no SQLite database of ours."""
        self._path = path
        with self._said():
            self._connection = sqlite3.connect(":memory:" if path is None else path, timeout=60)
            self._connection.execute(_TABLE)
            self._connection.execute("SELECT key, figures, text, binary FROM outcomes LIMIT 1")

    def get(self, key: str) -> Outcome | None:
        with self._said():
            row = self._connection.execute(
                "SELECT figures, text, binary FROM outcomes WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Outcome(**json.loads(row[0]), text=row[1], binary=row[2])

    def put(self, key: str, outcome: Outcome) -> None:
        """Keep `outcome` under `key`; it is on disk when this returns."""
        fields = asdict(outcome)
        text, binary = fields.pop("text"), fields.pop("binary")
        row = (key, json.dumps(fields, default=str), text, binary)
        with self._said(), self._connection:
            self._connection.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            why = f"'{self._path}' cannot keep results: {error}"
            advice = "name a file that is new, or one of an earlier search"
            raise UsageError(why, code="bad-store", advice=advice) from error


# One candidate: pipelined, compiled, read back, and run on the machine if there are inputs.
#
# Runs in a process of any executor: a `Task` and its `Outcome` hold texts, numbers and arrays only.

# Code that the chip runs, by lowering: ptxas and the AMD back end tell registers.
_EMITTED: dict[str, Literal["cubin", "isa"]] = {"nvvm": "cubin", "rocdl": "isa"}


@dataclass(frozen=True)
class Task:
    """A candidate, ready to be sent: the annotated module's text and what to do with it.

    `options` are keywords of `pipeline`. `inputs` are the arguments of a run on the machine, None
    for none. `stack` names the bindings."""

    parameters: dict[str, Any]
    text: str
    target: str
    options: dict[str, Any]
    inputs: tuple[Any, ...] | None
    stack: str

    @property
    def key(self) -> str:
        """The hash of all that the outcome depends on."""
        arrays = [np.ascontiguousarray(value) for value in self.inputs or ()]
        shapes = [(np.shape(value), str(np.asarray(value).dtype)) for value in self.inputs or ()]
        options, runs = sorted(self.options.items()), self.inputs is not None
        content = (array.tobytes() for array in arrays)
        of = (version("mlir-async-pipe"), self.stack, self.target, self.text, options, runs, shapes)
        return key_here("outcome", *of, *content)


def evaluate(asked: Task) -> Outcome:
    """The figures of one candidate; one that fails says why, and nothing is raised."""
    try:
        if current().name != asked.stack:
            use(asked.stack)
        with new_context(), ir.Location.unknown():
            return _evaluate(asked)
    # One bad candidate must not end a search of hours.
    except Exception as error:
        return _failure(asked.parameters, error, code="internal-error")


def _failure(parameters: dict[str, Any], error: Exception, code: str) -> Outcome:
    """The outcome of a candidate that ended with an error; `code` is that of one that is none of ours."""
    if isinstance(error, AsyncPipeError):
        return Outcome(parameters, error.code, error.diagnostic.message)
    return Outcome(parameters, code, f"{type(error).__name__}: {error}")


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
    return None if size is None else prod(size)


@dataclass(frozen=True)
class Outcome:
    """One candidate and its figures; None where a figure was not made.

    `parameters`: the values of the space. `code`, `message`: why there is no code, "" where there
    is. `registers`: of 32 bits, a thread. `spill_bytes`: stored and loaded, a thread.
    `shared_bytes`: of a block. `blocks`: that one multiprocessor holds at once. `cycles`,
    `stalls`: of thread 0 on the machine, by the table of costs. `cost`: what the caller measured,
    `work`: what the caller says that one block does.
    `text`, `binary`: the emitted code."""

    parameters: dict[str, Any]
    code: str = ""
    message: str = ""
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    blocks: int | None = None
    cycles: float | None = None
    stalls: float | None = None
    cost: float | None = None
    work: float = 1
    text: str = field(default="", repr=False)
    binary: bytes = field(default=b"", repr=False)

    @property
    def failed(self) -> bool:
        """Whether there is no code, or none that may be used."""
        return bool(self.code)

    @property
    def cycles_of_work(self) -> float | None:
        """Cycles of a multiprocessor for one unit of work, with `blocks` blocks resident.

        While one block stalls another one computes: B blocks take max(total, B * (total - stalls))
        cycles. 1000 cycles with 600 of them stalled: 1000 for one block, 500 each for two, 400 each
        for three or more; that is divided by what each block does."""
        if self.cycles is None or self.stalls is None:
            return None
        of_block = max(self.cycles / max(self.blocks or 1, 1), self.cycles - self.stalls)
        return of_block / self.work

    @property
    def order(self) -> tuple[Any, ...]:
        """What candidates are sorted by, the best one first: those with code; measured ones by
        their cost; those without spills; fewest cycles for their work; most blocks; fewest
        registers; and the parameters, so that the order never depends on who came first."""
        return (
            self.failed,
            _known(self.cost),
            bool(self.spill_bytes),
            _known(self.cycles_of_work),
            -(self.blocks or 0),
            _known(self.registers),
            json.dumps(self.parameters, sort_keys=True, default=str),
        )


def _known(number: float | None) -> tuple[bool, float]:
    return number is None, number or 0
