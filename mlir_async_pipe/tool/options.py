"""What a command line says, as one frozen `Options`."""

from __future__ import annotations

from dataclasses import dataclass

EMIT_KINDS = ("mlir", "llvm", "ptx", "cubin", "isa", "hsaco")
DIAGNOSTIC_FORMATS = ("text", "json", "sarif", "github")
REPORT_FORMATS = ("text", "json", "html")
REMARK_FORMATS = ("emitRemark", "yaml")
SHELLS = ("bash", "zsh", "tcsh", "fish")
DEFAULT_SPLIT_MARKER = "// -----"


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
