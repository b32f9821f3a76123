# Sourced by the benches: get_packages DIRECTORY PACKAGE... unpacks Debian packages below DIRECTORY/root, without root's rights.
# What cannot be had is named, and whoever needs it says so.
get_packages() {
  local cache=$1 package
  shift
  mkdir -p "$cache/deb" "$cache/root"
  for package in "$@"; do
    ls "$cache/deb/${package}"_*.deb >/dev/null 2>&1 && continue
    if (cd "$cache/deb" && timeout 120 apt-get download -qq "$package" >/dev/null 2>&1); then
      dpkg -x "$cache/deb/${package}"_*.deb "$cache/root"
    else
      echo "SKIPPED: the Debian package $package cannot be had" >&2
    fi
  done
}
