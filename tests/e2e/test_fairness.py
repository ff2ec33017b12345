"""Floods of one tenant cost another tenant no request, and none of its share of the group. Answers stay right.

The appliance's limits are small, so that a flood reaches them. The test judges counts only: every request of the quiet
tenant is answered, and the group computes exactly its tokens besides those of accepted requests of the flood.
tests/unit/runtime/executor_test.cc and tests/unit/sched prove the order of batches under a flood, with a virtual clock.
tools/bench-fairness and tools/bench-flood measure latencies.
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness.appliance import program
from harness.clients import Golden, assert_accounted, connect, wait_until
from harness.handover import F32
from harness.namespaces import SERVER_IPV4

FLOOD_RATE = 3000
REQUESTS, TOKENS = 60, 64

# Requests in progress of the worker, and waiting requests of the group.
CONTEXTS, QUEUE_REQUESTS = 128, 32


def loadgen(namespaces, tenant_file, *options):
    return ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--quiet", "--tenants",
            str(tenant_file), "--lengths", f"fixed:{TOKENS}", *options)


def send_quietly(namespaces, directory, tenant_file):
    """Sends the quiet tenant's requests, 20 per second, and returns loadgen's total. A datagram that the kernel loses
    is sent again; the limits of time are far beyond those of a slow machine."""
    out = directory / "results.json"
    result = subprocess.run(loadgen(namespaces, tenant_file, "--rate", "20", "--requests", str(REQUESTS), "--duration",
                                    "10m", "--tries", "30", "--timeout", "2m", "--drain", "2m", "--json", str(out)),
                            capture_output=True, text=True, timeout=300, check=False)
    assert out.exists(), result.stderr
    return json.loads(out.read_text(encoding="utf-8"))["total"]


@contextlib.contextmanager
def flood(appliance, command):
    """Runs the flood for the block, which begins once the flood has arrived."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: received(appliance) > 500, lambda: f"the flood: {process.poll()}", 60)
        before = received(appliance)
        yield
        assert process.poll() is None, f"the flood ended early: {command}"
        assert received(appliance) - before > REQUESTS, "the flood continued"
    finally:
        process.terminate()
        process.wait(30)


def received(appliance):
    return appliance.ctl_json("drops")["total"]["received"]


def flood_command(kind, namespaces, noisy_file):
    if kind in SENT_BY_PYTHON:
        return ("ip", "netns", "exec", namespaces.client, sys.executable,
                str(Path(__file__).parent / "harness" / "flood_sender.py"), SERVER_IPV4, str(noisy_file), kind,
                str(FLOOD_RATE))
    if kind == "half-sent requests":
        return ("ip", "netns", "exec", namespaces.client, sys.executable,
                str(Path(__file__).parent / "harness" / "half_sender.py"), SERVER_IPV4, str(noisy_file),
                str(FLOOD_RATE // 3))
    damage = ("--malform", "1") if kind == "damaged datagrams" else ()
    return loadgen(namespaces, noisy_file, "--flood", "--rate", str(FLOOD_RATE), *damage, "--duration", "10m",
                   "--timeout", "1s")


SENT_BY_PYTHON = ("junk", "resends")

# Floods whose requests reach the group. It computes nothing for the other floods.
COMPUTED = ("requests over the quota", "requests against an objective", "requests without a quota")



@pytest.mark.parametrize("kind", [*COMPUTED, "damaged datagrams", "half-sent requests"])
def test_a_flood_costs_others_no_request(new_appliance, namespaces, models, kind):
    appliance = new_appliance()
    appliance.sections["data_plane"] |= {"max_contexts": CONTEXTS, "tenant_max_contexts": CONTEXTS}
    appliance.sections["batching"]["queue_requests"] = QUEUE_REQUESTS
    appliance.start()
    options = {"quiet": ("--slo", "5ms") if kind == "requests against an objective" else (),
               "noisy": ("--quota-rps", "20") if kind == "requests over the quota" else ()}
    files = {}
    for seed, (name, wanted) in enumerate(options.items(), 1):
        added = appliance.add_tenant(name, models(seed=seed, backbone="bert-tiny"), *wanted)
        files[name] = appliance.directory / f"{name}.json"
        files[name].write_text(json.dumps(added), encoding="utf-8")

    with flood(appliance, flood_command(kind, namespaces, files["noisy"])):
        total = send_quietly(namespaces, appliance.directory, files["quiet"])
    assert (total["sent"], total["answered"]) == (REQUESTS, REQUESTS), f"{total}"
    assert total["lost"] == total["refused"] == 0, f"{total}"

    # Requests in the queue and half-sent ones end after the flood.
    wait_until(lambda: appliance.ctl_json("stats")["total"]["in_flight"] == 0, "no request is in flight", 60)
    drops = assert_accounted(appliance, 60)
    dropped, = (row["dropped"] for row in drops["tenants"] if row["name"] == "quiet")
    # A client repeats a request that waits for long. These repeats are not drops.
    assert set(dropped) <= {"nothing_to_resend"}, f"the quiet tenant had no room: {dropped}"
    tenants = {tenant["name"]: tenant for tenant in appliance.ctl_json("stats")["tenants"]}
    quiet, noisy = tenants["quiet"], tenants["noisy"]
    group, = appliance.ctl_json("group", "list")["groups"]
    assert quiet["answered"] == REQUESTS and not quiet["refused"] and quiet["deadline_missed"] == 0, quiet
    assert quiet["tokens"] == REQUESTS * TOKENS, "each of its requests is computed once"
    assert group["requests"] == quiet["answered"] + noisy["answered"], (group, noisy)
    assert group["tokens"] == quiet["tokens"] + noisy["tokens"], (group, noisy)
    assert group["rows"] == group["tokens"], "no padding"
    assert group["busy_s"] > 0, group
    if kind not in COMPUTED:
        assert noisy["answered"] == noisy["tokens"] == 0, noisy
        assert sum(drops["total"]["dropped"].values()) > REQUESTS, "the workers have dropped the flood"
    if kind == "requests over the quota":
        assert noisy["refused"]["over_quota"] > REQUESTS and group["refused"] == 0, (noisy, group)


@pytest.mark.parametrize("kind", ["requests without a quota", "damaged datagrams", "half-sent requests",
                                  *SENT_BY_PYTHON])
def test_answers_beside_a_flood_are_right(new_appliance, namespaces, models, kind):
    appliance = new_appliance()
    appliance.sections["device"] = {"dtype": "f32"}
    appliance.start()
    golden = Golden("plain-f32")
    quiet = appliance.add_tenant("quiet", golden.directory)
    noisy = appliance.add_tenant("noisy", models(backbone="bert-tiny"), "--auth",
                                 "none" if kind in SENT_BY_PYTHON else "full")
    noisy_file = appliance.directory / "noisy.json"
    noisy_file.write_text(json.dumps(noisy), encoding="utf-8")
    with connect(namespaces, quiet, max_silent_tries=30) as client:
        with flood(appliance, flood_command(kind, namespaces, noisy_file)):
            for _ in range(1 + REQUESTS // len(golden.cases)):
                for case in golden.cases:
                    golden.check(client, case, F32)
        wait_until(lambda: appliance.ctl_json("stats")["total"]["in_flight"] == 0, "no request is in flight", 60)
        golden.check(client, golden.cases[0], F32)
    total = assert_accounted(appliance, 60)["total"]
    drops = total["dropped"]
    if kind == "resends":
        assert sum(total["repeated"].values()) + drops.get("answer_budget", 0) > REQUESTS, total
    if kind == "junk":
        assert drops["wire_bad_magic"] > REQUESTS and sum(drops.values()) - drops["wire_bad_magic"] > REQUESTS, drops
