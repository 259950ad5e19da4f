"""The command line tool as a process: what it writes, where, and how it ends.

Covers: tool/__main__.py, tool/process.py, tool/pass_steps.py, tool/output.py, tool/instruments.py, tool/explain.py, tool/parsing.py
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.driver_process import opt

pytestmark = pytest.mark.slow

ADD_TWICE = """func.func @twice(%a: index) -> (index, index) {
  %0 = arith.addi %a, %a : index
  %1 = arith.addi %a, %a : index
  return %0, %1 : index, index
}
"""
PLUGIN = """
import os
import signal
import time

from mlir_async_pipe import passes
from mlir_async_pipe.bindings.raw_ops import walk


def register():
    @passes.register("crash", "ends the process as a fault in native code does")
    def crash(module, options, session):
        os.kill(os.getpid(), signal.SIGSEGV)

    @passes.register("defect", "raises what no pass should")
    def defect(module, options, session):
        raise KeyError("surprise")

    @passes.register("break-ir", "leaves IR that does not verify")
    def break_ir(module, options, session):
        for op in walk(module):
            if op.name == "func.return":
                op.erase()

    @passes.register("wait", "tells its process and waits")
    def wait(module, options, session):
        with open(os.environ["PID_FILE"], "w") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(60)

    @passes.register("speak", "says one remark and one warning")
    def speak(module, options, session):
        session.diagnostics.remark("a remark", code="spoken", at=module)
        session.diagnostics.warning("a warning", code="spoken", at=module)
        session.record("words", {"word": "remark", "count": 1})
"""


@pytest.fixture
def source(tmp_path):
    name = tmp_path / "in.mlir"
    name.write_text(ADD_TWICE)
    return name


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return {"PYTHONPATH": str(tmp_path)}


def test_standard_input_becomes_standard_output():
    ended = opt("-", "--cse", stdin=ADD_TWICE)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.count("arith.addi") == 1


def test_without_a_file_name_standard_input_is_read():
    assert opt("--cse", stdin=ADD_TWICE).out == opt("-", "--cse", stdin=ADD_TWICE).out


def test_output_goes_to_the_file_and_nowhere_else(source, tmp_path):
    ended = opt(source, "-o", tmp_path / "out.mlir")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert "func.func @twice" in (tmp_path / "out.mlir").read_text()


def test_several_operations_without_module_are_one_module():
    ended = opt(stdin="func.func private @a()\nfunc.func private @b()\n")
    assert ended.code == 0
    assert ended.out.startswith("module {\n  func.func private @a()")


def test_one_operation_stays_alone_without_implicit_module():
    ended = opt("--no-implicit-module", stdin="module @m {\n}\n")
    assert ended.out == "module @m {\n}\n"
    assert opt("--no-implicit-module", stdin=ADD_TWICE).out.startswith("func.func @twice")


def test_empty_input_is_an_empty_module():
    assert opt(stdin="").out == "module {\n}\n"


def test_places_of_input_with_several_operations_have_the_files_name(tmp_path):
    name = tmp_path / "two.mlir"
    name.write_text("func.func private @a()\nfunc.func @b() -> i32 {\n  return\n}\n")
    ended = opt(name)
    assert ended.err.startswith(f"{name}:3:3: error: ")


def test_a_pass_given_by_flag_can_take_options():
    ended = opt("--canonicalize=max-iterations=1", stdin=ADD_TWICE)
    assert ended.code == 0


def test_the_pipeline_that_runs_is_shown_on_demand():
    ended = opt("--cse", "--async-pipe-schedule", "--dump-pass-pipeline", stdin=ADD_TWICE)
    assert "builtin.module(cse,async-pipe-schedule)" in ended.err


def test_timing_lists_each_pass_and_the_start():
    ended = opt("--cse", "--async-pipe-schedule", "--mlir-timing", stdin=ADD_TWICE)
    rows = [line.split(")", 1)[1].strip() for line in ended.err.splitlines() if "%)" in line]
    assert rows == ["Imports", "Parser", "cse", "async-pipe-schedule", "Output", "Rest", "Total"]


def test_passes_of_a_plugin_run_like_any_other(plugin):
    ended = opt("--load=plugin:register", "--speak", stdin=ADD_TWICE, environment=plugin)
    assert ended.code == 0
    assert "remark: a remark [spoken]" in ended.err
    assert "func.func @twice" in ended.out


@pytest.mark.parametrize("hook", ["no_such_module:f", "os:no_such_function", "os", ":f"])
def test_a_plugin_that_is_not_there_is_one_error(hook):
    ended = opt(f"--load={hook}", stdin=ADD_TWICE)
    assert ended.code == 1
    assert ended.err.splitlines()[0].endswith("[cannot-load]")


def test_statistics_count_what_our_passes_recorded(plugin):
    ended = opt(
        "--load=plugin:register", "--speak", "--mlir-pass-statistics",
        stdin=ADD_TWICE, environment=plugin,
    )  # fmt: skip
    assert "speak\n  (S) 1 words\n  (S) 1 remarks\n  (S) 1 warnings\n" in ended.err


def test_reports_come_as_text_json_and_html(plugin, tmp_path):
    words = ("--load=plugin:register", "--speak", "-o", tmp_path / "out")
    text = opt(*words, "--report=text", stdin=ADD_TWICE, environment=plugin)
    assert "words:\n  word    count\n  remark  1\n" in text.err
    page = tmp_path / "report.html"
    opt(*words, "--report=html", f"--report-file={page}", stdin=ADD_TWICE, environment=plugin)
    assert "<th>word</th><th>count</th>" in page.read_text()
    data = tmp_path / "report.json"
    opt(*words, "--report=json", f"--report-file={data}", stdin=ADD_TWICE, environment=plugin)
    assert json.loads(data.read_text())["words"] == [{"word": "remark", "count": 1}]


@pytest.mark.parametrize("style", ["json", "sarif"])
def test_machine_readable_diagnostics_are_one_document(plugin, style):
    ended = opt(
        "--load=plugin:register", "--speak", f"--diagnostics={style}",
        stdin=ADD_TWICE, environment=plugin,
    )  # fmt: skip
    found = json.loads(ended.err)
    messages = (
        [entry["message"] for entry in found]
        if style == "json"
        else [entry["message"]["text"] for entry in found["runs"][0]["results"]]
    )
    assert messages == ["a remark", "a warning"]


@pytest.mark.parametrize("style", ["text", "json", "sarif", "github"])
def test_usage_errors_are_written_in_the_asked_style(style):
    ended = opt(f"--diagnostics={style}", "--emit=nothing")
    assert ended.code == 1
    assert ended.out == ""
    if style in ("json", "sarif"):
        json.loads(ended.err)
    assert "bad-usage" in ended.err


def test_a_crash_of_native_code_is_one_error_that_names_the_pass(plugin, tmp_path):
    ended = opt(
        "--load=plugin:register", "--cse", "--crash", "-o", tmp_path / "out",
        stdin=ADD_TWICE, environment=plugin,
    )  # fmt: skip
    assert ended.code == 1
    assert "error: MLIR crashed (SIGSEGV) while running 'crash' [crash]" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGTERM, -signal.SIGTERM, ""), (signal.SIGINT, 1, "error: interrupted [interrupted]")],
)
def test_who_ends_the_tool_ends_its_child_too(plugin, tmp_path, number, code, said):
    pid_file = tmp_path / "pid"
    process = subprocess.Popen(
        [sys.executable, "-m", "mlir_async_pipe.tool", "--load=plugin:register", "--wait"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **plugin, "PID_FILE": str(pid_file)},
        start_new_session=True,
        # A shell's background jobs ignore the interrupt, and hand that on to their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    process.stdin.close()
    process.stdin = None
    until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # the keyboard interrupts the whole group
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert said in err.decode()
    assert "Traceback" not in err.decode()
    child = int(pid_file.read_text())
    until(lambda: not os.path.exists(f"/proc/{child}"))


def test_a_tool_that_is_killed_takes_its_child_along(plugin, tmp_path):
    pid_file = tmp_path / "pid"
    process = subprocess.Popen(
        [sys.executable, "-m", "mlir_async_pipe.tool", "--load=plugin:register", "--wait"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **plugin, "PID_FILE": str(pid_file)},
    )
    process.stdin.close()
    until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    child = int(pid_file.read_text())
    assert child != process.pid
    process.kill()
    process.wait()
    until(lambda: has_ended(child))


def has_ended(process: int) -> bool:
    """Whether a process is gone, or waits only for somebody to ask how it ended."""
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(holds, seconds: float = 30.0) -> None:
    """Wait for a condition; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_without_isolation_a_crash_ends_the_process(plugin):
    ended = opt(
        "--load=plugin:register", "--crash", "--isolate=false",
        stdin=ADD_TWICE, environment=plugin,
    )  # fmt: skip
    assert ended.code < 0


@pytest.mark.parametrize("failing", ["crash", "defect", "break-ir"])
def test_a_reproducer_repeats_the_failure(plugin, tmp_path, failing):
    name = tmp_path / "repro.mlir"
    first = opt(
        "--load=plugin:register", "--cse", f"--{failing}",
        f"--mlir-pass-pipeline-crash-reproducer={name}",
        stdin=ADD_TWICE, environment=plugin,
    )  # fmt: skip
    assert first.code == 1
    assert [file.name for file in tmp_path.glob("repro*")] == ["repro.mlir"]
    assert name.read_text().count("arith.addi") == 2
    again = opt(name, "--run-reproducer", "--load=plugin:register", environment=plugin)
    assert again.code == 1
    assert first.err.split("error: ", 1)[1].split("[")[0] in again.err


def test_no_reproducer_is_left_when_all_goes_well(tmp_path):
    name = tmp_path / "repro.mlir"
    opt("--cse", f"--mlir-pass-pipeline-crash-reproducer={name}", stdin=ADD_TWICE)
    assert list(tmp_path.iterdir()) == []


def test_a_defect_is_one_error_without_traceback(plugin):
    ended = opt("--load=plugin:register", "--defect", stdin=ADD_TWICE, environment=plugin)
    assert ended.code == 1
    assert "error: internal error: KeyError: 'surprise' [internal-error]" in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_ir_that_a_pass_of_ours_breaks_is_found_after_that_pass(plugin):
    broken = ("--load=plugin:register", "--break-ir")
    ended = opt(*broken, stdin=ADD_TWICE, environment=plugin)
    assert ended.code == 1
    assert "[verification-failed]" in ended.err
    unverified = opt(*broken, "--verify-each=false", stdin=ADD_TWICE, environment=plugin)
    assert unverified.code == 0


def test_unmet_expectations_fail_the_run(tmp_path):
    text = "// expected-error @+1 {{something}}\nfunc.func private @a()\n"
    ended = opt("--verify-diagnostics", stdin=text)
    assert ended.code == 1
    assert ended.err.startswith('<stdin>:1:4: error: expected error "something" was not produced\n')


def test_a_part_that_fails_keeps_all_output_back(tmp_path):
    text = "func.func private @a()\n// -----\nfunc.func @b() {\n"
    ended = opt("--split-input-file", "-o", tmp_path / "out", stdin=text)
    assert ended.code == 1
    assert ended.err.startswith("<stdin>:3:17: error:")
    assert list(tmp_path.iterdir()) == []


def test_unregistered_operations_are_accepted_unless_forbidden():
    text = '"async_pipe.consumer_wait"() {queue = 0 : i64} : () -> ()\n'
    assert opt(stdin=text).code == 0
    ended = opt("--allow-unregistered-dialect=false", stdin=text)
    assert ended.code == 1
    assert ended.err.splitlines()[0].endswith("[parse-error]")


def test_what_the_tool_knows_about_itself_is_reported():
    ended = opt("--version", "--list-passes", "--show-dialects")
    assert ended.code == 0
    assert ended.out.startswith("async-pipe-opt ")
    assert "--async-pipe-schedule" in ended.out
    assert "num-stages=<int>" in ended.out
    assert "nvgpu" in ended.out.split("Available Dialects: ")[1]


def test_a_reader_that_stops_early_is_no_error(source):
    command = f"{sys.executable} -m mlir_async_pipe.tool {source} | true"
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    assert done.stderr == b""
