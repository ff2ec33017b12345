# Reserves 2 MiB hugepages for a run and gives them back. Sourced after common.sh.
#
# A run adds the pages that it needs and removes the same number, so that concurrent runs do not
# take each other's pages. It uses existing free pages only if the kernel cannot add enough. Sets:
# hugepages_ready (yes | no), hugepages_why (when no).

hugepages_sysfs=/sys/kernel/mm/hugepages/hugepages-2048kB
hugepages_ready=no
hugepages_why=""

# hugepages_prepare PAGES DIRECTORY: mounts a separate hugetlbfs on DIRECTORY; run_remove unmounts
# it.
hugepages_prepare() {
  if [ ! -w "$hugepages_sysfs/nr_hugepages" ]; then
    hugepages_why="the kernel or this container does not allow reserving them"
    return 0
  fi
  mkdir -p "$2"
  if ! mount -t hugetlbfs -o mode=0700 itif "$2" 2>/dev/null; then
    rmdir "$2"
    hugepages_why="hugetlbfs cannot be mounted"
    return 0
  fi
  if hugepages_reserve "$1"; then
    hugepages_ready=yes
  else
    hugepages_unmount "$2"
  fi
}

hugepages_reserve() {
  local before after free lock
  exec {lock}<"$hugepages_sysfs/nr_hugepages"
  flock "$lock"
  before=$(cat "$hugepages_sysfs/nr_hugepages")
  { echo $((before + $1)) >"$hugepages_sysfs/nr_hugepages"; } 2>/dev/null || true
  after=$(cat "$hugepages_sysfs/nr_hugepages")
  run_note hugepages $((after - before))
  exec {lock}<&-
  free=$(cat "$hugepages_sysfs/free_hugepages")
  if [ "$free" -ge "$1" ]; then return 0; fi
  hugepages_give_back $((after - before))
  run_note hugepages 0
  hugepages_why="only $free of $1 pages are free: memory is short or fragmented, or reserving them is forbidden"
  return 1
}

hugepages_give_back() {
  local now lock
  if [ "${1:-0}" -le 0 ]; then return 0; fi
  exec {lock}<"$hugepages_sysfs/nr_hugepages"
  flock "$lock"
  now=$(cat "$hugepages_sysfs/nr_hugepages")
  { echo $((now > $1 ? now - $1 : 0)) >"$hugepages_sysfs/nr_hugepages"; } 2>/dev/null || true
  exec {lock}<&-
}

hugepages_unmount() {
  if mountpoint -q "$1" 2>/dev/null; then
    umount "$1" 2>/dev/null || umount --lazy "$1" 2>/dev/null || true
  fi
  rmdir "$1" 2>/dev/null || true
}
