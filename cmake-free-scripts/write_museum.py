"""Writes docs/museum.md from examples/museum: each public bug, and what the checker says of it, word by word.

python cmake-free-scripts/write_museum.py
"""

from __future__ import annotations

import re
import shlex
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Report, Session

ROOT = Path(__file__).resolve().parent.parent
MUSEUM = ROOT / "examples" / "museum"
PAGE = ROOT / "docs" / "museum.md"

HEAD = """# A museum of real bugs

{count} bugs of public projects, each as two small kernels in `examples/museum`: as it was, and as it was mended.
They are reductions of our own, with the queues, the protocol and the mistake of the original; `diff` of the two
shows the mend. The checker refutes the one and proves the other, for every trip count and every order of warps:

    async-pipe-opt examples/museum/deepep-657.buggy.mlir --check-only --target=nvvm:sm_90a
    async-pipe-opt examples/museum/deepep-657.fixed.mlir --check-only --target=nvvm:sm_90a

What it says of the first fault stands below word by word, with the other errors of the kernel. The
[machine](machine.md) runs both: it fails on the one with the numbers of each error, and finds nothing on the other
(test/products/test_museum.py). The command that runs a kernel stands in its file. Times are those of one check of
the broken kernel and of the mended one, in milliseconds on one core. {slow} more stand at the end, whose waits were too
strong.

`cmake-free-scripts/write_museum.py` writes this page.
"""
NVDSL = """LLVM's tutorial of NVGPU from Python (`mlir/test/Examples/NVGPU`) is racy as written from its second chapter on: no
chapter makes its mbarriers visible to copies and to other threads, the fourth and fifth reuse memory that slower warps
still read. Each is here as the tutorial has it, in smaller tiles, and repaired.
"""
STRONG = """Waits for more than they need are no races, but time. `--async-pipe-tokens=relax` finds the largest count that
is proven, and says what one more would break.
"""
# Pairs that are both right: as it was, slowly.
SLOW = "tilelang-2505 fb-triton-2153"
# By what went wrong; every other pair is in one.
ROOMS = {
    "Waits that are too weak, or too late": (
        "tilelang-2668 fb-triton-2058 hipkittens-40 rocm-libraries-7839 rocm-libraries-7878 "
        "triton-8139 triton-3106 deepep-657 uccl-mkernel-18"
    ),
    "Barriers that are missing": (
        "tilelang-2613 tilelang-2698 tilelang-2556 tensorrt-llm-18339 flashinfer-3607 "
        "fb-triton-3394 rocm-libraries-4713 aiter-4537 aiter-4851 rocm-libraries-10653"
    ),
    "Phases of mbarriers": (
        "tilelang-2674 tilelang-2927 tensorrt-llm-15338 cutlass-2418 tilelang-2566 tilelang-3087"
    ),
    "Named barriers": "flashinfer-4732 flashinfer-4533 transformer-engine-2554",
    "Clusters": "cutlass-3643 fb-triton-3472",
    "LLVM's own tutorial": "llvm-nvdsl-ch2 llvm-nvdsl-ch3 llvm-nvdsl-ch4 llvm-nvdsl-ch5",
}


@dataclass(frozen=True)
class Kernel:
    """One file: of which bug it is, what its comment says, and the options of its command."""

    path: Path
    source: str
    said: str
    options: dict[str, list[str]]

    @property
    def target(self) -> str:
        return self.options["target"][0]

    @property
    def link(self) -> str:
        """The place of the bug on the web."""
        project, _, number = self.source.partition("#")
        if number:
            return f"https://github.com/{project}/issues/{number}"
        project, folder, _ = self.source.split(", ")
        return f"https://github.com/{project}/tree/main/{folder}"


def read(name: str) -> Kernel:
    """The kernel in a file, by its name without the ending."""
    path = MUSEUM / f"{name}.mlir"
    comment = re.match(r"(?:// .*\n)+", path.read_text())
    assert comment is not None, path
    words = " ".join(comment[0].replace("// ", "").split())
    told, _, command = words.partition(" async-pipe-opt FILE ")
    source, _, said = told.partition(": ")
    options: dict[str, list[str]] = {}
    for word in shlex.split(command):
        option, _, value = word.removeprefix("--").partition("=")
        options.setdefault(option, []).append(value)
    return Kernel(path, source, said, options)


def names() -> list[str]:
    """The bugs, in the order of the page."""
    return [name for room in ROOMS.values() for name in room.split()]


def checked(kernel: Kernel) -> Report:
    """What the checker says of a kernel, as a report."""
    with new_context():
        module = ir.Module.parseFile(str(kernel.path))
        return mlir_async_pipe.check(module, target=kernel.target)


def errors(report: Report) -> list[str]:
    """The errors of a report, without the folder of the file."""
    found = [str(d) for d in report.diagnostics if d.severity == "error"]
    return [text.replace(f"{MUSEUM}/", "") for text in found]


def relaxed(kernel: Kernel) -> tuple[list[str], str]:
    """What is said of waits that may leave more in flight, and the kernel with these counts."""
    session = Session(target=Target.parse(kernel.target))
    with new_context():
        module = ir.Module.parseFile(str(kernel.path))
        found = passes.find("async-pipe-tokens")
        found.run(module.operation, found.options(relax=True), session)
        said = [str(d).replace(f"{MUSEUM}/", "") for d in session.report().diagnostics]
        return said, str(module)


def page() -> str:
    """The page, a section a bug."""
    parts = [HEAD.format(count=len(names()), slow=len(SLOW.split()))]
    for room, inside in ROOMS.items():
        parts += [f"## {room}\n"]
        if "tutorial" in room:
            parts.append(NVDSL)
        parts += [_section(name) for name in inside.split()]
    parts += ["## Waits that are too strong\n", STRONG, *map(_slow_section, SLOW.split())]
    return "\n".join(parts)


def _section(name: str) -> str:
    was, mended = read(f"{name}.buggy"), read(f"{name}.fixed")
    reports, times = [], []
    for kernel in (was, mended):
        before = time.process_time()
        reports.append(checked(kernel))
        times.append(f"{1000 * (time.process_time() - before):.0f}")
    found = errors(reports[0])
    lines = [*found[0].splitlines(), *(text.splitlines()[0] for text in found[1:])]
    shown = "\n".join(f"    {line}" for line in lines)
    return f"{_told(was, mended)}\n\n{shown}\n\n{' and '.join(times)} ms.\n"


def _slow_section(name: str) -> str:
    was, mended = read(f"{name}.slow"), read(f"{name}.fixed")
    lines = [line for text in relaxed(was)[0] for line in text.splitlines()]
    shown = "\n".join(f"    {line}" for line in lines)
    return f"{_told(was, mended)}\n\n{shown}\n"


def _told(was: Kernel, mended: Kernel) -> str:
    prose = textwrap.fill(f"{was.said} Mended: {mended.said}", 115, break_on_hyphens=False)
    return f"### [{was.source}]({was.link})\n\n{prose}"


if __name__ == "__main__":
    # What is loaded at the first check is no part of its time.
    checked(read("cutlass-3643.fixed"))
    PAGE.write_text(page())
