#!/usr/bin/env bash
# The Debian package of a binary, its list of parts and their checksums; the same binary gives the same bytes.
#
#   contrib/debian/build.sh KALLISTO SBOM OUT
#
# DEB_COMPRESSION=gzip is quicker than xz, and larger. Times are those of SOURCE_DATE_EPOCH (reproducible-builds.org/specs/source-date-epoch), or of the last commit.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=$(realpath "${1:?a kallisto binary}")
sbom=$(realpath "${2:?a list of parts}")
mkdir -p "${3:?a folder for what is made}"
out=$(realpath "$3")

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
architecture=$(dpkg --print-architecture)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
chmod 0755 "$stage"

put() { # put MODE FILE PLACE
  install -D -m "$1" "$2" "$stage/$3"
}
put 0755 "$binary" usr/bin/kallisto
strip --remove-section=.comment --remove-section=.note "$stage/usr/bin/kallisto"
mkdir -p "$stage/lib/systemd/system"
# A certificate before the first start; one that is there is left alone.
sed 's|^ExecStart=|ExecStartPre=/usr/bin/kallisto operator make-certificate -dir=/var/lib/kallisto/tls\n&|' \
  "$root/contrib/systemd/kallisto.service" | sed '/^# \{3,\}\|^#$/d; s|/etc/systemd/system|/lib/systemd/system|' \
  >"$stage/lib/systemd/system/kallisto.service"
put 0644 "$here/kallisto.hcl" etc/kallisto/kallisto.hcl
mkdir -p "$stage/usr/share/man/man1"
"$stage/usr/bin/kallisto" man "$stage/usr/share/man/man1" >/dev/null
gzip -9n "$stage"/usr/share/man/man1/*
complete() { # complete SHELL PLACE
  mkdir -p "$stage/$(dirname "$2")"
  "$stage/usr/bin/kallisto" completion "$1" >"$stage/$2"
}
complete bash usr/share/bash-completion/completions/kallisto
complete zsh usr/share/zsh/vendor-completions/_kallisto
complete fish usr/share/fish/vendor_completions.d/kallisto.fish
doc=usr/share/doc/kallisto
put 0644 "$here/copyright" "$doc/copyright"
put 0644 "$sbom" "$doc/sbom.cdx.json"
printf 'kallisto (%s) unstable; urgency=medium\n\n  * What is new is in NEWS.gz.\n\n -- The authors of Kallisto <packages@kallisto-secrets.org>  %s\n' \
  "$version" "$(date -uRd "@$SOURCE_DATE_EPOCH")" >"$stage/$doc/changelog"
put 0644 "$root/CHANGELOG.md" "$doc/NEWS"
gzip -9n "$stage/$doc/changelog" "$stage/$doc/NEWS" "$stage/$doc/sbom.cdx.json"

mkdir "$stage/DEBIAN"
for script in postinst prerm postrm; do put 0755 "$here/$script" "DEBIAN/$script"; done
echo /etc/kallisto/kallisto.hcl >"$stage/DEBIAN/conffiles"
(cd "$stage" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"
size=$(du -k -s --exclude=DEBIAN "$stage" | cut -f1)
libc=$(objdump -T "$stage/usr/bin/kallisto" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' | sort -uV | tail -1)
cat >"$stage/DEBIAN/control" <<CONTROL
Package: kallisto
Version: $version
Architecture: $architecture
Maintainer: The authors of Kallisto <packages@kallisto-secrets.org>
Installed-Size: $size
Depends: libc6 (>= $libc), libgcc-s1, adduser
Recommends: ca-certificates
Section: admin
Priority: optional
Homepage: https://github.com/kallisto-secrets/kallisto
Description: secrets manager with the API of Vault
 Kallisto keeps secrets encrypted, says who may read them, and writes down
 who did. It speaks the API of HashiCorp Vault and the protocol of Redis,
 is replicated by Raft, and serves thousands of clients that ask at once.
 .
 The package has a service that is not started by the installation: look at
 /etc/kallisto/kallisto.hcl, then run "systemctl enable --now kallisto".
CONTROL
find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
deb=$out/kallisto_${version}_$architecture.deb
dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$stage" "$deb" >/dev/null
cp "$sbom" "$out/kallisto_${version}_$architecture.cdx.json"
(cd "$out" && sha256sum "$(basename "$deb")" "kallisto_${version}_$architecture.cdx.json" >SHA256SUMS)
echo "$deb"
