#!/usr/bin/env bash
# Builds the documentation as a site into build/site; a warning is an error.
#
#     cmake-free-scripts/site.sh            build
#     cmake-free-scripts/site.sh serve      build, show it at http://localhost:8000, follow changes
set -eu
. "$(dirname "$0")/setup.sh"
cd "$root"
set_up upstream docs
export NO_MKDOCS_2_WARNING=1
if [ "${1:-}" = serve ]; then
  exec "$bin/mkdocs" serve --strict
fi
"$bin/mkdocs" build --strict --quiet
printf 'build/site/index.html\n'
