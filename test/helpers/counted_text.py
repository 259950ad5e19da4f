"""Runs the count pass on text, for the tests of it."""

from __future__ import annotations

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Report, Session

TOKEN = "!nvgpu.device.async.token"
GROUP = "nvgpu.device_async_create_group {async_pipe.empty}"
CONSTANTS = "\n".join(
    [
        *(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 7, 10)),
        "%true = arith.constant true",
        "%false = arith.constant false",
    ]
)


def expand(text: str) -> str:
    """`TOK` and `GROUP` stand for the token type and a group; `WAIT %t` for a wait."""
    return (
        text.replace("TOK", TOKEN)
        .replace("GROUP", GROUP)
        .replace("WAIT", "nvgpu.device_async_wait")
    )


def function(body: str, arguments: str = "%n: index, %c: i1, %d: i1") -> str:
    """A func.func @f around a body, with some constants."""
    return expand(f"func.func @f({arguments}) {{\n{CONSTANTS}\n{body}\n}}")


def run(text: str, options: str = "", explain: bool = False, name: str = "count-waits"):
    """The report of a pass on a module, and the module's text after it."""
    found = passes.find(f"async-pipe-{name}")
    session = Session(explain=explain)
    with new_context():
        module = ir.Module.parse(expand(text))
        found.run(module.operation, passes.parse_options(found, options), session)
        assert module.operation.verify()
        return session.report(), str(module)


def records(body: str, options: str = "") -> tuple:
    """The records of the waits of a function with this body."""
    report: Report = run(function(body + "\nreturn"), options)[0]
    return report.of("waits")


def counts(body: str, options: str = "") -> list[int]:
    """The counts of the waits of a function with this body."""
    return [record.count for record in records(body, options)]
