# Makes .venv with the package and the extras that a script needs. Sourced, not run:
#
#     . "$(dirname "$0")/setup.sh"
#     set_up nvidia test
#
# Needs nothing but Python >= 3.11 and pip. A stamp in .venv remembers what was installed, from
# which pyproject.toml and with which Python; while it fits, nothing is installed again.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"
bin="$venv/bin"

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The first Python that is new enough: $PYTHON if set, else from the path.
find_python() {
  local candidate version seen=""
  for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
      printf '%s\n' "$candidate"
      return
    fi
    seen="$seen $candidate is $version,"
  done
  if [ -z "$seen" ]; then
    die "no Python found; install Python 3.11 or newer, or name one: PYTHON=/path/to/python $0"
  fi
  die "Python 3.11 or newer is needed, but${seen%,}; name a newer one: PYTHON=/path/to/python $0"
}

# An empty virtual environment with pip in it. Debian's Python comes without ensurepip, which venv
# needs; there the pip outside puts a pip inside.
make_venv() {
  local python=$1
  rm -rf "$venv"
  "$python" -m venv "$venv" >/dev/null 2>&1 && return
  "$python" -m pip --version >/dev/null 2>&1 ||
    die "$python has neither pip nor a complete venv module; on Debian: apt-get install python3-venv python3-pip"
  rm -rf "$venv"
  "$python" -m venv --without-pip "$venv" >/dev/null 2>&1 &&
    "$python" -m pip --python "$bin/python" install -qq --disable-pip-version-check pip ||
    die "$python cannot make a virtual environment in $venv; on Debian: apt-get install python3-venv"
}

# What an installation depends on; the extras of earlier set-ups stay.
fingerprint() {
  "$bin/python" - "$root/pyproject.toml" <<'PYTHON'
import hashlib, sys
with open(sys.argv[1], "rb") as file:
    print(sys.version.split()[0], hashlib.sha256(file.read()).hexdigest())
PYTHON
}

set_up() {
  local stamp="$venv/.async-pipe-stamp" python wanted extra
  if ! "$bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python) || exit 1
    printf 'Making .venv with %s\n' "$("$python" --version)" >&2
    make_venv "$python"
  fi
  wanted=$(fingerprint)
  if [ "$(head -n 1 "$stamp" 2>/dev/null)" != "$wanted" ]; then
    printf '%s\n' "$wanted" >"$stamp.new"
  else
    cp "$stamp" "$stamp.new"
  fi
  local missing=()
  for extra in "$@"; do
    grep -qx "$extra" "$stamp.new" || missing+=("$extra")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    local list
    list=$(IFS=,; printf '%s' "${missing[*]}")
    printf 'Installing mlir-async-pipe[%s] into .venv\n' "$list" >&2
    "$bin/python" -m pip install -qq --disable-pip-version-check --editable "$root[$list]" ||
      die "pip could not install mlir-async-pipe[$list]; see its message above"
    printf '%s\n' "${missing[@]}" >>"$stamp.new"
  fi
  mv "$stamp.new" "$stamp"
}
