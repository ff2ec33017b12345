# Functions shared by tools/quickstart, tools/run-tests and tools/make-bundle. Sourced, never run.
#
# Sets: program (for messages), source_root. Debian's own tools come first on PATH, so that a Python
# or compiler wrapper installed elsewhere cannot change the build.

program=${0##*/}
source_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH PYTHONHOME

say() { printf '%s: %s\n' "$program" "$*"; }

# Prints one line to standard error and exits.
die() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# Prints the comment at the top of the calling program.
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }

# ---- Ending early --------------------------------------------------------------------------------
child_pid=""

# rest SECONDS: sleeps without starting a process.
rest() { read -rt "$1" -u "$never" || true; }

# Succeeds while a child runs. Not `kill -0`, because inside a trap bash does not reap children.
is_running() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) }  # past the name, which may hold anything
  [ "${stat%% *}" != Z ]
}

# Runs a program that ends when a signal ends us. A plain call would make bash wait for it first,
# and a SIGKILL would leave it running. Its output goes to FILE, if given; our own output does not,
# so that messages after an interrupt are visible.
#   [output=FILE] interruptible PROGRAM…
output=""
exec {never}<> <(:)  # a pipe from which nothing can be read
interruptible() {
  local status=0
  (
    exec {never}<&-
    [ -z "$output" ] || exec >"$output" 2>&1
    trap - HUP INT QUIT PIPE TERM  # a shell's background processes ignore the keyboard otherwise
    # The kernel ends the program when we die. If we died before setpriv asked for that, its parent
    # has changed.
    exec setpriv --pdeathsig TERM -- sh -c '[ "$PPID" -eq "$0" ] || exit 1; exec "$@"' "$$" "$@"
  ) &
  child_pid=$!
  # `wait` alone would miss a signal that comes just before it blocks, and wait for the program's
  # end.
  while is_running "$child_pid"; do rest 0.2; done
  wait "$child_pid" || status=$?
  child_pid=""
  return "$status"
}

# on_end FUNCTION: calls FUNCTION STATUS exactly once at the end, except after SIGKILL. Signals are
# ignored during the call.
on_end() {
  end_function=$1
  trap end_now EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 131' QUIT
  trap 'exit 141' PIPE
  trap 'exit 143' TERM
}

end_now() {
  local status=$?
  trap '' HUP INT QUIT PIPE TERM
  trap - EXIT
  set +e
  # Repeats the signal, because a child that was just forked may still have the shell's trap.
  while [ -n "$child_pid" ] && is_running "$child_pid"; do
    kill -TERM "$child_pid" 2>/dev/null
    rest 0.2
  done
  "$end_function" "$status"
  if [ "$status" -gt 128 ]; then say "interrupted; what it made is removed" >&2; fi
  exit "$status"
}

# Runs a program with its output in a log; prints the end of the log if it fails.
#   logged LOG PROGRAM…
logged() {
  local log=$1
  shift
  if output=$log interruptible "$@"; then return 0; fi
  printf '%s: %s failed; the end of %s:\n' "$program" "$1" "$log" >&2
  tail -n 25 "$log" >&2
  return 1
}

# Makes the caller of sudo the owner of files, so that the next build without sudo can use them.
give_to_caller() {
  if is_root && [ -n "${SUDO_UID:-}" ] && [ "$SUDO_UID" != 0 ]; then
    chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$@"
  fi
}

# Prints the number of parallel jobs: one per core, limited to one per 1.2 GiB of available memory.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk '/^MemAvailable/ {print int($2 / 1258291)}' /proc/meminfo)
  [ "$by_memory" -ge 1 ] || by_memory=1
  if [ "$cores" -lt "$by_memory" ]; then echo "$cores"; else echo "$by_memory"; fi
}
