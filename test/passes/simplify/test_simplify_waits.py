"""async-pipe-simplify-waits: what never blocks goes, what may block stays.

Covers: waits/simplify.py
"""

import pytest

from helpers.counted_text import expand, run

COMMIT = "nvvm.cp.async.commit.group"


def kernel(body: str, attribute: str = "kernel") -> str:
    return expand(f"""
      gpu.module @m {{
        gpu.func @k(%n: index, %c: i1) {attribute} {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          {body}
          gpu.return
        }}
      }}
    """)


def left(body: str, attribute: str = "kernel") -> list[str]:
    """The counts of the waits that are left, in order."""
    text = run(kernel(body, attribute), name="simplify-waits")[1]
    return [line.split()[-1] for line in text.splitlines() if "wait.group" in line]


def wait(count: int) -> str:
    return f"nvvm.cp.async.wait.group {count}"


def test_wait_in_a_kernel_without_groups_goes():
    assert left(wait(0)) == []


def test_wait_in_a_function_that_others_call_stays():
    assert left(wait(0), attribute="") == ["0"]


def test_the_rfcs_first_wait_of_two_goes():
    """RFC 0077: wait 3 before wait 2 never blocks, one group is committed between."""
    body = f"""
      scf.for %i = %c0 to %n step %c1 {{
        {COMMIT}
        {wait(3)}
        %v = arith.addi %i, %c1 : index
        {wait(2)}
      }}
    """
    assert left(body) == ["2"]


def test_waits_that_only_cover_each_other_do_not_both_go():
    body = f"""
      scf.for %i = %c0 to %n step %c1 {{
        {COMMIT}
        {wait(1)}
        {COMMIT}
        {wait(1)}
      }}
    """
    assert left(body) == ["1", "1"]


def test_neighbours_become_the_strictest():
    body = f"{COMMIT}\n{COMMIT}\n{COMMIT}\n{wait(2)}\n{wait(0)}"
    assert left(body) == ["0"]


def test_wait_after_a_conditional_wait_stays():
    body = f"{COMMIT}\nscf.if %c {{\n{wait(0)}\n}}\n{wait(0)}"
    assert left(body) == ["0", "0"]


def test_wait_after_a_commit_stays():
    assert left(f"{COMMIT}\n{wait(0)}\n{COMMIT}\n{wait(0)}") == ["0", "0"]


def test_wait_in_a_graph_of_blocks_is_bounded_over_its_cycles():
    body = f"""
        cf.br ^loop
      ^loop:
        {COMMIT}
        {wait(1)}
        %k = "test.truth"() : () -> i1
        cf.cond_br %k, ^loop, ^end
      ^end:
        {wait(1)}
        {wait(0)}
    """
    assert left(body) == ["1", "0"]


@pytest.mark.parametrize(
    "callee", ["func.func private @g()", "func.func @g() {\nCOMMIT\nreturn\n}"]
)
def test_wait_after_a_call_that_may_commit_stays(callee):
    text = f"""
      {callee.replace("COMMIT", COMMIT)}
      func.func @k() attributes {{gpu.kernel}} {{
        func.call @g() : () -> ()
        {wait(0)}
        return
      }}
    """
    assert wait(0) in run(text, name="simplify-waits")[1]


def test_group_that_nobody_waits_for_joins_the_next_and_counts_are_derived_again():
    body = """
      %a = nvgpu.device_async_create_group {x}
      %b = nvgpu.device_async_create_group {x}
      %d = nvgpu.device_async_create_group {x}
      nvgpu.device_async_wait %a {numGroups = 2 : i32}
      %k = arith.addi %n, %n : index
      nvgpu.device_async_wait %d {numGroups = 0 : i32}
    """
    report, text = run(kernel(body), name="simplify-waits")
    assert text.count("create_group") == 2
    assert [record.count for record in report.of("waits")] == [1, 0]
    assert [entry.what for entry in report.of("simplifications")] == ["redundant-commit"]


def test_group_stays_where_its_copies_may_touch_those_of_the_next():
    body = """
      %s = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
      %g = memref.alloc() : memref<64xf32>
      %z = nvgpu.device_async_create_group {x}
      %p = nvgpu.device_async_copy %g[%c0], %s[%c0], 4 : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
      %a = nvgpu.device_async_create_group %p
      %q = nvgpu.device_async_copy %g[%c0], %s[%n], 4 : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
      %b = nvgpu.device_async_create_group %q
      nvgpu.device_async_wait %z {numGroups = 2 : i32}
      %k = arith.addi %n, %n : index
      nvgpu.device_async_wait %b
    """
    assert run(kernel(body), name="simplify-waits")[1].count("create_group") == 3


def test_padding_groups_stay():
    body = """
      %a = GROUP
      %b = GROUP
      %d = GROUP
      nvgpu.device_async_wait %a {numGroups = 2 : i32}
    """
    assert run(kernel(body), name="simplify-waits")[1].count("create_group") == 3


def test_consumer_waits_stay_since_they_take_a_group():
    text = """
      func.func @k() attributes {gpu.kernel} {
        "async_pipe.consumer_wait"() {queue = 0 : i64, count = 0 : i64} : () -> ()
        return
      }
    """
    assert "consumer_wait" in run(text, name="simplify-waits")[1]


COPIES = """
  %s = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  %g = memref.alloc() : memref<64xf32>
  %r = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
"""


def copy(name: str, buffer: str) -> str:
    kind = "memref<64xf32, #gpu.address_space<workgroup>>"
    return (
        f"%{name}p = nvgpu.device_async_copy %g[%c0], {buffer}[%c0], 4 : memref<64xf32> to {kind}\n"
        f"%{name} = nvgpu.device_async_create_group %{name}p\n"
    )


def test_prologue_group_stays_where_a_loop_would_wait_for_more():
    """The loop commits one group an iteration and lets two stay; without the second group of the
    prologue it could let only one stay from the first iteration on, so in all."""
    body = """
      %a = nvgpu.device_async_create_group {x}
      %b = nvgpu.device_async_create_group {x}
      %d = nvgpu.device_async_create_group {x}
      %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %a, %z = %d) -> (TOK, TOK, TOK) {
        nvgpu.device_async_wait %x {numGroups = 2 : i32}
        %t = nvgpu.device_async_create_group {x}
        scf.yield %y, %z, %t : TOK, TOK, TOK
      }
    """
    report, text = run(kernel(body), name="simplify-waits")
    assert text.count("create_group") == 4
    assert "numGroups = 2" in text
    assert report.of("simplifications") == ()


def test_of_several_groups_those_go_that_do_no_harm():
    """%b stays for the loop; %e, after it, is nobody's."""
    body = """
      %a = nvgpu.device_async_create_group {x}
      %b = nvgpu.device_async_create_group {x}
      %d = nvgpu.device_async_create_group {x}
      %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %a, %z = %d) -> (TOK, TOK, TOK) {
        nvgpu.device_async_wait %x {numGroups = 2 : i32}
        %t = nvgpu.device_async_create_group {x}
        scf.yield %y, %z, %t : TOK, TOK, TOK
      }
      %e = nvgpu.device_async_create_group {x}
      %f = nvgpu.device_async_create_group {x}
      nvgpu.device_async_wait %f {numGroups = 0 : i32}
    """
    report, text = run(kernel(body), name="simplify-waits")
    assert [entry.what for entry in report.of("simplifications")] == ["redundant-commit"]
    assert text.count("create_group") == 5
    assert "numGroups = 2" in text


def test_three_groups_become_one_only_if_the_first_is_apart_from_the_third():
    body = COPIES + copy("a", "%s") + copy("b", "%r") + copy("d", "%s") + copy("e", "%s")
    body += "nvgpu.device_async_wait %e\n"
    text = run(kernel(body), name="simplify-waits")[1]
    # %a joins %b; their group may not join %d, nor %d join %e, which write the same bytes.
    assert text.count("create_group") == 3


def test_group_that_takes_in_what_a_callee_issued_stays():
    body = COPIES + copy("a", "%s") + "func.call @issue(%r) : (memref<64xf32, 3>) -> ()\n"
    text = f"""
      func.func private @issue(memref<64xf32, 3>)
      func.func @k(%n: index) attributes {{gpu.kernel}} {{
        %c0 = arith.constant 0 : index
        {body.replace("#gpu.address_space<workgroup>", "3")}
        {copy("b", "%s").replace("#gpu.address_space<workgroup>", "3")}
        {copy("d", "%r").replace("#gpu.address_space<workgroup>", "3")}
        nvgpu.device_async_wait %d
        return
      }}
    """
    after = run(text, name="simplify-waits")[1]
    assert after.count("create_group") == 3


def test_commits_under_conditions_are_compared_path_by_path():
    """Where %c holds the two youngest groups are %d and the conditional one, which both stay."""
    body = """
      %a = nvgpu.device_async_create_group {x}
      %b = nvgpu.device_async_create_group {x}
      %d = nvgpu.device_async_create_group {x}
      scf.if %c {
        %t = nvgpu.device_async_create_group {x}
      }
      nvgpu.device_async_wait %a {numGroups = 2 : i32}
    """
    text = run(kernel(body), name="simplify-waits")[1]
    assert text.count("create_group") == 4
    assert "numGroups = 2" in text


ABSTRACT = """
  %g0 = nvgpu.device_async_create_group {async_pipe.empty}
  %g1 = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> !nvgpu.device.async.token
"""


def native_wait(count: int) -> str:
    return f"nvgpu.device_async_wait %g0 {{numGroups = {count} : i32}}"


def abstract_wait(queue: int) -> str:
    return (
        f'"async_pipe.wait_queue"(%g1) {{queue = {queue} : i64, count = 0 : i64}} '
        ": (!nvgpu.device.async.token) -> ()"
    )


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (native_wait(0), abstract_wait(0), (1, 0)),
        (native_wait(1), abstract_wait(0), (1, 1)),
        (abstract_wait(0), native_wait(0), (1, 0)),
        (abstract_wait(0) + "\n%z = arith.addi %n, %n : index", native_wait(0), (1, 1)),
        (abstract_wait(0), abstract_wait(1), (0, 2)),
        (abstract_wait(0), abstract_wait(0), (0, 1)),
    ],
)
def test_a_wait_that_lowering_may_drop_stands_in_for_no_other(first, second, kept):
    """All share the FIFO of cp.async, but an abstract queue on which everything runs in place is
    gone with its waits: it covers waits of its own queue only."""
    body = ABSTRACT + first + "\n" + second
    text = run(kernel(body), "chip=sm_80", name="simplify-waits")[1]
    assert (text.count("device_async_wait"), text.count("wait_queue")) == kept
