#!/bin/sh
# fetch_source.sh FOLDER: downloads the source archive of Debian's Slurm package to FOLDER/slurm.orig.tar.
# The host's list of sources is not changed: apt gets a separate list with the same mirrors (without security) and keeps its files in FOLDER.
set -eu
folder=$1
mkdir -p "$folder/apt/lists/partial" "$folder/apt/none"
cd "$folder"
# shellcheck disable=SC2016  # apt's own fields
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Label: Debian' |
    sort -u >apt/sources.list
with_sources() {
    apt-get --quiet=2 --option "Dir::Etc::SourceList=$folder/apt/sources.list" --option "Dir::Etc::SourceParts=$folder/apt/none" \
        --option "Dir::State::Lists=$folder/apt/lists" --option APT::Sandbox::User=root "$@"
}
with_sources update
with_sources --only-source --download-only --tar-only source slurm-wlm
rm -r apt
mv slurm-wlm_*.orig.tar.* slurm.orig.tar
