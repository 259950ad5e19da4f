"""What the main loops of our kernels cost in machine code, instruction by instruction.

    python bench/code.py [--only TEXT] [--triton PYTHON] [--json FILE] [--listing FOLDER]
    python bench/code.py --source FILE [--target nvvm:sm_80]
    python bench/code.py --compare              names what is worse than in bench/code.json
    python bench/code.py --store --triton PYTHON    writes bench/code.json and docs/code.md

For each kernel of `code_kernels.py`, and of `user_kernels.py` as users write them: instructions of one iteration, all and by class, for each
product, the longest run of issue slots without a product, waits, registers, spills, workgroup
memory, bank conflicts. Beside it Triton's code for the same tile: `--triton` is the Python of an
environment with Triton in it (`pip install triton`). Nothing is timed and no GPU is needed: ptxas
and nvdisasm come with the extra `nvidia`, AMD's back end with the extra `amd`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from code_compare import worse
from code_figures import Figures, of_triton, of_user, ours
from code_kernels import KERNELS, ROOT, SM_80, USERS_KERNELS, Kernel
from code_table import document, table
from iterations import class_of

STORED = Path(__file__).with_name("code.json")
DOCUMENT = ROOT / "docs" / "code.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="kernels whose name and target have this text")
    parser.add_argument("--source", type=Path, help="a module with one kernel, instead of the list")
    parser.add_argument("--target", default=SM_80, help="of --source")
    parser.add_argument("--triton", type=Path, metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--listing", type=Path, help="write each loop's instructions here")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--store", action="store_true")
    arguments = parser.parse_args()
    kernels = [k for k in (*KERNELS, *USERS_KERNELS) if arguments.only in f"{k.target} {k.name}"]
    if arguments.source is not None:
        kernels = [Kernel(arguments.source.name, arguments.target, arguments.source.read_text)]
    found = {
        f"{kernel.target} {kernel.name}": (of_user if kernel.threads else ours)(kernel)
        for kernel in kernels
    }
    peers = of_triton(kernels, arguments.triton) if arguments.triton is not None else {}
    if arguments.listing is not None:
        write_listings(arguments.listing, found, peers)
    stored = {name: {"ours": figures.stored()} for name, figures in found.items()}
    for name, figures in peers.items():
        stored[name]["Triton"] = figures.stored()
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(stored, indent=1) + "\n")
    if arguments.store:
        store(stored)
    print(table(stored))
    if not arguments.compare:
        return 0
    complaints = worse(stored, json.loads(STORED.read_text()))
    print("\n".join(complaints) or "nothing is worse than in bench/code.json")
    return 1 if complaints else 0


def store(found: dict[str, dict[str, object]]) -> None:
    """Write file and page; kernels and sides that were not looked at keep their figures."""
    kept = json.loads(STORED.read_text())
    kept.update({name: {**kept.get(name, {}), **sides} for name, sides in found.items()})
    names = [f"{kernel.target} {kernel.name}" for kernel in (*KERNELS, *USERS_KERNELS)]
    whole = {name: kept[name] for name in names if name in kept}
    STORED.write_text(json.dumps(whole, indent=1) + "\n")
    DOCUMENT.write_text(document(whole))


def write_listings(folder: Path, *sides: dict[str, Figures]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, results in zip(("ours", "triton"), sides, strict=True):
        for name, found in results.items():
            vendor = name.split(":")[0]
            lines = [f"{class_of(text, vendor):14} {text}" for text in found.body]
            (folder / f"{side} {name}".replace(" ", "_")).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
