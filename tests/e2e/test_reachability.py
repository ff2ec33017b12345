"""The appliance behaves as a host: ARP, neighbour discovery, ping, and the protocol's ping."""

import json
import re
import socket
import struct

import pytest
from harness.clients import assert_accounted, stranger, wait_until
from harness.frames import ETH_IPV6, ETH_P_ALL, ICMP, checksum, icmp_echo, ipv4, mac_bytes, wire_to
from harness.namespaces import SERVER_IPV4, SERVER_IPV6, run

ICMP_V6, MLD_QUERY, MLD_REPORT = 58, 130, 143
ALL_REPORT_LISTENERS = bytes.fromhex("333300000016")


def received(output):
    return int(re.search(r"(\d+) received", output).group(1))


def test_ping_and_neighbours_of_both_families(appliance, namespaces):
    assert received(namespaces.in_client("ping", "-c", "5", "-i", "0.05", "-W", "2", SERVER_IPV4)) == 5
    assert received(namespaces.in_client("ping", "-6", "-c", "5", "-i", "0.05", "-W", "2", SERVER_IPV6)) == 5
    neighbours = namespaces.in_client("ip", "neigh")
    for address in (SERVER_IPV4, SERVER_IPV6):
        assert re.search(rf"^{address} .*lladdr", neighbours, re.M), neighbours
    # The largest ping that fits one frame.
    namespaces.in_client("ping", "-c", "2", "-i", "0.05", "-W", "2", "-M", "do", "-s", "1472", SERVER_IPV4)
    assert_accounted(appliance)


def link_local(appliance, namespaces):
    """The port's link-local address, with the clients' interface."""
    mac = appliance.ctl_json("health")["appliance"]["ports"][0]["mac"]
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    address = "fe80::{:x}:{:x}:{:x}:{:x}".format(
        octets[0] << 8 | octets[1], octets[2] << 8 | 0xFF, 0xFE << 8 | octets[3],
        octets[4] << 8 | octets[5])
    address = socket.inet_ntop(socket.AF_INET6, socket.inet_pton(socket.AF_INET6, address))
    return f"{address}%{namespaces.client_link}"


def test_the_link_local_address_answers_too(appliance, namespaces):
    namespaces.in_client("ping", "-6", "-c", "2", "-i", "0.05", "-W", "2", SERVER_IPV6)
    address = link_local(appliance, namespaces)
    output = namespaces.in_client("ping", "-6", "-c", "2", "-i", "0.05", "-W", "2", address)
    assert received(output) == 2 and "DUP!" not in output
    with stranger(namespaces, address=address) as client:
        client.ping()
        assert client.hello() != 0


def test_doctor_finds_the_link_local_address_that_the_kernel_has_too(appliance, namespaces):
    """Without `disable_ipv6` the kernel gives the interface the address that itifd has there."""
    link, address = namespaces.server_link, link_local(appliance, namespaces).partition("%")[0]

    def found():
        done = appliance.ctl("--json", "doctor", "--config", str(appliance.config_path), check=False,
                             namespace=namespaces.server)
        return {check["name"]: check for check in json.loads(done.stdout)["checks"]}.get(f"address {address}")

    assert found() is None
    disable = lambda on: run("ip", "netns", "exec", namespaces.server, "sysctl", "-qw",
                             f"net.ipv6.conf.{link}.disable_ipv6={on}")
    disable(0)
    try:
        check = found()
        assert check["verdict"] == "fail", check
        assert f"ip link set dev {link} addrgenmode none" in check["remedy"]
        run("ip", "netns", "exec", namespaces.server, "sh", "-c", check["remedy"])
        assert found() is None
    finally:
        disable(1)




@pytest.mark.parametrize("address", [SERVER_IPV4, SERVER_IPV6])
def test_the_protocols_ping_and_hello(appliance, namespaces, address):
    with stranger(namespaces, address=address) as client:
        for payload in (b"", b"x", b"y" * 1384):
            client.ping(payload)
        assert client.hello() != 0


def test_udp_checksums_left_to_hardware(appliance, namespaces):
    """Over a veth, the kernel never completes UDP checksums of local senders. Forged wrong checksums are dropped."""
    with stranger(namespaces) as client:
        client.ping(b"with a partial checksum")
    assert assert_accounted(appliance)["total"]["dropped"].get("udp_checksum", 0) == 0


def test_addresses_that_are_not_ours_get_no_answer(appliance, namespaces):
    run("ip", "-n", namespaces.client, "neigh", "replace", "198.18.0.77", "lladdr", "02:00:00:00:00:77",
        "dev", namespaces.client_link)
    with stranger(namespaces, address="198.18.0.77") as client:
        client.send_raw(b"x" * 60)
        assert client.receive_raw(0.3) is None
    arping = run("ip", "netns", "exec", namespaces.client, "sh", "-c",
                 "ping -c 1 -W 1 198.18.0.99 || true")
    assert " 0 received" in arping
    assert_accounted(appliance)


def vlan_of_answer(wire, tag, timeout_s=10):
    """Sends an echo request with this tag; the VLAN of the answer (0: untagged), or None."""
    wire.send(ipv4(icmp_echo(b"from a VLAN!"), ICMP), tag)
    answer = wire.receive(b"from a VLAN!", timeout_s)
    return answer and answer[0]


def test_vlan_tagged_frames(new_appliance, namespaces):
    appliance = new_appliance()
    appliance.port["vlan"] = 12
    appliance.start()
    namespaces.in_client("ping", "-c", "1", "-W", "2", SERVER_IPV4)
    vlan = lambda number: b"\x81\x00" + struct.pack(">H", number)
    with wire_to(appliance) as wire:
        assert vlan_of_answer(wire, b"") == 0
        assert vlan_of_answer(wire, vlan(12)) == 12
        assert vlan_of_answer(wire, vlan(13), timeout_s=0.5) is None
    assert assert_accounted(appliance)["total"]["dropped"]["vlan_other"] == 1


def groups_of_report(frame, mac):
    """The groups in the appliance's MLDv2 report, or None if the frame is no report."""
    if frame[:6] != ALL_REPORT_LISTENERS or frame[6:12] != mac_bytes(mac) or frame[62] != MLD_REPORT:
        return None
    source, target, message = frame[22:38], frame[38:54], frame[62:]
    assert checksum(source + target + struct.pack(">II", len(message), ICMP_V6) + message) == 0
    count = struct.unpack(">H", message[6:8])[0]
    assert len(message) == 8 + 20 * count
    return {message[8 + 20 * i + 4:8 + 20 * (i + 1)] for i in range(count)}


def solicited_node(tail):
    return socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + tail


def expected_groups(mac):
    return {solicited_node(socket.inet_pton(socket.AF_INET6, SERVER_IPV6)[13:]), solicited_node(mac_bytes(mac)[3:])}


def test_a_starting_appliance_announces_itself(new_appliance, namespaces):
    """Hosts that had another machine's MAC address for its addresses learn the new one. Switches learn its groups."""
    link = namespaces.client_link
    for family, address in (("ipv4", SERVER_IPV4), ("ipv6", SERVER_IPV6)):
        if family == "ipv4":  # by default entries younger than a second are kept
            namespaces.in_client("sysctl", "-qw", f"net.ipv4.neigh.{link}.locktime=0")
        namespaces.in_client("ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:77", "dev", link,
                             "nud", "stale")
    appliance = new_appliance()
    with namespaces.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as heard:
        heard.bind((link, ETH_P_ALL))
        mac = appliance.start().ctl_json("health")["appliance"]["ports"][0]["mac"]
        for address in (SERVER_IPV4, SERVER_IPV6):
            wait_until(lambda: mac in namespaces.in_client("ip", "neigh", "show", address), f"{address} is known")
        heard.settimeout(5)
        while (groups := groups_of_report(heard.recv(2048), mac)) is None:
            pass
    assert groups == expected_groups(mac)


def test_a_group_query_is_answered(appliance):
    """A snooping switch sends such queries about every two minutes."""
    mac = appliance.ctl_json("health")["appliance"]["ports"][0]["mac"]
    source = socket.inet_pton(socket.AF_INET6, "fe80::77")
    target = socket.inet_pton(socket.AF_INET6, "ff02::1")
    query = struct.pack(">BBHHH16sBBH", MLD_QUERY, 0, 0, 1000, 0, bytes(16), 2, 125, 0)
    value = checksum(source + target + struct.pack(">II", len(query), ICMP_V6) + query)
    query = query[:2] + struct.pack(">H", value) + query[4:]
    router_alert = bytes([ICMP_V6, 0, 5, 2, 0, 0, 1, 0])
    head = struct.pack(">IHBB", 6 << 28, len(router_alert + query), 0, 1)
    with wire_to(appliance) as wire:
        wire.send(head + source + target + router_alert + query, ether_type=ETH_IPV6,
                  target=bytes.fromhex("333300000001"))
        wire.raw.settimeout(5)
        while (groups := groups_of_report(wire.raw.recv(2048), mac)) is None:
            pass
    assert groups == expected_groups(mac)
    assert_accounted(appliance)
