# Sourced by the benches, which set `root`, `target` and `cache`, and define `say`.

# Whoever asks for help gets the comment at the head of the script, and nothing is built.
case " $* " in
  *" --help "* | *" -h "*)
    sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
    exit 0
    ;;
esac

# need COMMAND...: ends where one is missing.
need() {
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || { say "$command is missing"; exit 1; }
  done
}

# Sets KALLISTO to a release binary, unless it names one already.
get_kallisto() {
  [ -z "${KALLISTO:-}" ] || return 0
  say "building kallisto (release)"
  (cd "$root" && cargo build --release --quiet -p kallisto)
  KALLISTO=$target/release/kallisto
}

# get_packages PACKAGE...: unpacks Debian packages below $cache/root, without root's rights. What cannot be had is named, and
# whoever needs it says so.
get_packages() {
  local package
  mkdir -p "$cache/deb" "$cache/root"
  for package in "$@"; do
    ls "$cache/deb/${package}"_*.deb >/dev/null 2>&1 && continue
    if (cd "$cache/deb" && timeout 120 apt-get download -qq "$package" >/dev/null 2>&1); then
      dpkg -x "$cache/deb/${package}"_*.deb "$cache/root"
    else
      say "SKIPPED: the Debian package $package cannot be had"
    fi
  done
}
