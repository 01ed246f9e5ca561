#!/bin/sh
# Installs the Debian packages of lists, if they are missing, without asking questions.
#
#   tools/setup.sh LIST…    each LIST is tools/packages-LIST.txt: build, test
#
# Needs root or sudo only if a package is missing; otherwise it takes a few milliseconds.
set -eu

wanted=
for list in "$@"; do
  wanted="$wanted $(sed -e 's/#.*//' "$(dirname "$0")/packages-$list.txt")"
done

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system; make sure these packages are installed:" $wanted >&2
  exit 0
fi

# One query for all packages: it prints the installed ones on stdout, errors for the others.
installed=$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' $wanted \
  2>/dev/null | sed -n 's/^installed //p')
missing=
for package in $wanted; do
  case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
  esac
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
