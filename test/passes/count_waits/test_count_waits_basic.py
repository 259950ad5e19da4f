"""Counts of every form of control flow, each with the number worked out by hand.

Covers: waits/count_pass.py, waits/count.py, waits/token_values.py,
facts/flow/flow_graph.py, facts/flow/conditions.py, vocabulary/rows.py
"""

import pytest

from helpers.counted_text import counts, function, records, run
from mlir_async_pipe.session.diagnostics import CountError


def test_groups_committed_after_the_awaited_one_may_stay_in_flight():
    assert counts("%a = GROUP\n%b = GROUP\nWAIT %a\nWAIT %b") == [1, 0]


def test_the_same_token_may_be_awaited_twice():
    assert counts("%a = GROUP\n%b = GROUP\nWAIT %a\nWAIT %a") == [1, 1]


SHIFT = """
  %a = GROUP
  %b = GROUP
  %r:2 = scf.for %i = %c0 to {bound} step %c1 iter_args(%x = %a, %y = %b) -> (TOK, TOK) {{
    WAIT %x
    %t = GROUP
    WAIT %x
    scf.yield %y, %t : TOK, TOK
  }}
  WAIT %r#0
  WAIT %r#1
"""


@pytest.mark.parametrize("bound", ["%n", "%c1", "%c10"])
def test_shift_register_keeps_its_depth_through_a_loop(bound):
    assert counts(SHIFT.format(bound=bound)) == [1, 2, 1, 0]


def test_loop_without_iterations_hands_its_start_on():
    assert counts(SHIFT.format(bound="%c0")) == [0, 0, 1, 0]


def test_static_trips_count_every_iteration():
    body = """
      %a = GROUP
      scf.for %i = %c0 to %c7 step %c2 {
        %t = GROUP
        %u = GROUP
      }
      WAIT %a
    """
    assert counts(body) == [8]


def test_a_billion_trips_are_counted_and_clamped():
    body = """
      %a = GROUP
      %big = arith.constant 1000000000 : index
      scf.for %i = %c0 to %big step %c1 {
        %t = GROUP
      }
      WAIT %a
    """
    (record,) = records(body)
    assert (record.count, record.exact) == (63, 10**9)


def test_clamping_is_remarked():
    body = "%a = GROUP\n" + "\n".join(f"%t{i} = GROUP" for i in range(70)) + "\nWAIT %a\nreturn"
    report, text = run(function(body))
    assert "numGroups = 63" in text
    assert [item.code for item in report.diagnostics] == ["count-clamped"]


def test_negative_range_has_no_iterations():
    body = """
      %a = GROUP
      scf.for %i = %c7 to %c3 step %c1 {
        %t = GROUP
      }
      WAIT %a
    """
    assert counts(body) == [0]


def test_loop_over_unsigned_integers_counts_in_its_own_signedness():
    body = """
      %a = GROUP
      %l = arith.constant 250 : i8
      %u = arith.constant 254 : i8
      %s = arith.constant 1 : i8
      scf.for unsigned %i = %l to %u step %s : i8 {
        %t = GROUP
      }
      WAIT %a
    """
    assert counts(body) == [4]


def test_dynamic_loop_may_commit_nothing():
    body = "%a = GROUP\nscf.for %i = %c0 to %n step %c1 {\n%t = GROUP\n}\nWAIT %a"
    (record,) = records(body)
    assert (record.count, record.reason) == (0, "zero-trip-loop")


def test_permuted_tokens_take_the_youngest_that_comes_round():
    body = """
      %a = GROUP
      %b = GROUP
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b) -> (TOK, TOK) {
        WAIT %x
        scf.yield %y, %x : TOK, TOK
      }
    """
    assert counts(body) == [0]


def test_branch_takes_the_side_with_fewer_groups():
    body = """
      %a = GROUP
      scf.if %c {
        %t = GROUP
        %u = GROUP
      } else {
        %t = GROUP
      }
      WAIT %a
    """
    assert counts(body) == [1]


@pytest.mark.parametrize(("flag", "expected"), [("%true", 2), ("%false", 0)])
def test_constant_condition_decides_the_branch(flag, expected):
    body = f"%a = GROUP\nscf.if {flag} {{\n%t = GROUP\n%u = GROUP\n}}\nWAIT %a"
    assert counts(body) == [expected]


def test_result_of_a_branch_is_either_token():
    body = """
      %a = GROUP
      %b = GROUP
      %r = scf.if %c -> (TOK) {
        scf.yield %a : TOK
      } else {
        %t = GROUP
        scf.yield %b : TOK
      }
      WAIT %r
    """
    assert counts(body) == [1]


def test_index_switch_takes_the_least_of_its_cases():
    body = """
      %a = GROUP
      %b = GROUP
      %r = scf.index_switch %n -> TOK
      case 3 {
        %t = GROUP
        scf.yield %a : TOK
      }
      default {
        %t = GROUP
        %u = GROUP
        scf.yield %b : TOK
      }
      WAIT %r
    """
    assert counts(body) == [2]


def test_commit_and_wait_under_one_condition_are_correlated():
    body = """
      %a = GROUP
      scf.if %c {
        %t = GROUP
      }
      scf.if %c {
        WAIT %a
      }
      WAIT %a
    """
    assert counts(body) == [1, 0]


def test_negated_condition_is_correlated_too():
    body = """
      %a = GROUP
      %not = arith.xori %c, %true : i1
      scf.if %not {
        %t = GROUP
      }
      scf.if %c {
        WAIT %a
      } else {
        WAIT %a
      }
    """
    assert counts(body) == [0, 1]


def test_condition_of_one_iteration_is_not_that_of_the_next():
    body = """
      %a = GROUP
      %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %a) -> (TOK) {
        %k = "test.truth"() : () -> i1
        scf.if %k {
          %t = GROUP
        }
        scf.yield %x : TOK
      }
      WAIT %r
    """
    assert counts(body) == [0]


def test_select_is_either_value():
    body = "%a = GROUP\n%b = GROUP\n%s = arith.select %c, %a, %b : TOK\n%t = GROUP\nWAIT %s"
    assert counts(body) == [1]


def test_while_loop_carries_tokens_through_both_regions():
    body = """
      %a = GROUP
      %b = GROUP
      %r = scf.while (%x = %a) : (TOK) -> (TOK) {
        %k = "test.truth"() : () -> i1
        WAIT %x
        scf.condition(%k) %x : TOK
      } do {
      ^bb0(%y: TOK):
        %t = GROUP
        WAIT %y
        scf.yield %t : TOK
      }
      WAIT %r
    """
    assert counts(body) == [0, 1, 0]


def test_execute_region_and_scope_run_in_place():
    body = """
      %a = GROUP
      %r = scf.execute_region -> TOK {
        %t = GROUP
        scf.yield %a : TOK
      }
      WAIT %r
    """
    assert counts(body) == [1]


def test_irreducible_graph_with_a_self_loop():
    text = function("""
      %a = GROUP
      cf.cond_br %c, ^left(%a : TOK), ^right(%a : TOK)
    ^left(%x : TOK):
      %t = GROUP
      WAIT %x
      cf.cond_br %d, ^right(%x : TOK), ^end
    ^right(%y : TOK):
      %u = GROUP
      WAIT %y
      %k = "test.truth"() : () -> i1
      cf.cond_br %k, ^right(%u : TOK), ^left(%y : TOK)
    ^end:
      WAIT %a
      return
    """)
    assert [record.count for record in run(text)[0].of("waits")] == [1, 1, 1]


def test_known_callee_adds_its_own_minimum():
    text = """
      func.func @g(%t: TOK, %c: i1) -> TOK {
        %a = GROUP
        scf.if %c {
          %b = GROUP
        }
        return %t : TOK
      }
      func.func @f(%c: i1) {
        %a = GROUP
        %r = func.call @g(%a, %c) : (TOK, i1) -> TOK
        WAIT %r
        return
      }
    """
    assert [record.count for record in run(text)[0].of("waits")] == [1]


def test_inlining_never_lowers_a_count():
    text = """
      func.func private @g(%c: i1) {
        scf.if %c {
          %b = GROUP
        }
        %a = GROUP
        return
      }
      func.func @f() {
        %true = arith.constant true
        %a = GROUP
        func.call @g(%true) : (i1) -> ()
        WAIT %a
        return
      }
    """
    # The dialect has no inliner interface, so the body of @g is put in place by hand.
    inlined = """
      func.func @f() {
        %true = arith.constant true
        %a = GROUP
        scf.if %true {
          %b = GROUP
        }
        %d = GROUP
        WAIT %a
        return
      }
    """
    (before,) = run(text)[0].of("waits")
    (after,) = run(inlined)[0].of("waits")
    assert (before.count, after.count) == (1, 2)


@pytest.mark.parametrize(("chip", "expected"), [("sm_80", 1), ("gfx950", 0)])
def test_marks_of_a_callee_count_only_where_the_queue_is_the_threads(chip, expected):
    text = """
      func.func @g() {
        %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
        return
      }
      func.func @f() {
        %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
        func.call @g() : () -> ()
        "async_pipe.wait_queue"(%a) {queue = 0 : i64} : (TOK) -> ()
        return
      }
    """
    (record,) = run(text, f"chip={chip}")[0].of("waits")
    assert record.count == expected


@pytest.mark.parametrize(("options", "expected"), [("", [1, 0]), ("chip=sm_80", [2, 1])])
def test_abstract_queues_share_the_fifo_of_a_target_that_has_one(options, expected):
    body = """
      %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      %b = "async_pipe.commit_queue"() {queue = 1 : i64} : () -> TOK
      %d0 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      "async_pipe.wait_queue"(%a) {queue = 0 : i64} : (TOK) -> ()
      "async_pipe.wait_queue"(%b) {queue = 1 : i64} : (TOK) -> ()
    """
    assert counts(body, options) == expected


def test_wait_for_several_tokens_takes_the_youngest():
    body = """
      %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      %b = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      %d0 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      "async_pipe.wait_queue"(%a, %b) {queue = 0 : i64} : (TOK, TOK) -> ()
    """
    assert counts(body) == [1]


def test_consumer_waits_take_one_group_after_another():
    body = """
      %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      %b = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      scf.for %i = %c0 to %n step %c1 {
        %t = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
        "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
      }
      "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
      "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
      "async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()
    """
    found = records(body)
    assert [(r.count, r.reason) for r in found] == [
        (2, "exact"),
        (1, "exact"),
        (0, "exact"),
        (0, "consumer-ahead"),
    ]


def test_acquiring_more_slots_than_the_queue_has_is_an_error():
    body = """
      "async_pipe.producer_acquire"() {queue = 0 : i64, depth = 1 : i64} : () -> ()
      "async_pipe.producer_acquire"() {queue = 0 : i64, depth = 1 : i64} : () -> ()
      return
    """
    report = run(function(body))[0]
    assert [(d.severity, d.code) for d in report.diagnostics] == [("error", "depth-exceeded")]


def test_tokens_of_another_thread_cannot_be_counted():
    body = """
      %a = GROUP
      %b = GROUP
      scf.forall (%t) in (%n) {
        WAIT %a
        %e = GROUP
        %g = GROUP
        WAIT %e
      }
    """
    found = records(body)
    assert [(r.count, r.reason) for r in found] == [(0, "crosses-parallel"), (1, "exact")]


def test_unreachable_wait_gets_no_slack():
    (record,) = records("%a = GROUP\n%b = GROUP\nscf.if %false {\nWAIT %a\n}")
    assert (record.count, record.exact, record.reason) == (0, None, "unreachable")


def test_block_without_predecessors_is_unreachable():
    text = function("""
      %a = GROUP
      return
    ^nobody:
      WAIT %a
      cf.br ^nobody
    """)
    (record,) = run(text)[0].of("waits")
    assert (record.count, record.reason) == (0, "unreachable")


def test_recursive_functions_and_unknown_callees_add_nothing():
    text = """
      func.func private @unknown()
      func.func @f() {
        %a = GROUP
        func.call @f() : () -> ()
        func.call @unknown() : () -> ()
        %b = GROUP
        WAIT %a
        return
      }
    """
    (record,) = run(text)[0].of("waits")
    assert (record.count, record.reason) == (1, "recursive-call")


def test_waits_in_kernels_of_gpu_modules_and_launches_are_counted():
    text = """
      gpu.module @m {
        gpu.func @k() kernel {
          %a = GROUP
          %b = GROUP
          WAIT %a
          gpu.return
        }
      }
      func.func @host(%n: index) {
        gpu.launch blocks(%x, %y, %z) in (%gx = %n, %gy = %n, %gz = %n)
                   threads(%u, %v, %w) in (%bx = %n, %by = %n, %bz = %n) {
          %a = GROUP
          %b = GROUP
          %d = GROUP
          WAIT %a
          gpu.terminator
        }
        return
      }
    """
    assert [record.count for record in run(text)[0].of("waits")] == [1, 2]


def test_groups_of_an_outer_loop_are_awaited_in_an_inner_one():
    body = """
      %a = GROUP
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> (TOK) {
        %t = GROUP
        scf.for %j = %c0 to %n step %c1 {
          WAIT %x
          WAIT %t
        }
        scf.yield %t : TOK
      }
    """
    assert counts(body) == [1, 0]


def test_keep_given_leaves_a_count_alone():
    body = "%a = GROUP\n%b = GROUP\nWAIT %a {numGroups = 0 : i32}\nWAIT %b\nreturn"
    assert "%0 {numGroups = 0" in run(function(body), "keep-given")[1]
    assert "%0 {numGroups = 1" in run(function(body))[1]


@pytest.mark.parametrize("given", [0, 1, 5])
def test_a_given_count_that_may_be_for_a_group_that_no_wait_names_is_lowered_only(given: int):
    """The wait for %a with a count of 0 is all that waits for %b."""
    body = f"%a = GROUP\n%b = GROUP\n%g = GROUP\nWAIT %a {{numGroups = {given} : i32}}\nWAIT %g"
    other = "func.func @other(%n: index) {\n%d = GROUP\nreturn\n}"
    report, text = run(function(f"{body}\nreturn") + other)
    kept, last = report.of("waits")
    assert (kept.count, kept.exact, kept.given) == (min(given, 2), 2, given)
    assert (last.count, last.exact, last.given) == (0, 0, None)
    assert f"%0 {{numGroups = {min(given, 2)}" in text
    named = f"{body}\nWAIT %b\nreturn"
    assert run(function(named) + other)[0].of("waits")[0].count == 2


def test_check_finds_an_unsafe_count_and_does_not_edit():
    body = "%a = GROUP\n%b = GROUP\nWAIT %a {numGroups = 2 : i32}\nreturn"
    report, text = run(function(body), "check")
    assert [(d.severity, d.code) for d in report.diagnostics] == [("error", "unsafe")]
    assert "numGroups = 2" in text


def test_check_remarks_slack():
    body = "%a = GROUP\n%b = GROUP\nWAIT %a\nreturn"
    report = run(function(body), "check")[0]
    assert [(d.severity, d.code) for d in report.diagnostics] == [("remark", "slack")]


def test_value_that_is_no_token_is_refused():
    body = (
        '%k = arith.constant 1 : i32\n"async_pipe.wait_queue"(%k) {queue = 0 : i64} : (i32) -> ()'
    )
    with pytest.raises(CountError) as caught:
        counts(body)
    assert caught.value.code == "not-a-token"


def test_functions_without_bodies_and_modules_without_waits_are_fine():
    assert run("func.func private @g()")[0].of("waits") == ()


@pytest.mark.slow
def test_chain_of_100000_selects_needs_no_recursion():
    lines = ["%a = GROUP", "%s0 = arith.select %c, %a, %a : TOK"]
    lines += [f"%s{i} = arith.select %c, %s{i - 1}, %a : TOK" for i in range(1, 100_000)]
    assert counts("\n".join([*lines, "%b = GROUP", "WAIT %s99999"])) == [1]


def test_second_run_changes_nothing():
    text = function(SHIFT.format(bound="%n") + "\nreturn")
    once = run(text)[1]
    assert run(once)[1] == once
