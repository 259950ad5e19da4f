#!/usr/bin/env bash
# Makes the kernels in this folder again: IREE compiles the three inputs, and transcribe.py puts
# what it prints before it lowers to LLVM into a gpu.module of upstream dialects.
#
#   python -m venv iree && iree/bin/pip install iree-base-compiler==3.13.0
#   examples/iree/dump.sh iree/bin [FOLDER]
#
# The folder of the kernels is examples/iree/kernels if none is given.
set -euo pipefail
bin=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
out=$(realpath -m "${2:-$here/kernels}")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
mkdir -p "$out"

# The last stage with loops: vectors of one dimension, plain integer arithmetic, no tensors.
last=iree-codegen-gpu-check-resource-usage

device() {
  case $1 in
    sm_*) echo "--iree-hal-target-device=cuda --iree-cuda-target=$1" ;;
    gfx*) echo "--iree-hal-target-device=hip --iree-rocm-target=$1" ;;
  esac
}

transcribe() { # FILE NAME: the kernel of a dump
  "$bin/python" "$here/transcribe.py" "$1" >"$out/$2.mlir"
}

configure() { # CHIP INPUT: the dispatch with the options that IREE chose for it
  # shellcheck disable=SC2046
  "$bin/iree-compile" "$here/$2.mlir" $(device "$1") --iree-llvmgpu-prefetch-num-stages=0 \
    --compile-to=executable-configurations
}

compile() { # FILE PASS: what a configured dispatch looks like after a pass
  "$bin/iree-compile" "$1" --compile-from=executable-configurations \
    --compile-to=executable-targets -o /dev/null --mlir-print-ir-after="$2" 2>&1
}

# Loops as IREE's tiling leaves them, with its own pipelining off.
for kernel in sm_80/matmul sm_80/conv gfx942/matmul_transposed gfx942/conv \
  gfx950/matmul gfx950/matmul_transposed gfx950/conv; do
  chip=${kernel%/*} input=${kernel#*/}
  configure "$chip" "$input" >"$work/configured.mlir"
  compile "$work/configured.mlir" $last >"$work/dump.mlir"
  transcribe "$work/dump.mlir" "${chip}_$input"
done

# The same on AMD with IREE's prefetch of three stages: async copies to LDS, and marks.
configure gfx950 matmul_transposed |
  sed 's/pipeline_options</pipeline_options<prefetch_num_stages = 3, /' >"$work/configured.mlir"
compile "$work/configured.mlir" $last >"$work/dump.mlir"
transcribe "$work/dump.mlir" gfx950_matmul_prefetched

# On NVIDIA: three slots and async copies by the transform dialect, and the same pipelined by
# IREE's own pass. Without padded rows, whose copies of 16 bytes would not be aligned.
configure sm_80 matmul_transposed |
  sed 's/no_reduce_shared_memory_bank_conflicts = false/no_reduce_shared_memory_bank_conflicts = true/' \
    >"$work/configured.mlir"
compile "$work/configured.mlir" iree-codegen-reinsert-swizzle-hints | sed '/^\/\/ -----/d' \
  >"$work/loop.mlir"
slots="iree-transform-dialect-interpreter{library-file-name=$here/multibuffer.mlir}"
clean="canonicalize,cse,iree-codegen-fold-memref-alias-ops,iree-codegen-decompose-affine-ops"
clean+=",iree-affine-expand-index-ops,iree-lower-affine"
for variant in multibuffered pipelined; do
  passes=$clean
  [ $variant = pipelined ] && passes="iree-codegen-gpu-pipelining{pipeline-depth=3},$clean"
  "$bin/iree-opt" "$work/loop.mlir" -o "$work/dump.mlir" --pass-pipeline="builtin.module(
    $slots,func.func($passes),iree-util-optimize-int-arithmetic,canonicalize,cse)"
  transcribe "$work/dump.mlir" "sm_80_matmul_$variant"
done
