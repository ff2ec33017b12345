# Configures and starts an itifd in the server namespace. Sourced after run.sh.
#
# REQUIRES: an open run. Sets: itifd_pid, ITIF_ENDPOINT for itifctl.

itifd_pid=""

# Variables, not functions that print paths: Debian 12's bash may fail to run a trap inside a
# command substitution.
itifd_program=$source_root/build/app/itifd
itifctl_program=$source_root/build/tools/itifctl/itifctl
loadgen_program=$source_root/build/tools/itif-loadgen/itif-loadgen
mkmodel_program=$source_root/build/tools/itif-mkmodel/itif-mkmodel

appliance_configure() {
  export ITIF_ENDPOINT=ipc://$run_directory/control.sock
  local memory_arguments='"--no-huge", "-m", "512"'
  [ "$hugepages_ready" = no ] ||
    memory_arguments="\"--single-file-segments\", \"--huge-dir=$run_directory/hugepages\""
  cat >"$run_directory/itifd.conf" <<CONF
# Written by tools/quickstart: one af_packet port on a veth; conf/itifd.conf explains every key.
eal = {
  args = [ "--lcores=0,1", "--file-prefix=$file_prefix", "--no-pci", "--iova-mode=va",
           $memory_arguments,
           "--vdev=net_af_packet0,iface=$server_link,blocksz=65536,framesz=2048,framecnt=16384" ];
};
ports = ( { device = "net_af_packet0"; ipv4 = [ "$server_ipv4/24" ]; ipv6 = [ "$server_ipv6/64" ]; } );
data_plane = { mbufs = 16384; };
control = {
  endpoint = "$ITIF_ENDPOINT";
  events_endpoint = "ipc://$run_directory/events.sock";
  state_dir = "$run_directory/state";
};
CONF
}

# Starts itifd and waits until it answers. Fails if it does not.
appliance_start() {
  local waited=0
  # setsid: an interrupt from the terminal must not reach itifd; we stop it ourselves.
  setsid ip netns exec "$server_namespace" "$itifd_program" --config "$run_directory/itifd.conf" \
    >"$run_directory/itifd.log" 2>&1 </dev/null &
  itifd_pid=$!
  disown "$itifd_pid"  # keeps bash from reporting its end
  run_note itifd "$itifd_pid" "$(process_start "$itifd_pid")"
  until "$itifctl_program" health >/dev/null 2>&1; do
    if ! kill -0 "$itifd_pid" 2>/dev/null || [ $waited -ge 600 ]; then return 1; fi
    sleep 0.1
    waited=$((waited + 1))
  done
}
