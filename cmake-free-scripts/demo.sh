#!/usr/bin/env bash
# Sets up .venv, pipelines the GEMM of examples/gemm.mlir for a chip (sm_80 by default), and shows
# the counts of its waits in MLIR, in PTX and in the machine code. For an AMD chip it is the GEMM
# that the generator makes for that chip, and its assembly; for Hopper (sm_90a) one with tensor copies,
# warpgroup products and warps that do nothing but copy. `targets` shows one loop on five chips.
#
#     cmake-free-scripts/demo.sh [CHIP | targets]
set -eu
. "$(dirname "$0")/setup.sh"
chip=${1:-sm_80}
out=build/demo

known() {
  printf 'module {}' | "$bin/async-pipe-opt" - "--target=$1:$chip" -o /dev/null
}

if [[ $chip == targets ]]; then
  set_up nvidia amd
  exec "$bin/python" "$root/cmake-free-scripts/write_targets.py" --show
fi

if [[ $chip == gfx* ]]; then
  set_up amd
  cd "$root"
  known rocdl
  mkdir -p "$out"
  # Of a chip without matrix instructions that the generator knows it tells in its last line.
  "$bin/python" examples/generate_gemm.py "--chip=$chip" -o "$out/gemm-$chip.mlir" \
    2> >(tail -n 1 >&2)
  "$bin/async-pipe-opt" "$out/gemm-$chip.mlir" --async-pipe "--target=rocdl:$chip" --emit=isa \
    -o "$out/gemm-$chip.s" --report=json --report-file="$out/report-$chip.json"
  exec "$bin/python" cmake-free-scripts/show_amd_demo.py "$out" "$chip"
fi

set_up nvidia
cd "$root"
known nvvm
mkdir -p "$out"

if [[ $chip == sm_90a ]]; then
  gemm=("$out/gemm-$chip-before.mlir" --async-pipe "--target=nvvm:$chip")
  "$bin/python" examples/generate_hopper_gemm.py --stages 4 --roles specialised >"${gemm[0]}"
  "$bin/async-pipe-opt" "${gemm[@]}" -o "$out/gemm-$chip.mlir" \
    --report=html --report-file="$out/gemm-$chip.html"
  "$bin/async-pipe-opt" "${gemm[@]}" --emit=ptx -o "$out/gemm-$chip.ptx" 2>/dev/null
  "$bin/async-pipe-opt" "${gemm[@]}" --emit=cubin -o "$out/gemm-$chip.cubin" \
    --report=json --report-file="$out/report-$chip.json" 2>/dev/null
  exec "$bin/python" cmake-free-scripts/show_hopper_demo.py "$out" "$chip"
fi
gemm=(examples/gemm.mlir --async-pipe "--target=nvvm:$chip")

"$bin/async-pipe-opt" "${gemm[@]}" -o "$out/gemm.mlir" --report=html --report-file="$out/report.html"
"$bin/async-pipe-opt" "${gemm[@]}" --emit=ptx -o "$out/gemm.ptx"
"$bin/async-pipe-opt" "${gemm[@]}" --emit=cubin -o "$out/gemm.cubin" \
  --report=json --report-file="$out/report.json"
"$bin/python" cmake-free-scripts/show_demo.py "$out" "$chip"
