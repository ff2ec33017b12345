"""A canary that cannot be loaded: its tenant serves, and can be changed and handed over."""

import shutil

import pytest
from harness.appliance import UNHEALTHY, CtlError
from harness.clients import connect, wait_until
from test_version_contents import logits, restart
from test_versions import states

BROKEN = "version 2, a canary, is not loaded"


@pytest.fixture
def broken(appliance, models, tmp_path):
    """A tenant whose canary has lost its directory. Returns it and the directories of both versions."""
    active, canary = (shutil.copytree(models(seed=seed), tmp_path / name) for seed, name in ((1, "active"), (2, "canary")))
    added = appliance.add_tenant("tried", active)
    appliance.ctl("tenant", "update", "tried", "--model", str(canary), "--canary", "50%")
    canary.rename(tmp_path / "moved")
    restart(appliance)
    return added, active, canary


def shown(appliance):
    return appliance.ctl_json("tenant", "show", "tried")["tenant"]


def hand_over(appliance):
    """Hands over although health is not ok."""
    answer = appliance.ctl_json("handover")
    assert appliance.process.wait(20) == 0, appliance.log()[-4000:]
    appliance.adopt(answer["pid"])
    wait_until(lambda: appliance.ctl("tenant", "list", check=False).returncode == 0, "the new process")


def test_health_names_it(appliance, broken):
    checked = appliance.ctl("health", check=False)
    assert checked.returncode == UNHEALTHY
    assert BROKEN in checked.stdout and "itifctl tenant rollback tried" in checked.stdout, checked.stdout
    assert "canary" in shown(appliance)["canary_message"]
    appliance.ctl("tenant", "rollback", "tried")
    assert appliance.ctl("health").returncode == 0
    assert "canary_message" not in shown(appliance)


def test_its_tenant_can_be_changed(appliance, namespaces, broken, tmp_path):
    _, _, canary = broken
    for change in (("update", "tried", "--quota-rps", "500000"), ("update", "tried", "--canary", "20%"),
                   ("update", "tried", "--name", "renamed"), ("update", "renamed", "--name", "tried"),
                   ("pause", "tried")):
        appliance.ctl("tenant", *change)
    assert shown(appliance)["state"] == "paused" and shown(appliance)["canary_percent"] == 20
    appliance.ctl("tenant", "resume", "tried")
    assert shown(appliance)["state"] == "serving" and shown(appliance)["canary_message"]
    with pytest.raises(CtlError, match=str(canary)):
        appliance.ctl("tenant", "resume", "tried")
    with pytest.raises(CtlError, match=str(canary)):
        appliance.ctl("tenant", "promote", "tried")
    added = appliance.ctl_json("tenant", "rotate-key", "tried")
    with connect(namespaces, added) as client:
        assert {logits(client)[0] for _ in range(30)} == {1}
        (tmp_path / "moved").rename(canary)
        appliance.ctl("tenant", "resume", "tried")
        assert "canary_message" not in shown(appliance)
        assert {logits(client)[0] for _ in range(60)} == {1, 2}
    assert states(appliance, "tried") == [(2, "canary"), (1, "active")]


def test_its_tenant_is_handed_over_only_if_it_serves_again(appliance, namespaces, broken, tmp_path):
    added, active, _ = broken
    hand_over(appliance)
    assert shown(appliance)["canary_message"]
    active.rename(tmp_path / "gone")
    pid = appliance.process.pid
    with connect(namespaces, added) as client:
        with pytest.raises(CtlError, match="the model of tenant 'tried' cannot be loaded"):
            appliance.ctl("handover")
        assert logits(client)[0] == 1 and appliance.process.pid == pid and appliance.process.poll() is None


def test_a_canary_that_serves_must_load_in_the_new_process(appliance, namespaces, models, tmp_path):
    canary = shutil.copytree(models(seed=2), tmp_path / "canary")
    added = appliance.add_tenant("tried", models(seed=1))
    appliance.ctl("tenant", "update", "tried", "--model", str(canary), "--canary", "50%")
    canary.rename(tmp_path / "moved")
    with pytest.raises(CtlError, match="the canary of tenant 'tried' cannot be loaded"):
        appliance.ctl("handover")
    with connect(namespaces, added) as client:
        assert {logits(client)[0] for _ in range(60)} == {1, 2}
