# What tools/quickstart and tools/run-tests share. Sourced, never run.
#
# Sets: program (for messages), source_root. Debian's own tools come first on PATH, so that a Python or
# compiler wrapper installed elsewhere cannot change what is built.

program=${0##*/}
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH PYTHONHOME

say() { printf '%s: %s\n' "$program" "$*"; }

# One line on standard error, and the end.
die() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# Runs a command with its output in a log; shows the log's tail if it fails.
#   logged LOG COMMAND…
logged() {
  local log=$1
  shift
  if "$@" >"$log" 2>&1; then return 0; fi
  printf '%s: %s failed; the end of %s:\n' "$program" "$1" "$log" >&2
  tail -n 25 "$log" >&2
  return 1
}

# Gives what was made under sudo to who called it, so that the next build without sudo can use it.
give_to_caller() {
  if is_root && [ -n "${SUDO_UID:-}" ] && [ "$SUDO_UID" != 0 ]; then
    chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$@"
  fi
}

# Parallel jobs: one a core, and a gigabyte of memory for each.
build_jobs() {
  local cores memory_gib
  cores=$(nproc)
  memory_gib=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$memory_gib" -ge 1 ] || memory_gib=1
  if [ "$cores" -lt "$memory_gib" ]; then echo "$cores"; else echo "$memory_gib"; fi
}
