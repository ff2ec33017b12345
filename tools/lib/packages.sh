# Installs the packages in tools/lib/packages.txt that this machine lacks. Sourced after common.sh.

listed_packages() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$source_root/tools/lib/packages.txt"; }

missing_packages() {
  local installed
  # dpkg-query exits 1 if it does not know a package, but still prints the others.
  installed=$(listed_packages | xargs dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null |
    awk '$2 == "installed" {print $1}' || true)
  listed_packages | grep -vxF -f <(printf '%s\n' "$installed") || true
}

# Prints the first of the given packages that no package source offers; nothing if all are offered.
unavailable_package() {
  local package policy
  for package in "$@"; do
    # Not `| grep -q`: with pipefail its early exit would look like a failure of apt-cache.
    policy=$(LC_ALL=C apt-cache policy "$package" 2>/dev/null)
    case $policy in
      *"Candidate: (none)"* | "") echo "$package" && return ;;
    esac
  done
}

# Prints the first error line of apt-get's log, without its prefix "E: ".
apt_error() { sed -n 's/^E: //p' "$1" | head -n 1; }

install_packages() {
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
    die "needs a Debian 12 system: there is no apt-get here"
  local missing log package
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  is_root || die "needs root to install ${missing[*]}: run sudo $0"
  say "installing ${#missing[@]} packages: ${missing[*]}"
  log=$(mktemp --tmpdir itif-packages.XXXXXX)
  # A failing source matters only if it has a package that we need.
  apt-get update >"$log" 2>&1 || true
  package=$(unavailable_package "${missing[@]}")
  [ -z "$package" ] ||
    die "no package source of this machine offers $package: check /etc/apt/sources.list (Debian 12, main) and the network (log: $log)"
  if ! DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${missing[@]}" </dev/null >"$log" 2>&1; then
    die "installing failed: $(apt_error "$log") (log: $log)"
  fi
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] || die "package ${missing[0]} is still missing after installing it (log: $log)"
  rm -f "$log"
}
