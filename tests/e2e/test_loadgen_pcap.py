"""itif-loadgen --pcap: each datagram that it sends or receives is in the file once, and tshark dissects it without an
error."""

import json
import shutil
import subprocess

import pytest
from harness.appliance import UDP_PORT, program
from harness.captures import read_frames
from harness.clients import assert_accounted
from harness.namespaces import CLIENT_IPV4, CLIENT_IPV6, SERVER_IPV4, SERVER_IPV6
from harness.tshark import MESSAGES, dissect

REASONS = [f"itif.{name}" for name in
           ("too_short", "bad_magic", "bad_version", "bad_type", "bad_header_size", "bad_length", "bad_kind",
            "bad_field", "bad_geometry", "unexpected_type", "bad_payload", "bad_ranges")]
CHECKSUMS = ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE")
SEVERITY, WARNING = "_ws.expert.severity", 0x600000  # below: notes, such as "sent again"
OTHER_IPV4 = "198.18.0.3"  # for --eal: the kernel would answer for its own address
WITH_TSHARK = pytest.mark.skipif(not shutil.which("tshark"), reason="no tshark: install the package tshark")


@pytest.fixture
def loadgen(appliance, namespaces, models):
    """loadgen(options…): returns the JSON document of a run of a tenant, and the path of its capture."""

    def start(*options, server=SERVER_IPV4, auth="full"):
        added = appliance.add_tenant("t", models(backbone="bert-tiny"), "--auth", auth)
        tenant, out, capture = (appliance.directory / name for name in ("t.json", "out.json", "run.pcap"))
        tenant.write_text(json.dumps(added), encoding="utf-8")
        result = subprocess.run(
            ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), server, "--tenants", str(tenant),
             "--rate", "200", "--timeout", "30s", "--drain", "30s", "--json", str(out), "--pcap", str(capture),
             *options),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(out.read_text(encoding="utf-8")), capture, result.stderr

    yield start
    assert_accounted(appliance, 60)


def dissected(directory, capture, ip, fields=(), *options):
    fields = [f"{ip}.src", f"{ip}.dst", "udp.srcport", "udp.dstport", "itif.type", SEVERITY, *REASONS, *fields]
    rows = dissect(directory, capture, fields, *options)
    for row in rows:
        assert row["itif.type"] and not any(row[reason] for reason in REASONS), row
        assert all(int(each, 0) < WARNING for each in row[SEVERITY]), (row, row[MESSAGES])
        assert (row[f"{ip}.src"], row["udp.srcport"]) != (row[f"{ip}.dst"], row["udp.dstport"])
    return rows


def ends(rows, ip):
    """The directions, as {((source, port), (target, port)): frames}."""
    found = {}
    for row in rows:
        ends = ((*row[f"{ip}.src"], *row["udp.srcport"]), (*row[f"{ip}.dst"], *row["udp.dstport"]))
        found[ends] = found.get(ends, 0) + 1
    return found


@WITH_TSHARK
@pytest.mark.parametrize("server, client, auth, options",
                         [(SERVER_IPV4, CLIENT_IPV4, "full", ("--lengths", "uniform:1-16")),
                          (SERVER_IPV6, CLIENT_IPV6, "header", ("--lengths", "uniform:1-16", "--flows", "3")),
                          (SERVER_IPV4, CLIENT_IPV4, "sealed", ("--lengths", "fixed:64", "--fragment-bytes", "64"))])
def test_each_datagram_of_the_sockets_is_there(appliance, loadgen, server, client, auth, options):
    ip = "ip" if server == SERVER_IPV4 else "ipv6"
    document, capture, _ = loadgen("--requests", "60", *options, server=server, auth=auth)
    checksums = ["udp.checksum.status", *(["ip.checksum.status"] if ip == "ip" else [])]
    rows = dissected(appliance.directory, capture, ip, [*checksums, "frame.time_epoch"], *CHECKSUMS)
    for row in rows:
        assert all(row[field] == ["1"] for field in checksums), row
    times = [float(row["frame.time_epoch"][0]) for row in rows]
    assert times == sorted(times) and times[0] > 1.7e9
    directions = ends(rows, ip)
    there = {pair: count for pair, count in directions.items() if pair[1] == (server, str(UDP_PORT))}
    back = {pair: count for pair, count in directions.items() if pair[0] == (server, str(UDP_PORT))}
    assert len(there) + len(back) == len(directions), directions
    assert {pair[0] for pair in there} == {pair[1] for pair in back}
    assert {pair[0][0] for pair in there} == {client} and len(there) == (3 if "--flows" in options else 1)
    datagrams = document["datagrams"]
    assert sum(there.values()) == datagrams["datagrams_sent"]
    assert sum(back.values()) == datagrams["datagrams_received"]


@WITH_TSHARK
def test_frames_of_a_dpdk_port_are_there(appliance, namespaces, loadgen):
    port = f"--vdev=net_af_packet0,iface={namespaces.client_link},blocksz=65536,framesz=2048,framecnt=2048"
    try:
        document, capture, _ = loadgen(
            "--requests", "60", "--lengths", "uniform:1-16", "--local-ip", OTHER_IPV4, "--eal",
            f"{port} --no-pci --no-huge -m 128 --no-telemetry --file-prefix=itif-pcap-{appliance.directory.name}")
    finally:
        shutil.rmtree(f"/var/run/dpdk/itif-pcap-{appliance.directory.name}", ignore_errors=True)
    rows = dissected(appliance.directory, capture, "ip", ["eth.src"])
    ours = [row for row in rows if row["ip.src"] == [OTHER_IPV4]]
    assert len(ours) == document["datagrams"]["datagrams_sent"]
    assert len(rows) - len(ours) == document["datagrams"]["datagrams_received"]
    assert len({row["eth.src"][0] for row in ours}) == 1 and ours[0]["eth.src"] != ["02:00:00:00:00:01"]


def test_the_file_has_no_more_than_its_limit(loadgen):
    """--quiet does not hide that the file is cut."""
    document, capture, text = loadgen("--requests", "40", "--pcap-packets", "25", "--quiet")
    assert len(read_frames(capture)) == 25
    datagrams = document["datagrams"]
    left_out = datagrams["datagrams_sent"] + datagrams["datagrams_received"] - 25
    assert left_out > 0 and f"run.pcap: 25 datagrams; {left_out} later ones were left out" in text


@pytest.mark.parametrize("option", ["--pcap", "--json"])
def test_a_file_that_cannot_be_written_is_named_before_the_run(namespaces, tmp_path, option):
    command = ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), "127.0.0.1:9", "--tenant",
               "a:1:000102030405060708090a0b0c0d0e0f", "--quiet", option)
    for path in ("/nonexistent/run", "/"):
        result = subprocess.run((*command, path), capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 1 and not result.stdout
        assert result.stderr.startswith(f"itif-loadgen: {option} ") and path in result.stderr, result.stderr
        assert "nobody listens" not in result.stderr
    # The check leaves no results of a run that did not begin, and keeps those of an earlier one.
    fresh, old = tmp_path / "fresh.json", tmp_path / "old.json"
    old.write_text("{}", encoding="utf-8")
    if option == "--json":
        for path in (fresh, old):
            result = subprocess.run((*command, path), capture_output=True, text=True, timeout=60, check=False)
            assert result.returncode == 1 and "nobody listens" in result.stderr, result.stderr
        assert not fresh.exists() and old.read_text(encoding="utf-8") == "{}"
