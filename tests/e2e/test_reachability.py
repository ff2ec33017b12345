"""The appliance is a host like others: ARP, neighbour discovery, ping, the protocol's own ping."""

import re
import struct

import pytest
from harness.clients import assert_accounted, stranger
from harness.frames import ICMP, icmp_echo, ipv4, wire_to
from harness.namespaces import SERVER_IPV4, SERVER_IPV6, run


def received(output):
    return int(re.search(r"(\d+) received", output).group(1))


def test_ping_and_neighbours_of_both_families(appliance, namespaces):
    assert received(namespaces.in_client("ping", "-c", "5", "-i", "0.05", "-W", "2", SERVER_IPV4)) == 5
    assert received(namespaces.in_client("ping", "-6", "-c", "5", "-i", "0.05", "-W", "2", SERVER_IPV6)) == 5
    neighbours = namespaces.in_client("ip", "neigh")
    for address in (SERVER_IPV4, SERVER_IPV6):
        assert re.search(rf"^{address} .*lladdr", neighbours, re.M), neighbours
    # As large as one frame takes, with every byte back.
    namespaces.in_client("ping", "-c", "2", "-i", "0.05", "-W", "2", "-M", "do", "-s", "1472", SERVER_IPV4)
    assert_accounted(appliance)


def test_the_link_local_address_answers_too(appliance, namespaces):
    namespaces.in_client("ping", "-6", "-c", "2", "-i", "0.05", "-W", "2", SERVER_IPV6)
    mac = appliance.ctl_json("health")["appliance"]["ports"][0]["mac"]
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    address = "fe80::{:x}:{:x}:{:x}:{:x}".format(
        octets[0] << 8 | octets[1], octets[2] << 8 | 0xFF, 0xFE << 8 | octets[3],
        octets[4] << 8 | octets[5])
    output = namespaces.in_client("ping", "-6", "-c", "2", "-i", "0.05", "-W", "2",
                                  f"{address}%{namespaces.client_link}")
    assert received(output) == 2


@pytest.mark.parametrize("address", [SERVER_IPV4, SERVER_IPV6])
def test_the_protocols_ping_and_hello(appliance, namespaces, address):
    with stranger(namespaces, address=address) as client:
        for payload in (b"", b"x", b"y" * 1400):
            assert client.ping(payload) < 1.0
        assert client.hello() != 0


def test_checksums_that_the_kernel_left_to_hardware(appliance, namespaces):
    """Over a veth, UDP checksums of local senders are never completed; of forged ones, wrong is wrong."""
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


def vlan_of_answer(wire, tag):
    """Sends an echo request with this tag; the VLAN of the answer (0: untagged), or None."""
    wire.send(ipv4(icmp_echo(b"from a VLAN!"), ICMP), tag)
    answer = wire.receive(b"from a VLAN!")
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
        assert vlan_of_answer(wire, vlan(13)) is None
    assert assert_accounted(appliance)["total"]["dropped"]["vlan_other"] == 1
