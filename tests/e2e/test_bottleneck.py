"""itifctl bottleneck: each limit of a group, made so in a running appliance."""

import json
import re
import subprocess
import time

import pytest
from harness.appliance import CtlError, program
from harness.clients import Traffic, connect, run_meanwhile, wait_until
from harness.namespaces import SERVER_IPV4, run
from harness.watching import limit_of, stages_of


def loadgen(namespaces, appliance, added, *options):
    file = appliance.directory / f"{added['tenant']['name']}.json"
    file.write_text(json.dumps(added), encoding="utf-8")
    return subprocess.Popen(("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--quiet",
                             "--tenants", str(file), "--duration", "10m", "--timeout", "20s", *options),
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Load:
    """Runs load generators for a block."""

    def __init__(self, *processes):
        self.processes = processes

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(30)


def wait_limit(appliance, expected, group=None, seconds=40):
    """Returns the evidence once `expected` is the limit: the first seconds of a load may look otherwise."""
    seen = []

    def found():
        seen.append(limit_of(appliance, group))
        return seen[-1]["limit"] == expected

    wait_until(found, lambda: f"limit {expected}: {[(one['limit'], one['because']) for one in seen]}", seconds)
    return seen[-1]


def test_an_idle_group_is_limited_by_its_clients(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    group = wait_limit(appliance, "clients")
    assert group["answered"] == 0 and group["gue"] == 0, group
    with connect(namespaces, added) as client:
        result = run_meanwhile(lambda: limit_of(appliance))
        for _ in range(10):
            client.infer_tokens([101, 2000, 102], "logits")
            time.sleep(0.1)
        group = result()
    assert group["limit"] == "clients", group
    assert group["answered"] > 0 and group["gue"] > 0, group
    # The time of batches, without the waits and the network of requests.
    assert 0 < group["batch_ns"] < group["latency_ns"], group
    assert group["gue"] == pytest.approx(group["requests_per_s"] / (group["batch_ns"] / 1e6), rel=0.01)
    text = appliance.ctl("bottleneck").stdout
    assert "clients: " in text and group["name"] in text, text
    with pytest.raises(CtlError, match="there is no group 'none'"):
        appliance.ctl("bottleneck", "none")
    assert appliance.ctl("bottleneck", "--interval", "100ms", check=False).returncode == 2


def test_more_requests_than_the_device_computes(appliance, namespaces, models):
    added = appliance.add_tenant("t", models(backbone="minilm-l6"))
    with Load(loadgen(namespaces, appliance, added, "--concurrency", "64", "--lengths", "fixed:128")):
        group = wait_limit(appliance, "device")
    assert group["device_busy"] > 0.5 and group["turn_wait"] < 0.2, group
    assert group["batch_fullness"] > 0, group


@pytest.mark.parametrize("overlap", ["on", "off"])
def test_the_named_wait_is_that_of_the_clients(new_appliance, namespaces, models, overlap):
    """16 requests are always on their way, in batches of 8: each waits for about one batch."""
    appliance = new_appliance()
    appliance.sections["batching"] = {"overlap": overlap, "max_tokens": 1024, "max_wait": "0s"}
    appliance.start()
    added = appliance.add_tenant("t", models(backbone="minilm-l6"))
    with Load(loadgen(namespaces, appliance, added, "--concurrency", "16", "--lengths", "fixed:128")):
        wait_limit(appliance, "device")
        group = limit_of(appliance, interval="10s")  # a batch more or less changes the rate little
    assert group["limit"] == "device", group
    numbers = re.match(r"requests wait ([\d.]+) ms for ([\d.]+) ms of computing; batches run (\d+) % ", group["because"])
    assert numbers, group["because"]
    wait_ms, compute_ms, busy_percent = map(float, numbers.groups())
    # As many requests are on their way as arrive in the time that one takes.
    latency_ms = 16 / group["requests_per_s"] * 1000
    assert 0.75 * latency_ms < wait_ms + compute_ms < 1.1 * latency_ms, group
    assert wait_ms > 0.3 * compute_ms, group
    assert wait_ms == pytest.approx(group["queue_ns"] / 1e6, abs=0.01), group
    assert compute_ms == pytest.approx(group["compute_ns"] / 1e6, abs=0.01), group
    assert busy_percent > 70, group
    _, stages = stages_of(appliance, "t")
    waits = sum(stages[stage]["mean_ns"] for stage in ("queue", "plan", "launch"))
    assert waits + stages["compute"]["mean_ns"] > 0.75 * stages["total"]["mean_ns"], stages
    assert stages["intake"]["mean_ns"] < 0.2 * stages["total"]["mean_ns"], stages


def test_a_limit_of_the_data_plane_that_refuses(new_appliance, namespaces, models):
    """It named the clients, of which "few requests wait"."""
    appliance = new_appliance()
    appliance.sections.setdefault("data_plane", {})["tenant_max_contexts"] = 2
    appliance.start()
    added = appliance.add_tenant("t", models())
    with Load(loadgen(namespaces, appliance, added, "--concurrency", "64", "--lengths", "fixed:16")):
        group = wait_limit(appliance, "data_plane")
        text = appliance.ctl("bottleneck").stdout
    assert "most as tenant_contexts_full (data_plane.tenant_max_contexts, or " in group["because"], group
    refused = group["refused"]["tenant_contexts_full"]
    assert refused > group["answered"] > 0, group
    assert group["refused_per_s"] == pytest.approx(refused / (group["interval_ns"] / 1e9), rel=0.01), group
    per_second = re.search(r"; refused per second: (\d+) tenant_contexts_full$", group["because"])
    assert int(per_second[1]) == pytest.approx(group["refused_per_s"], abs=1), group
    assert group["overloaded"] == 0, group
    assert "REFUSED/S" in text and ": data_plane: " in text, text


def test_budgets_shorter_than_a_batch(appliance, namespaces, models):
    """It named the clients, which "send less than the group could serve"."""
    added = appliance.add_tenant("t", models())
    with Load(loadgen(namespaces, appliance, added, "--rate", "100", "--budget", "20us", "--lengths", "fixed:64")):
        group = wait_limit(appliance, "device")
    assert " requests per second end before their results, though batches run only " in group["because"], group
    assert group["late"] > 10 * group["answered"], group
    assert group["refused_per_s"] == pytest.approx((group["late"] + group["overloaded"]) / (group["interval_ns"] / 1e9),
                                                   rel=0.01), group


def test_a_quota_that_refuses(appliance, namespaces, models):
    added = appliance.add_tenant("t", models(), "--quota-rps", "1")
    with Load(loadgen(namespaces, appliance, added, "--rate", "500", "--lengths", "fixed:16")):
        group = wait_limit(appliance, "quota")
    assert "refused, most as over_quota (quota_rps of its tenants); " in group["because"], group
    assert group["refused"]["over_quota"] > 10 * group["answered"], group
    assert sum(group["refused"].values()) == group["refused"]["over_quota"], group
    assert group["overloaded"] == 0, group


def test_a_slow_link(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    shape = ("ip", "netns", "exec", namespaces.client, "tc", "qdisc")
    run(*shape, "add", "dev", namespaces.client_link, "root", "tbf", "rate", "200kbit", "burst", "1600", "latency", "4s")
    try:
        with connect(namespaces, added, fragment_bytes=256) as client:
            with Traffic(client, tokens=402) as traffic:
                traffic.wait_for(2)
                group = wait_limit(appliance, "network")
    finally:
        run(*shape, "del", "dev", namespaces.client_link, "root")
    assert group["arrive_ns"] > group["compute_ns"], group


def test_a_small_share(appliance, namespaces, models):
    added = [appliance.add_tenant("small", models(backbone="minilm-l6")),
             appliance.add_tenant("large", models(backbone="bert-tiny"))]
    names = {tenant["name"]: tenant["group"] for tenant in appliance.ctl_json("tenant", "list")["tenants"]}
    appliance.ctl("group", "update", names["small"], "--share", "10")
    loads = [loadgen(namespaces, appliance, each, "--concurrency", "64", "--lengths", "fixed:128") for each in added]
    with Load(*loads):
        group = wait_limit(appliance, "share", names["small"])
        assert group["turn_wait"] > group["device_busy"] > 0, group
        assert group["share_percent"] == 10
        # Its first batches leave few requests waiting; then the waits are named, too.
        turns_percent = re.search(r"wait (\d+) % of (?:their time|that) for other groups$", group["because"])
        turns = group["turn_wait"] / (group["turn_wait"] + group["device_busy"])
        assert float(turns_percent[1]) == pytest.approx(100 * turns, abs=0.51), group
        if waits := re.match(r"requests wait ([\d.]+) ms for ([\d.]+) ms of computing", group["because"]):
            assert sum(map(float, waits.groups())) == pytest.approx(group["total_ns"] / 1e6, rel=0.2), group
        wait_limit(appliance, "device", names["large"])


def test_a_canary_of_another_backbone_counts_for_its_own_group(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    appliance.ctl("tenant", "update", "t", "--model", str(models(backbone="minilm-l6")), "--canary", "25%")

    def parts():
        groups = appliance.ctl_json("bottleneck", "--interval", "3s")["groups"]
        return {group["name"].split("-")[1]: group for group in groups}

    with Load(loadgen(namespaces, appliance, added, "--rate", "200", "--lengths", "fixed:16")):
        wait_until(lambda: min(group["answered"] for group in parts().values()) > 0, "both answer")
        groups = parts()
    active, canary = groups["2x128"], groups["6x384"]
    assert 0.15 < canary["answered"] / (active["answered"] + canary["answered"]) < 0.35, groups
    assert canary["gue"] > 0 and active["gue"] > canary["gue"] and canary["batch_ns"] > active["batch_ns"], groups


def test_other_readers_do_not_shorten_an_interval(appliance, models):
    appliance.add_tenant("t", models())
    result = run_meanwhile(lambda: limit_of(appliance, interval="4s"))
    for _ in range(12):
        appliance.ctl("group", "list")
        time.sleep(0.3)
    assert 4e9 <= result()["interval_ns"] < 5e9
