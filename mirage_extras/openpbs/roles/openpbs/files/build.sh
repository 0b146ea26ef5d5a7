#!/bin/sh
# Builds OpenPBS from FOLDER/archive, as the user who runs this, and leaves in FOLDER/root what belongs into PREFIX.
# Usage: build.sh FOLDER VERSION PREFIX [OPTION OF CONFIGURE...]
# An error is reported in one line; each step's full output is in FOLDER/STEP.log.
set -eu
folder=$1 version=$2 prefix=$3
shift 3
cd "$folder"
# The distribution's Python and compilers, whatever else the host has.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

run() {
    step=$1
    shift
    if ! "$@" >"$folder/$step.log" 2>&1; then
        line=$(grep -m 1 -E 'error:|fatal|Error [0-9]|not found|cannot ' "$folder/$step.log" || tail -n 1 "$folder/$step.log")
        case $line in
            # Python's header eval.h, which commits before 2023-06-14 include, ended with Python 3.10.
            *eval.h*) line="this commit does not compile with Python 3.11 or later, and this host has $(python3 --version);\
 take an archive of a newer commit ($line)" ;;
        esac
        echo "$step: $line" >&2
        exit 1
    fi
}

mkdir unpacked
run unpack tar --extract --file=archive --directory=unpacked --no-same-owner
# The top folder may have any name.
cd "$(find unpacked -maxdepth 2 -name configure.ac -printf '%h\n' | grep . || echo unpacked)"
contains=$(tr '\n' ' ' 2>/dev/null <configure.ac | sed -n 's/.*AC_INIT(\[OpenPBS\],[[:space:]]*\[\([^]]*\)\].*/\1/p' || true)
if [ "$contains" != "$version" ]; then
    echo "wrong use: openpbs_version=$version: the archive contains ${contains:-no source of OpenPBS (there is no configure.ac with its name)}" >&2
    exit 1
fi
run autogen ./autogen.sh
run configure ./configure --prefix="$prefix" --with-pbs-conf-file="$prefix/etc/pbs.conf" --with-pbs-server-home="$prefix/var" \
    CFLAGS='-O2 -g0' CXXFLAGS='-O2 -g0' "$@"
run make make --jobs="$(nproc)"
run install make install DESTDIR="$folder/root"
# What only linkers read, and the framework of OpenPBS's own tests.
find "$folder/root" \( -name '*.la' -o -name '*.a' \) -delete
rm -rf "$folder/root$prefix/unsupported"
test -x "$folder/root$prefix/sbin/pbs_server.bin"
