# Starts, asks and stops an itifd in the server namespace. Sourced after common.sh, namespaces.sh and
# hugepages.sh.
#
# REQUIRES: state_directory. Sets: itifd_pid, endpoint, file_prefix.

itifd_pid=""
file_prefix=itif-$$

bin() {
  case $1 in
    itifd) echo "$source_root/build/app/itifd" ;;
    *) echo "$source_root/build/tools/$1/$1" ;;
  esac
}

itifctl() { "$(bin itifctl)" --endpoint "$endpoint" "$@"; }

appliance_configure() {
  endpoint=ipc://$state_directory/control.sock
  local memory_arguments='"--no-huge", "-m", "512"'
  [ "$hugepages_ready" = no ] || memory_arguments='"--single-file-segments"'
  cat >"$state_directory/itifd.conf" <<CONF
# Written by tools/quickstart: one af_packet port on a veth; conf/itifd.conf explains every key.
eal = {
  args = [ "--lcores=0,1", "--file-prefix=$file_prefix", "--no-pci", "--iova-mode=va",
           $memory_arguments,
           "--vdev=net_af_packet0,iface=$server_link,blocksz=65536,framesz=2048,framecnt=16384" ];
};
ports = ( { device = "net_af_packet0"; ipv4 = [ "$server_ipv4/24" ]; ipv6 = [ "$server_ipv6/64" ]; } );
data_plane = { mbufs = 16384; };
control = {
  endpoint = "$endpoint";
  events_endpoint = "ipc://$state_directory/events.sock";
  state_dir = "$state_directory/state";
};
CONF
}

# Starts itifd and waits until it answers. Fails, with the log's end, if it does not.
appliance_start() {
  local waited=0
  # setsid: an interrupt typed at the terminal is for us; we stop itifd ourselves.
  setsid ip netns exec "$server_namespace" "$(bin itifd)" --config "$state_directory/itifd.conf" \
    >"$state_directory/itifd.log" 2>&1 </dev/null &
  itifd_pid=$!
  until itifctl health >/dev/null 2>&1; do
    if ! kill -0 "$itifd_pid" 2>/dev/null || [ $waited -ge 600 ]; then return 1; fi
    sleep 0.1
    waited=$((waited + 1))
  done
}

# SIGTERM drains; SIGKILL if that takes more than 20 s.
stop_process() {
  local pid=$1 waited=0
  kill -TERM "$pid" 2>/dev/null || return 0
  while kill -0 "$pid" 2>/dev/null; do
    if [ $waited -ge 200 ]; then
      kill -KILL "$pid" 2>/dev/null || true
      break
    fi
    sleep 0.1
    waited=$((waited + 1))
  done
}
