"""Counts on small programs, each with the number that a person would work out by hand."""

from mlir_async_pipe import passes
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.report import Session

TOKEN = "!nvgpu.device.async.token"
GROUP = "nvgpu.device_async_create_group {async_pipe.empty}"


def counts(body: str, arguments: str = "%n: index, %c: i1") -> list[int]:
    """The counts of a function with this body, in textual order; `TOK` stands for the type."""
    text = f"func.func @f({arguments}) {{\n{CONSTANTS}\n{body}\nreturn\n}}"
    return counts_of(text.replace("TOK", TOKEN).replace("GROUP", GROUP))


def counts_of(module: str, options: str = "") -> list[int]:
    """The counts of a module."""
    found = passes.find("async-pipe-count-waits")
    session = Session()
    with new_context():
        parsed = ir.Module.parse(module)
        found.run(parsed.operation, passes.parse_options(found, options), session)
        assert parsed.operation.verify()
    return [record.count for record in session.report().of("waits")]


CONSTANTS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
"""


def test_groups_committed_after_the_awaited_one_may_stay_in_flight():
    body = """
      %a = GROUP
      %b = GROUP
      nvgpu.device_async_wait %a
      nvgpu.device_async_wait %b
    """
    assert counts(body) == [1, 0]


def test_shift_register_through_a_loop_keeps_its_depth():
    body = """
      %a = GROUP
      %b = GROUP
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (TOK, TOK) {
        nvgpu.device_async_wait %x
        %t = GROUP
        nvgpu.device_async_wait %x
        scf.yield %y, %t : TOK, TOK
      }
      nvgpu.device_async_wait %r#0
      nvgpu.device_async_wait %r#1
    """
    assert counts(body) == [1, 2, 1, 0]
