#!/usr/bin/env bash
# Installs the Debian packages PACKAGE... that are missing, as root or with sudo. Where none is missing it does nothing.
set -euo pipefail

# On other distributions the Makefile's targets name the programs that are missing.
command -v apt-get >/dev/null || exit 0

missing=()
for package in "$@"; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID)); then
    as_root=(sudo)
    command -v sudo >/dev/null || { echo "failed: Debian packages are missing: apt-get install ${missing[*]}, as root"; exit 1; }
fi
echo "installing the Debian packages ${missing[*]}"
"${as_root[@]}" apt-get update --quiet=2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends "${missing[@]}" >/dev/null
