"""What a command line says, as one frozen `Options`; each field is a flag, and says how it is written and what
it means.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

EMIT_KINDS = ("mlir", "llvm", "ptx", "cubin", "isa", "hsaco")
DIAGNOSTIC_FORMATS = ("text", "json", "sarif", "github")
DEFAULT_SPLIT_MARKER = "// -----"

MLIR = "as in mlir-opt"
OURS = "of this tool"
MACHINE = "of the machine (--run, --validate)"


@dataclass(frozen=True)
class Flag:
    """How one option is written: `bare` is its value without "=", None if it needs one."""

    name: str
    help: str
    metavar: str = ""
    bare: str | None = None
    choices: tuple[str, ...] = ()
    repeated: bool = False
    group: str = MLIR


def _value(default: Any, text: str, metavar: str, group: str, **form: Any) -> Any:
    """A flag with a value, which may be given several times if the default is ()."""
    form |= {"help": text, "metavar": metavar, "repeated": default == (), "group": group}
    return field(default=default, metadata=form)


def _switch(text: str, default: bool | None = False, group: str = MLIR) -> Any:
    return _value(default, text, "", group, bare="true", choices=("true", "false"))


_mlir, _ours, _machine = (partial(_value, group=group) for group in (MLIR, OURS, MACHINE))


@dataclass(frozen=True)
class PassFlag:
    """One pass asked for by a flag: its name and the text of its options."""

    name: str
    options: str


@dataclass(frozen=True)
class Options:
    """Everything that the command line says; field names are the flags' names.

    Switches are bool. `split_input_file` is the marker to split at, "" for no splitting;
    `explain` is "" (no), "true" (yes), the name of a function or the line of a loop.
    """

    input: str = "-"
    output: str = "-"
    passes: tuple[PassFlag, ...] = ()
    # as in mlir-opt
    pass_pipeline: str | None = _mlir(
        None, "passes as text, ours and MLIR's mixed (-p)", "PIPELINE"
    )
    split_input_file: str = _mlir(
        "",
        "process the parts between `// -----` lines on their own",
        "MARKER",
        bare=DEFAULT_SPLIT_MARKER,
    )
    output_split_marker: str = _mlir(
        DEFAULT_SPLIT_MARKER, "line between the parts in the output", "MARKER"
    )
    verify_diagnostics: str = _mlir(
        "",
        "compare diagnostics with the expected-* comments of the input",
        "all|only-expected",
        bare="all",
        choices=("all", "only-expected"),
    )
    verify_each: bool = _switch("verify after each pass (default true)", True)
    verify_roundtrip: bool = _switch("print and parse the input, and compare")
    allow_unregistered_dialect: bool = _switch(
        "accept ops of unknown dialects (default true)", True
    )
    no_implicit_module: bool = _switch("the input is one op, not the body of a module")
    mlir_print_ir_before: tuple[str, ...] = _mlir((), "print the IR before a pass", "PASS")
    mlir_print_ir_after: tuple[str, ...] = _mlir((), "print the IR after a pass", "PASS")
    mlir_print_ir_before_all: bool = _switch("print the IR before each pass")
    mlir_print_ir_after_all: bool = _switch("print the IR after each pass")
    mlir_print_ir_after_change: bool = _switch("print the IR only after passes that changed it")
    mlir_print_ir_after_failure: bool = _switch("print the IR only after a pass that failed")
    mlir_print_ir_module_scope: bool = _switch("print the whole module around the op")
    mlir_print_op_generic: bool = _switch("print ops in generic form")
    mlir_print_debuginfo: bool = _switch("print locations")
    mlir_pretty_debuginfo: bool = _switch("print locations for reading, not for parsing")
    mlir_print_local_scope: bool = _switch("print without aliases")
    mlir_print_unique_ssa_ids: bool = _switch("no two values of the printed IR have the same name")
    mlir_use_nameloc_as_prefix: bool = _switch("name values after their named locations")
    mlir_print_op_on_diagnostic: bool = _switch(
        "show the op that an error of MLIR is about (default true)", True
    )
    mlir_elide_elementsattrs_if_larger: int | None = _mlir(None, "elide big constants", "N")
    mlir_timing: bool = _switch("print the wall time of each pass")
    mlir_pass_statistics: bool = _switch("print statistics of each pass")
    remark_format: str = _mlir(
        "emitRemark",
        "remarks as diagnostics (default), or as LLVM's YAML",
        "FORMAT",
        choices=("emitRemark", "yaml"),
    )
    remarks_output_file: str = _mlir("-", "where YAML remarks go (default: stderr)", "FILE")
    remarks_filter: str = _mlir("", "YAML remarks whose pass:name matches", "REGEX")
    remarks_filter_passed: str = _mlir("", "of loops pipelined and proofs, these", "REGEX")
    remarks_filter_missed: str = _mlir("", "of refusals and warnings, these", "REGEX")
    remarks_filter_analyse: str = _mlir("", "of counts and remarks, these", "REGEX")
    remarks_filter_failed: str = _mlir("", "of other errors, these", "REGEX")
    mlir_disable_threading: bool = _switch("use one thread")
    mlir_pass_pipeline_crash_reproducer: str = _mlir(
        "", "write a reproducer here if a pass fails or crashes", "FILE"
    )
    run_reproducer: bool = _switch("run the pipeline that stands in the input")
    dump_pass_pipeline: bool = _switch("print the pipeline that will run")
    emit_bytecode: bool = _switch("write bytecode instead of text")
    list_passes: bool = _switch("list the passes and their options")
    show_dialects: bool = _switch("list the dialects of the bindings")
    version: bool = _switch("print versions")
    help_list: bool = _switch("list all options by name")
    # of this tool
    target: str | None = _ours(None, "where the module is going: nvvm:sm_80, rocdl:gfx950, …", "T")
    emit: str = _ours("mlir", "what to write: " + ", ".join(EMIT_KINDS), "KIND", choices=EMIT_KINDS)
    bindings: str | None = _ours(None, "which MLIR Python bindings to use", "NAME")
    load: tuple[str, ...] = _ours((), "call a function before anything runs", "MODULE:FUNC")
    explain: str = _ours(
        "", "say why loops and waits became what they are", "NAME|LINE", bare="true"
    )
    report: str = _ours("", "what was found and done", "FORMAT", choices=("text", "json", "html"))
    report_file: str = _ours("-", "where the report goes (default: stderr)", "FILE")
    smem_limit: int | None = _ours(None, "workgroup memory that a block may use", "BYTES")
    cluster: str = _ours("", "blocks that make a cluster where kernels do not say it", "X,Y,Z")
    check: str = _ours(
        "error", "hazards are errors or warnings", "error|warn", choices=("error", "warn")
    )
    check_only: bool = _switch("check the input for hazards, write the verdict", False, OURS)
    suggest: bool = _switch(
        "say which loops could be pipelined, and how; write nothing", False, OURS
    )
    diagnostics: str = _ours(
        "text", "how diagnostics are written", "FORMAT", choices=DIAGNOSTIC_FORMATS
    )
    print_completion: str = _ours(
        "", "print completions for a shell", "SHELL", choices=("bash", "zsh", "tcsh", "fish")
    )
    resources: bool | None = _switch(
        "ask ptxas what PTX needs (default: where it may spill, or for a report)", None, OURS
    )
    cache: bool = _switch(
        "keep results for the next run that is the same (default true)", True, OURS
    )
    isolate: bool = _switch(
        "run in a child process; a crash becomes an error (default true)", True, OURS
    )
    # of the machine (--run, --validate)
    run: str | None = _machine(None, "run a function on the CPU after the passes", "FUNC")
    validate: str | None = _machine(
        None, "prove that a function computes what it did before the passes, for all data", "FUNC"
    )
    validate_reassociate: bool = _switch(
        "sums of floats may be in any order (default false)", False, MACHINE
    )
    arg: tuple[str, ...] = _machine(
        (), "an argument: FILE.npy, a number, 128x64xf16[:SEED] (random), zeros:128x64xf16", "ARG"
    )
    threads: str = _machine(
        "", "threads of a block: 128 or 16x8x1 (default: what the function states, else 1)", "SIZE"
    )
    grid: str = _machine("1", "blocks: 4 or 2x2x1", "SIZE")
    completion: str = _machine("eager", "when copies arrive: eager, late, random[:SEED]", "WHEN")
    schedule: str = _machine("lockstep", "order of warps: lockstep, forward, backward, random", "S")
    run_output: str = _machine("", "write results as .npy into this folder", "DIR")
    timeline: str = _machine("", "draw what thread 0 did", "FILE.svg|FILE.json")
    cost: str = _machine(
        "",
        "cycles for --timeline and for schedules by latencies: latency=500,OP=300,throughput.QUEUE=8",
        "COSTS",
    )

    @property
    def remarks_as_yaml(self) -> bool:
        return self.remark_format == "yaml"


FLAGS = tuple(
    Flag(entry.name.replace("_", "-"), **entry.metadata)
    for entry in fields(Options)
    if entry.metadata
)
