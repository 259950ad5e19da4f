"""Runs the machine code of a folder that gpu_cases.py wrote: right first, then how fast. Needs a GPU, no MLIR.

    python bench/gpu_run.py FOLDER [--only NAME] [--sizes 4096,8192] [--json OUT]

Numbers: operands are whole numbers of -3 to 3, so that every sum is exact and one wrong element is seen;
K from 0 to more than all slots, K that is no multiple of the tile where the kernel takes it, and a large
product several times. Attention is held against float64. The result is filled with NaN before each launch.
Times: the median of events around single launches on operands of a normal distribution, after others have warmed
the GPU up, beside PyTorch's (cuBLAS, flash attention).

Kernels run in a process of their own, which is stopped where one hangs; an error ends it, and the next kernel
begins a new one. Needs PyTorch and cuda.bindings.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import queue
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds without a line after which a kernel is taken to hang
ELEMENTS = {
    "f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2", "s8": "int8", "u8": "uint8",
}  # fmt: skip
SUMS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "s32": "int32"}
NUMBERS = {"i64": ctypes.c_int64, "i32": ctypes.c_int32, "index": ctypes.c_int64}


# -- launching ---------------------------------------------------------------------------------------


def ask(result: tuple[Any, ...]) -> Any:
    """What a call of cuda.bindings returned; raises what it failed with."""
    error, *values = result
    if int(error):
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


class Kernel:
    """One case's machine code, loaded."""

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        from cuda.bindings import driver

        self.driver, self.case, self.folder = driver, case, folder
        self.module = ask(driver.cuModuleLoadData((folder / case["file"]).read_bytes()))
        self.function = ask(driver.cuModuleGetFunction(self.module, case["entry"].encode()))
        dynamic = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        ask(driver.cuFuncSetAttribute(self.function, dynamic, case["shared"]))
        wide = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        ask(driver.cuFuncSetAttribute(self.function, wide, 1))

    def resident_blocks(self) -> int:
        """How many blocks a multiprocessor runs at once."""
        x, y, z = self.case["threads"]
        asked = self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return max(1, int(ask(asked(self.function, x * y * z, self.case["shared"]))))

    def bind(self, values: list[Any], grid: tuple[int, int]) -> Any:
        """A launch on these tensors and numbers, as a function without arguments."""
        import torch

        maps = self.case["maps"]
        kept = [self._map(v, maps[str(n)]) if str(n) in maps else v for n, v in enumerate(values)]
        made = [self._value(p, kept[p["argument"]]) for p in self.case["parameters"]]
        pointers = (ctypes.c_void_p * len(made))(*(ctypes.addressof(value) for value in made))
        stream = torch.cuda.current_stream().cuda_stream
        x, y, z = self.case["threads"]

        def launch() -> None:
            # What the pointers name lives as long as this function does.
            _ = kept, made
            ask(
                self.driver.cuLaunchKernel(
                    self.function, *grid, 1, x, y, z, self.case["shared"], stream,
                    ctypes.addressof(pointers), 0,
                )
            )  # fmt: skip

        return launch

    def _value(self, parameter: dict[str, Any], value: Any) -> Any:
        """The ctypes value of one parameter (docs/launch.md)."""
        kind, dimension = parameter["kind"], parameter["dimension"]
        if kind == "number":
            return NUMBERS[parameter["type"]](value)
        if kind == "pointer":
            return ctypes.c_void_p(value.data_ptr())
        of = {
            "offset": [getattr(value, "offset", 0)],
            "size": value.shape,
            "stride": value.stride(),
        }[kind]
        return ctypes.c_int64(of[dimension])

    def _map(self, tensor: Any, described: dict[str, Any]) -> Any:
        """The tensor map of a matrix, in memory of the GPU. With three dimensions: columns by lines."""
        import torch

        d, box = self.driver, described["box"]
        columns = tensor.shape[-1]
        rows = tensor.numel() // columns
        size, line = tensor.element_size(), box[-1]
        dims = {1: [tensor.numel()], 2: [columns, rows], 3: [line, rows, columns // line]}[len(box)]
        # A tensor of one dimension has no stride, but the call asks for an array.
        strides = [columns * size, line * size][: max(len(box) - 1, 1)]
        kind = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32"}.get(
            described["element"], "UINT8"
        )
        swizzle = described["swizzle"].removeprefix("swizzle_").upper()
        encoded = ask(
            d.cuTensorMapEncodeTiled(
                getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
                len(dims),
                tensor.data_ptr(),
                [d.cuuint64_t(n) for n in dims],
                [d.cuuint64_t(n) for n in strides],
                [d.cuuint32_t(n) for n in reversed(box)],
                [d.cuuint32_t(1)] * len(dims),
                d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
                d.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                d.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
        data = ctypes.string_at(encoded.getPtr(), 128)
        held = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
        held.tensor = tensor  # the map names its memory
        return held


# -- families ----------------------------------------------------------------------------------------


def whole_numbers(shape: tuple[int, ...], types: str) -> Any:
    """Whole numbers of -3 to 3, or 0 to 3, as a type of operands."""
    import torch

    drawn = torch.randint(0 if types == "u8" else -3, 4, shape, device="cuda")
    return drawn.to(torch.float32).to(getattr(torch, ELEMENTS[types]))


def normal_numbers(shape: tuple[int, ...], types: str) -> Any:
    """Numbers of a normal distribution, or all whole ones of 8 bits."""
    import torch

    kind = getattr(torch, ELEMENTS[types])
    if types in ("s8", "u8"):
        low = -128 if types == "s8" else 0
        return torch.randint(low, low + 256, shape, device="cuda").to(kind)
    return torch.randn(shape, device="cuda").to(kind)


def poisoned(shape: tuple[int, ...], kind: str) -> Any:
    """A result in which each element that is not written is seen."""
    import torch

    fill = -77777 if kind == "int32" else float("nan")
    return torch.full(shape, fill, dtype=getattr(torch, kind), device="cuda")


class Gemms:
    """C[M, N] = A[M, K] * B, B as N x K or K x N."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.facts = kernel, kernel.case["facts"]
        self.tensors = kernel.case["family"] == "tensor gemm"
        self.tile = self.facts["tile"]
        whole = self.facts["types"] in ("s8", "u8")
        self.sums = SUMS[self.facts.get("out") or ("s32" if whole else "f32")]

    def launch(self, m: int, n: int, k: int, draw: Any) -> tuple[Any, Any, Any, Any]:
        """A, B by k, C and the launch."""
        import torch

        a, b = draw((m, k), self.facts["types"]), draw((n, k), self.facts["types"])
        c = poisoned((m, n), self.sums)
        given = b if self.facts.get("b", "k") == "k" else b.T.contiguous()
        tiles = (n // self.tile[1], m // self.tile[0])
        processors = torch.cuda.get_device_properties(0).multi_processor_count
        blocks = self.facts.get("cluster", 1)
        grid = tiles
        if self.facts.get("persistent"):
            running = processors * self.kernel.resident_blocks()
            grid = (min(running, tiles[0] * tiles[1]) // blocks, blocks)
        # What a tensor map describes has no sizes: a persistent kernel is told them.
        sizes = [m, n] if self.facts.get("store") == "tma" else []
        values = [a, given, c, *sizes, k] if self.tensors else [a, given, c]
        return a, b, c, self.kernel.bind(values, grid)

    def sizes(self) -> list[tuple[int, int, int]]:
        """M, N, K: all numbers of iterations up to some rings, ragged K, a large one."""
        m, n, k = self.tile
        rows = 2 * self.facts.get("cluster", 1)
        found = [(rows * m, 3 * n, k * i) for i in (1, 2, 3, 4, 5, 9, 12)]
        if self.tensors:
            found += [(rows * m, 3 * n, k * 3 + 16), (rows * m, n, 16)]
        large = 256 if self.facts.get("sums") == "f16" else 2048
        return [*found, (large, large, large)]

    def wrong(self) -> dict[str, int]:
        """Wrong elements by size; nothing where all is right."""
        import torch

        found = {}
        for m, n, k in self.sizes():
            for _ in range(3 if k < 1000 else 10):
                a, b, c, launch = self.launch(m, n, k, whole_numbers)
                launch()
                torch.cuda.synchronize()
                wanted = (a.to(torch.float64) @ b.to(torch.float64).T).to(c.dtype)
                count = int((c != wanted).sum())
                if count:
                    found[f"{m}x{n}x{k}"] = max(count, found.get(f"{m}x{n}x{k}", 0))
        return found

    def times(self, size: int) -> dict[str, float]:
        """Milliseconds of ours and of cuBLAS."""
        import torch

        a, b, c, launch = self.launch(size, size, size, normal_numbers)
        found = {"ours": median_ms(launch)}
        types = self.facts["types"]
        torch.backends.cuda.matmul.allow_tf32 = types == "tf32"
        one = torch.ones((), device="cuda")
        peer = {
            "s8": lambda: torch._int_mm(a, b.T),
            "u8": None,
            "e5m2": None,
            "e4m3": lambda: torch._scaled_mm(
                a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True
            ),
        }.get(types, lambda: torch.matmul(a, b.T))
        if peer is not None:
            found["PyTorch"] = median_ms(peer)
        found["error"] = error_of(c, a, b)
        return found

    def work(self, size: int) -> float:
        """Operations."""
        return 2.0 * size**3


def error_of(c: Any, a: Any, b: Any) -> float:
    """Relative error of a part of C, in the Frobenius norm."""
    import torch

    wanted = a[:512].to(torch.float64) @ b[:512].to(torch.float64).T
    return float((c[:512, :512].to(torch.float64) - wanted).norm() / wanted.norm())


class Attentions:
    """O = softmax(Q K^T / sqrt(D)) V, heads of positions of D features."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.facts = kernel, kernel.case["facts"]
        self.tensors = kernel.case["family"] == "tensor attention"

    def launch(self, heads: int, positions: int) -> tuple[Any, Any, Any]:
        """Q, K and V, then O, then the launch."""
        shape = (heads, positions, self.facts["features"])
        operands = [normal_numbers(shape, "f16") for _ in "QKV"]
        o = poisoned(shape, "float32")
        values = [*operands, o, *([positions] if self.tensors else [])]
        return operands, o, self.kernel.bind(values, (positions // self.facts["rows"], heads))

    def wrong(self) -> dict[str, int]:
        """Elements further than 2e-3 from float64, by size."""
        import torch

        found = {}
        rows = max(self.facts["rows"], self.facts.get("keys", 64))
        for positions in (rows, 2 * rows, 3 * rows, 5 * rows, 2048):
            for _ in range(3):
                operands, o, launch = self.launch(3, positions)
                launch()
                torch.cuda.synchronize()
                q, k, v = (t.to(torch.float64) for t in operands)
                scores = q @ k.transpose(1, 2) / self.facts["features"] ** 0.5
                if self.facts["causal"]:
                    ones = torch.ones(positions, positions, device="cuda", dtype=torch.bool)
                    scores = scores.masked_fill(~ones.tril(), float("-inf"))
                wanted = scores.softmax(2) @ v
                count = int((~((o.to(torch.float64) - wanted).abs() < 4e-3)).sum())
                if count:
                    found[str(positions)] = max(count, found.get(str(positions), 0))
        return found

    def times(self, size: int) -> dict[str, float]:
        """Milliseconds of ours and of PyTorch's flash attention, for 32 heads."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        operands, _, launch = self.launch(32, size)
        found = {"ours": median_ms(launch)}
        q, k, v = (t[None] for t in operands)
        for label, backend in (
            ("PyTorch", SDPBackend.FLASH_ATTENTION),
            ("cuDNN", SDPBackend.CUDNN_ATTENTION),
        ):
            try:
                with sdpa_kernel(backend):
                    found[label] = median_ms(
                        lambda: torch.nn.functional.scaled_dot_product_attention(
                            q, k, v, is_causal=self.facts["causal"]
                        )
                    )
            except RuntimeError as error:
                print(f"{label}: this PyTorch does not have it ({error})", file=sys.stderr)
        return found

    def work(self, size: int) -> float:
        """Operations."""
        return 4.0 * 32 * size * size * self.facts["features"] / (2 if self.facts["causal"] else 1)


class Given:
    """A kernel whose arguments and results stand in a file."""

    def __init__(self, kernel: Kernel) -> None:
        import numpy as np

        self.kernel, self.facts = kernel, kernel.case["facts"]
        self.held = np.load(kernel.folder / self.facts["arrays"])

    def wrong(self) -> dict[str, int]:
        """Wrong elements by the number of their array, of five launches."""
        import numpy as np
        import torch

        given = [self.held[f"a{n}"] for n in range(sum(key[0] == "a" for key in self.held.files))]
        found: dict[str, int] = {}
        for _ in range(5):
            tensors = [torch.from_numpy(array).cuda() for array in given]
            values = list(zip(tensors, self.facts.get("views", tensors), strict=True))
            bound = [t if view is t else View(t, **view) for t, view in values]
            self.kernel.bind([*bound, *self.facts["numbers"]], tuple(self.facts["grid"]))()
            torch.cuda.synchronize()
            for key in self.held.files:
                if key[0] == "e":
                    result, wanted = tensors[int(key[1:])].cpu().numpy(), self.held[key]
                    few = self.facts.get("tolerance", 0.0)
                    same = np.isclose(result, wanted, few, few) if few else result == wanted
                    count = int((~same).sum())
                    if count:
                        found[key] = max(count, found.get(key, 0))
        return found

    def times(self, size: int) -> dict[str, float]:
        """Nothing: their sizes are their own, and small."""
        return {}


class View:
    """A part of a tensor's memory, as a memref's descriptor has it."""

    def __init__(self, tensor: Any, offset: int, sizes: list[int], strides: list[int]) -> None:
        self.tensor, self.offset, self.shape, self.strides = tensor, offset, sizes, strides

    def data_ptr(self) -> int:
        """Where the tensor begins."""
        return int(self.tensor.data_ptr())

    def stride(self) -> list[int]:
        """In elements."""
        return self.strides


FAMILIES = {
    "given": Given,
    "tensor gemm": Gemms, "gemm": Gemms, "tensor attention": Attentions, "attention": Attentions,
}  # fmt: skip


# -- times -------------------------------------------------------------------------------------------


def median_ms(run: Any, least: int = 10, budget_ms: float = 60.0) -> float:
    """The median time of one launch."""
    import torch

    for _ in range(3):
        run()
    torch.cuda.synchronize()
    found: list[float] = []
    while len(found) < least or (sum(found) < budget_ms and len(found) < 50):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found)


# -- the process that runs kernels, and the one that watches it ----------------------------------------


def work_through(folder: Path, names: list[str], sizes: list[int]) -> None:
    """Run the cases, one line of JSON each; an error ends this process."""
    import torch

    torch.zeros(1, device="cuda")
    torch.manual_seed(0)
    cases = {case["name"]: case for case in json.loads((folder / "cases.json").read_text())}
    for name in names:
        case = cases[name]
        said: dict[str, Any] = {key: case[key] for key in ("name", "family", "facts", "weaker")}
        try:
            tests = FAMILIES[case["family"]](Kernel(case, folder))
            said["wrong"] = tests.wrong()
            for size in () if case["weaker"] else sizes:
                times = tests.times(size)
                rates = {
                    f"{who} TFLOP/s": tests.work(size) / ms / 1e9
                    for who, ms in times.items()
                    if who != "error"
                }
                said[str(size)] = {**times, **rates}
        except Exception as error:
            said["error"] = f"{type(error).__name__}: {error}"
        print("@" + json.dumps(said), flush=True)
        if "error" in said:
            return


def lines_of(process: subprocess.Popen[str]) -> queue.Queue[str | None]:
    """The lines of a process, and None at its end."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            found.put(line)
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


def run_all(folder: Path, names: list[str], sizes: str) -> list[dict[str, Any]]:
    """What was found of each case."""
    results: list[dict[str, Any]] = []
    left = list(names)
    while left:
        command = [
            sys.executable,
            __file__,
            str(folder),
            "--sizes",
            sizes,
            "--work",
            json.dumps(left),
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = lines_of(process)
        while True:
            try:
                line = lines.get(timeout=PATIENCE)
            except queue.Empty:
                line = None
                results.append({"name": left[0], "error": "hangs"})
            if line is None:
                if not results or results[-1]["name"] != left[0]:
                    results.append({"name": left[0], "error": "the process ended"})
                left.pop(0)
                break
            if not line.startswith("@"):
                print(line, end="", file=sys.stderr)
                continue
            results.append(json.loads(line[1:]))
            show(results[-1], sizes)
            if "error" in results[-1]:
                left.pop(0)
                break
            left.pop(0)
            if not left:
                break
        process.kill()
        process.wait()
    return results


def show(result: dict[str, Any], sizes: str) -> None:
    """One line."""
    verdict = result.get("error") or (
        "right" if not result["wrong"] else f"WRONG {result['wrong']}"
    )
    rates = []
    for size in sizes.split(","):
        for key, value in result.get(size, {}).items():
            if key.endswith("TFLOP/s"):
                rates.append(f"{key.removesuffix(' TFLOP/s')} {value:.0f}")
        rates.append("|")
    print(f"{result['name']:45} {verdict[:300]}  {' '.join(rates[:-1])}", flush=True)


def main() -> None:
    """Run the folder and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="cases whose name or family has this in it")
    parser.add_argument("--sizes", default="4096,8192", help="M = N = K, or positions, to be timed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is not None:
        sizes = [int(size) for size in arguments.sizes.split(",") if size]
        work_through(arguments.folder, json.loads(arguments.work), sizes)
        return
    cases = json.loads((arguments.folder / "cases.json").read_text())
    names = [c["name"] for c in cases if arguments.only in f"{c['family']}: {c['name']}"]
    results = run_all(arguments.folder, names, arguments.sizes)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1))
    asked = [r for r in results if not r.get("weaker")]
    wrong = [r["name"] for r in asked if "error" in r or r["wrong"]]
    print(
        f"{sum(bool(r.get('wrong')) for r in results if r not in asked)} of {len(results) - len(asked)} race with one more"
    )
    print(f"{len(asked) - len(wrong)} right, {len(wrong)} wrong or failed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
