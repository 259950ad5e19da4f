"""The registry of passes: a name, its options as a frozen dataclass, and a function.

A pass is `run(module_op, options, session)`; it raises AsyncPipeError for what must stop and
tells everything else to the session. The command line, pipeline text and Python calls all
find passes here, and all read the same options.

    async-pipe-count-waits{chip=sm_80 mode=dynamic check}

An option without value means true; unknown options and values of the wrong type are errors.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.session import plugins
from mlir_async_pipe.session.arguments import did_you_mean, nearest
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.nesting import WhileAny
from mlir_async_pipe.session.report import Session

Run = Callable[[Any, Any, Session], None]


@dataclass(frozen=True)
class NoOptions:
    """The options of a pass that has none."""


@dataclass(frozen=True)
class Pass:
    name: str
    summary: str
    options: type
    run: Run
    # The passes that it consists of, with their options, for one that runs others in turn; none
    # where these options ask for more than that.
    members: Callable[[Any], list[tuple[Pass, Any]]] | None = None


# What `async-pipe-normalise` runs, in order, and where each rewrite stands. Affine first: the others know loops of
# scf only. Copies of tiles before guards, which may stand around them; both before the nests, where loops that load
# are distinguished from loops that do not; tiles are laid out before a loop gets versions; slots last, where the loops
# are as they will be scheduled.
_NORMALISING = {
    "async-pipe-normalise-affine": "affine_loops",
    "async-pipe-normalise-tile-copies": "affine_loops",
    "async-pipe-normalise-guards": "guarded_stores",
    "async-pipe-normalise-nests": "sink_annotations",
    "async-pipe-normalise-mbarriers": "raise_mbarriers",
    "async-pipe-normalise-addresses": "own_buffers",
    "async-pipe-normalise-predicates": "raise_mbarriers",
    "async-pipe-normalise-buffers": "own_buffers",
    "async-pipe-normalise-swizzle": "swizzle_tiles",
    "async-pipe-normalise-alignment": "aligned_versions",
    "async-pipe-normalise-loads": "guarded_stores",
    "async-pipe-normalise-slots": "own_buffers",
}
NORMALISING = tuple(_NORMALISING)
# From annotated loops to pipelines with tokens.
PIPELINING = (*NORMALISING, "async-pipe-schedule", "async-pipe-expand")

# Where each pass lives; imported when it is first asked for, so that start-up stays short.
_MODULES: dict[str, str] = {
    "async-pipe-raise-loops": "mlir_async_pipe.pipeliner.normalise.raise_loops",
    "async-pipe-warn-unannotated": "mlir_async_pipe.pipeliner.async_pipe_pass",
    "async-pipe-cursors": "mlir_async_pipe.waits.ssa.cursors",
    "async-pipe-recount": "mlir_async_pipe.pipeliner.ask_checker.attach_tokens",
    "async-pipe-normalise": "mlir_async_pipe.pipeliner.normalise.normalise_pass",
    **{
        name: f"mlir_async_pipe.pipeliner.normalise.{module}"
        for name, module in _NORMALISING.items()
    },
    "async-pipe-schedule": "mlir_async_pipe.pipeliner.schedule.schedule_pass",
    "async-pipe-suggest": "mlir_async_pipe.pipeliner.schedule.suggest",
    "async-pipe-expand": "mlir_async_pipe.pipeliner.expand.expand_pass",
    "async-pipe-turns": "mlir_async_pipe.pipeliner.expand.wave_turns",
    "async-pipe-stores": "mlir_async_pipe.pipeliner.expand.stores_pass",
    "async-pipe-barriers": "mlir_async_pipe.pipeliner.ask_checker.needed_barriers",
    "async-pipe-count-waits": "mlir_async_pipe.waits.count_pass",
    "async-pipe-drop-drains": "mlir_async_pipe.pipeliner.ask_checker.needed_barriers",
    "async-pipe-drop-barriers": "mlir_async_pipe.pipeliner.ask_checker.needed_barriers",
    "async-pipe-simplify-waits": "mlir_async_pipe.waits.simplify",
    "async-pipe-tokens": "mlir_async_pipe.pipeliner.ask_checker.attach_tokens",
    "async-pipe-check": "mlir_async_pipe.checker.check_pass",
    "async-pipe-to-nvvm": "mlir_async_pipe.lowering.nvvm.to_nvvm",
    "async-pipe-split-addresses": "mlir_async_pipe.lowering.split_addresses",
    "async-pipe-to-rocdl": "mlir_async_pipe.lowering.rocdl.to_rocdl",
    "async-pipe": "mlir_async_pipe.pipeliner.async_pipe_pass",
}
_registered: dict[str, Pass] = {}


def register(
    name: str,
    summary: str,
    options: type = NoOptions,
    members: Callable[[Any], list[tuple[Pass, Any]]] | None = None,
) -> Callable[[Run], Run]:
    """Decorator: make a function known as the pass `name`."""

    def remember(run: Run) -> Run:
        _registered[name] = Pass(name, summary, options, collected_rarely(run), members)
        return run

    return remember


def is_ours(name: str) -> bool:
    """Whether a pass name belongs to this package (whether or not such a pass exists)."""
    known = name in _MODULES or name in _registered or name.startswith("async-pipe")
    return known or name in plugins.entries("passes")


def names() -> tuple[str, ...]:
    """The names of all passes, in the order of the pipeline; then those of other packages."""
    known = [name for name in _MODULES if _exists(name)]
    others = [*_registered, *plugins.entries("passes")]
    return tuple(dict.fromkeys([*known, *(name for name in others if name not in _MODULES)]))


def find(name: str) -> Pass:
    """The pass called `name`; raises UsageError (unknown-pass)."""
    if name not in _registered and name in _MODULES and _exists(name):
        importlib.import_module(_MODULES[name])
    if name not in _registered and name in plugins.entries("passes"):
        plugins.entries("passes")[name].load()
    if name not in _registered:
        advice = did_you_mean(name, names(), "passes of this package")
        raise UsageError(f"unknown pass '{name}'", code="unknown-pass", advice=advice)
    return _registered[name]


def parse_options(found: Pass, text: str) -> Any:
    """Read `key=value key2 …` into the options dataclass of a pass. Raises UsageError (unknown-option,
    bad-option-value)."""
    items = (item.partition("=") for item in text.split())
    return read_options(found, ((key, value if equals else "true") for key, equals, value in items))


def read_options(found: Pass, items: Iterable[tuple[str, str]]) -> Any:
    """The options dataclass of a pass from keys and the texts of their values, likewise."""
    values: dict[str, Any] = {}
    fields = {f.name.replace("_", "-"): f for f in dataclasses.fields(found.options)}
    for key, value in items:
        field = fields.get(key.replace("_", "-"))
        if field is None:
            why = f"pass '{found.name}' has no option '{key}'"
            advice = did_you_mean(key, fields, "its options")
            raise UsageError(why, code="unknown-option", advice=advice)
        values[field.name] = _convert(found.name, key, field, value)
    return found.options(**values)


def options_for(name: str, options: Any, settings: Mapping[str, Any] | None = None) -> Any:
    """The options of the pass `name`: `settings`, and what another pass has under the same names."""
    wanted = find(name).options
    names = {entry.name for entry in dataclasses.fields(wanted)}
    given = {key: value for key, value in vars(options).items() if key in names}
    return wanted(**{**given, **(settings or {})})


def run_one(name: str, module: Any, session: Session, **values: Any) -> None:
    """Run a pass with its defaults, and with `values` where it has such options."""
    found = find(name)
    found.run(module, with_defaults(found.options(), values), session)


def run_all(names: Iterable[str], module: Any, options: Any, session: Session) -> None:
    """Run passes in turn, each with the options that it has in common with `options`."""
    for name in names:
        with session.measured(name):
            find(name).run(module, options_for(name, options), session)


def with_defaults(options: Any, values: dict[str, Any]) -> Any:
    """The options with `values` put in where a pass has such a field and it was not given."""
    fields = {entry.name: entry.default for entry in dataclasses.fields(options)}
    taken = {
        name: value
        for name, value in values.items()
        if name in fields and getattr(options, name) == fields[name]
    }
    return dataclasses.replace(options, **taken)


def _convert(pass_name: str, key: str, field: Any, text: str) -> Any:
    kind = str(field.type)
    near = ""
    if kind.startswith("bool"):
        if text in ("true", "1"):
            return True
        if text in ("false", "0"):
            return False
        expected = "true or false"
    elif kind.startswith("int"):
        if text.isdecimal():
            return int(text)
        expected = "a whole number of 0 or more"
    else:
        choices = field.metadata.get("choices")
        if choices is None or text in choices:
            return text
        expected = "one of " + ", ".join(choices)
        near = nearest(text, choices)
    why = f"option '{key}' of pass '{pass_name}' is '{text}', expected {expected}"
    raise UsageError(why, code="bad-option-value", advice=f"did you mean '{near}'?" if near else "")


def _exists(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(_MODULES[name])
        # A folder without __init__.py is found as a package without origin.
        return spec is not None and spec.origin is not None
    except ModuleNotFoundError:
        return False


# The garbage collector -----------------------------------------------------------------------

# New objects between two collections; Python's default is 700 or 2000.
_RARELY = 100_000


def _collect_rarely() -> Callable[[], None]:
    before = gc.get_threshold()
    if 0 < before[0] < _RARELY:
        gc.set_threshold(_RARELY, *before[1:])
    return lambda: gc.set_threshold(*before)


# While what it decorates runs, in any thread, a collection comes after 10^5 new objects. A collector that
# is off, or set to be rarer still, stays so; afterwards it is as before.
collected_rarely = WhileAny(_collect_rarely)
