# Reserves 2 MiB hugepages for a run and gives them back. Sourced after common.sh.
#
# Only what is missing is added, and only that is taken back, so that two runs side by side do not take
# each other's. Sets: hugepages_ready (yes | no), hugepages_why (when no).

hugepages_sysfs=/sys/kernel/mm/hugepages/hugepages-2048kB
hugepages_mount=/dev/hugepages
hugepages_added=0
hugepages_mounted=no
hugepages_ready=no
hugepages_why=""

# hugepages_prepare PAGES
hugepages_prepare() {
  local free before after
  if [ ! -w "$hugepages_sysfs/nr_hugepages" ]; then
    hugepages_why="the kernel or this container lets no one reserve them"
    return 0
  fi
  if ! hugepages_mounted_somewhere; then
    mkdir -p "$hugepages_mount" 2>/dev/null || true
    if ! mount -t hugetlbfs nodev "$hugepages_mount" 2>/dev/null; then
      hugepages_why="hugetlbfs cannot be mounted on $hugepages_mount"
      return 0
    fi
    hugepages_mounted=yes
  fi
  free=$(cat "$hugepages_sysfs/free_hugepages")
  if [ "$free" -lt "$1" ]; then
    before=$(cat "$hugepages_sysfs/nr_hugepages")
    if ! { echo $((before + $1 - free)) >"$hugepages_sysfs/nr_hugepages"; } 2>/dev/null; then
      hugepages_why="the kernel refused to reserve them"
      return 0
    fi
    after=$(cat "$hugepages_sysfs/nr_hugepages")
    hugepages_added=$((after - before))
    free=$(cat "$hugepages_sysfs/free_hugepages")
    if [ "$free" -lt "$1" ]; then
      hugepages_why="the kernel found only $free of $1 pages: memory is short or fragmented"
      hugepages_restore
      return 0
    fi
  fi
  hugepages_ready=yes
}

hugepages_mounted_somewhere() { awk '$3 == "hugetlbfs" {found = 1} END {exit !found}' /proc/mounts; }

hugepages_restore() {
  if [ "$hugepages_added" -gt 0 ]; then
    local now
    now=$(cat "$hugepages_sysfs/nr_hugepages")
    { echo $((now > hugepages_added ? now - hugepages_added : 0)) >"$hugepages_sysfs/nr_hugepages"; } 2>/dev/null || true
    hugepages_added=0
  fi
  if [ "$hugepages_mounted" = yes ]; then
    umount "$hugepages_mount" 2>/dev/null || true  # in use by a run that began meanwhile
    hugepages_mounted=no
  fi
}

# dpdk_forget PREFIX: files that a DPDK process of that --file-prefix leaves behind.
dpdk_forget() {
  rm -rf "/var/run/dpdk/$1"
  local directory
  awk '$3 == "hugetlbfs" {print $2}' /proc/mounts | while read -r directory; do
    rm -f "$directory/$1"map_*
  done
}
