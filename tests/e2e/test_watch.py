"""The way of requests through the stages (itifctl tenant stages, trace), and what limits a group (itifctl
bottleneck)."""

import json
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness.appliance import CtlError, program
from harness.clients import Traffic, connect, wait_until
from harness.dpdk_tools import telemetry
from harness.namespaces import SERVER_IPV4, run

CONTROL = Path(__file__).parents[2] / "docs" / "control.md"
STAGES = ["reassembly", "verify", "intake", "queue", "plan", "launch", "compute", "respond", "send", "total"]
POINTS = ["last_piece", "verified", "queued", "chosen", "planned", "launched", "computed", "first_out", "last_out"]
LONG = [101] + [1000 + i for i in range(400)] + [102]  # several datagrams


def stages_of(appliance, name):
    document = appliance.ctl_json("tenant", "stages", name)
    assert [stage["stage"] for stage in document["stages"]] == STAGES
    return document["requests"], {stage["stage"]: stage for stage in document["stages"]}


def test_stages_add_up_to_the_total(appliance, namespaces, models):
    added = [appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(2)]
    for i, each in enumerate(added):
        with connect(namespaces, each, fragment_bytes=256) as client:
            for _ in range(20 + i):
                client.infer_tokens(LONG, "logits")
    # The answer reaches the client before its worker has counted it.
    wait_until(lambda: stages_of(appliance, "t1")[0] == 21, "all requests are counted")
    for i, each in enumerate(added):
        requests, stages = stages_of(appliance, f"t{i}")
        assert requests == 20 + i
        parts, total = sum(stages[name]["mean_ns"] for name in STAGES[:-1]), stages["total"]["mean_ns"]
        assert abs(parts - total) <= len(STAGES), "a mean is rounded down"
        assert stages["compute"]["mean_ns"] > 0 and stages["send"]["mean_ns"] > 0, stages
        for name, stage in stages.items():
            assert stage["p50_ns"] <= stage["p99_ns"], (name, stage)
        of_dpdk = telemetry(appliance, f"/itif/stages,{each['tenant']['id']}")
        assert of_dpdk["requests"] == requests
        assert of_dpdk["compute"]["sum_ns"] // requests == stages["compute"]["mean_ns"]
    text = appliance.ctl("tenant", "stages", "t0").stdout
    assert all(name in text for name in STAGES), text
    with pytest.raises(CtlError, match="there is no tenant named 'nobody'"):
        appliance.ctl("tenant", "stages", "nobody")


def test_another_tenant_with_the_same_counters_starts_at_zero(appliance, namespaces, models):
    added = appliance.add_tenant("first", models())
    with connect(namespaces, added) as client:
        client.infer_tokens([101, 2000, 102], "logits")
    wait_until(lambda: stages_of(appliance, "first")[0] == 1, "the request is counted")
    appliance.ctl("tenant", "remove", "first")
    appliance.add_tenant("second", models())
    assert stages_of(appliance, "second")[0] == 0


def traced(appliance, *arguments):
    return appliance.ctl_json("trace", *arguments)["requests"]


def documented(op):
    """The answer that docs/control.md shows for an operation."""
    blocks = re.findall(r"```json\n(.*?)\n```", CONTROL.read_text(encoding="utf-8"), re.S)
    at = next(i for i, block in enumerate(blocks) if json.loads(block).get("op") == op)
    return json.loads(blocks[at + 1])["ok"]


def test_the_documents_have_the_documented_fields(appliance, models):
    appliance.add_tenant("t", models())
    stages, limits, groups = (documented(op) for op in ("tenant.stages", "group.bottleneck", "group.list"))
    got = appliance.ctl_json("tenant", "stages", "t")
    assert got.keys() == stages.keys() and got["stages"][0].keys() == stages["stages"][0].keys()
    assert limit_of(appliance).keys() == limits["groups"][0].keys()
    assert appliance.ctl_json("group", "list")["groups"][0].keys() == groups["groups"][0].keys()


def run_meanwhile(function):
    """Runs a function in a thread; returns a function that waits for its result."""
    results = []

    def call():
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001: the caller raises it
            results.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()

    def result():
        thread.join(60)
        assert results, "it does not end"
        if isinstance(results[0], BaseException):
            raise results[0]
        return results[0]

    return result


def check_order(request):
    """The points of an answered request, each once, in order."""
    assert request["status"] == "ok"
    points = [point["point"] for point in request["points"]]
    assert [point for point in points if point != "free"] == POINTS
    assert "free" not in points or points.index("free") == points.index("queued") - 1
    times = [point["since_ns"] for point in request["points"]]
    assert times == sorted(times), request


def test_a_trace_follows_requests_under_load(appliance, namespaces, models, tmp_path):
    added = [appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(2)]
    chrome = tmp_path / "trace.json"
    with Traffic(connect(namespaces, added[0])) as one, Traffic(connect(namespaces, added[1])) as other:
        one.wait_for(3)
        other.wait_for(3)
        requests = traced(appliance, "t0", "--requests", "40", "--chrome", str(chrome))
        text = appliance.ctl("trace", "t1").stdout
        # One trace after the other: none is left open.
        assert len(traced(appliance, "t1", "--requests", "2")) == 2
    assert not one.losses and not other.losses
    assert len(requests) == 40
    assert len({request["request_id"] for request in requests}) == 40
    for request in requests:
        check_order(request)
        assert request["tokens"] == 16 and request["worker"] == 0
    assert all(name in text for name in STAGES[:-1]), text

    events = json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"]
    whole = {event["tid"]: event for event in events if event["ph"] == "X" and event["name"].startswith("request")}
    assert len(whole) == 40
    for thread, outer in whole.items():
        inner = [event for event in events if event["ph"] == "X" and event["tid"] == thread and event is not outer]
        names = [event["name"] for event in inner]
        if names[2] == "queue":  # it waited for the batch that ran
            del names[2]
        assert names == STAGES[:-1]
        end = outer["ts"]
        for event in inner:  # each begins where the one before it ends
            assert event["ts"] == pytest.approx(end, abs=1e-3)
            end = event["ts"] + event["dur"]
        assert end == pytest.approx(outer["ts"] + outer["dur"], abs=1e-3)
    assert min(event["ts"] for event in whole.values()) == 0


def test_a_trace_shows_refused_requests(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    stop = threading.Event()
    with connect(namespaces, added, fragment_bytes=128) as client:
        def send_halves():
            while not stop.is_set():
                client.send_pieces(client.tokens(range(1000, 1200)), [0])
                time.sleep(0.05)
        sent = run_meanwhile(send_halves)
        request, = traced(appliance, "t")
        stop.set()
        sent()
    assert request["status"] == "deadline_reassembly"
    assert [point["point"] for point in request["points"]] == ["first_out", "last_out"]


def test_a_trace_shows_requests_refused_on_arrival(appliance, namespaces, models):
    """They were left out: paused, over quota, during a drain."""
    added = appliance.add_tenant("t", models())
    with connect(namespaces, added) as client:
        client.infer_tokens([101, 2000, 102], "logits")
        stop = threading.Event()

        def send():
            while not stop.is_set():
                client.send_pieces(client.tokens([101, 2000, 102]), [0])
                time.sleep(0.02)

        sent = run_meanwhile(send)
        try:
            appliance.ctl("tenant", "pause", "t")
            paused = traced(appliance, "t", "--requests", "2")
            appliance.ctl("tenant", "resume", "t")
            appliance.ctl("tenant", "update", "t", "--quota-rps", "1")
            over_quota = traced(appliance, "t", "--requests", "10")
            appliance.ctl("drain", "--timeout", "10s")
            draining = traced(appliance, "t", "--requests", "2")
        finally:
            stop.set()
            sent()
    assert [request["status"] for request in paused] == ["not_admitted"] * 2
    assert {request["status"] for request in over_quota} >= {"over_quota"}
    assert {request["status"] for request in over_quota} <= {"over_quota", "ok"}
    assert [request["status"] for request in draining] == ["draining"] * 2
    for request in paused + draining:
        assert [point["point"] for point in request["points"]] == ["first_out", "last_out"]


def test_an_incomplete_trace_keeps_its_records(appliance, namespaces, models, tmp_path):
    added = appliance.add_tenant("t", models())
    chrome = tmp_path / "trace.json"
    with connect(namespaces, added) as client:
        client.infer_tokens([101, 2000, 102], "logits")
        result = run_meanwhile(lambda: appliance.ctl("--json", "trace", "t", "--requests", "5", "--wait", "4s",
                                                     check=False))
        time.sleep(1)
        for _ in range(3):
            client.infer_tokens([101, 2000, 102], "logits")
        result = result()
    assert result.returncode == 4
    document = json.loads(result.stdout)
    assert "3 of 5 requests came within 4s" in document["error"]["message"]
    assert len(document["requests"]) == 3 and document["name"] == "t"
    for request in document["requests"]:
        check_order(request)
    chrome.write_text("old", encoding="utf-8")
    result = appliance.ctl("trace", "t", "--wait", "100ms", "--chrome", str(chrome), check=False)
    assert result.returncode == 4
    events = json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"]
    assert [event["ph"] for event in events] == ["M"]


def test_a_trace_ends_without_requests_and_with_its_tenant(appliance, models, tmp_path):
    appliance.add_tenant("t", models())
    with pytest.raises(CtlError) as error:
        appliance.ctl("trace", "t", "--requests", "5", "--wait", "300ms")
    assert error.value.result.returncode == 4
    assert "0 of 5 requests came within 300ms" in str(error.value)
    # A trace is running: another is refused, and its tenant's removal ends it.
    def trace(wait):
        return appliance.ctl("trace", "t", "--wait", wait, check=False)
    def is_refused(result):
        return result.returncode == 1 and "is being traced" in result.stderr
    def trace_until_removed():
        # The short traces below may be the first: then this one is refused, and tries again.
        while is_refused(result := trace("50s")):
            pass
        return result
    ended = run_meanwhile(trace_until_removed)
    def refused():
        return is_refused(trace("0s"))
    wait_until(refused, "the second trace is refused")
    appliance.ctl("tenant", "remove", "t")
    result = ended()
    assert result.returncode == 1 and "the tenant was removed after 0 of 1 requests" in result.stderr
    with pytest.raises(CtlError, match="there is no tenant named 't'"):
        appliance.ctl("trace", "t")
    with pytest.raises(CtlError) as error:
        appliance.ctl("trace", "t", "--chrome", str(tmp_path / "none" / "x.json"))
    assert error.value.result.returncode == 5


def test_stages_can_be_turned_off(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["telemetry"]["stages"] = False
    appliance.start()
    added = appliance.add_tenant("t", models())
    with connect(namespaces, added) as client:
        for _ in range(5):
            client.infer_tokens([101, 2000, 102], "logits")
    for command in (("tenant", "stages", "t"), ("trace", "t")):
        with pytest.raises(CtlError, match="telemetry.stages = true"):
            appliance.ctl(*command)
    stats = appliance.ctl_json("stats")
    assert stats["tenants"][0]["answered"] == 5 and stats["tenants"][0]["p50_ns"] > 0
    assert stats["stages"]["compute"]["count"] == 0
    group, = appliance.ctl_json("group", "list")["groups"]
    assert group["gue"] > 0
    assert limit_of(appliance)["stages"] is False


def limit_of(appliance, group=None, interval="1s"):
    groups = appliance.ctl_json("bottleneck", *([group] if group else []), "--interval", interval)["groups"]
    assert len(groups) == 1 or group is None
    return groups[0]


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
        group = limit_of(appliance, interval="3s")
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


@pytest.mark.parametrize("overlap", ["on", "off"])
def test_points_are_in_order_in_every_kind_of_group(new_appliance, namespaces, models, overlap):
    appliance = new_appliance()
    appliance.sections["batching"]["overlap"] = overlap
    appliance.start()
    added = [appliance.add_tenant("classifies", models()),
             appliance.add_tenant("generates", models(backbone="marian-tiny", head="none", labels=""))]
    kinds = ["logits", "tokens"]
    ids = [[101, 2000, 102], [5, 6, 0]]
    for each, kind, tokens in zip(added, kinds, ids):
        stop = threading.Event()
        with connect(namespaces, each) as client:
            def send():
                while not stop.is_set():
                    client.infer_tokens(tokens, kind)
            sent = run_meanwhile(send)
            requests = traced(appliance, each["tenant"]["name"], "--requests", "5")
            stop.set()
            sent()
        assert len(requests) == 5
        for request in requests:
            check_order(request)
    requests, stages = stages_of(appliance, "generates")
    assert requests >= 5 and stages["compute"]["mean_ns"] > 0
