# Two network namespaces connected by a veth. The appliance's side has no kernel address, because
# the appliance answers for it. The clients' side is an ordinary host. Sourced after common.sh.

server_ipv4=198.18.0.1
client_ipv4=198.18.0.2
server_ipv6=fd00:18::1
client_ipv6=fd00:18::2

# namespaces_names TAG: sets the names. TAG: at most eight characters, because a link's name has at
# most fifteen.
namespaces_names() {
  server_namespace=itif-srv-$1
  client_namespace=itif-cli-$1
  server_link=itif-s-$1
  client_link=itif-c-$1
}

namespaces_make() {
  ip netns add "$server_namespace" && ip netns add "$client_namespace" || return 1
  ip link add "$server_link" netns "$server_namespace" type veth \
    peer name "$client_link" netns "$client_namespace" || return 1
  # The kernel must not send on the appliance's side: disable its IPv6 address.
  ip netns exec "$server_namespace" sysctl -qw "net.ipv6.conf.$server_link.disable_ipv6=1" || return 1
  ip -n "$server_namespace" link set "$server_link" up || return 1
  ip -n "$client_namespace" link set lo up || return 1
  ip -n "$client_namespace" addr add "$client_ipv4/24" dev "$client_link" || return 1
  ip -n "$client_namespace" addr add "$client_ipv6/64" dev "$client_link" nodad || return 1
  ip -n "$client_namespace" link set "$client_link" up || return 1
}

namespaces_remove() {
  ip netns del "$client_namespace" 2>/dev/null || true
  ip netns del "$server_namespace" 2>/dev/null || true  # the veth goes with it
}

# namespaces_pids NAME…: prints the processes in both namespaces that run one of these programs.
namespaces_pids() {
  local namespace pid name
  for namespace in "$server_namespace" "$client_namespace"; do
    for pid in $(ip netns pids "$namespace" 2>/dev/null || true); do
      name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
      case " $* " in *" $name "*) echo "$pid" ;; esac
    done
  done
}

in_client() { interruptible ip netns exec "$client_namespace" "$@"; }
