#!/bin/sh
# Formats every C++ and CUDA source of the checkout with clang-format.
#
#   tools/format.sh            changes files
#   tools/format.sh --check    only lists places that would change; exit status 1 if there are any
set -eu
cd "$(dirname "$0")/.."

git rev-parse --git-dir >/dev/null # without a list of files nothing would be checked
mode=-i
[ "${1:-}" != --check ] || mode='--dry-run -Werror'
git ls-files -z -- '*.hpp' '*.cpp' '*.cu' '*.cuh' ':!tests/tidy/fixtures' |
  xargs -0 clang-format $mode
