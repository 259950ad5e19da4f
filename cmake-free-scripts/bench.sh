#!/usr/bin/env bash
# Sets up .venv and measures how long the tool takes (bench/compile_time.py says what).
#
#     cmake-free-scripts/bench.sh [--runs N] [--json FILE]
set -eu
. "$(dirname "$0")/setup.sh"
set_up nvidia
exec "$bin/python" "$root/bench/compile_time.py" "$@"
