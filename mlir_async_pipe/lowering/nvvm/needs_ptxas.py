"""Whether ptxas has to be asked about PTX although nobody has read what it needs.

    GEMM 128x128x32    236 registers live from block to block, of 255, 274 at once inside of one: no

Its answer changes the code only where a kernel spills and `nvvm.minctasm = 1` helps: most where ptxas
gives up registers that a thread may have, all but 32 of 255 in a block of 128 threads whose values need
312, of 128 in one of 512 that need 188 (ptxas 13.5, sm_80). What lives from block to block can hardly
need less, and ptxas keeps some registers for itself; inside of a block it finds a better order than
LLVM's. With 16 registers left between blocks and an eighth too few anywhere no kernel was found that
spills; of 46 GEMMs that spill none needs less than 9/8 and 5/4 (`test/laws/test_registers_of_ptx.py`).

It is asked, too, where only it knows what is wrong or what is needed: of instructions that LLVM got as
text, of products of warpgroups, which it may run one after the other, and of calls.
"""

from __future__ import annotations

import re
from math import prod

from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.nvvm.live_registers import declared_registers, live_registers
from mlir_async_pipe.lowering.nvvm.ptx import kernel_texts

_GIVEN = re.compile(r"// begin inline asm(?!\s*// end inline asm)")
_KNOWN_TO_PTXAS = (".func", "\tcall", "\tbrx", "\twgmma.")
_THREADS = re.compile(r"^\.(?:reqntid|maxntid) ([\d, ]+)$", re.MULTILINE)
_BLOCKS = re.compile(r"^\.minnctapersm (\d+)$", re.MULTILINE)
_LIMIT = re.compile(r"^\.maxnreg (\d+)$", re.MULTILINE)

# Of 64 registers (a block of 1024 threads) 60 that live through a loop are too many.
_RESERVE = 16


def needs_ptxas(ptx: str, chip: Chip) -> bool:
    """Whether what ptxas says of this PTX may change it, or is an error or a remark."""
    if _GIVEN.search(ptx) or any(words in ptx for words in _KNOWN_TO_PTXAS):
        return True
    return any(_may_spill(text, chip) for text in kernel_texts(ptx).values())


def _may_spill(kernel: str, chip: Chip) -> bool:
    """Whether the values of a kernel may need more registers than a thread may have."""
    head = kernel[: kernel.index("{")]
    threads, blocks, limit = (found.search(head) for found in (_THREADS, _BLOCKS, _LIMIT))
    at_once = prod(map(int, threads[1].split(","))) if threads else None
    if at_once is not None and blocks:
        at_once *= int(blocks[1])
    have = chip.registers_of_thread(at_once)
    if limit:
        have = min(have, int(limit[1]))
    if declared_registers(kernel) <= have - _RESERVE:
        return False
    live = live_registers(kernel)
    return live.between_blocks > have - _RESERVE or live.anywhere > have + have // 8
