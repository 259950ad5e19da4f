#!/usr/bin/env bash
# Sets up .venv and runs what has to pass: linter, formatter, type checker, pytest, lit.
#
#     cmake-free-scripts/test.sh            what CI runs: of slow tests a share that changes every day
#     cmake-free-scripts/test.sh --quick    a first look, in less than a minute: no type checker, few tests
#     cmake-free-scripts/test.sh --all      every test
#     cmake-free-scripts/test.sh -k waits   options of pytest; lit runs all the same
#
# The last line is "N passed, N failed"; the exit code is 0 only if nothing failed.
set -u
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
set_up nvidia amd upstream test dev

tier=push
case ${1:-} in
  --quick) tier=quick && shift ;;
  --all) tier=all && shift ;;
esac

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
checks_failed=0

check() {
  printf '%s\n' "== $*" >&2
  "$bin/python" -m "$@" || checks_failed=$((checks_failed + 1))
}

check ruff check .
check ruff format --check --quiet .
[ "$tier" = quick ] || check mypy

workers=$("$bin/python" -c 'import os; print(min(8, os.cpu_count() or 1))')
# Contexts of MLIR have threads of their own, whose memory glibc keeps for each apart: a worker that ran
# the checker's tests held 1.4 GiB, with one pool 0.7.
export MALLOC_ARENA_MAX=1
printf '== pytest\n' >&2
# Each worker begins with neighbours, which share what a file computes once, and helps out at the end.
"$bin/python" -m pytest --numprocesses "$workers" --dist worksteal \
  --tier "$tier" --junitxml="$results/pytest.xml" "$@" ||
  touch "$results/pytest.failed"
printf '== lit\n' >&2
lit_tests=("$root/lit-tests")
# One topic of each.
[ "$tier" = quick ] && lit_tests=("$root"/lit-tests/{count-waits,driver,expand}/[a-d]*.mlir)
"$bin/lit" --succinct --workers "$workers" --xunit-xml-output="$results/lit.xml" \
  "${lit_tests[@]}" || touch "$results/lit.failed"

"$bin/python" cmake-free-scripts/count_results.py "$results" "$checks_failed"
