#!/usr/bin/env bash
# Runs every test and the judges at full size, several hours on two cores, and prints one table of what they found.
#
#     test/nightly.sh [SEED [SHARE]]        SEED defaults to today's date
#
# With a SHARE of 4, say, the judges look at a fourth of the programs, and of the slow tests and the laws at the share that CI draws on
# that day: for a machine that has an hour, and no night.
#
# A run that was cut off goes on where it stopped if it is started again with the same seed and the same sources: what each judge
# said of them is kept.
#
# Random pipelines by feature, blocks that wait for each other, mutants of right kernels and of the values that pipelines compute, PTX for all data, PTX and AMD assembly of random kernels, and
# the property tests with more samples, and what our machine code costs. What each printed, and its figures as JSON, stay in
# build/nightly/. The exit code is 0 only if nothing was wrong or missed.
set -u
. "$(dirname "$0")/../cmake-free-scripts/setup.sh"
cd "$root" || exit 1
set_up nvidia amd upstream test

seed=${1:-$(date +%Y%m%d)}
share=${2:-1}
tier=all
[ "$share" = 1 ] || tier=push
jobs=$("$bin/python" -c 'import os; print(os.cpu_count() or 1)')
out=build/nightly
failed=0

judged="$seed $share $(git rev-parse HEAD) $(git diff HEAD | cksum)"
if [ "$(cat "$out/judged" 2>/dev/null)" != "$judged" ]; then
  rm -rf "$out"
  mkdir -p "$out"
  printf '%s\n' "$judged" >"$out/judged"
fi

of() { # $1 in the whole run: how many now
  printf '%s\n' "$((($1 + share - 1) / share))"
}

judge() {
  local name=$1 code
  shift
  printf '== %s\n' "$*"
  if [ ! -f "$out/$name.code" ]; then
    "$bin/python" "$@" >"$out/$name.txt" 2>&1
    code=$?
    [ "$code" -lt 128 ] && printf '%s\n' "$code" >"$out/$name.code"
  else
    code=$(cat "$out/$name.code")
  fi
  if [ "$code" != 0 ]; then
    failed=1
    printf '   failed, see %s\n' "$out/$name.txt"
    tail -n 20 "$out/$name.txt"
  fi
}

# Files that read this variable take more samples of their laws, at the end; the random pipelines are
# those that the first report judges, and the second machine has a run of its own.
mapfile -t laws < <(grep -rl --include='test_*.py' --exclude=test_random_pipelines.py ASYNC_PIPE_NIGHTLY test)
second=test/laws/test_second_machine.py
judge lit "$bin/lit" --succinct --workers "$jobs" lit-tests
# First what fails most often; it names each failure when it comes, so that a run that was cut off has told something, too.
judge all -m pytest --verbose --verbose --numprocesses "$jobs" --dist worksteal --tier "$tier" --junitxml="$out/all.xml" \
  "--ignore=$second" "${laws[@]/#/--ignore=}"
judge pipelines test/reports/random_pipelines_report.py --per-feature "$(of 200)" --seed "$seed" --jobs "$jobs" --json "$out/pipelines.json"
judge flags test/reports/random_flags_report.py --programs "$(of 1000)" --seed "$seed" --jobs "$jobs" --json "$out/flags.json"
judge mutants test/reports/mutation_report.py --mutants "$(of 5000)" --seed "$seed" --jobs "$jobs" --json "$out/mutants.json"
judge ptx test/reports/ptx_report.py --kernels "$(of 3000)" --seed "$seed" --jobs "$jobs" --json "$out/ptx.json"
judge tensors test/reports/tensor_loops_report.py --loops "$(of 400)" --seed "$seed" --jobs "$jobs" --json "$out/tensors.json"
judge phases test/reports/phase_report.py --loops "$(of 300)" --mutants "$(of 900)" --made "$(of 200)" --seed "$seed" --jobs "$jobs" --json "$out/phases.json"
judge validation test/reports/validation_report.py --mutants "$(of 2000)" --seed "$seed" --jobs "$jobs" --json "$out/validation.json"
judge validated test/reports/validated_ptx_report.py --kernels "$(of 200)" --seed "$seed" --jobs "$jobs" --json "$out/validated.json"
judge amd test/reports/amd_isa_report.py --kernels "$(of 300)" --seed "$seed" --json "$out/amd.json"
ASYNC_PIPE_SAMPLES=8 judge second -m pytest --tier "$tier" --numprocesses "$jobs" "$second"
ASYNC_PIPE_NIGHTLY=1 ASYNC_PIPE_SEED=$seed judge laws -m pytest --tier "$tier" --numprocesses "$jobs" "${laws[@]}"
judge code bench/code.py --compare

"$bin/python" test/reports/nightly_table.py "$out" "$seed" | tee "$out/table.md"
exit "$failed"
