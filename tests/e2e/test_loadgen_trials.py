"""itif-loadgen's searches for the highest rate, and its sweeps. The tests judge counts and consistency, no speed: a
tenant's quota is the limit that the searches find."""

import json
import shutil
import signal
import subprocess

import pytest
from harness.appliance import program
from harness.clients import assert_accounted
from harness.namespaces import SERVER_IPV4

QUOTA_RPS = 50
OTHER_IPV4 = "198.18.0.3"  # for --eal: the kernel would answer for its own address


@pytest.fixture
def loadgen(appliance, namespaces, models):
    """loadgen(options…, tenant options): runs it for a tenant. Returns the finished process and the JSON document."""

    def start(*options, tenant=()):
        added = appliance.add_tenant("t", models(backbone="bert-tiny"), *tenant)
        tenant_file, out = appliance.directory / "tenant.json", appliance.directory / "out.json"
        tenant_file.write_text(json.dumps(added), encoding="utf-8")
        result = subprocess.run(
            ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--tenants",
             str(tenant_file), "--quiet", "--lengths", "uniform:1-16", "--json", str(out), *options),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False)
        assert out.exists(), result.stdout + result.stderr
        return result, json.loads(out.read_text(encoding="utf-8"))

    return start


def check_trial(trial, allowed_percent):
    total = trial["total"]
    assert total["sent"] == total["answered"] + total["lost"] + total["refused"], trial
    missing = total["sent"] - total["in_time"]
    assert trial["loss_percent"] == pytest.approx(100 * missing / total["sent"])
    if trial["result"] == "passed":
        assert trial["loss_percent"] <= allowed_percent and trial["offered_percent"] >= 99, trial
    if trial["result"] == "server":
        assert trial["loss_percent"] > allowed_percent and trial["reason"], trial


def test_a_search_finds_the_quota(appliance, loadgen):
    result, document = loadgen("--ndr", "--pdr", "50", "--rate", "3200", "--precision", "25", "--repeats", "2",
                               "--duration", "500ms", "--warmup", "1s", tenant=("--quota-rps", str(QUOTA_RPS)))
    assert document["mode"] == "search" and document["version"] == 1
    assert document["configuration"]["tries"] == 1 and document["configuration"]["arrivals"] == "constant"
    ndr, pdr = document["searches"]
    assert (ndr["goal"], ndr["allowed_loss_percent"]) == ("ndr", 0)
    assert (pdr["goal"], pdr["allowed_loss_percent"]) == ("pdr", 50)
    for search in (ndr, pdr):
        assert [each["rate"] for each in search["found"]] and len(search["found"]) == 2
        for trial in search["trials"]:
            check_trial(trial, search["allowed_loss_percent"])
        for repeat, found in enumerate(search["found"], 1):
            # A trial that the generator limited is repeated: the last one counts.
            rates = {trial["rate"]: trial["result"] for trial in search["trials"] if trial["repeat"] == repeat}
            passed = [rate for rate, how in rates.items() if how == "passed"]
            assert found["rate"] == max(passed, default=0)
            failed = [rate for rate, how in rates.items() if how != "passed"]
            assert found["rate"] == 3200 or min(failed) > found["rate"]
        low, high = search["rate"]["min"], search["rate"]["max"]
        assert low <= search["rate"]["median"] <= high
    refused = [trial["total"]["refused_by_status"] for trial in ndr["trials"] if trial["rate"] == 3200]
    assert refused and all(each["over_quota"] > 0 for each in refused), "far above the quota requests are refused"
    assert result.returncode == (0 if ndr["succeeded"] and pdr["succeeded"] else 1)
    assert "NDR: " in result.stdout and "PDR 50 %: " in result.stdout and "median of 2" in result.stdout
    assert_accounted(appliance, 60)


def test_a_sweep_measures_each_rate(appliance, loadgen):
    plot = appliance.directory / "latency.svg"
    result, document = loadgen("--sweep", "20:60:3", "--duration", "1s", "--timeout", "30s", "--drain", "30s",
                               *(("--plot", str(plot)) if shutil.which("gnuplot") else ()))
    assert result.returncode == 0 and document["mode"] == "sweep"
    assert document["configuration"]["sweep"] == {"from": 20.0, "to": 60.0, "steps": 3}
    assert [trial["rate"] for trial in document["trials"]] == [20, 40, 60]
    for trial in document["trials"]:
        check_trial(trial, 0)
        assert trial["total"]["sent"] > 0 and trial["total"]["latency"]["count"] == trial["total"]["answered"]
    assert len(result.stdout.splitlines()) == 4
    if shutil.which("gnuplot"):
        assert "<svg" in plot.read_text(encoding="utf-8")
        data = plot.with_suffix(".dat").read_text(encoding="utf-8").splitlines()
        rates = [line.split()[0] for line in data if line and not line.startswith("#")]
        assert rates == ["20", "40", "60"] * 2
    assert_accounted(appliance, 60)


def test_a_search_through_a_dpdk_port(appliance, namespaces, loadgen):
    prefix = f"itif-trials-{appliance.directory.name}"
    port = f"--vdev=net_af_packet0,iface={namespaces.client_link},blocksz=65536,framesz=2048,framecnt=2048"
    try:
        result, document = loadgen(
            "--pdr", "99", "--rate", "40", "--repeats", "3", "--duration", "1s", "--timeout", "30s", "--drain", "30s",
            "--local-ip", OTHER_IPV4, "--eal",
            f"{port} --no-pci --no-huge -m 128 --no-telemetry --file-prefix={prefix}")
    finally:
        shutil.rmtree(f"/var/run/dpdk/{prefix}", ignore_errors=True)
    assert result.returncode == 0, result.stderr
    search, = document["searches"]
    assert len(search["found"]) == 3 and search["succeeded"]
    by_generator = set()  # repeats with a trial that a busy machine's generator limited
    for trial in search["trials"]:
        check_trial(trial, 99)
        assert trial["total"]["answered"] == trial["total"]["sent"] > 0, "each trial sends and receives"
        if trial["result"] == "generator":
            by_generator.add(trial["repeat"])
        else:
            assert trial["total"]["sent"] == trial["rate"]
    for repeat, found in enumerate(search["found"], 1):
        assert found == {"rate": 40, "limited_by": "rate"} or repeat in by_generator, search
    assert_accounted(appliance, 60)


def test_an_interrupted_search_prints_its_trials(appliance, namespaces, models):
    tenant_file = appliance.directory / "tenant.json"
    tenant_file.write_text(json.dumps(appliance.add_tenant("t", models(backbone="bert-tiny"))), encoding="utf-8")
    process = subprocess.Popen(
        ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--tenants", str(tenant_file),
         "--lengths", "fixed:4", "--pdr", "90", "--rate", "20", "--duration", "1s", "--repeats", "1000", "--json", "-"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "passed" in line or "answer in time" in line:
            break
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted" in rest, (lines, rest)
    search, = json.loads(out)["searches"]
    assert not search["succeeded"] and search["trials"][-1]["result"] in ("interrupted", "passed")
    assert 1 <= len(search["found"]) < 1000


def test_a_search_without_a_server_ends_with_the_cause(namespaces):
    result = subprocess.run(
        ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), "127.0.0.1:9", "--tenant",
         "a:1:000102030405060708090a0b0c0d0e0f", "--quiet", "--ndr"),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and not result.stdout
    assert "nobody listens on 127.0.0.1 port 9" in result.stderr
