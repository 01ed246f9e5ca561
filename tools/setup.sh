#!/bin/sh
# Installs the Debian packages of tools/packages.txt that are not there yet, without questions.
# Needs root or sudo only when something is missing; otherwise it takes a few milliseconds.
set -eu

list=$(dirname "$0")/packages.txt
wanted=$(sed -e 's/#.*//' "$list")

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian system; make sure these are installed:" $wanted >&2
  exit 0
fi

missing=
for package in $wanted; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "error: these packages are missing and there is no sudo:$missing" >&2
    echo "hint: as root, run: apt-get install$missing" >&2
    exit 1
  fi
  as_root=sudo
fi

echo "setup: installing$missing"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes --quiet --no-install-recommends $missing
