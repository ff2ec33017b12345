"""Clients fail immediately if their server cannot be reached, with the cause. `itifctl doctor` finds nothing wrong
beside an appliance that serves."""

import json
import re
import socket
import subprocess
import time

import pytest
from harness.appliance import program
from harness.clients import assert_accounted, connect, stranger, wait_dropped
from harness.namespaces import CLIENT_IPV4, SERVER_IPV4, SERVER_IPV6, run
from itif_client import Lost

CASES = {"closed port": (f"{CLIENT_IPV4}:9", "nobody listens on"),
         "other port of the appliance": (f"{SERVER_IPV4}:9999", "nobody listens on"),
         "absent host": ("198.18.0.77", "no host answers for"),
         "no route": ("203.0.113.9", "unreachable")}
# The kernel asks for a neighbour three times, once a second.
LONGEST_S = 10


@pytest.fixture(name="tenant_file")
def make_tenant_file(appliance, models):
    path = appliance.directory / "tenants.json"
    path.write_text(json.dumps([appliance.add_tenant("asked", models())]), encoding="utf-8")
    return path


@pytest.mark.parametrize("case", CASES)
def test_infer_fails_immediately(appliance, namespaces, tenant_file, case):
    address, cause = CASES[case]
    start = time.monotonic()
    done = appliance.ctl("--timeout", "50s", "infer", "asked", "--ids", "5,6", "--address", address, check=False,
                         namespace=namespaces.client)
    assert done.returncode == 3, done.stderr
    assert cause in done.stderr, done.stderr
    assert time.monotonic() - start < LONGEST_S


@pytest.mark.parametrize("case", CASES)
def test_loadgen_fails_immediately(namespaces, tenant_file, case):
    address, cause = CASES[case]
    start = time.monotonic()
    done = subprocess.run(("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), address, "--tenants",
                           str(tenant_file), "--rate", "50", "--duration", "60s", "--threads", "2", "--quiet"),
                          capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    assert cause in done.stderr, done.stderr
    assert time.monotonic() - start < LONGEST_S


def test_loadgen_says_why_nothing_was_answered(namespaces, tenant_file):
    """A port that takes datagrams and never answers."""
    with namespaces.socket() as silent:
        silent.bind((CLIENT_IPV4, 0))
        server = f"{CLIENT_IPV4}:{silent.getsockname()[1]}"
        done = subprocess.run(("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), server, "--tenants",
                               str(tenant_file), "-n", "3", "--timeout", "1s", "--drain", "2s", "--quiet"),
                              capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stderr
    said = rf"no answer from {CLIENT_IPV4} port \d+ to [1-9]\d* tries: nothing arrived: check address and port"
    assert re.search(said, done.stderr), done.stderr


@pytest.mark.parametrize("address, port", [(CLIENT_IPV4, 9), (SERVER_IPV4, 9999), (SERVER_IPV6, 9999)])
def test_the_python_client_fails_immediately(appliance, namespaces, models, address, port):
    added = appliance.add_tenant(f"python-{address}".replace(":", "-").replace(".", "-"), models())
    start = time.monotonic()
    with pytest.raises(Lost, match=f"nobody listens at {address} port {port}"):
        with connect(namespaces, added, address=address, port=port) as client:
            client.infer_tokens([101, 102], "logits")
    assert time.monotonic() - start < LONGEST_S


@pytest.mark.parametrize("address, cause", [("198.18.0.77", "no host answers for"),
                                            ("203.0.113.9", "there is no route to"),
                                            ("203.0.113.10", "a firewall forbids datagrams to")])  # fmt: skip
def test_the_python_client_names_the_cause(appliance, namespaces, address, cause):
    """The kernel reports `prohibit` as it does a firewall."""
    run("ip", "-n", namespaces.client, "route", "replace", "prohibit", "203.0.113.10/32")
    start = time.monotonic()
    with pytest.raises(Lost, match=f"{cause} {address} port 9009"):
        with stranger(namespaces, address=address) as client:
            client.hello()
    assert time.monotonic() - start < LONGEST_S


def test_datagrams_to_other_ports_draw_less_than_they_have(new_appliance, namespaces):
    """At most as many answers as data_plane.max_unproven_replies allows, each with headers only."""
    appliance = new_appliance()
    appliance.sections["data_plane"] |= {"max_unproven_replies": 10}
    appliance.start()
    ports = lambda: appliance.ctl_json("drops")["ports"][0]
    before = ports()
    with namespaces.inside_client():
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender:
        for _ in range(300):
            try:
                sender.sendto(bytes(1000), (SERVER_IPV4, 9999))
            except ConnectionRefusedError:
                pass
    wait_dropped(appliance, "udp_other_port", 300)
    after = ports()
    assert 1 <= after["tx_packets"] - before["tx_packets"] <= 30
    assert_accounted(appliance)


def test_doctor_beside_an_appliance(appliance, namespaces):
    done = appliance.ctl("--json", "doctor", "--config", str(appliance.config_path), check=False,
                         namespace=namespaces.server)
    report = json.loads(done.stdout)
    assert report["running"], report
    checks = {check["name"]: check for check in report["checks"]}
    assert not [check for check in checks.values() if check["verdict"] == "fail"], report
    assert done.returncode == 0
    device = appliance.ctl_json("health")["appliance"]["ports"][0]["device"]
    assert checks[f"offloads of {device}"]["verdict"] == "ok", report
    assert checks["capabilities"]["verdict"] == "ok", report
    for check in checks.values():
        assert bool(check["remedy"]) == (check["verdict"] in ("warn", "fail")), check


def test_doctor_names_what_is_wrong(appliance, namespaces):
    """The interface of the configuration is in another namespace."""
    done = appliance.ctl("doctor", "--config", str(appliance.config_path), check=False, namespace=namespaces.client)
    assert done.returncode == 1, done.stdout
    assert "none in this network namespace" in done.stdout
    assert "→ ip link" in done.stdout


def test_drops_are_explained(appliance, namespaces):
    namespaces.in_client("ping", "-c", "1", "-W", "1", "198.18.0.1")
    reasons = appliance.ctl_json("drops", "reasons")["reasons"]
    total = appliance.ctl_json("drops")["total"]
    printed = appliance.ctl("drops").stdout
    for reason in reasons:
        assert reason["means"] and reason["remedy"]
        explained = f"{reason['reason']}: {reason['means']} {reason['remedy']}" in printed
        assert explained == (total[reason["class"]].get(reason["reason"], 0) > 0), reason
