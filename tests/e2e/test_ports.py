"""Every kind of port that needs no NIC. memif, tap, AF_XDP and pcap carry real requests. ring and null cannot; they
start, account for their datagrams, and stop. All other tests use AF_PACKET."""

import itertools
import json
import os
import socket
import subprocess

import pytest
from harness.appliance import UDP_PORT, program
from harness.captures import read_frames, udp_of, write_pcap
from harness.clients import (
    Golden, assert_accounted, connect, dropped, stranger, wait_dropped, wait_until,
)  # fmt: skip
from harness.frames import ETH_ARP, ETH_IPV4, ipv4, udp
from harness.namespaces import CLIENT_IPV4, CLIENT_IPV6, SERVER_IPV4, SERVER_IPV6, run
from harness.xdp import why_no_xdp
from itif_client import STATUSES, Client, parse

F32 = 1e-4  # tolerance of the kernels in f32
SHORT_IDS = [101, 2000, 102]


def health(appliance):
    return json.loads(appliance.ctl("--json", "health", check=False).stdout)["appliance"]


def port_figures(appliance):
    return appliance.ctl_json("drops")["ports"][0]


def stops_cleanly(appliance):
    assert appliance.stop() == 0, appliance.log()[-2000:]
    ends = [line for line in appliance.log().splitlines() if " error " in line]
    assert not ends, ends


@pytest.fixture
def f32_appliance(new_appliance):
    """Not started, so that the test can choose its port."""
    made = new_appliance()
    made.sections["device"] = {"dtype": "f32"}
    return made


def same_as_golden(appliance, namespaces, name="plain-f32", **options):
    """Checks every case of a golden model over this appliance's port."""
    golden = Golden(name)
    with connect(namespaces, appliance.add_tenant(name, golden.directory), rto_s=5, **options) as client:
        for case in golden.cases:
            golden.check(client, case, F32)
    return len(golden.cases)


# ---- memif: itif-loadgen --eal is the other end


def loadgen_over_memif(appliance, tenants, server, local, *options):
    """The report of a run without retransmissions."""
    report = appliance.directory / "loadgen.json"
    report.unlink(missing_ok=True)
    result = subprocess.run(
        (program("itif-loadgen"), server, "--tenants", str(tenants), "--local-ip", local, "--eal",
         f"--no-pci --no-huge -m 256 --no-telemetry --file-prefix={appliance.prefix}-peer "
         f"--vdev=net_memif0,role=client,rsize=11,socket-abstract=no,socket={appliance.directory}/memif.sock",
         "--tries", "1", "--timeout", "10s", "--quiet", "--json", str(report), *options),
        capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize("workers", [1, 2])
def test_memif(new_appliance, models, workers):
    """The memif has one queue, whose flows software spreads over two workers."""
    appliance = new_appliance().use_workers(workers)
    appliance.use_port("net_memif0", "role=server,rsize=11,socket-abstract=no,"
                       f"socket={appliance.directory}/memif.sock")
    appliance.start(link="down")
    assert health(appliance)["problems"] == ["port net_memif0: link down"]
    added = [appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(2)]
    tenants = appliance.directory / "tenants.json"
    tenants.write_text(json.dumps(added), encoding="utf-8")
    try:
        # IPv4 with many pieces per request, then another peer over the same socket: IPv6 with one
        # piece per request.
        runs = [loadgen_over_memif(appliance, tenants, SERVER_IPV4, CLIENT_IPV4, "--rate", "400", "--requests",
                                   "400", "--lengths", "uniform:8-128", "--fragment-bytes", "64", "--flows", "16"),
                loadgen_over_memif(appliance, tenants, SERVER_IPV6, CLIENT_IPV6, "--concurrency", "16",
                                   "--requests", "400", "--lengths", "uniform:1-64", "--result", "hidden")]
    finally:
        subprocess.run(("rm", "-rf", f"/var/run/dpdk/{appliance.prefix}-peer"), check=False)
    for report in runs:
        total = report["total"]
        assert total["answered"] == total["sent"] == 400 and total["lost"] == total["refused"] == 0, total
        assert all(each["answered"] == each["sent"] > 0 for each in report["tenants"])
    stats = appliance.ctl_json("stats")
    for each in stats["tenants"]:
        assert each["answered"] == sum(row["answered"] for report in runs for row in report["tenants"]
                                       if row["name"] == each["name"])
    # Every answer arrived at the first try. send_dropped may count other frames, which memif
    # refuses while a peer comes or goes.
    # net_memif resets its statistics when its peer leaves.
    total = assert_accounted(appliance, ports=False)["total"]
    assert total["received"] > 800 and total["nic_missed"] == 0, total
    assert total["repeated"] == total["dropped"] == {}, total
    assert all(worker["received"] > 100 for worker in appliance.ctl_json("drops")["workers"])
    wait_until(lambda: health(appliance)["problems"], "the peer has left")
    stops_cleanly(appliance)


# ---- tap: ordinary sockets of the namespace in which the interface is made


@pytest.mark.skipif(not os.path.exists("/dev/net/tun"), reason="no /dev/net/tun: a tap cannot be made")
def test_tap(f32_appliance, namespaces):
    appliance = f32_appliance
    link = f"it{os.getpid()}"
    appliance.use_port("net_tap0", f"iface={link}")
    appliance.start()
    server = namespaces.server
    assert health(appliance)["ports"][0]["driver"] == "net_tap"
    run("ip", "-n", server, "addr", "add", f"{CLIENT_IPV4}/24", "dev", link)
    run("ip", "-n", server, "addr", "add", f"{CLIENT_IPV6}/64", "dev", link, "nodad")
    for address in (SERVER_IPV4, SERVER_IPV6):
        run("ip", "netns", "exec", server, "ping", "-c", "3", "-i", "0.05", "-W", "2", address)
        with namespaces.inside(server), Client(address, UDP_PORT) as client:
            client.ping(b"y" * 1380)
    asked = same_as_golden(appliance, namespaces, namespace=server)
    asked += same_as_golden(appliance, namespaces, "tokens-f32", namespace=server, address=SERVER_IPV6,
                            fragment_bytes=64)
    wait_until(lambda: appliance.ctl_json("stats")["total"]["answered"] == asked, "all are counted")
    total = assert_accounted(appliance)["total"]
    # The kernel sends unsolicited frames on a new interface.
    assert set(total["dropped"]) <= {"ip_not_ours", "icmp_unsupported", "ip_header_unsupported"}, total
    assert total["nic_missed"] == 0
    stops_cleanly(appliance)
    assert link not in run("ip", "-n", server, "link")


# ---- AF_XDP over the veth


def test_af_xdp(f32_appliance, namespaces):
    if reason := why_no_xdp():
        pytest.skip(reason)
    appliance = f32_appliance
    appliance.use_port("net_af_xdp0", f"iface={namespaces.server_link},start_queue=0")
    appliance.start()
    assert health(appliance)["ports"][0]["driver"] == "net_af_xdp"
    for address in (SERVER_IPV4, SERVER_IPV6):
        namespaces.in_client("ping", "-c", "3", "-i", "0.05", "-W", "2", address)
        with stranger(namespaces, address=address) as client:
            client.ping(b"y" * 1380)
            client.send_raw(b"junk")
    wait_dropped(appliance, "wire_too_short", 2)
    asked = same_as_golden(appliance, namespaces)
    asked += same_as_golden(appliance, namespaces, "tokens-f32", address=SERVER_IPV6, fragment_bytes=64)
    assert appliance.ctl_json("stats")["total"]["answered"] == asked
    assert_accounted(appliance)
    stops_cleanly(appliance)
    assert "xdp" not in run("ip", "-n", namespaces.server, "link", "show", namespaces.server_link)


# ---- pcap: requests from a file, responses to a file


class Recording(Client):
    """A client that sends into a list, as frames of `source_port`. It has no valid address token."""

    def __post_init__(self):
        super().__post_init__()
        self.frames, self.token, self.token_renew_s = [], 77, float("inf")
        self.source_port = next(_source_ports)

    def send_raw(self, data):
        self.frames.append(frame_of(ipv4(udp(data, source_port=self.source_port), socket.IPPROTO_UDP)))

    def heard(self, datagrams):
        """Those of `datagrams` for this client, parsed, tagged with its key."""
        mine = [parse(each.payload) for each in datagrams if each.target == (CLIENT_IPV4, self.source_port)]
        assert all(self.open(each) for each in mine)
        return mine


_source_ports = itertools.count(40000)
PCAP_MAC, OUR_MAC = bytes.fromhex("02 70 63 61 70 00"), bytes.fromhex("02 00 00 00 00 99")


def frame_of(packet, ether_type=ETH_IPV4, target=PCAP_MAC):
    return target + OUR_MAC + ether_type.to_bytes(2, "big") + packet


def arp_request():
    addresses = OUR_MAC + socket.inet_aton(CLIENT_IPV4) + bytes(6) + socket.inet_aton(SERVER_IPV4)
    return frame_of(bytes.fromhex("0001 0800 06 04 0001") + addresses, ETH_ARP, target=b"\xff" * 6)


@pytest.mark.parametrize("workers", [1, 2])
def test_pcap(f32_appliance, namespaces, workers):
    """Restored tenants answer a capture from its first frame on. It cannot contain a token of this process, so that
    each request is refused with a new token, and none runs: a captured request is of no use later."""
    appliance = f32_appliance.use_workers(workers)
    golden = Golden("sentence-mean-f16")
    appliance.use_port("net_null0", "no-rx=1").start()
    added = appliance.add_tenant("replayed", golden.directory)
    stops_cleanly(appliance)

    requests, responses = appliance.directory / "requests.pcap", appliance.directory / "responses.pcap"
    whole, pieces, liar = (connect(namespaces, added, make=Recording, fragment_bytes=size)
                           for size in (1368, 64, 1368))
    asked = [(whole, []), (pieces, [])]
    for client, ids in asked:
        for case in golden.cases:
            message = client.tokens(case["ids"], "u32", result_kind=case["kind"])
            order = list(range(len(message.offsets())))
            client.send_pieces(message, order[::-1])  # the last piece first
            ids.append(message.header.request_id)
    liar.send_raw(liar.tokens(SHORT_IDS).piece(0)[:-1] + b"\0\0")  # longer than its header says
    liar.key = bytes(16)
    liar.send_pieces(liar.tokens(SHORT_IDS))  # tagged with a wrong key
    liar.send_raw(b"neither long enough")
    frames = [arp_request(), *liar.frames, *whole.frames, *pieces.frames, *whole.frames[:1]]
    write_pcap(requests, frames)

    appliance.use_port("net_pcap0", f"rx_pcap={requests},tx_pcap={responses}").start()
    assert health(appliance)["ports"][0]["mac"] == PCAP_MAC.hex(":")
    total = {}

    def all_read():
        total.update(appliance.ctl_json("drops")["total"])
        return total["received"] == len(frames)

    wait_until(all_read, lambda: f"{len(frames)} frames: {total}")
    total = assert_accounted(appliance)["total"]
    assert total["held"] == 0 and appliance.ctl_json("stats")["total"]["answered"] == 0
    without_token = len(whole.frames) + len(pieces.frames) + 1
    assert total["dropped"] == {"wire_bad_length": 1, "bad_tag": 1, "wire_too_short": 1,
                                "token_required": without_token}, total
    stops_cleanly(appliance)

    # Without announcements.
    written = [frame for frame in read_frames(responses) if not frame[0] & 1]
    assert all(frame[:6] == OUR_MAC and frame[6:12] == PCAP_MAC for frame in written)
    assert sum(frame[12:14] == ETH_ARP.to_bytes(2, "big") for frame in written) == 1
    datagrams = [each for frame in written if (each := udp_of(frame))]
    assert all(each.checksums_hold and each.source == (SERVER_IPV4, UDP_PORT) for each in datagrams)
    assert not liar.heard(datagrams), "junk and wrong tags must get no answer"
    for client, ids in asked:
        heard = client.heard(datagrams)
        assert [each.header.request_id for each in heard] == (ids + ids[:1] if client is whole else ids)
        assert all(STATUSES[each.header.status] == "token_required" and each.header.token for each in heard)
    for client in (whole, pieces, liar):
        client.close()


def test_a_missing_pcap_file(new_appliance):
    appliance = new_appliance()
    appliance.use_port("net_pcap0", "rx_pcap=/nonexistent/requests.pcap,tx_pcap=/tmp/never.pcap")
    status, output = appliance.run_to_the_end()
    lines = [line for line in output.splitlines() if "/nonexistent/requests.pcap" in line]
    assert status == 1 and len(lines) == 1 and " error " in lines[0] and "net_pcap0" in lines[0], output
    assert output.strip().splitlines()[-1] == lines[0] and "EAL: FATAL" not in output


# ---- ring and null, which carry no requests


@pytest.mark.parametrize("device, arguments", [("net_ring0", ""), ("net_null0", "no-rx=1")])
def test_a_port_without_requests(new_appliance, models, device, arguments):
    """Control works: tenants are added and removed. A ring loops our announcements back."""
    appliance = new_appliance().use_port(device, arguments)
    appliance.start()
    assert health(appliance)["status"] == "ok"
    assert health(appliance)["ports"][0]["driver"] == device[:-1]
    appliance.add_tenant("t", models())
    assert appliance.ctl("tenant", "remove", "t").returncode == 0
    total = assert_accounted(appliance)["total"]
    assert total["forwarded"] == total["held"] == 0
    assert total["received"] == (4 if device == "net_ring0" else 0), "announcements of 3 addresses and their groups"
    stops_cleanly(appliance)


def test_null_floods_junk(new_appliance, models):
    """Endless frames of zeros are counted, none is held, and control answers."""
    appliance = new_appliance().use_port("net_null0", "size=128,copy=1")
    appliance.start()
    before = dropped(appliance, "not_ethernet_ours")
    appliance.add_tenant("t", models())
    wait_dropped(appliance, "not_ethernet_ours", before + 100_000)
    assert health(appliance)["status"] == "ok"
    # The port's statistics are read at another moment.
    drops = assert_accounted(appliance, settle_s=10, ports=False)
    assert drops["total"]["held"] == drops["total"]["forwarded"] == 0
    assert set(drops["total"]["dropped"]) == {"not_ethernet_ours"}
    assert port_figures(appliance)["rx_no_mbuf"] == 0
    stops_cleanly(appliance)
