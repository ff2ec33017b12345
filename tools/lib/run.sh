# One run of quickstart or run-tests. It records each resource before it makes it, so that the
# resources can be removed by the run itself, by --stop, or by the next run after a SIGKILL. Sourced
# after common.sh, namespaces.sh and hugepages.sh.
#
# A record is RUN_DIRECTORY/record: lines of "key value…". The last line of a key counts:
#   boot ID           of the kernel; after a reboot only the directory is left
#   owner PID START   process of the run; START tells it from a later process with the same id
#   itifd PID START
#   hugepages N       number of pages that the run added to the kernel's
#   kept              the run outlives its owner (--keep)
# The names of namespaces, links and DPDK's files derive from the directory's name (run_names).

run_directory=""
file_prefix=""

# run_open NAME: makes run_directory.
run_open() {
  run_directory=$(mktemp -d --tmpdir "itif-$1.XXXXXX") || die "cannot make a directory in ${TMPDIR:-/tmp}"
  run_note boot "$(cat /proc/sys/kernel/random/boot_id)"
  run_note owner "$$" "$(process_start $$)"
  run_names "$run_directory"
}

run_note() { printf '%s\n' "$*" >>"$run_directory/record"; }

# run_value DIRECTORY KEY
run_value() { awk -v key="$2" '$1 == key {$1 = ""; value = substr($0, 2)} END {print value}' "$1/record"; }

# Sets the names of the resources of that directory's run. They do not contain the process id: a
# kept run outlives it.
run_names() {
  local tag=${1##*.}
  namespaces_names "$tag"
  file_prefix=itif-qs-$tag
}

# Succeeds if DIRECTORY was made by us. Checks the owner, because anybody can write in /tmp and we
# act on it as root.
is_run_directory() {
  [[ $1 =~ /itif-(quickstart|run-tests)\.[A-Za-z0-9]{6}$ ]] && [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] &&
    [ -f "$1/record" ]
}

is_kept() { grep -qsx kept "$1/record"; }

# Prints the start time of a process in ticks since boot; nothing if it has ended.
process_start() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  # shellcheck disable=SC2086  # fields are words; the name in parentheses may hold anything
  set -- ${stat##*) }
  [ "${1:-Z}" = Z ] || echo "${20}"
}

# process_lives "PID START"
process_lives() { [ -n "${1% *}" ] && [ "$(process_start "${1% *}")" = "${1#* }" ]; }

# Ends our programs in the run's namespaces: SIGTERM, which drains, then SIGKILL after 20 s.
stop_processes() {
  local itifd pids waited=0 signal=TERM
  itifd=$(run_value "$1" itifd)
  while true; do
    pids=$(namespaces_pids itifd itif-loadgen itifctl)
    if process_lives "$itifd"; then pids="$pids ${itifd% *}"; fi
    if [ -z "$pids" ] || [ $waited -ge 250 ]; then return 0; fi
    if [ $waited -eq 200 ]; then signal=KILL; fi
    # shellcheck disable=SC2086  # process ids are words
    if [ $((waited % 200)) -eq 0 ]; then kill -"$signal" $pids 2>/dev/null || true; fi
    sleep 0.1
    waited=$((waited + 1))
  done
}

# Removes everything that the run of DIRECTORY made outside it. Can be interrupted and repeated.
run_remove() {
  local directory=$1
  if [ ! -f "$directory/record" ]; then return 0; fi
  if [ "$(run_value "$directory" boot)" = "$(cat /proc/sys/kernel/random/boot_id)" ]; then
    run_names "$directory"
    stop_processes "$directory"
    namespaces_remove
    rm -rf "/var/run/dpdk/$file_prefix"
    hugepages_unmount "$directory/hugepages"
    hugepages_give_back "$(run_value "$directory" hugepages)"
    echo "hugepages 0" >>"$directory/record"
  fi
  rm -f "$directory/record"
}

# Removes the leftovers of killed runs.
runs_sweep() {
  local directory lock
  for directory in "${TMPDIR:-/tmp}"/itif-{quickstart,run-tests}.??????; do
    is_run_directory "$directory" || continue
    if is_kept "$directory" &&
      [ "$(run_value "$directory" boot)" = "$(cat /proc/sys/kernel/random/boot_id)" ]; then continue; fi
    if process_lives "$(run_value "$directory" owner)"; then continue; fi
    exec {lock}<"$directory"
    if flock -n "$lock" && [ -f "$directory/record" ]; then
      say "removing the leftovers of a killed run ($directory)"
      run_remove "$directory"
      rm -rf "$directory"
    fi
    exec {lock}<&-
  done
}
