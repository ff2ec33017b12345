"""The appliance on the CUDA device, whose kernels run on the CPU here (tests/simt). Packets are gathered where they
arrived. Under traffic, groups leave a failed GPU and return after its reset."""

import json
import random
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import appliance as appliance_module
from harness.clients import Golden, Traffic, assert_accounted, connect, wait_until

F32 = 1e-4
GENERATION = Path(__file__).parents[1] / "data" / "generation"
PROGRAM = appliance_module.BUILD / "tests" / "simt" / "itifd_on_simt"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without tests/simt")

# A new group measures three lengths, four times each. If requests interrupt it, it begins again.
PROFILED_PASSES, MOST_MEASUREMENTS = 12, 4


@pytest.fixture
def cuda_appliance(new_appliance):
    made = new_appliance()
    made.program = str(PROGRAM)
    made.sections["device"] = {"kind": "cuda", "dtype": "f32"}
    made.sections["batching"] = {"max_tokens": 1024, "max_wait": "0s"}  # a simulated GPU is slow
    return made.start()


def only_group(appliance):
    (group,) = appliance.ctl_json("group", "list")["groups"]
    return group


def test_a_gpu_that_is_not_there(new_appliance):
    made = new_appliance()
    made.program = str(PROGRAM)
    for kind, cause in (("cuda", "there is no GPU 3: the machine has 1"), ("auto", "ordinal 3 names a GPU")):
        made.sections["device"] = {"kind": kind, "ordinal": 3}
        status, output = made.run_to_the_end()
        assert status == 1 and cause in output, f"exit status {status}\n{output}"


def test_encoders_of_two_groups(cuda_appliance, namespaces):
    device = cuda_appliance.ctl_json("device")
    assert (device["kind"], device["dtype"], device["state"]) == ("cuda", "f32", "ok")
    names = ["plain-f32", "classifier-bf16", "sentence-mean-f16", "albert-f32"]
    goldens = {name: Golden(name) for name in names}
    added = {name: cuda_appliance.add_tenant(name, golden.directory) for name, golden in goldens.items()}

    def ask(name):
        with connect(namespaces, added[name]) as client:
            for case in random.Random(name).sample(goldens[name].cases, min(6, len(goldens[name].cases))):
                goldens[name].check(client, case, F32)

    with ThreadPoolExecutor(2 * len(names)) as pool:
        for done in [pool.submit(ask, name) for name in names * 2]:
            done.result()
    wait_until(lambda: all(group["graphs"] > 50 for group in cuda_appliance.ctl_json("group", "list")["groups"]),
               "graphs of small batches are captured ahead", seconds=60)
    for group in cuda_appliance.ctl_json("group", "list")["groups"]:
        assert 0 < group["graph_launches"] <= group["batches"] + MOST_MEASUREMENTS * PROFILED_PASSES
        assert group["rows"] > group["tokens"], "batches must be padded to graph buckets"
    assert_accounted(cuda_appliance)


def test_generation(cuda_appliance, namespaces):
    cases = json.loads((GENERATION / "greedy" / "golden.json").read_text(encoding="utf-8"))["cases"]
    added = cuda_appliance.add_tenant("greedy", GENERATION / "greedy")
    with connect(namespaces, added) as client:
        for case in cases[:4]:
            assert client.infer_tokens(case["ids"], timeout_s=30).value() == case["tokens"]
    assert_accounted(cuda_appliance)
    assert cuda_appliance.stop() == 0, "packet memory must be unregistered from the GPU before exit"


def test_groups_on_slices_of_mps(new_appliance, namespaces, models):
    made = new_appliance()
    made.program = str(PROGRAM)
    made.sections["device"] = {"kind": "cuda", "dtype": "f32", "slices": "mps"}
    made.sections["batching"] = {"max_tokens": 256, "max_wait": "0s"}
    appliance = made.start()
    device = lambda: {key: appliance.ctl_json("device")[key] for key in ("slices", "shares", "slice_steps", "state")}
    expected = {"slices": "mps", "shares": "processors", "slice_steps": 2, "state": "ok"}
    assert device() == expected
    golden = Golden("classifier-bf16")
    of_golden = appliance.add_tenant("golden", golden.directory)
    of_model = appliance.add_tenant("model", models(seed=1))
    groups = lambda: appliance.ctl_json("group", "list")["groups"]
    assert len(groups()) == 2

    def ask(times=1):
        with connect(namespaces, of_golden) as client:
            for case in golden.cases[:4] * times:
                golden.check(client, case, F32)

    with Traffic(connect(namespaces, of_model)) as traffic:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(ask, 8)
            for turn in range(6):
                for group, share in zip(groups(), (30, 70) if turn % 2 else (100, 60)):
                    appliance.ctl("group", "update", group["name"], "--share", str(share))
            asked.result()
        assert not any(group["graph_failures"] for group in groups())
        assert not traffic.refusals and not traffic.losses

        appliance.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: device()["state"] == "failed", "the failure is noticed")
        wait_until(lambda: {group["device"] for group in groups()} == {"host"}, "the groups have moved", 30)
        appliance.ctl("device", "reset")
        assert device() == expected
        assert {group["device"] for group in groups()} == {"cuda"}
        traffic.wait_for(5)
        ask()
        assert set(traffic.refusals) <= {"device_failed"} and not traffic.losses
    assert_accounted(appliance)


def test_groups_leave_a_failed_device_and_return_after_its_reset(cuda_appliance, namespaces, models):
    added = [cuda_appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(2)]
    state = lambda: cuda_appliance.ctl_json("device")["state"]
    with Traffic(connect(namespaces, added[0])) as traffic, connect(namespaces, added[1]) as client:
        ask = lambda: client.infer_tokens([101, 205, 300, 102], result_kind="logits", timeout_s=60).floats()
        traffic.wait_for(5)
        expected = pytest.approx(ask(), abs=F32)
        before = only_group(cuda_appliance)
        assert before["device"] == "cuda"

        cuda_appliance.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: state() == "failed", "the failure is noticed")
        wait_until(lambda: [g["device"] for g in cuda_appliance.ctl_json("group", "list")["groups"]] == ["host"],
                   "the group has moved", 30)
        traffic.wait_for(5)
        assert set(traffic.refusals) <= {"device_failed"}, "requests that met the fault get device_failed"
        assert ask() == expected
        group = only_group(cuda_appliance)
        assert (group["name"], sorted(group["tenants"])) == (before["name"], ["t0", "t1"])
        health = cuda_appliance.ctl("--json", "health", check=False)
        assert health.returncode == 1 and "itifctl device reset" in health.stdout and "handover" in health.stdout

        refused = len(traffic.refusals)
        answer = cuda_appliance.ctl("device", "reset")
        assert "cuda" in answer.stdout
        group = only_group(cuda_appliance)
        assert (group["name"], group["device"], sorted(group["tenants"])) == (before["name"], "cuda", ["t0", "t1"])
        traffic.wait_for(5)
        assert ask() == expected
        assert len(traffic.refusals) == refused, "moving back must refuse no request"
        assert not traffic.losses
    assert state() == "ok"
    assert cuda_appliance.ctl("health").returncode == 0
    # A working device may be reset, too.
    cuda_appliance.ctl("device", "reset")
    assert only_group(cuda_appliance)["device"] == "cuda"


def test_the_host_serves_until_a_restart_if_the_reset_fails(cuda_appliance, namespaces, models):
    added = cuda_appliance.add_tenant("t", models(seed=1))
    on = lambda: [group["device"] for group in cuda_appliance.ctl_json("group", "list")["groups"]]
    with Traffic(connect(namespaces, added)) as traffic:
        traffic.wait_for(5)
        cuda_appliance.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: on() == ["host"], "the group has moved", 30)
        for _ in range(2):
            answer = cuda_appliance.ctl("device", "reset", check=False)
            assert answer.returncode == 1 and "Unavailable" in answer.stderr
            assert "itifctl handover" in answer.stderr and "restart itifd" in answer.stderr
            problems = " ".join(cuda_appliance.ctl_json("health", check=False)["appliance"]["problems"])
            assert "could not be reset" in problems and "itifctl handover" in problems
            assert (on(), cuda_appliance.ctl_json("device")["state"]) == (["host"], "failed")
            traffic.wait_for(5)
        assert set(traffic.refusals) <= {"device_failed"}
    assert cuda_appliance.stop() == 0
    cuda_appliance.start()
    wait_until(lambda: on() == ["cuda"], "the tenant is there again", 30)


def test_the_host_needs_no_reset(new_appliance):
    refused = new_appliance().start().ctl("device", "reset", check=False)
    assert refused.returncode == 1 and "needs no reset" in refused.stderr
