"""The flags of the command line, as a table: how each is written and what it means; and what a command
line says, as one frozen `Options`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Flag:
    """How one option is written: `bare` is its value without "=", None if it needs one."""

    name: str
    help: str
    metavar: str = ""
    bare: str | None = None
    choices: tuple[str, ...] = ()
    repeated: bool = False
    group: str = ""


EMIT_KINDS = ("mlir", "llvm", "ptx", "cubin", "isa", "hsaco")
DIAGNOSTIC_FORMATS = ("text", "json", "sarif", "github")
REPORT_FORMATS = ("text", "json", "html")
REMARK_FORMATS = ("emitRemark", "yaml")
SHELLS = ("bash", "zsh", "tcsh", "fish")
DEFAULT_SPLIT_MARKER = "// -----"

MLIR = "as in mlir-opt"
OURS = "of this tool"
MACHINE = "of the machine (--run, --validate)"
_SWITCH = "true"


def _switch(name: str, text: str, group: str = MLIR) -> Flag:
    return Flag(name, text, bare=_SWITCH, choices=("true", "false"), group=group)


FLAGS: tuple[Flag, ...] = (
    Flag("pass-pipeline", "passes as text, ours and MLIR's mixed (-p)", "PIPELINE", group=MLIR),
    Flag(
        "split-input-file",
        "process the parts between `// -----` lines on their own",
        "MARKER",
        bare=DEFAULT_SPLIT_MARKER,
        group=MLIR,
    ),
    Flag("output-split-marker", "line between the parts in the output", "MARKER", group=MLIR),
    Flag(
        "verify-diagnostics",
        "compare diagnostics with the expected-* comments of the input",
        "all|only-expected",
        bare="all",
        choices=("all", "only-expected"),
        group=MLIR,
    ),
    _switch("verify-each", "verify after each pass (default true)"),
    _switch("verify-roundtrip", "print and parse the input, and compare"),
    _switch("allow-unregistered-dialect", "accept ops of unknown dialects (default true)"),
    _switch("no-implicit-module", "the input is one op, not the body of a module"),
    Flag("mlir-print-ir-before", "print the IR before a pass", "PASS", repeated=True, group=MLIR),
    Flag("mlir-print-ir-after", "print the IR after a pass", "PASS", repeated=True, group=MLIR),
    _switch("mlir-print-ir-before-all", "print the IR before each pass"),
    _switch("mlir-print-ir-after-all", "print the IR after each pass"),
    _switch("mlir-print-ir-after-change", "print the IR only after passes that changed it"),
    _switch("mlir-print-ir-after-failure", "print the IR only after a pass that failed"),
    _switch("mlir-print-ir-module-scope", "print the whole module around the op"),
    _switch("mlir-print-op-generic", "print ops in generic form"),
    _switch("mlir-print-debuginfo", "print locations"),
    _switch("mlir-pretty-debuginfo", "print locations for reading, not for parsing"),
    _switch("mlir-print-local-scope", "print without aliases"),
    _switch("mlir-print-unique-ssa-ids", "no two values of the printed IR have the same name"),
    _switch("mlir-use-nameloc-as-prefix", "name values after their named locations"),
    _switch(
        "mlir-print-op-on-diagnostic", "show the op that an error of MLIR is about (default true)"
    ),
    Flag("mlir-elide-elementsattrs-if-larger", "elide big constants", "N", group=MLIR),
    _switch("mlir-timing", "print the wall time of each pass"),
    _switch("mlir-pass-statistics", "print statistics of each pass"),
    Flag(
        "remark-format",
        "remarks as diagnostics (default), or as LLVM's YAML",
        "FORMAT",
        choices=REMARK_FORMATS,
        group=MLIR,
    ),
    Flag("remarks-output-file", "where YAML remarks go (default: stderr)", "FILE", group=MLIR),
    Flag("remarks-filter", "YAML remarks whose pass:name matches", "REGEX", group=MLIR),
    Flag("remarks-filter-passed", "of loops pipelined and proofs, these", "REGEX", group=MLIR),
    Flag("remarks-filter-missed", "of refusals and warnings, these", "REGEX", group=MLIR),
    Flag("remarks-filter-analyse", "of counts and remarks, these", "REGEX", group=MLIR),
    Flag("remarks-filter-failed", "of other errors, these", "REGEX", group=MLIR),
    _switch("mlir-disable-threading", "use one thread"),
    Flag(
        "mlir-pass-pipeline-crash-reproducer",
        "write a reproducer here if a pass fails or crashes",
        "FILE",
        group=MLIR,
    ),
    _switch("run-reproducer", "run the pipeline that stands in the input"),
    _switch("dump-pass-pipeline", "print the pipeline that will run"),
    _switch("emit-bytecode", "write bytecode instead of text"),
    _switch("list-passes", "list the passes and their options"),
    _switch("show-dialects", "list the dialects of the bindings"),
    _switch("version", "print versions"),
    _switch("help-list", "list all options by name"),
    Flag("target", "where the module is going: nvvm:sm_80, rocdl:gfx950, …", "T", group=OURS),
    Flag("emit", "what to write: " + ", ".join(EMIT_KINDS), "KIND", choices=EMIT_KINDS, group=OURS),
    Flag("bindings", "which MLIR Python bindings to use", "NAME", group=OURS),
    Flag("load", "call a function before anything runs", "MODULE:FUNC", repeated=True, group=OURS),
    Flag(
        "explain",
        "say why loops and waits became what they are",
        "NAME|LINE",
        bare="true",
        group=OURS,
    ),
    Flag("report", "what was found and done", "FORMAT", choices=REPORT_FORMATS, group=OURS),
    Flag("report-file", "where the report goes (default: stderr)", "FILE", group=OURS),
    Flag("smem-limit", "workgroup memory that a block may use", "BYTES", group=OURS),
    Flag("cluster", "blocks that make a cluster where kernels do not say it", "X,Y,Z", group=OURS),
    Flag(
        "check",
        "hazards are errors or warnings",
        "error|warn",
        choices=("error", "warn"),
        group=OURS,
    ),
    _switch("check-only", "check the input for hazards, write the verdict", OURS),
    _switch("suggest", "say which loops could be pipelined, and how; write nothing", OURS),
    Flag(
        "diagnostics",
        "how diagnostics are written",
        "FORMAT",
        choices=DIAGNOSTIC_FORMATS,
        group=OURS,
    ),
    Flag(
        "print-completion",
        "print completions for a shell",
        "SHELL",
        choices=SHELLS,
        group=OURS,
    ),
    _switch(
        "resources", "ask ptxas what PTX needs (default: where it may spill, or for a report)", OURS
    ),
    _switch("cache", "keep results for the next run that is the same (default true)", OURS),
    _switch("isolate", "run in a child process; a crash becomes an error (default true)", OURS),
    Flag("run", "run a function on the CPU after the passes", "FUNC", group=MACHINE),
    Flag(
        "validate",
        "prove that a function computes what it did before the passes, for all data",
        "FUNC",
        group=MACHINE,
    ),
    _switch("validate-reassociate", "sums of floats may be in any order (default false)", MACHINE),
    Flag(
        "arg",
        "an argument: FILE.npy, a number, 128x64xf16[:SEED] (random), zeros:128x64xf16",
        "ARG",
        repeated=True,
        group=MACHINE,
    ),
    Flag(
        "threads",
        "threads of a block: 128 or 16x8x1 (default: what the function states, else 1)",
        "SIZE",
        group=MACHINE,
    ),
    Flag("grid", "blocks: 4 or 2x2x1", "SIZE", group=MACHINE),
    Flag("completion", "when copies arrive: eager, late, random[:SEED]", "WHEN", group=MACHINE),
    Flag("schedule", "order of warps: lockstep, forward, backward, random", "S", group=MACHINE),
    Flag("run-output", "write results as .npy into this folder", "DIR", group=MACHINE),
    Flag("timeline", "draw what thread 0 did", "FILE.svg|FILE.json", group=MACHINE),
    Flag(
        "cost",
        "cycles for --timeline and for schedules by latencies: latency=500,OP=300,throughput.QUEUE=8",
        "COSTS",
        group=MACHINE,
    ),
)


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
    pass_pipeline: str | None = None
    passes: tuple[PassFlag, ...] = ()
    load: tuple[str, ...] = ()
    # reading
    split_input_file: str = ""
    output_split_marker: str = DEFAULT_SPLIT_MARKER
    allow_unregistered_dialect: bool = True
    no_implicit_module: bool = False
    run_reproducer: bool = False
    # running
    verify_each: bool = True
    verify_diagnostics: str = ""
    verify_roundtrip: bool = False
    mlir_disable_threading: bool = False
    mlir_pass_pipeline_crash_reproducer: str = ""
    isolate: bool = True
    cache: bool = True
    resources: bool | None = None
    # printing
    mlir_print_ir_before: tuple[str, ...] = ()
    mlir_print_ir_after: tuple[str, ...] = ()
    mlir_print_ir_before_all: bool = False
    mlir_print_ir_after_all: bool = False
    mlir_print_ir_after_change: bool = False
    mlir_print_ir_after_failure: bool = False
    mlir_print_ir_module_scope: bool = False
    mlir_print_op_generic: bool = False
    mlir_print_debuginfo: bool = False
    mlir_pretty_debuginfo: bool = False
    mlir_print_local_scope: bool = False
    mlir_print_unique_ssa_ids: bool = False
    mlir_use_nameloc_as_prefix: bool = False
    mlir_print_op_on_diagnostic: bool = True
    mlir_elide_elementsattrs_if_larger: int | None = None
    mlir_timing: bool = False
    mlir_pass_statistics: bool = False
    remark_format: str = "emitRemark"
    remarks_output_file: str = "-"
    remarks_filter: str = ""
    remarks_filter_passed: str = ""
    remarks_filter_missed: str = ""
    remarks_filter_analyse: str = ""
    remarks_filter_failed: str = ""
    dump_pass_pipeline: bool = False
    emit_bytecode: bool = False
    # asking
    list_passes: bool = False
    show_dialects: bool = False
    version: bool = False
    help_list: bool = False
    print_completion: str = ""
    # ours
    target: str | None = None
    emit: str = "mlir"
    bindings: str | None = None
    explain: str = ""
    report: str = ""
    report_file: str = "-"
    smem_limit: int | None = None
    cluster: str = ""
    check: str = "error"
    check_only: bool = False
    suggest: bool = False
    diagnostics: str = "text"
    # the machine
    run: str | None = None
    validate: str | None = None
    validate_reassociate: bool = False
    arg: tuple[str, ...] = ()
    threads: str = ""
    grid: str = "1"
    completion: str = "eager"
    schedule: str = "lockstep"
    run_output: str = ""
    timeline: str = ""
    cost: str = ""

    @property
    def remarks_as_yaml(self) -> bool:
        return self.remark_format == "yaml"
