"""async-pipe-tokens: count-form waits get the token of the youngest group that they retire."""

from count_waits_helpers import function, run

RING = """
  nvvm.cp.async.commit.group
  nvvm.cp.async.commit.group
  scf.for %i = %c0 to %n step %c1 {
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group 2
  }
  nvvm.cp.async.wait.group 0
  return
"""


def test_counts_derived_from_attached_tokens_are_those_of_the_author():
    text = run(function(RING), name="tokens")[1]
    assert "nvvm.cp.async" not in text
    assert [(r.count, r.given) for r in run(text)[0].of("waits")] == [(2, 2), (0, 0)]


def test_groups_of_both_sides_of_a_branch_become_results():
    body = """
      nvvm.cp.async.commit.group
      scf.if %c {
        nvvm.cp.async.commit.group
      }
      nvvm.cp.async.wait.group 0
      return
    """
    text = run(function(body), name="tokens")[1]
    assert [r.count for r in run(text)[0].of("waits")] == [0]
    assert "scf.if %arg1 -> (!nvgpu.device.async.token)" in text


def test_wait_that_retires_nothing_on_some_path_stays():
    body = "nvvm.cp.async.commit.group\nnvvm.cp.async.wait.group 1\nreturn"
    report, text = run(function(body), name="tokens")
    assert "nvvm.cp.async.wait.group 1" in text
    assert [item.code for item in report.diagnostics] == ["no-group"]


def test_a_call_in_a_loop_hides_what_it_commits():
    text = """
      func.func private @g()
      func.func @f(%n: index) {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        nvvm.cp.async.commit.group
        scf.for %i = %c0 to %n step %c1 {
          func.call @g() : () -> ()
          nvvm.cp.async.wait.group 0
          nvvm.cp.async.commit.group
          nvvm.cp.async.wait.group 0
        }
        return
      }
    """
    report, after = run(text, name="tokens")
    assert after.count("nvvm.cp.async.wait.group 0") == 1
    assert after.count("nvgpu.device_async_wait") == 1
    assert [item.code for item in report.diagnostics] == ["no-group"]


def test_abstract_waits_with_counts_get_tokens():
    body = """
      %a = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      %b = "async_pipe.commit_queue"() {queue = 0 : i64} : () -> TOK
      "async_pipe.wait_queue"() {queue = 0 : i64, count = 1 : i64} : () -> ()
      return
    """
    text = run(function(body), name="tokens")[1]
    assert '"async_pipe.wait_queue"(%0) {count = 1 : i64, queue = 0 : i64}' in text
