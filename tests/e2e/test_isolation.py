"""An overloaded group does not keep another group waiting for its batches: they compute in turns.

The test compares the calm group's latency with the time of the other group's batches in the same run, so that a slow
machine passes, too. tools/bench-isolation measures how much the calm group's p99 rises.
"""

import contextlib
import json
import random
import statistics
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from harness.appliance import program
from harness.clients import connect, wait_until
from harness.namespaces import SERVER_IPV4


@contextlib.contextmanager
def overload(appliance, namespaces, added):
    """Keeps large batches of a tenant running for the block."""
    tenant_file = appliance.directory / "busy.json"
    tenant_file.write_text(json.dumps(added), encoding="utf-8")
    process = subprocess.Popen(
        ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--quiet", "--tenants",
         str(tenant_file), "--lengths", "fixed:128", "--vocab", "1000", "--concurrency", "8",
         "--duration", "10m", "--timeout", "2m"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        assert process.poll() is None, "the overload ended early"
    finally:
        process.terminate()
        process.wait(30)


def test_a_calm_group_does_not_wait_for_batches_of_an_overloaded_one(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["batching"]["max_wait"] = "0s"
    appliance.start()
    large = models(backbone="albert-base --layers 6 --vocab 1000")
    with ThreadPoolExecutor() as pool:
        # A command that waits ends the measurement of the new group's costs, which may take 20 s.
        adding = pool.submit(appliance.add_tenant, "busy", large)
        wait_until(lambda: appliance.ctl_json("health").get("running") == "tenant.add", "it is added", 30)
        calm = appliance.add_tenant("calm", models())
        busy = adding.result()

    def busy_group():
        return next(group for group in appliance.ctl_json("group", "list")["groups"] if group["tenants"] == ["busy"])

    rng = random.Random(1)
    latencies = []
    with overload(appliance, namespaces, busy), connect(namespaces, calm) as client:
        wait_until(lambda: busy_group()["batches"] >= 2, "the overload", 60)
        first = last = busy_group()
        while last["batches"] < first["batches"] + 4 or len(latencies) < 30:
            for _ in range(10):
                time.sleep(rng.uniform(0.02, 0.06))
                sent = time.monotonic()
                client.infer_tokens([101, 2000, 102], "logits", timeout_s=60)
                latencies.append(time.monotonic() - sent)
            last = busy_group()
    batch_s = (last["busy_s"] - first["busy_s"]) / (last["batches"] - first["batches"])
    # If batches kept their turn, requests would wait for most of a batch.
    assert statistics.median(latencies) < batch_s / 10, (sorted(latencies), batch_s)
