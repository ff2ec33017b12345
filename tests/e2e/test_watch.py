"""The way of requests through the stages: itifctl tenant stages, and trace."""

import json
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, connect, run_meanwhile, wait_until
from harness.dpdk_tools import telemetry
from harness.watching import STAGES, limit_of, stages_of

CONTROL = Path(__file__).parents[2] / "docs" / "control.md"
POINTS = ["last_piece", "verified", "queued", "chosen", "planned", "launched", "computed", "first_out", "last_out"]
LONG = [101] + [1000 + i for i in range(400)] + [102]  # several datagrams


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
        result = run_meanwhile(lambda: appliance.ctl("--json", "trace", "t", "--requests", "5", "--wait", "8s",
                                                     "--chrome", str(chrome), check=False))
        wait_until(chrome.exists, "itifctl begins")
        time.sleep(1)
        for _ in range(3):
            client.infer_tokens([101, 2000, 102], "logits")
        result = result()
    assert result.returncode == 4
    document = json.loads(result.stdout)
    assert "3 of 5 requests came within 8s" in document["error"]["message"]
    assert len(document["requests"]) == 3 and document["name"] == "t"
    for request in document["requests"]:
        check_order(request)
    chrome.write_text("old", encoding="utf-8")
    result = appliance.ctl("trace", "t", "--wait", "100ms", "--chrome", str(chrome), check=False)
    assert result.returncode == 4
    events = json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"]
    assert [event["ph"] for event in events] == ["M"]


@pytest.mark.parametrize("how", (signal.SIGINT, signal.SIGTERM))
def test_an_interrupted_trace_is_written_and_stopped(appliance, namespaces, models, tmp_path, how):
    added = appliance.add_tenant("t", models())
    chrome = tmp_path / "trace.json"
    with connect(namespaces, added) as client:
        process = subprocess.Popen((*appliance.itifctl(), "--endpoint", appliance.endpoint, "trace", "t", "--requests",
                                    "1000", "--wait", "50s", "--chrome", str(chrome)), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        wait_until(chrome.exists, "the trace")
        time.sleep(2)
        for _ in range(3):
            client.infer_tokens([101, 2000, 102], "logits")
        time.sleep(0.3)
        process.send_signal(how)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == -how and "interrupted after 3 of 1000 requests" in errors, errors
        events = json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"]
        assert sum(event["ph"] == "X" and event["name"].startswith("request") for event in events) == 3
        # Another trace begins at once.
        result = appliance.ctl("trace", "t", "--wait", "0s", check=False)
        assert "0 of 1 requests came" in result.stderr, result.stderr


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
