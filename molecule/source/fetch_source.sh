#!/bin/sh
# Puts the source archive of Debian's package of Slurm into FOLDER, as slurm.orig.tar: fetch_source.sh FOLDER
# The host's own list of sources stays as it is: apt is given another one, of the same places (but security's), and keeps its files here.
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
