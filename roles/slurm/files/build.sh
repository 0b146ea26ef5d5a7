#!/bin/sh
# Builds Slurm from FOLDER/archive, as the user who runs this, and leaves in FOLDER/root what belongs into PREFIX.
# Usage: build.sh FOLDER VERSION PREFIX [OPTION OF CONFIGURE...]      (CFLAGS from the environment)
# What goes wrong is told in one line; each step's own words are in FOLDER/STEP.log.
set -eu
folder=$1 version=$2 prefix=$3
shift 3
cd "$folder"

run() {
    step=$1
    shift
    if ! "$@" >"$folder/$step.log" 2>&1; then
        words=$(grep -m 1 -E 'error:|fatal|Error [0-9]|not recognized|cannot ' "$folder/$step.log" || tail -n 1 "$folder/$step.log")
        echo "$step: $words" >&2
        exit 1
    fi
}

mkdir unpacked
run unpack tar --extract --file=archive --directory=unpacked --no-same-owner
# The top folder has whatever name.
cd "$(find unpacked -maxdepth 2 -name META -printf '%h\n' | grep . || echo unpacked)"
holds=$(sed -n 's/^[[:space:]]*Version:[[:space:]]*//p' META 2>/dev/null || true)
if [ "$holds" != "$version" ]; then
    echo "wrong use: slurm_version=$version: the archive holds ${holds:-no source of Slurm (there is no META with a Version)}" >&2
    exit 1
fi
run configure ./configure --prefix="$prefix" "$@"
# Only src: neither manuals nor contributions.
run make make --jobs="$(nproc)" --directory=src
run install make --directory=src install DESTDIR="$folder/root"
# What only linkers read.
find "$folder/root" \( -name '*.la' -o -name '*.a' \) -delete
test -x "$folder/root$prefix/sbin/slurmctld"
