#!/usr/bin/env bash
# Sets up .venv and runs everything that has to pass: linter, formatter, type checker, pytest, lit.
#
#     cmake-free-scripts/test.sh            all
#     cmake-free-scripts/test.sh -k waits   pytest options; lit runs all the same
#
# The last line is "N passed, N failed"; the exit code is 0 only if nothing failed.
set -u
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
set_up nvidia amd upstream test dev

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
checks_failed=0

check() {
  printf '%s\n' "== $*" >&2
  "$bin/python" -m "$@" || checks_failed=$((checks_failed + 1))
}

check ruff check .
check ruff format --check --quiet .
check mypy

workers=$("$bin/python" -c 'import os; print(min(8, os.cpu_count() or 1))')
printf '== pytest\n' >&2
# Each worker begins with neighbours, which share what a file computes once, and helps out at the end.
"$bin/python" -m pytest --numprocesses "$workers" --dist worksteal \
  --junitxml="$results/pytest.xml" "$@" ||
  touch "$results/pytest.failed"
printf '== lit\n' >&2
"$bin/lit" --succinct --workers "$workers" --xunit-xml-output="$results/lit.xml" \
  "$root/lit-tests" || touch "$results/lit.failed"

"$bin/python" cmake-free-scripts/count_results.py "$results" "$checks_failed"
