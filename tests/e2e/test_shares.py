"""Shares of the device that follow the groups' loads (device.shares = "tuned")."""

import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, connect, wait_until


def groups(appliance):
    """Each group by its only tenant."""
    return {group["tenants"][0]: group for group in appliance.ctl_json("group", "list")["groups"]}


@pytest.fixture(name="tuned")
def tuned_appliance(new_appliance, models):
    made = new_appliance()
    made.sections["device"]["shares"] = "tuned"
    made.start()
    made.added = {"busy": made.add_tenant("busy", models(backbone="minilm-l6")),
                  "idle": made.add_tenant("idle", models())}
    return made


def test_shares_follow_the_load(tuned, namespaces):
    before = groups(tuned)
    assert [before[name]["share_percent"] for name in ("busy", "idle")] == [30, 30]
    assert before["busy"]["demand_percent"] == 30
    with connect(namespaces, tuned.added["busy"]) as client:
        with Traffic(client, tokens=64) as traffic:
            # A client that always waits for an answer needs all of the device.
            wait_until(lambda: groups(tuned)["busy"]["share_percent"] > 40, "the busy group's share grows", 40)
    after = groups(tuned)
    assert after["idle"]["share_percent"] == 30, "a group without load keeps what it has"
    assert after["busy"]["share_percent"] + after["idle"]["share_percent"] <= 100 + 1e-6
    assert not traffic.losses and not traffic.refusals


def test_a_set_share_is_not_tuned(tuned):
    name = groups(tuned)["busy"]["name"]
    text = tuned.ctl("group", "update", name, "--share", "70").stdout
    assert "70 %" in text
    shown = groups(tuned)
    assert shown["busy"]["share_percent"] == 70 and shown["busy"]["demand_percent"] is None
    assert shown["idle"]["share_percent"] == 30
    tuned.kill()
    tuned.start()
    wait_until(lambda: len(groups(tuned)) == 2, "the tenants are restored", 30)
    assert groups(tuned)["busy"]["share_percent"] == 70, "kept over a restart"
    text = tuned.ctl("group", "update", name, "--share", "auto").stdout
    assert "what the other groups leave" in text
    assert groups(tuned)["busy"]["demand_percent"] == 30
    tuned.kill()
    tuned.start()
    wait_until(lambda: len(groups(tuned)) == 2, "the tenants are restored", 30)
    assert groups(tuned)["busy"]["demand_percent"] == 30
    for wrong in ("0", "101", "half"):
        with pytest.raises(CtlError, match="--share"):
            tuned.ctl("group", "update", name, "--share", wrong)


@pytest.mark.parametrize("setting, allowed", [("shares", "equal, tuned"), ("unmet_demands", "proportional, equal")])
def test_an_unknown_division_is_refused(new_appliance, setting, allowed):
    made = new_appliance()
    made.sections["device"][setting] = "fair"
    status, output = made.run_to_the_end()
    assert status == 1
    assert f"device.{setting}: 'fair' is not one of: {allowed}" in output


def test_the_knee_is_measured_drawn_and_kept(tuned):
    shown = groups(tuned)
    name = shown["idle"]["name"]
    with pytest.raises(CtlError, match=f"itifctl group knee {name} --measure"):
        tuned.ctl("group", "knee", name)
    with pytest.raises(CtlError, match="there is no group 'none'"):
        tuned.ctl("group", "knee", "none", "--measure")
    drawn = tuned.ctl("group", "knee", name, "--measure", "--plot").stdout
    assert "8 requests of 64 tokens, requests/s" in drawn and "<- knee" in drawn and "####" in drawn
    measured = tuned.ctl_json("group", "knee", name)
    assert measured["threshold_percent"] == 10
    for batch in measured["batches"]:
        percents = [point["percent"] for point in batch["points"]]
        assert percents == list(range(10, 101, 10)), batch
        rates = [point["requests_per_s"] for point in batch["points"]]
        # The host divides its time: a tenth of it brings much less than all of it.
        assert 0 < rates[0] < 0.5 * rates[-1], batch
        assert batch["knee_percent"] in percents
    after = groups(tuned)
    assert after["idle"]["share_percent"] == 30, "its share is as before"
    (kept,) = (tuned.directory / "state" / "profiles").glob("knee-*.json")
    tuned.kill()
    tuned.start()
    wait_until(lambda: len(groups(tuned)) == 2, "the tenants are restored", 30)
    assert tuned.ctl_json("group", "knee", name) == measured, "kept over a restart"
    tuned.kill()
    kept.write_text("{\"version\": 1}")
    tuned.start()
    wait_until(lambda: len(groups(tuned)) == 2, "the tenants are restored", 30)
    with pytest.raises(CtlError, match="has not been measured"):
        tuned.ctl("group", "knee", name)
    for wrong in ("0", "101", "much"):
        with pytest.raises(CtlError, match="--threshold"):
            tuned.ctl("group", "knee", name, "--threshold", wrong)
