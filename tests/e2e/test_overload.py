"""An appliance that always has thousands of requests at once, which have to be answered within 100 ms; and one that is
offered three times what it can answer.

The first test judges counts only, which do not depend on the machine's speed: every request has one outcome, the
refusals name deadlines or the overload, and nothing is left afterwards. The second compares with the same appliance
without overload. tools/bench-overload measures the answers in time.
"""

import contextlib
import json
import subprocess
import time

import pytest
from harness.appliance import program
from harness.clients import assert_accounted, connect, wait_until
from harness.namespaces import SERVER_IPV4

TOKENS = 64
CONCURRENCY = 8000  # more than any machine answers within the deadline
# The client does not give up before the appliance has answered.
PATIENT = ("--timeout", "60s", "--tries", "20", "--drain", "60s")
REFUSALS = {"overloaded", "deadline_queue", "deadline_launch", "deadline_reassembly"}


def loadgen(namespaces, tenant_file, out, *options, lengths=f"fixed:{TOKENS}"):
    return ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--quiet", "--tenants",
            str(tenant_file), "--lengths", lengths, "--json", str(out), *options)


def report(out):
    return json.loads(out.read_text(encoding="utf-8"))


def assert_one_outcome_each(appliance, before, *results):
    """Compares the clients' reports with the appliance's counters, which were `before` at the loads' start."""
    for result in results:
        total = result["total"]
        assert total["sent"] == total["answered"] + total["refused"] + total["lost"], total
        assert total["lost"] == 0, f"{total} {result['datagrams']}"
        assert set(total["refused_by_status"]) <= REFUSALS, total
        assert total["in_time"] <= total["answered"], total
    total = {key: sum(result["total"][key] for result in results) for key in ("answered", "refused")}
    overloaded = sum(result["total"]["refused_by_status"].get("overloaded", 0) for result in results)
    assert total["answered"] > 0 and total["refused"] > 0, total

    wait_until(lambda: appliance.ctl_json("stats")["total"]["in_flight"] == 0, "no request is in flight", 60)
    after = appliance.ctl_json("stats")["total"]
    change = {key: after[key] - before[key] for key in ("received", "answered", "deadline_missed")}
    refused = {key: count - before["refused"].get(key, 0) for key, count in after["refused"].items()}
    # The status overloaded is not cached: a repeat that was on its way meanwhile is refused again,
    # or answered, and the client takes the first outcome.
    answered_again = change["answered"] - total["answered"]
    assert 0 <= answered_again <= overloaded, (change, total)
    assert sum(count for key, count in refused.items() if key.startswith("deadline")) == change["deadline_missed"]
    assert sum(refused.values()) >= total["refused"], (refused, total)

    drops = assert_accounted(appliance, 60)
    assert drops["total"]["held"] == 0, drops["total"]


@pytest.mark.parametrize("scheduler", ["fair", "das"])
def test_every_request_has_one_outcome_under_overload(new_appliance, namespaces, models, scheduler):
    appliance = new_appliance().start()
    added = appliance.add_tenant("busy", models(backbone="bert-tiny"))
    group, = appliance.ctl_json("group", "list")["groups"]
    appliance.ctl("group", "update", group["name"], "--scheduler", scheduler)
    tenant_file = appliance.directory / "busy.json"
    tenant_file.write_text(json.dumps(added), encoding="utf-8")
    out = appliance.directory / "report.json"

    before = appliance.ctl_json("stats")["total"]
    subprocess.run(loadgen(namespaces, tenant_file, out, "--concurrency", str(CONCURRENCY), "--budget", "100ms",
                           "--duration", "5s", *PATIENT), check=False, capture_output=True, timeout=180)
    assert_one_outcome_each(appliance, before, report(out))
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 2000, 102], "logits").floats()


BUDGET_S = 0.5
FACTOR, LOAD_S = 3, 20


class Loads:
    """Loads of an appliance's tenants, and the reports of all."""

    def __init__(self, appliance, namespaces, models):
        self.appliance, self.namespaces, self.reports = appliance, namespaces, []
        for seed, name in enumerate(("busy", "quiet"), 1):
            added = appliance.add_tenant(name, models(backbone="minilm-l6", seed=seed))
            (appliance.directory / f"{name}.json").write_text(json.dumps(added), encoding="utf-8")

    def command(self, tenant, seconds, *options):
        lengths = f"uniform:4-{TOKENS}" if tenant == "busy" else "fixed:8"
        out = self.appliance.directory / f"{tenant}-report.json"
        out.unlink(missing_ok=True)
        return out, loadgen(self.namespaces, self.appliance.directory / f"{tenant}.json", out, "--duration", f"{seconds}s",
                            *PATIENT, *options, lengths=lengths)

    def run(self, tenant, seconds, *options):
        out, command = self.command(tenant, seconds, *options)
        subprocess.run(command, check=False, capture_output=True, timeout=180)
        self.reports.append(report(out))
        return self.reports[-1]

    @contextlib.contextmanager
    def beside(self, tenant, seconds, *options):
        """A load that runs meanwhile. Yields its process; its report comes last when the block ends."""
        out, command = self.command(tenant, seconds, *options)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield process
            process.wait(180)
            self.reports.append(report(out))
        finally:
            process.kill()
            process.wait()

    def closed_loop(self):
        """Answers per second, and utility per second."""
        result = self.run("busy", 3, "--concurrency", "32")
        return result["total"]["requests_per_s"], result["total"]["utility"] / result["measured_s"]

    def quiet_ms(self):
        """The quiet tenant's median latency."""
        result = self.run("quiet", 2, "--rate", "20")["total"]
        assert result["answered"] >= 0.8 * result["sent"], result
        return result["latency"]["p50_us"] / 1e3

    def most_waiting(self, process):
        """The largest number of requests that waited until the process ended."""
        waiting = []
        while process.poll() is None:
            group, = self.appliance.ctl_json("group", "list")["groups"]
            waiting.append(group["requests_waiting"])
            time.sleep(0.1)
        return max(waiting)


@pytest.mark.parametrize("scheduler", ["fair", "das"])
def test_three_times_the_capacity_leaves_no_queue_behind(new_appliance, namespaces, models, scheduler):
    appliance = new_appliance().start()
    loads = Loads(appliance, namespaces, models)
    group, = appliance.ctl_json("group", "list")["groups"]
    appliance.ctl("group", "update", group["name"], "--scheduler", scheduler)
    before = appliance.ctl_json("stats")["total"]
    closed, quiet_before_ms = [loads.closed_loop()], loads.quiet_ms()
    offered, beside = FACTOR * closed[0][0], None
    with loads.beside("busy", LOAD_S, "--rate", f"{offered:.0f}", "--budget", f"{1000 * BUDGET_S:.0f}ms") as busy:
        if scheduler == "fair":
            # Policies of deadlines and lengths give tenants no share of their own.
            beside = loads.run("quiet", LOAD_S // 2, "--rate", "20")["total"]
        most_waiting = loads.most_waiting(busy)
    overload, load_s = loads.reports[-1]["total"], loads.reports[-1]["measured_s"]
    time.sleep(1)
    quiet_after_ms = loads.quiet_ms()
    closed.append(loads.closed_loop())

    assert_one_outcome_each(appliance, before, *loads.reports)
    # A request leaves the queue at its deadline: half a second of arrivals wait. A queue that grew
    # all the time would hold more than five seconds of them.
    assert most_waiting <= 2 * offered, (most_waiting, offered, overload)
    answers, utility = (min(figures) / 3 for figures in zip(*closed))
    assert overload["in_time"] / load_s >= answers, (closed, overload)
    assert overload["utility"] / load_s >= utility, (closed, overload)
    assert quiet_after_ms <= 5 * quiet_before_ms + 50, (quiet_before_ms, quiet_after_ms, overload)
    if beside:
        assert beside["answered"] >= 0.9 * beside["sent"], (beside, overload)
