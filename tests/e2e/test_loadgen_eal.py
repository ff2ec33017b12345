"""itif-loadgen --eal on the veth's other end, which it shares with the kernel. Command lines that cannot work end with
one line that names the cause. test_ports.py uses memif."""

import json
import subprocess

import pytest
from harness.appliance import program
from harness.clients import assert_accounted
from harness.namespaces import CLIENT_IPV6, SERVER_IPV4, SERVER_IPV6

TENANT = "acme:1:000102030405060708090a0b0c0d0e0f"
# Differs from the kernel's address, for which the kernel would answer.
OTHER_IPV4 = "198.18.0.3"


@pytest.fixture
def loadgen(namespaces, scratch):
    """loadgen(eal, options…): runs it in the clients' namespace, without hugepages."""
    prefix = f"itif-loadgen-{scratch.name}"

    def start(*options, eal=None, server=SERVER_IPV4, tenant=TENANT):
        dpdk = () if eal is None else ("--eal", f"{eal} --no-pci --no-huge -m 128 --no-telemetry "
                                                f"--file-prefix={prefix}")  # fmt: skip
        return subprocess.run(
            ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), server, "--tenant", tenant,
             "--quiet", *dpdk, *options),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    yield start
    subprocess.run(("rm", "-rf", f"/var/run/dpdk/{prefix}"), check=False)


@pytest.mark.parametrize("server, local", [(SERVER_IPV4, OTHER_IPV4), (SERVER_IPV6, "fd00:18::3")])
def test_it_resolves_the_server_and_gets_answers(appliance, namespaces, models, loadgen, server, local):
    tenant = appliance.directory / "tenant.json"
    tenant.write_text(json.dumps(appliance.add_tenant("t", models())), encoding="utf-8")
    port = f"--vdev=net_af_packet0,iface={namespaces.client_link},blocksz=65536,framesz=2048,framecnt=2048"
    result = loadgen("--local-ip", local, "--requests", "200", "--rate", "400", "--lengths", "uniform:1-32",
                     "--timeout", "10s", "--json", "-", eal=port, server=server, tenant=str(tenant))
    assert result.returncode == 0, result.stdout + result.stderr
    total = json.loads(result.stdout)["total"]
    assert total["answered"] == total["sent"] == 200 and total["lost"] == total["refused"] == 0
    assert_accounted(appliance)


NULL = "--vdev=net_null0,no-rx=1"
HERE = ("--local-ip", OTHER_IPV4)
WRONG = {
    "nothing in it": (" ", HERE, 2, "--eal needs EAL arguments"),
    "no address": (NULL, (), 2, "--local-ip"),
    "an address of words": (NULL, ("--local-ip", "nonsense"), 1, "--local-ip nonsense: "),
    "an address with its prefix": (NULL, ("--local-ip", f"{OTHER_IPV4}/24"), 1, "--local-ip"),
    "an address of the other family": (NULL, ("--local-ip", CLIENT_IPV6), 1, "same family"),
    "a MAC address of words": (NULL, (*HERE, "--server-mac", "zz"), 1, "--server-mac zz"),
    "a MAC address of many": (NULL, (*HERE, "--server-mac", "ff:ff:ff:ff:ff:ff"), 1, "--server-mac"),
    "two threads": (NULL, (*HERE, "--threads", "2"), 2, "--eal runs on one thread"),
    "an option that does not exist": ("--no-such", HERE, 1, "'--no-such'"),
    "an option that would print": ("--help", HERE, 1, "'--help'"),
    "a word": ("garbage", HERE, 1, "'garbage' is no EAL option"),
    "cores that do not exist": ("--lcores=0,4000", HERE, 1, "--lcores"),
    "no port": ("", HERE, 1, "no DPDK port"),
    "a driver that does not exist": ("--vdev=net_nonsense0", HERE, 1, "net_nonsense0"),
    "a role that does not exist": ("--vdev=net_memif0,role=queen", HERE, 1, "Unknown role: queen"),
    "an interface that does not exist": ("--vdev=net_af_packet0,iface=nosuch", HERE, 1, "No such device"),
    "a port that does not exist": (NULL, (*HERE, "--eal-device", "net_null7"), 1, "there is: net_null0"),
    "nobody there": (NULL, HERE, 1, f"no answer to address resolution of {SERVER_IPV4}"),
}


@pytest.mark.parametrize("eal, options, status, words", WRONG.values(), ids=WRONG.keys())
def test_the_error_for_impossible_options_is_one_line(loadgen, eal, options, status, words):
    if eal == " ":
        result = loadgen("--eal", eal, *options)
    else:
        result = loadgen(*options, eal=eal)
    lines = result.stderr.strip().splitlines()
    assert result.returncode == status and len(lines) == 1 and not result.stdout, result.stdout + result.stderr
    assert lines[0].startswith("itif-loadgen: ") and words in lines[0], lines[0]
    assert "eal.args" not in lines[0], "eal.args is a key of the appliance's configuration"


@pytest.mark.parametrize("option", [("--eal-device", "net_null0"), ("--server-mac", "02:00:00:00:00:01")])
def test_options_of_the_port_without_one(loadgen, option):
    result = loadgen(*option)
    assert result.returncode == 2 and "need --eal" in result.stderr
