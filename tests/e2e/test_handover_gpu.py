"""`itifctl handover` between processes on a simulated GPU: also from one whose GPU has failed, and to one without."""

import signal
import subprocess

import pytest
from harness.appliance import BUILD, program
from harness.clients import Traffic, connect, wait_until
from harness.handover import F32, IDS, LONG, add_tenants, failing, goes_on, nothing_lost, same_answers, start_loadgen
from itif_client import Refused

ON_SIMULATED_GPU = BUILD / "tests" / "simt" / "itifd_on_simt"


@pytest.fixture
def on_gpu(new_appliance):
    """An appliance, not started, that computes in f32 on a simulated GPU. Its failed GPU refuses a reset."""
    if not ON_SIMULATED_GPU.exists():
        pytest.skip("built without tests/simt")
    made = new_appliance()
    made.program = str(ON_SIMULATED_GPU)
    made.sections["device"] = {"kind": "cuda", "dtype": "f32"}
    made.sections["batching"] = {"max_wait": "0s", "max_tokens": 1024}  # a simulated GPU is slow
    made.sections["telemetry"] = {"log_level": "info"}
    return made


def is_answered(client):
    try:
        client.infer_tokens(IDS)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("reset_first", [False, True], ids=["at once", "after a refused reset"])
def test_the_new_process_has_the_gpu_that_failed(on_gpu, namespaces, models, reset_first):
    appliance = on_gpu.start()
    added = add_tenants(appliance, models)
    added.append(appliance.add_tenant("apart", models(seed=5), "--group", "own"))
    appliance.ctl("tenant", "update", "t1", "--weight", "3", "--model", str(models(seed=7)))
    appliance.ctl("group", "update", "own", "--scheduler", "das:eta=0.3", "--share", "30")
    groups = lambda: {each["name"]: each for each in appliance.ctl_json("group", "list")["groups"]}
    on = lambda: {each["device"] for each in groups().values()}
    settings = lambda: ({each["name"]: [each[key] for key in ("id", "key_epoch", "state", "weight", "model_dir")]
                         for each in appliance.ctl_json("tenant", "list")["tenants"]},
                        [[each[key] for key in ("version", "state", "model_dir")]
                         for each in appliance.ctl_json("tenant", "versions", "t1")["versions"]],
                        {name: sorted(each["tenants"]) for name, each in groups().items()},
                        [groups()["own"][key] for key in ("scheduler", "share_percent")])
    before = settings()
    assert on() == {"cuda"}
    with connect(namespaces, added[0]) as client, Traffic(client, tokens=4) as traffic, \
            connect(namespaces, added[2]) as other:
        appliance.process.send_signal(signal.SIGUSR1)
        wait_until(lambda: on() == {"host"}, "the groups have moved", 60)
        if reset_first:
            assert "itifctl handover" in appliance.ctl("device", "reset", check=False).stderr
        assert appliance.ctl_json("device")["state"] == "failed"
        wait_until(lambda: is_answered(other), "the last tenant has moved", 60)
        traffic.wait_for(5)
        refused = len(traffic.refusals)
        expected = other.infer_tokens(IDS).floats()
        process, finish = start_loadgen(appliance, enter=("ip", "netns", "exec", namespaces.client), requests=LONG,
                                        rate=5, lengths="fixed:4")  # few: the simulated GPU is slow
        answer = appliance.handover()
        assert answer["drained"]
        assert process.poll() is None, "the load ended before the handover"
        assert on() == {"cuda"} and appliance.ctl_json("device")["state"] == "ok"
        traffic.wait_for(5)
        nothing_lost(finish(stop=True))
        traffic.stop()
        assert len(traffic.refusals) == refused and not traffic.losses, (traffic.refusals, traffic.losses)
        assert same_answers(traffic.answers) > 10
        assert other.infer_tokens(IDS).floats() == pytest.approx(expected, abs=F32)
    assert settings() == before
    appliance.ctl("tenant", "rollback", "t1")
    assert appliance.stop() == 0, appliance.log()[-3000:]


def test_a_group_that_cannot_leave_the_failed_gpu_stops_no_handover(on_gpu, namespaces, models):
    appliance = on_gpu.start()
    (added,) = add_tenants(appliance, models, 1)
    directory = appliance.directory / "model"
    subprocess.run(("cp", "-r", str(models(seed=9)), str(directory)), check=True)
    gone = appliance.add_tenant("gone", directory, "--group", "own")
    directory.rename(appliance.directory / "elsewhere")
    on = lambda: {each["name"]: each["device"] for each in appliance.ctl_json("group", "list")["groups"]}
    state = lambda name: appliance.ctl_json("tenant", "show", name)["tenant"]["state"]
    with connect(namespaces, added) as client, Traffic(client, tokens=4) as traffic, \
            connect(namespaces, gone) as other:
        traffic.wait_for(1)
        appliance.process.send_signal(signal.SIGUSR1)
        def is_refused():
            try:
                other.infer_tokens(IDS)
            except Refused:
                return True
            return False
        wait_until(is_refused, "the GPU has failed")  # the signal may be slower than a request
        wait_until(lambda: "host" in on().values() and state("gone") == "failed", "the other group has moved", 60)
        assert on()["own"] == "cuda", "it has no other place"
        assert "group own has failed" in " ".join(appliance.ctl_json("health", check=False)["appliance"]["problems"])
        answer = appliance.ctl_json("handover")
        assert appliance.process.wait(20) == 0 and answer["drained"]
        appliance.adopt(answer["pid"])
        traffic.wait_for(1)
        assert set(on().values()) == {"cuda"} and (state("t0"), state("gone")) == ("serving", "failed")
        (appliance.directory / "elsewhere").rename(directory)
        appliance.ctl("tenant", "resume", "gone")
        other.infer_tokens(IDS, timeout_s=20)
        traffic.stop()
        assert not traffic.losses
    assert appliance.stop() == 0


def test_a_process_with_a_gpu_hands_over_to_none_without(on_gpu, namespaces, models):
    """Kind auto must not move the service to the host silently."""
    on_gpu.sections["device"]["kind"] = "auto"
    appliance = on_gpu.start()
    added = add_tenants(appliance, models, 1)
    pid = appliance.process.pid
    with connect(namespaces, added[0]) as client:
        error = failing(appliance, "--binary", program("itifd"))
        assert "has a GPU, which the new process cannot use: CUDA is not used" in error, error
        goes_on(appliance, client, pid)


@pytest.mark.skipif(not ON_SIMULATED_GPU.exists(), reason="built without tests/simt")
def test_the_memory_of_the_old_process_is_regained(new_appliance, models):
    """The new process begins with what the old one leaves free of a GPU's 4 GiB."""
    appliance = new_appliance()
    appliance.program = str(ON_SIMULATED_GPU)
    appliance.sections["device"] = {"kind": "cuda", "dtype": "f32", "memory": "2GiB"}
    appliance.sections["batching"] = {"max_tokens": 1024}
    appliance.sections["telemetry"]["log_level"] = "info"
    used = appliance.directory / "used"
    used.write_text("0", encoding="utf-8")
    limit = lambda: appliance.ctl_json("device")["memory_bytes"]
    appliance.start(("env", f"ITIF_SIMT_USED_ELSEWHERE={used}"))
    appliance.add_tenant("t", models())
    assert limit() == 2 << 30
    used.write_text(str(3 << 30), encoding="utf-8")  # the old process
    appliance.handover()
    assert 0 < limit() < 1 << 30
    used.write_text("0", encoding="utf-8")
    wait_until(lambda: limit() == 2 << 30, "the memory is regained", 20)
    assert "of the device's memory are free again" in appliance.log()
    assert appliance.stop() == 0
