#!/usr/bin/env bash
# Sets up .venv, pipelines the GEMM of examples/gemm.mlir for a chip (sm_80 by default), and shows
# the counts of its waits in MLIR, in PTX and in the machine code. For an AMD chip it is the GEMM
# that the generator makes for that chip, and its assembly.
#
#     cmake-free-scripts/demo.sh [CHIP]
set -eu
. "$(dirname "$0")/setup.sh"
chip=${1:-sm_80}
out=build/demo

if [[ $chip == gfx* ]]; then
  set_up amd
  cd "$root"
  mkdir -p "$out"
  "$bin/python" examples/generate_gemm.py "--chip=$chip" -o "$out/gemm-$chip.mlir"
  "$bin/async-pipe-opt" "$out/gemm-$chip.mlir" --async-pipe "--target=rocdl:$chip" --emit=isa \
    -o "$out/gemm-$chip.s" --report=json --report-file="$out/report-$chip.json"
  exec "$bin/python" cmake-free-scripts/show_amd_demo.py "$out" "$chip"
fi

set_up nvidia
cd "$root"
mkdir -p "$out"
gemm=(examples/gemm.mlir --async-pipe "--target=nvvm:$chip")

"$bin/async-pipe-opt" "${gemm[@]}" -o "$out/gemm.mlir" --report=html --report-file="$out/report.html"
"$bin/async-pipe-opt" "${gemm[@]}" --emit=ptx -o "$out/gemm.ptx"
"$bin/async-pipe-opt" "${gemm[@]}" --emit=cubin -o "$out/gemm.cubin" \
  --report=json --report-file="$out/report.json"
"$bin/python" cmake-free-scripts/show_demo.py "$out" "$chip"
