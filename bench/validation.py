"""Whether pipelines compute what their loops did, for all data: other people's kernels, and our examples.

    python bench/validation.py FOLDER [--ptx] [--stages 3] [--only TEXT] [--json FILE]

Each .mlir file of the folder is one kernel, its name begins with its chip (made by bench/iree_corpus.py or
bench/torch_mlir_corpus.py; examples/iree/kernels is one, too). Every innermost loop that reads global memory gets
`num_stages`, is pipelined, and the first block is compared with the kernel as it was, by `mlir_async_pipe.validate`.
Floats are data; integers are numbers. With --ptx it is the PTX of the pipeline that is compared, and kernels for other chips are left
out. The seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from real_loops import arguments_of, loops_of

from mlir_async_pipe import annotate, pipeline, validate
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import is_kernel, symbol_name, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.machine import Data
from mlir_async_pipe.session.diagnostics import AsyncPipeError

# One block computes all 256 elements of a product of dynamic sizes.
DYNAMIC = 16


def measure(path: Path, stages: int, ptx: bool) -> dict[str, Any]:
    """What becomes of one kernel."""
    chip = CHIPS[re.split(r"[._](?=[a-z])", path.stem)[0]]
    target = f"{'nvvm' if chip.name.startswith('sm') else 'rocdl'}:{chip.name}"
    row: dict[str, Any] = {"name": path.stem, "verdict": "", "code": "", "seconds": 0.0}
    text = path.read_text()
    with new_context():
        before, after = ir.Module.parse(text), ir.Module.parse(text)
        (kernel,) = [op for op in walk(before.operation) if is_kernel(op)]
        for loop in loops_of(after):
            annotate(loop, num_stages=stages)
        try:
            report = pipeline(after, target, check="warn")
        except AsyncPipeError as error:
            return {**row, "verdict": "not pipelined", "code": error.code}
        if not report.of("loops"):
            return {**row, "verdict": "not pipelined", "code": "no loop"}
        given = arguments_of(kernel, DYNAMIC)
        if isinstance(given, str):
            return {**row, "verdict": "no arguments", "code": given}
        arguments = [
            Data(one.shape) if isinstance(one, np.ndarray) and one.dtype.kind == "f" else one
            for one in given
        ]
        code: Any = after
        if ptx:
            try:
                code = lower(after, target=Target.parse(target), emit="ptx")
            except AsyncPipeError as error:
                return {**row, "verdict": "not lowered", "code": error.code}
        began = time.process_time()
        found = validate(before, code, symbol_name(kernel), arguments, target=Target.parse(target))
    seconds = time.process_time() - began
    return {
        **row,
        "verdict": found.verdict,
        "code": found.code,
        "seconds": round(seconds, 1),
        "elements": found.elements,
        "terms": found.terms,
        "message": "" if found.is_equal else str(found.diagnostic()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stages", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--ptx", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for path in sorted(arguments.folder.glob("*.mlir")):
        if arguments.only not in path.name or (arguments.ptx and not path.name.startswith("sm")):
            continue
        row = measure(path, arguments.stages, arguments.ptx)
        rows.append(row)
        print(*(row[key] for key in ("name", "verdict", "code", "seconds")), flush=True)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(dict(Counter(f"{row['verdict']} [{row['code']}]" for row in rows)))
    compared = [row for row in rows if row["seconds"]]
    print("longest:", max((row["seconds"] for row in compared), default=0), "s")


if __name__ == "__main__":
    main()
