"""Launches emitted code on an NVIDIA GPU, on the arrays that PyTorch, CuPy or Numba have there.

    code = mlir_async_pipe.lower(module, target="nvvm:sm_90a", emit="cubin")
    gemm = code.load("gemm")
    gemm(a, b, c, grid=(m // 128, n // 128))

The calls are those of the CUDA driver, by cuda.bindings. A thread that has a context, as PyTorch
makes one, keeps it; else the primary one of device 0 is made current. Where no GPU can be used that
is one sentence (no-gpu).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mlir_async_pipe.lowering.nvvm.lower_nvvm import NvidiaKernel
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import UsageError


def load(code: bytes, kernel: NvidiaKernel, arguments: Callable[..., Any]) -> LaunchedKernel:
    """A kernel of a cubin, or of PTX that ends with a zero; `arguments` is as `Lowered.arguments`."""
    driver = _driver()
    loaded = _ask(driver.cuModuleLoadData(code))
    function = _ask(driver.cuModuleGetFunction(loaded, kernel.name.encode()))
    # More than 48 KiB are to be asked for before the launch too.
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _ask(driver.cuFuncSetAttribute(function, most, kernel.dynamic_shared_bytes))
    return LaunchedKernel(kernel, arguments, driver, function)


@dataclass(frozen=True)
class LaunchedKernel:
    """A kernel that is loaded: call it with its arguments to launch it."""

    kernel: NvidiaKernel
    arguments: Callable[..., Any]
    driver: Any
    function: Any

    @called_by_users
    def __call__(
        self,
        *values: Any,
        grid: Sequence[int],
        threads: Sequence[int] | None = None,
        stream: int = 0,
    ) -> None:
        """Launch on a stream (PyTorch: `torch.cuda.current_stream().cuda_stream`).

        `values` are as for `Lowered.arguments`; `threads` the size of a block, which is asked for
        only where the code states none.
        """
        block = threads or (self.kernel.ptx and self.kernel.ptx.threads)
        if not block:
            why = f"the block size of '{self.kernel.name}' is not known"
            advice = "give threads=, or `known_block_size` on the kernel"
            raise UsageError(why, code="launch-argument", advice=advice)
        made = self.arguments(self.kernel.name, values)
        pointers = (ctypes.c_void_p * len(made))(*map(ctypes.addressof, made))
        sizes = [*_three(grid), *_three(block), self.kernel.dynamic_shared_bytes]
        at = ctypes.addressof(pointers)
        _ask(self.driver.cuLaunchKernel(self.function, *sizes, stream, at, 0))


def _three(sizes: Sequence[int]) -> list[int]:
    return [*sizes, 1, 1][:3]


def _driver() -> Any:
    """The driver's calls, with a context that is current."""
    try:
        driver = import_module("cuda.bindings.driver")
        _ask(driver.cuInit(0))
        if not int(_ask(driver.cuCtxGetCurrent())):
            primary = driver.cuDevicePrimaryCtxRetain(_ask(driver.cuDeviceGet(0)))
            _ask(driver.cuCtxSetCurrent(_ask(primary)))
    # Without a driver's library the bindings raise an error of their own.
    except (ImportError, RuntimeError, UsageError) as error:
        why = error.diagnostic.message if isinstance(error, UsageError) else str(error)
        raise UsageError(
            f"no GPU can be used: {why.split('. ')[0]}",
            code="no-gpu",
            advice="`machine.run` runs the same arguments on the CPU",
        ) from None
    return driver


def _ask(result: tuple[Any, ...]) -> Any:
    """What a call of the driver returned."""
    error, *values = result
    if int(error):
        raise UsageError(f"the driver says {error!r}", code="launch-failed")
    return values[0] if values else None
