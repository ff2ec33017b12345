"""Models are parsed in a sandboxed process first. A model that crashes it, or needs too much memory or time, is
refused, and the appliance serves the others."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from harness.clients import Traffic, connect, wait_until
from harness.processes import checkers_of


def has_ended(pid):
    """Also if nobody has waited for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def checker_of(appliance):
    (checker,) = checkers_of(appliance.process.pid)
    name = Path(f"/proc/{checker}/comm")
    wait_until(lambda: name.read_text(encoding="ascii").strip() == "itif-checker", "its program has been loaded")
    return checker


@pytest.fixture
def copy_of(tmp_path):
    """A copy of a model, to be damaged. Others may read it."""
    def copy(model, name):
        tmp_path.chmod(0o755)
        return Path(shutil.copytree(model, tmp_path / name))
    return copy


def assert_refused(appliance, model, *parts):
    refused = appliance.ctl("tenant", "add", "bad", "--model", str(model), check=False)
    assert refused.returncode == 1 and all(part in refused.stderr for part in parts), refused.stderr
    assert appliance.alive()
    assert appliance.ctl("health").returncode == 0


def test_a_model_that_crashes_a_parser_is_refused(new_appliance, namespaces, models, copy_of):
    appliance = new_appliance()
    bad = copy_of(models(), "bad")
    appliance.environment["ITIF_TEST_CRASHING_MODEL"] = str(bad)
    appliance.start()
    added = appliance.add_tenant("good", models())
    with connect(namespaces, added) as client, Traffic(client) as traffic:
        wait_until(lambda: traffic.answers, "requests are answered")
        for _ in range(3):
            assert_refused(appliance, bad, str(bad), "crashed (signal 6", "the model is refused")
        before = len(traffic.answers)
        wait_until(lambda: len(traffic.answers) > before, "the other tenant is served")
    assert not traffic.losses
    assert "bad" not in appliance.ctl("tenant", "list").stdout
    # An update that crashes leaves the version that serves.
    refused = appliance.ctl("tenant", "update", "good", "--model", str(bad), check=False)
    assert refused.returncode == 1 and "crashed" in refused.stderr
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 102], "logits").payload
    assert appliance.stop() == 0


def test_a_tenant_whose_files_crash_a_parser_at_a_start_fails_alone(new_appliance, namespaces, models, copy_of):
    appliance = new_appliance()
    bad = copy_of(models(), "bad")
    appliance.start()
    appliance.add_tenant("spoiled", bad)
    added = appliance.add_tenant("good", models())
    assert appliance.stop() == 0
    appliance.environment["ITIF_TEST_CRASHING_MODEL"] = str(bad)
    appliance.launch()
    wait_until(lambda: "ready" in appliance.log().splitlines()[-1], "itifd is ready", 30)
    health = json.loads(appliance.ctl("--json", "health", check=False).stdout)
    assert health["status"] == "degraded"
    assert [one["name"] for one in health["failed"]] == ["spoiled"]
    assert "crashed" in health["failed"][0]["message"]
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 102], "logits").payload
    assert appliance.stop() == 0


def test_files_that_need_too_much_memory_or_time(new_appliance, models, copy_of):
    big = copy_of(models(), "big")
    # Within the limit of a file's size, but 40 times as long in memory.
    (big / "config.json").write_text('{"a": [' + "[]," * 5_000_000 + "[]]}", encoding="ascii")
    appliance = new_appliance()
    appliance.sections["process"] = {"model_check_memory": "32MiB"}
    appliance.start()
    assert_refused(appliance, big, "memory", "model_check_memory")
    appliance.add_tenant("good", models())
    appliance.ctl("tenant", "remove", "good")  # the next start would check it within 100 ms
    assert appliance.stop() == 0
    appliance.sections["process"] = {"model_check_time": "100ms"}
    appliance.start()
    assert_refused(appliance, big, "longer than 100 ms", "model_check_time")
    assert appliance.stop() == 0


def test_errors_of_models_are_as_without_the_sandbox(new_appliance, models, copy_of, tmp_path):
    wrong = copy_of(models(), "wrong")
    (wrong / "config.json").write_text('{"model_type": "bert", "model_type": "bert"}', encoding="ascii")
    texts = []
    for mode in ("sandbox", "off"):
        appliance = new_appliance()
        appliance.sections["process"] = {"model_check": mode}
        appliance.start()
        texts.append([appliance.ctl("tenant", "add", "t", "--model", str(model), check=False).stderr
                      for model in (wrong, tmp_path / "absent")])
        if mode == "off":
            assert not checkers_of(appliance.process.pid)
        assert appliance.stop() == 0
    assert texts[0] == texts[1] and "occurs twice" in texts[0][0]


def test_the_checker_has_no_rights_and_ends_with_itifd(new_appliance, models):
    appliance = new_appliance()
    appliance.endpoint = f"ipc://{appliance.directory}/run/control.sock"
    appliance.sections["control"]["endpoint"] = appliance.endpoint
    appliance.sections["control"]["events_endpoint"] = f"ipc://{appliance.directory}/run/events.sock"
    appliance.sections["process"] = {"user": "nobody"}
    appliance.start()
    checker = checker_of(appliance)
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{checker}/status").read_text(encoding="ascii").splitlines()
                  if ":\t" in line)
    assert status["CapEff"] == status["CapPrm"] == status["CapAmb"] == "0" * 16
    assert status["NoNewPrivs"] == "1" and status["Threads"] == "1"
    assert "0" not in status["Uid"].split()
    opened = {os.readlink(f"/proc/{checker}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{checker}/fd")}
    assert opened == {"/dev/null", "socket"}
    appliance.add_tenant("t", models())
    appliance.handover()
    wait_until(lambda: has_ended(checker), "the first itifd's checker ends")
    checker = checker_of(appliance)
    appliance.add_tenant("u", models())
    appliance.kill()
    wait_until(lambda: has_ended(checker), "the checker ends with itifd")


def test_a_checker_that_is_killed_is_started_again(new_appliance, models):
    appliance = new_appliance().start()
    first = checker_of(appliance)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: has_ended(first), "the checker is gone")
    appliance.add_tenant("t", models())
    assert checker_of(appliance) != first
    assert "starting it again" in appliance.log()
    assert appliance.stop() == 0


@pytest.mark.parametrize("seccomp", ["refuse", "kill"])
def test_a_checker_that_cannot_be_started_again(new_appliance, namespaces, models, seccomp):
    appliance = new_appliance()
    appliance.sections["process"] = {"handover": False, "seccomp": seccomp}
    appliance.start()
    added = appliance.add_tenant("t", models())
    checker = checker_of(appliance)
    os.kill(checker, signal.SIGKILL)
    wait_until(lambda: has_ended(checker), "the checker is gone")
    for _ in range(2):
        refused = appliance.ctl("tenant", "add", "u", "--model", str(models(seed=2)), check=False)
        assert refused.returncode == 1 and "restart itifd" in refused.stderr, refused.stderr
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 102], "logits").payload
    assert appliance.stop() == 0


@pytest.mark.parametrize("process", [{"handover": False}, {"seccomp": "kill"}])
def test_models_are_checked_under_the_filter(new_appliance, models, process):
    appliance = new_appliance()
    appliance.sections["process"] = process
    appliance.start()
    checker_of(appliance)
    appliance.add_tenant("t", models())
    assert appliance.stop() == 0
