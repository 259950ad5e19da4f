"""Asks `validate` whether the PTX of random kernels computes what they do, for all data, and breaks it; exits 1 if a right kernel
is called different, or a broken one equal that the interpreter of PTX tells apart.

    python test/reports/validated_ptx_report.py --kernels 200 --seed 1 --jobs 2 --json FILE

A kernel is pipelined and lowered; its PTX is compared with the kernel as it was written. Then one instruction of it is changed: a wait
leaves one more group in flight, an address or another number is one larger, a sum is a difference.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import mlir_async_pipe
from helpers.ptx_machine import Program, PtxFault, parse
from helpers.ptx_of import Ptx
from helpers.random_lowering.judge import TARGET, run_kernel
from helpers.random_lowering.kernel_text import Kernel
from helpers.random_lowering.lines import module_text, source_type
from helpers.random_lowering.model import Case, make_case, source_columns
from helpers.random_lowering.spec import Spec, choose
from mlir_async_pipe import Target, validate
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.lower import Lowered, lower
from mlir_async_pipe.machine import Data
from mlir_async_pipe.session.diagnostics import AsyncPipeError

SECONDS = 10.0
# A loop that a change keeps from ending is given up.
STEPS = 50_000
# Of arguments on the machine, in bytes.
ALIGNMENT = 256
CHANGES = (
    (r"(cp\.async\.wait_group\s+)(\d+)", 1),
    (r"(ld\.shared\.[\w.]+\s+\S+, \[%\w+\+)(\d+)", 4),
    (r"(cp\.async\.c[ag][\w.:]* \[[^]]*\], \[%\w+\+)(\d+)", 4),
    (r"(add\.s(?:32|64)\s+\S+ \S+ )(\d+)", 1),
)
OPERATORS = (("add.rn.f32", "sub.rn.f32"), ("add.rn.f64", "sub.rn.f64"), ("mul.rn.f32", "add.rn.f32"), ("max.s32", "min.s32"))  # fmt: skip


@dataclass
class Judged:
    """What became of one kernel, and of its mutants by verdict."""

    verdict: str
    seconds: float = 0.0
    mutants: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def mutants(text: str) -> Iterator[str]:
    """The PTX with one instruction changed."""
    for pattern, more in CHANGES:
        for found in re.finditer(pattern, text):
            yield text[: found.start(2)] + str(int(found[2]) + more) + text[found.end(2) :]
    for was, now in OPERATORS:
        for found in re.finditer(re.escape(was), text):
            yield text[: found.start()] + now + text[found.end() :]


def tells_apart(spec: Spec, case: Case, code: Lowered, text: str) -> str:
    """How a run of the PTX in the interpreter is wrong, "" if it is not."""
    # Arrays begin, and their rows stand, where the machine puts them: kernels ask for the alignment, and go another way.
    rows, inputs, sources = np.arange(spec.blocks * spec.outer * spec.trips)[:, None], [], []
    for data, one in zip(case.inputs, spec.sources, strict=True):
        columns, kind = source_columns(spec, one), source_type(spec, one)
        stride = columns if "[?, 1]" in kind else one.stride
        offset = 0 if "offset: ?" in kind else one.offset
        array = np.zeros(offset + rows.size * stride, data.dtype)
        there, here = (
            first + rows * step + np.arange(columns)
            for first, step in ((offset, stride), (one.offset, one.stride))
        )
        array[there] = data.ravel()[here]
        inputs.append(array)
        sources.append(replace(one, align=ALIGNMENT, stride=stride, offset=offset))
    spec, case = replace(spec, sources=tuple(sources)), replace(case, inputs=inputs)
    sizes = {kernel.name: kernel.dynamic_shared_bytes for kernel in code.kernels}
    try:
        program = Program(parse(text), spec.name)
        return run_kernel(spec, case, Ptx(text, sizes), program, "late")[0]
    except PtxFault as fault:
        return str(fault)


def judge(number: int, each: int) -> Judged:
    """One kernel and `each` mutants of its PTX."""
    spec = choose(number, f"k{number}")
    text = module_text([Kernel(spec).text()])
    options = {"smem_limit": spec.smem_limit} if spec.smem_limit else {}
    with new_context():
        before, module = ir.Module.parse(text), ir.Module.parse(text)
        try:
            mlir_async_pipe.pipeline(module, target=TARGET, **options)
            code = lower(module, target=Target.parse(TARGET), emit="ptx")
        except AsyncPipeError as error:
            return Judged(f"refused ({error.code})")
        case, rows = make_case(spec), spec.blocks * spec.outer * spec.trips
        arguments = [Data((rows, source_columns(spec, source))) for source in spec.sources]
        arguments.append(Data((case.output.size,)))
        if case.scratch is not None:
            arguments.append(Data((case.scratch.size,)))
        ask = partial(
            validate,
            before,
            function=spec.name,
            arguments=[*arguments, spec.bound, spec.trips],
            threads=spec.block,
            grid=spec.blocks,
            target=TARGET,
            step_limit=STEPS,
        )
        started = time.process_time()
        answer = ask(code)
        found = Judged(answer.verdict if answer.verdict != "unknown" else answer.code)
        found.seconds = time.process_time() - started
        if answer.is_equal and not answer.elements:
            return replace(found, verdict="nothing is written")
        if answer.verdict == "different":
            found.wrong.append(f"seed {number}: right, but {answer.diagnostic()}")
        if not answer.is_equal:
            return found
        broken = list(mutants(code.text))
        for changed in Random(number).sample(broken, min(each, len(broken))):
            answer = ask(replace(code, text=changed))
            found.mutants[answer.verdict] += 1
            how = tells_apart(spec, case, code, changed) if answer.is_equal else ""
            if how:
                found.wrong.append(f"seed {number}: equal, but a run says {how}\n{changed}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--each", type=int, default=3, help="mutants of a kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.kernels)
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=20) as pool:
        judged = []
        for one in pool.imap(partial(judge, each=arguments.each), seeds):
            judged.append(one)
            print(f"seed {seeds[len(judged) - 1]}: {one}", file=sys.stderr, flush=True)
    figures = {
        "kernels": Counter(one.verdict for one in judged),
        "mutants": sum((one.mutants for one in judged), Counter[str]()),
        "slow": sum(one.seconds > SECONDS for one in judged),
        "longest": max(one.seconds for one in judged),
        "wrong": [text for one in judged for text in one.wrong],
    }
    for name in ("kernels", "mutants", "slow", "longest"):
        print(f"{name}: {figures[name]}")
    print(f"wrong: {len(figures['wrong'])}", *figures["wrong"][:5], sep="\n")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if figures["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
