# Two network namespaces joined by a veth: the appliance's side has no address in the kernel, because
# the appliance answers for it; the clients' side is an ordinary host. Sourced after common.sh.
#
# Sets: server_namespace, client_namespace, server_link, client_link.

server_namespace=itif-srv-$$
client_namespace=itif-cli-$$
server_link=itif-s-$$
client_link=itif-c-$$
server_ipv4=198.18.0.1
client_ipv4=198.18.0.2
server_ipv6=fd00:18::1
client_ipv6=fd00:18::2

namespaces_make() {
  ip netns add "$server_namespace" && ip netns add "$client_namespace" || return 1
  ip link add "$server_link" netns "$server_namespace" type veth \
    peer name "$client_link" netns "$client_namespace" || return 1
  # The kernel must not speak on the appliance's side: no IPv6 address of its own.
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

in_server() { ip netns exec "$server_namespace" "$@"; }
in_client() { ip netns exec "$client_namespace" "$@"; }
