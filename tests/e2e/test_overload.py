"""An appliance that always has thousands of requests at once, which have to be answered within 100 ms.

The test judges counts only, which do not depend on the machine's speed: every request has one outcome, the refusals
name deadlines or the overload, and nothing is left afterwards. tools/bench-overload measures the answers in time.
"""

import json
import subprocess

import pytest
from harness.appliance import program
from harness.clients import assert_accounted, connect, wait_until
from harness.namespaces import SERVER_IPV4

TOKENS = 64
CONCURRENCY = 8000  # more than any machine answers within the deadline
REFUSALS = {"overloaded", "deadline_queue", "deadline_launch", "deadline_reassembly"}


def loadgen(namespaces, tenant_file, out, *options):
    return ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--quiet", "--tenants",
            str(tenant_file), "--lengths", f"fixed:{TOKENS}", "--json", str(out), *options)


def report(out):
    return json.loads(out.read_text(encoding="utf-8"))


@pytest.mark.parametrize("scheduler", ["fair", "das"])
def test_every_request_has_one_outcome_under_overload(new_appliance, namespaces, models, scheduler):
    appliance = new_appliance().start()
    added = appliance.add_tenant("busy", models(backbone="bert-tiny"))
    group, = appliance.ctl_json("group", "list")["groups"]
    appliance.ctl("group", "update", group["name"], "--scheduler", scheduler)
    tenant_file = appliance.directory / "busy.json"
    tenant_file.write_text(json.dumps(added), encoding="utf-8")
    out = appliance.directory / "report.json"

    # The client does not give up before the appliance has answered.
    before = appliance.ctl_json("stats")["total"]
    subprocess.run(loadgen(namespaces, tenant_file, out, "--concurrency", str(CONCURRENCY), "--budget", "100ms",
                           "--duration", "5s", "--timeout", "60s", "--tries", "20", "--drain", "60s"),
                   check=False, capture_output=True, timeout=180)
    result = report(out)
    total = result["total"]
    assert total["sent"] == total["answered"] + total["refused"] + total["lost"], total
    assert total["lost"] == 0, f"{total} {result['datagrams']}"
    assert set(total["refused_by_status"]) <= REFUSALS, total
    assert total["answered"] > 0 and total["refused"] > 0, total
    assert total["in_time"] <= total["answered"], total

    wait_until(lambda: appliance.ctl_json("stats")["total"]["in_flight"] == 0, "no request is in flight", 60)
    after = appliance.ctl_json("stats")["total"]
    change = {key: after[key] - before[key] for key in ("received", "answered", "deadline_missed")}
    refused = {key: count - before["refused"].get(key, 0) for key, count in after["refused"].items()}
    # The status overloaded is not cached: a repeat that was on its way meanwhile is refused again,
    # or answered, and the client takes the first outcome.
    answered_again = change["answered"] - total["answered"]
    assert 0 <= answered_again <= total["refused_by_status"].get("overloaded", 0), (change, total)
    assert sum(count for key, count in refused.items() if key.startswith("deadline")) == change["deadline_missed"]
    assert sum(refused.values()) >= total["refused"], (refused, total)

    drops = assert_accounted(appliance, 60)
    assert drops["total"]["held"] == 0, drops["total"]
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 2000, 102], "logits").floats()
