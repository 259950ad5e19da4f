"""Counts of less common forms, each with the number worked out by hand.

Covers: waits/count_pass.py, facts/flow/flow_graph.py, vocabulary/async_ops.py
"""

import pytest

from helpers.counted_text import counts, function, records, run
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

LLVM = """
  llvm.func @f(%c: i1) {
    %a = GROUP
    llvm.cond_br %c, ^more, ^end
  ^more:
    %t = GROUP
    WAIT %a
    llvm.br ^end
  ^end:
    %u = GROUP
    WAIT %a
    llvm.return
  }
"""


def test_llvm_function_with_blocks():
    """Its branches hand on no tokens, so nothing is counted at run time there."""
    report, text = run(LLVM, "mode=dynamic")
    assert [record.count for record in report.of("waits")] == [1, 1]
    assert [item.code for item in report.diagnostics] == ["dynamic-unsupported"]
    assert "index_switch" not in text


def test_llvm_branches_get_no_tokens():
    text = LLVM.replace("%a = GROUP", "nvvm.cp.async.commit.group")
    text = text.replace("%t = GROUP", "nvvm.cp.async.commit.group")
    text = text.replace("%u = GROUP", "nvvm.cp.async.commit.group")
    report, after = run(text.replace("WAIT %a", "nvvm.cp.async.wait.group 1"), name="tokens")
    assert [item.code for item in report.diagnostics] == ["no-token-form"] * 2
    assert after.count("nvvm.cp.async.wait.group 1") == 2


def test_switch_between_blocks_takes_the_case_with_fewest_groups():
    text = function("""
      %a = GROUP
      %f = arith.index_cast %n : index to i32
      cf.switch %f : i32, [default: ^two(%a : TOK), 1: ^one(%a : TOK), 7: ^end(%a : TOK)]
    ^two(%x: TOK):
      %t = GROUP
      cf.br ^one(%x : TOK)
    ^one(%y: TOK):
      %u = GROUP
      WAIT %y
      cf.br ^end(%u : TOK)
    ^end(%z: TOK):
      WAIT %z
      return
    """)
    assert [record.count for record in run(text)[0].of("waits")] == [1, 0]


def test_invariant_token_grows_older_with_every_iteration():
    body = """
      %a = GROUP
      %b = GROUP
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (TOK) {
        WAIT %x
        %t = GROUP
        WAIT %x
        scf.yield %x : TOK
      }
      WAIT %r
    """
    assert counts(body) == [1, 2, 1]


def test_a_billion_trips_shift_tokens():
    body = """
      %a = GROUP
      %big = arith.constant 1000000000 : index
      %r:2 = scf.for %i = %c0 to %big step %c1 iter_args(%x = %a, %y = %a) -> (TOK, TOK) {
        %t = GROUP
        %u = GROUP
        scf.yield %y, %t : TOK, TOK
      }
      WAIT %r#0
      WAIT %r#1
    """
    assert counts(body) == [3, 1]


@pytest.mark.parametrize(
    ("lower", "upper", "step", "kind", "trips"),
    [
        (-3, 2, 1, "index", 5),
        (-3, 2, 4, "i32", 2),
        (5, -5, 1, "i64", 0),
        (-8, -1, 3, "i8", 3),
        (0, 100, 1000, "index", 1),
    ],
)
def test_trips_of_any_range_step_and_type(lower, upper, step, kind, trips):
    body = f"""
      %a = GROUP
      %l = arith.constant {lower} : {kind}
      %u = arith.constant {upper} : {kind}
      %s = arith.constant {step} : {kind}
      scf.for %i = %l to %u step %s{"" if kind == "index" else f" : {kind}"} {{
        %t = GROUP
      }}
      WAIT %a
    """
    assert counts(body) == [trips]


def test_index_switch_without_results_takes_the_least():
    body = """
      %a = GROUP
      scf.index_switch %n
      case 1 {
        %t = GROUP
        %u = GROUP
        scf.yield
      }
      default {
        %t = GROUP
        scf.yield
      }
      WAIT %a
    """
    assert counts(body) == [1]


def test_constant_index_switch_takes_its_case():
    body = """
      %a = GROUP
      scf.index_switch %c3
      case 3 {
        %t = GROUP
        %u = GROUP
        scf.yield
      }
      default {
      }
      WAIT %a
    """
    assert counts(body) == [2]


AFFINE = """
  %a = GROUP
  %r = affine.for %i = 0 to {upper} iter_args(%x = %a) -> (TOK) {{
    %t = GROUP
    affine.if affine_set<(d0) : (d0 - 1 >= 0)>(%i) {{
      %u = GROUP
    }}
    affine.yield %x : TOK
  }}
  WAIT %r
"""


@pytest.mark.parametrize(("upper", "expected"), [("5", 5), ("%n", 0)])
def test_affine_loop_counts_its_trips_and_a_condition_the_fewer(upper, expected):
    assert counts(AFFINE.format(upper=upper)) == [expected]


def test_affine_condition_hands_on_either_token():
    body = """
      %a = GROUP
      %b = GROUP
      %r = affine.if affine_set<(d0) : (d0 - 1 >= 0)>(%n) -> TOK {
        affine.yield %a : TOK
      } else {
        affine.yield %b : TOK
      }
      %t = GROUP
      WAIT %r
    """
    assert counts(body) == [1]


@pytest.mark.parametrize(
    "head",
    [
        "scf.forall (%t) in (%n) {",
        "scf.parallel (%t) = (%c0) to (%n) step (%c1) {",
        "affine.parallel (%t) = (0) to (4) {",
    ],
)
def test_tokens_do_not_cross_into_parallel_loops_nor_groups_out_of_them(head):
    """Inside, where a thread does all of its own work, its own groups count exactly."""
    body = f"""
      %a = GROUP
      {head}
        WAIT %a
        %e = GROUP
        %g = GROUP
        WAIT %e
      }}
      WAIT %a
    """
    found = records(body)
    assert [(r.count, r.reason) for r in found[:2]] == [(0, "crosses-parallel"), (1, "exact")]
    assert found[2].count == 0


def test_alloca_scope_runs_in_place():
    body = """
      %a = GROUP
      %r = memref.alloca_scope -> (TOK) {
        %t = GROUP
        memref.alloca_scope.return %a : TOK
      }
      WAIT %r
    """
    assert counts(body) == [1]


def test_marks_are_clamped_to_what_the_back_end_tells_apart():
    commit = '"async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK'
    lines = [f"%t{i} = {commit}" for i in range(20)]
    wait = '"async_pipe.wait_queue"(%t0) {queue = 0 : i64} : (TOK) -> ()\nreturn'
    report = run(function("\n".join([*lines, wait])), "chip=gfx950")[0]
    (record,) = report.of("waits")
    assert (record.count, record.exact) == (15, 19)
    assert [item.code for item in report.diagnostics] == ["count-clamped"]


@pytest.mark.slow
def test_chain_of_100000_blocks_needs_no_recursion():
    blocks = "".join(f"^b{i}:\ncf.br ^b{i + 1}\n" for i in range(100_000))
    body = f"%a = GROUP\n%b = GROUP\ncf.br ^b0\n{blocks}^b100000:\nWAIT %a\nreturn"
    (record,) = run(function(body))[0].of("waits")
    assert record.count == 1


@pytest.mark.slow
def test_chain_of_20000_loops_is_counted():
    loops = "".join(
        f"%r{i + 1} = scf.for %i{i} = %c0 to %n step %c1 iter_args(%x = %r{i}) -> (TOK) {{\n"
        f"scf.yield %x : TOK\n}}\n"
        for i in range(20_000)
    )
    assert counts(f"%r0 = GROUP\n%b = GROUP\n{loops}WAIT %r20000") == [1]


def test_deep_nest_of_conditions_is_counted():
    opened = "scf.if %c {\n" * 100
    assert counts(f"%a = GROUP\n%b = GROUP\n{opened}WAIT %a\n{'}' * 100}") == [1]


def test_mutual_recursion_with_tokens_is_sound():
    text = """
      func.func @even(%t: TOK) -> TOK {
        %a = GROUP
        %r = func.call @odd(%t) : (TOK) -> TOK
        return %r : TOK
      }
      func.func @odd(%t: TOK) -> TOK {
        %b = GROUP
        %r = func.call @even(%b) : (TOK) -> TOK
        WAIT %r
        return %t : TOK
      }
    """
    assert [record.count for record in run(text)[0].of("waits")] == [0]


@pytest.mark.parametrize("options", ["check", "keep-given"])
def test_count_below_0_is_refused(options):
    body = "%a = GROUP\nWAIT %a {numGroups = -1 : i32}\nreturn"
    report = run(function(body), options)[0]
    assert [(item.severity, item.code) for item in report.diagnostics] == [
        ("error", "negative-count")
    ]


def test_waits_of_one_function_of_a_module():
    """The pass may run on a function: what stands around it is no part of the graph."""
    text = """
      module {
        func.func private @g(%x: f32) -> f32 {
          return %x : f32
        }
        func.func @f(%x: f32) {
          %y = func.call @g(%x) : (f32) -> f32
          nvvm.cp.async.commit.group
          nvvm.cp.async.wait.group 1
          return
        }
      }
    """
    found = passes.find("async-pipe-count-waits")
    with new_context():
        module = ir.Module.parse(text)
        for function in module.body.operations:
            found.run(function.operation, found.options(), Session())
        assert module.operation.verify()


INTRINSIC = 'llvm.call_intrinsic "llvm.nvvm.cp.async.commit.group"() : () -> ()'


@pytest.mark.parametrize(("commit", "count"), [(INTRINSIC, 1), ("", 0)])
def test_a_group_that_an_intrinsic_commits_is_counted(commit, count):
    assert counts(f"%a = GROUP\n{commit}\nWAIT %a") == [count]


@pytest.mark.parametrize("chip", ("", "chip=sm_80"))
def test_groups_of_intrinsics_have_no_token(chip):
    body = f"{INTRINSIC}\nnvvm.cp.async.wait.group 0\nreturn"
    _, text = run(function(body), chip, name="tokens")
    assert INTRINSIC.partition("(")[0] in text
    assert "nvvm.cp.async.wait.group 0" in text
