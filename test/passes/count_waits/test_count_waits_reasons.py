"""Each reason code, and that doing what its text says raises the count.

Covers: waits/witness_paths.py, docs/exact-counts.md
"""

import pytest

from helpers.counted_text import function, run
from helpers.paths import ROOT
from mlir_async_pipe.waits.witness_paths import REASONS

COMMIT = '"async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK'
COMMIT_1 = '"async_pipe.commit_queue"() {queue = 1 : i64} : () -> TOK'


def queue_wait(token: str) -> str:
    return f'"async_pipe.wait_queue"({token}) {{queue = 0 : i64}} : (TOK) -> ()'


def body(text: str) -> str:
    return function(text + "\nreturn")


NINE = "".join(f'%k{i} = "test.truth"() : () -> i1\n' for i in range(9))


def nine_commits(count: int) -> str:
    """Nine commits under `count` conditions, and a wait under all of them."""
    lines = ["%a = GROUP"]
    lines += [f"scf.if %k{i % count} {{\n%t = GROUP\n}}" for i in range(9)]
    lines += [f"scf.if %k{i} {{" for i in range(count)]
    return NINE + "\n".join([*lines, "WAIT %a", *["}"] * count])


# code: (program with the reason, the same after doing what the remedy says, options)
CASES = {
    "dynamic-queue": (
        body(
            f'%a = "async_pipe.commit_queue"(%n) : (index) -> TOK\n%b = {COMMIT}\n{queue_wait("%a")}'
        ),
        body(f"%a = {COMMIT}\n%b = {COMMIT}\n{queue_wait('%a')}"),
        "",
    ),
    "crosses-parallel": (
        body("%a = GROUP\n%b = GROUP\nscf.forall (%i) in (%n) {\nWAIT %a\n}"),
        body("scf.forall (%i) in (%n) {\n%a = GROUP\n%b = GROUP\nWAIT %a\n}"),
        "",
    ),
    "queue-mismatch": (
        body(f"%a = {COMMIT_1}\n%b = {COMMIT}\n{queue_wait('%a')}"),
        body(f"%a = {COMMIT}\n%b = {COMMIT}\n{queue_wait('%a')}"),
        "",
    ),
    "consumer-ahead": (
        body(
            f"%a = {COMMIT}\nscf.for %i = %c0 to %n step %c1 {{\n"
            '"async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()\n}'
        ),
        body(
            f"%a = {COMMIT}\n%b = {COMMIT}\n%d0 = {COMMIT}\nscf.for %i = %c0 to %c2 step %c1 {{\n"
            '"async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()\n}'
        ),
        "",
    ),
    "function-scope": (
        f"""
        func.func @f(%t: TOK) {{
          %a = {COMMIT}
          {queue_wait("%t")}
          return
        }}
        """,
        f"""
        func.func @f(%t: TOK) {{
          %a = {COMMIT}
          %b = {COMMIT}
          {queue_wait("%t")}
          return
        }}
        """,
        "chip=gfx950",
    ),
    "correlation-limit": (body(nine_commits(9)), body(nine_commits(8)), ""),
    "recursive-call": (
        """
        func.func @g() {
          %a = GROUP
          func.call @g() : () -> ()
          return
        }
        func.func @f() {
          %a = GROUP
          func.call @h() : () -> ()
          WAIT %a
          return
        }
        func.func @h() {
          func.call @f() : () -> ()
          return
        }
        """,
        """
        func.func @f() {
          %a = GROUP
          func.call @h() : () -> ()
          WAIT %a
          return
        }
        func.func @h() {
          %b = GROUP
          return
        }
        """,
        "",
    ),
    "unknown-call": (
        """
        func.func private @g()
        func.func @f() {
          %a = GROUP
          func.call @g() : () -> ()
          WAIT %a
          return
        }
        """,
        """
        func.func @g() {
          %b = GROUP
          return
        }
        func.func @f() {
          %a = GROUP
          func.call @g() : () -> ()
          WAIT %a
          return
        }
        """,
        "",
    ),
    "unknown-origin": (
        body('%b = GROUP\n%a = "test.token"() : () -> TOK\nWAIT %a'),
        body("%a = GROUP\n%b = GROUP\nWAIT %a"),
        "",
    ),
    "conditional-commit": (
        body("%a = GROUP\nscf.if %c {\n%t = GROUP\n}\nWAIT %a"),
        body("%a = GROUP\nscf.if %c {\n%t = GROUP\n} else {\n%t = GROUP\n}\nWAIT %a"),
        "",
    ),
    "zero-trip-loop": (
        body("%a = GROUP\nscf.for %i = %c0 to %n step %c1 {\n%t = GROUP\n}\nWAIT %a"),
        body("%a = GROUP\nscf.for %i = %c0 to %c7 step %c1 {\n%t = GROUP\n}\nWAIT %a"),
        "",
    ),
    "first-iterations": (
        body("""
          %a = GROUP
          %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (TOK) {
            WAIT %x
            %t = GROUP
            %u = GROUP
            scf.yield %t : TOK
          }
        """),
        body("""
          %a = GROUP
          %b = GROUP
          %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (TOK) {
            WAIT %x
            %t = GROUP
            %u = GROUP
            scf.yield %t : TOK
          }
        """),
        "",
    ),
    "newest-group": (body("%a = GROUP\nWAIT %a"), body("%a = GROUP\n%b = GROUP\nWAIT %a"), ""),
    "uncommitted-copy": (
        body("""
          %g = memref.alloc() : memref<64xf32>
          %s = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
          %p = nvgpu.device_async_copy %g[%c0], %s[%c0], 4 : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
          WAIT %p
        """),
        body("""
          %g = memref.alloc() : memref<64xf32>
          %s = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
          %p = nvgpu.device_async_copy %g[%c0], %s[%c0], 4 : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
          %a = nvgpu.device_async_create_group %p
          %b = GROUP
          WAIT %p
        """),
        "",
    ),
    "unreachable": (
        body("%a = GROUP\n%b = GROUP\nscf.if %false {\nWAIT %a\n}"),
        body("%a = GROUP\n%b = GROUP\nscf.if %c {\nWAIT %a\n}"),
        "",
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_the_remedy_raises_the_count(code):
    low, high, options = CASES[code]
    (before,) = run(low, options)[0].of("waits")
    (after,) = run(high, options)[0].of("waits")
    assert before.reason == code
    assert after.count > before.count


def test_every_code_has_a_case():
    assert set(CASES) | {"exact"} == set(REASONS)


def test_the_docs_list_every_code_with_its_remedy():
    text = (ROOT / "docs" / "exact-counts.md").read_text()
    for reason in REASONS.values():
        assert f"| `{reason.code}` | {reason.meaning} | {reason.remedy}" in text


def test_explain_leaves_the_reason_on_the_wait_and_the_witness_in_the_record():
    text = body("%a = GROUP\nscf.if %c {\n%t = GROUP\n}\n%b = GROUP\nWAIT %a")
    report, after = run(text, explain=True)
    assert 'async_pipe.reason = "conditional-commit"' in after
    (record,) = report.of("waits")
    assert [step.what for step in record.witness] == [
        "the awaited group is committed",
        "past 'scf.if'",
        "a younger group is committed",
    ]


def test_report_holds_the_witness_as_json():
    report = run(body("%a = GROUP\n%b = GROUP\nWAIT %a"))[0]
    (entry,) = report.to_json()["waits"]
    assert [step["groups"] for step in entry["witness"]] == [0, 1]
    assert entry["count"] == 1
