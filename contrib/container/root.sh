#!/usr/bin/env bash
# The file tree of the container image, in a folder that is not there yet.
#
#   contrib/container/root.sh KALLISTO FOLDER
#
# Needs busybox that is linked statically (Debian: busybox-static). build.sh makes the image of it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(realpath "${1:?a kallisto binary}")
root=${2:?a folder}
umask 022
busybox=$(command -v busybox) || { echo "busybox is not installed" >&2; exit 1; }
if ldd "$busybox" >/dev/null 2>&1; then
  echo "$busybox is not linked statically (Debian: busybox-static)" >&2
  exit 1
fi
put() { # put MODE FILE PLACE
  install -D -m "$1" "$2" "$root/$3"
}
put 0755 "$binary" usr/bin/kallisto
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/kallisto"
ln -s kallisto "$root/usr/bin/vault"
ln -s kallisto "$root/usr/bin/bao"
# Every library, where the loader looks for it.
ldd "$binary" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p' | while read -r library; do
  put 0755 "$library" "${library#/}"
done
put 0755 "$busybox" bin/busybox
# What the charts call, and what somebody who looks around needs. No more: what is not there is not misused.
for applet in sh cp sed grep sleep kill pidof cat ls echo env id mkdir rm tail printf test '[' true false ps date head; do
  ln -s busybox "$root/bin/$applet"
done
put 0755 "$here/docker-entrypoint.sh" usr/local/bin/docker-entrypoint.sh
put 0644 /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ca-certificates.crt
printf 'root:x:0:0::/:/bin/sh\nkallisto:x:10001:10001::/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nkallisto:x:10001:\n' >"$root/etc/group"
install -d -m 1777 "$root/tmp"
# Whoever the server runs as may write where volumes usually are, since charts choose the user.
for folder in kallisto vault openbao; do
  install -d -m 0755 "$root/$folder"
  for inner in config data file logs; do
    install -d -m 0777 "$root/$folder/$inner"
  done
done
