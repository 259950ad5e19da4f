"""Takes a dispatch out of iree-compile, pipelines its loops, and gives it back for the rest.

    iree-compile p.mlir … --iree-hal-dump-executable-configurations-to=dispatches -o /dev/null
    python round_trip.py dispatches/module_p_dispatch_0.mlir -o p_dispatch_0.vmfb [--ptx FOLDER]

    configured dispatch --IREE, until its loops are final--> scf.for over memrefs
        --async-pipe, copies to nvgpu--> pipelined --the passes of IREE that are left--> NVVM
        --iree-compile --compile-from=executable-targets--> .vmfb

Runs with IREE's own bindings and tools (`pip install iree-base-compiler==3.13.0`), for NVIDIA. A
program instead of a dump is configured first; it may have one dispatch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import mlir_async_pipe

mlir_async_pipe.use("iree")

from mlir_async_pipe.bindings import ir, new_context  # noqa: E402 - the stack comes first
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops  # noqa: E402
from mlir_async_pipe.session.report import Session  # noqa: E402

BIN = Path(sys.executable).parent
# The last pass before loops go: vectors of one dimension, plain integer arithmetic, no tensors.
LAST = "iree-codegen-gpu-check-resource-usage"
# What IREE 3.13 runs after it, as --mlir-print-ir-after-all lists it.
OF_FUNCTIONS = (
    "convert-complex-to-standard,iree-codegen-math-transform,convert-scf-to-cf,canonicalize,cse,"
    "iree-codegen-hoist-statically-bound-allocations,iree-codegen-fold-memref-alias-ops,"
    "iree-codegen-expand-strided-metadata{allow-subview-expansion=true},"
    "iree-codegen-emulate-narrow-type,iree-affine-expand-index-ops,iree-lower-affine"
)
REST = (
    "builtin.module(hal.executable(hal.executable.variant("
    f"builtin.module(func.func({OF_FUNCTIONS}),strip-debuginfo,"
    "iree-llvmgpu-cast-address-space-function,iree-util-drop-compiler-hints{keep-assume-int=true},"
    "iree-convert-to-nvvm),iree-codegen-propagate-dispatch-config)))"
)


def tool(name: str, *arguments: str) -> str:
    """Run a tool of IREE; what it writes to standard error."""
    done = subprocess.run([str(BIN / name), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr}")
    return done.stderr


def with_loops(source: Path, chip: str, work: Path) -> str:
    """The module around a dispatch at the moment when its loops are final."""
    if "hal.executable " not in source.read_text():
        configured = work / "configured.mlir"
        tool(
            "iree-compile", str(source), "--iree-hal-target-device=cuda",
            f"--iree-cuda-target={chip}", "--iree-llvmgpu-prefetch-num-stages=0",
            "--compile-to=executable-configurations", "-o", str(configured),
        )  # fmt: skip
        source = configured
    if source.read_text().count("hal.executable.variant ") != 1:
        sys.exit(f"{source}: one dispatch at a time; --iree-hal-dump-executable-configurations-to")
    dump = tool(
        "iree-compile", str(source), "--compile-from=executable-configurations",
        "--compile-to=executable-targets", "-o", "/dev/null", f"--mlir-print-ir-after={LAST}",
        "--mlir-print-ir-module-scope", "--mlir-disable-threading",
    )  # fmt: skip
    return dump.rpartition("// -----// IR Dump After")[2].partition("\n")[2]


def pipelined(text: str, target: mlir_async_pipe.Target, stages: int) -> str:
    """Pipeline every loop that reads global memory, and write its copies as IREE knows them."""
    with new_context():
        module = ir.Module.parse(text)
        for loop in mlir_async_pipe.find_loops(module, annotated=False):
            mlir_async_pipe.annotate(loop, num_stages=stages)
        report = mlir_async_pipe.pipeline(module, target=target)
        counts = [record.count for record in report.of("waits")]
        print(f"{len(report.of('loops'))} loops, counts {counts}")
        lower_abstract_ops(module.operation, target.chip, Session(target=target), strict=False)
        # A group without copies prints as text that does not parse again.
        text = module.operation.get_asm(print_generic_op_form=True)
    return text


def main() -> None:
    """There and back."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", dest="output", type=Path, required=True)
    parser.add_argument("--chip", default="sm_80")
    parser.add_argument("--num-stages", type=int, default=3)
    parser.add_argument("--ptx", type=Path, help="folder for the PTX")
    options = parser.parse_args()
    target = mlir_async_pipe.Target.parse(f"nvvm:{options.chip}")
    with TemporaryDirectory() as name:
        work = Path(name)
        text = pipelined(with_loops(options.source, options.chip, work), target, options.num_stages)
        (work / "pipelined.mlir").write_text(text)
        lowered = str(work / "lowered.mlir")
        tool("iree-opt", str(work / "pipelined.mlir"), f"--pass-pipeline={REST}", "-o", lowered)
        dumps = [f"--iree-hal-dump-executable-binaries-to={options.ptx}"] if options.ptx else []
        tool(
            "iree-compile", lowered, "--compile-from=executable-targets",
            *dumps, "-o", str(options.output),
        )  # fmt: skip


if __name__ == "__main__":
    main()
