#!/usr/bin/env bash
# A container image of a binary, from nothing but this machine's files: no base image is fetched.
#
#   contrib/container/build.sh KALLISTO IMAGE
#
# Needs buildah, and busybox that is linked statically (Debian: buildah, busybox-static). IMAGE is as buildah takes it: a name, or
# `oci-archive:FILE`. `BUILDAH_FLAGS` go to buildah, such as `--isolation=chroot`. Times in the image are those of SOURCE_DATE_EPOCH, or of the last commit.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(realpath "${1:?a kallisto binary}")
image=${2:?a name for the image}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
"$here/root.sh" "$binary" "$stage/root"
cp "$here/Containerfile" "$stage/"
# shellcheck disable=SC2086
buildah build ${BUILDAH_FLAGS:-} --timestamp "$SOURCE_DATE_EPOCH" -f "$stage/Containerfile" -t "$image" "$stage"
