"""Shares of the device that follow the groups' loads (device.shares = "tuned")."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, connect, same_floats, wait_until
from harness.processes import each_thread, name_of


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


def test_a_measured_knee_changes_no_share(tuned, namespaces):
    with connect(namespaces, tuned.added["busy"]) as client:
        with Traffic(client, tokens=64):
            wait_until(lambda: groups(tuned)["busy"]["share_percent"] > 45, "the busy group's share grows", 40)
    before = groups(tuned)
    tuned.ctl("group", "knee", before["busy"]["name"], "--measure")
    after = groups(tuned)
    for tenant in ("busy", "idle"):
        for figure in ("share_percent", "demand_percent"):
            assert after[tenant][figure] == pytest.approx(before[tenant][figure], abs=1), (tenant, figure)


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


def test_unmet_demands_get_parts_by_weight(tuned, models):
    tuned.add_tenant("set", models(backbone="bert-tiny --layers 1"))
    names = {tenant: group["name"] for tenant, group in groups(tuned).items()}
    tuned.ctl("group", "update", names["set"], "--share", "80")
    # Both ask for 30 %, and 20 % are left.
    assert [groups(tuned)[name]["share_percent"] for name in ("busy", "idle")] == [10, 10]
    assert tuned.ctl("group", "update", names["busy"], "--weight", "3").stdout.strip().endswith("now has weight 3")

    def check():
        shown = groups(tuned)
        assert [shown[name]["weight"] for name in ("busy", "idle", "set")] == [3, 1, 1]
        # A share that differs from its target by less than a twentieth stays.
        assert shown["busy"]["share_percent"] == pytest.approx(15, rel=0.051)
        assert shown["idle"]["share_percent"] == pytest.approx(5, rel=0.051)
        assert shown["set"]["share_percent"] == 80

    check()
    (row,) = (line for line in tuned.ctl("group", "list").stdout.splitlines() if line.startswith(names["busy"] + " "))
    assert re.search(r"15 %\s+3\s+shared", row), row
    tuned.kill()
    tuned.start()
    wait_until(lambda: len(groups(tuned)) == 3, "the tenants are restored", 30)
    check()
    tuned.handover()
    check()
    for wrong in ("0", "1001", "-1", "much", "1.5"):
        with pytest.raises(CtlError, match=f"--weight: .*{wrong}"):
            tuned.ctl("group", "update", names["busy"], f"--weight={wrong}")
    assert groups(tuned)["busy"]["weight"] == 3


def test_weights_divide_the_device_without_tuning(new_appliance, models):
    made = new_appliance()
    made.start()
    made.add_tenant("heavy", models(backbone="minilm-l6"))
    made.add_tenant("light", models())
    name = groups(made)["heavy"]["name"]
    assert made.ctl_json("group", "update", name, "--weight", "3") == {"group": name, "weight": 3}
    for _ in range(2):
        shown = groups(made)
        assert [shown[tenant]["share_percent"] for tenant in ("heavy", "light")] == [75, 25]
        made.kill()
        made.start()
        wait_until(lambda: len(groups(made)) == 2, "the tenants are restored", 30)


def compute_threads(appliance):
    """The CPUs on which the groups' threads may run, each list once. Their pools' threads may run on some of them."""
    found = each_thread(appliance.process.pid, lambda task: (name_of(task), os.sched_getaffinity(int(task.name))))
    lists = {tuple(sorted(cpus)) for name, cpus in found if name == "itif-group"}
    return sorted(map(list, lists))


def test_groups_have_cpus_of_their_own(new_appliance, namespaces, models):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    appliance = new_appliance()
    appliance.start()
    added = {"own": appliance.add_tenant("own", models(backbone="minilm-l6")),
             "shared": appliance.add_tenant("shared", models())}
    names = {tenant: group["name"] for tenant, group in groups(appliance).items()}
    wait_until(lambda: compute_threads(appliance) == [cpus], "the groups compute on these CPUs")
    assert groups(appliance)["own"]["cpus"] is None
    with connect(namespaces, added["own"]) as own, connect(namespaces, added["shared"]) as shared:
        def answers():
            return (own.infer_tokens(range(1000, 1064), "logits").payload,
                    shared.infer_tokens([101, 2000, 102], "logits").payload)
        expected = answers()
        with Traffic(own, tokens=64) as own_traffic, Traffic(shared, tokens=16) as shared_traffic:
            for _ in range(5):
                text = appliance.ctl("group", "update", names["own"], "--cpus", str(cpus[0])).stdout
                assert f"now has CPUs {cpus[0]} for itself" in text
                wait_until(lambda: compute_threads(appliance) == [cpus[:1], cpus[1:]], "the groups compute on these CPUs")
                assert groups(appliance)["own"]["cpus"] == cpus[:1]
                text = appliance.ctl("group", "update", names["own"], "--cpus", "auto").stdout
                assert "that no group has for itself" in text
                wait_until(lambda: compute_threads(appliance) == [cpus], "the groups compute on these CPUs")
        assert not own_traffic.losses and not own_traffic.refusals
        assert not shared_traffic.losses and not shared_traffic.refusals
        appliance.ctl("group", "update", names["own"], "--cpus", str(cpus[0]))
        assert all(same_floats(*pair) for pair in zip(answers(), expected))
    with pytest.raises(CtlError, match=f"cannot have CPUs {cpus[0]}-{cpus[-1]}: .* none would be left for groups without"):
        appliance.ctl("group", "update", names["own"], "--cpus", f"{cpus[0]}-{cpus[-1]}")
    with pytest.raises(CtlError, match="cannot have CPU 1023: groups compute on CPUs"):
        appliance.ctl("group", "update", names["own"], "--cpus", "1023")
    for wrong in ("1024", "2-1", "half"):
        with pytest.raises(CtlError, match=f"'{wrong}' is no CPU from 0 to 1023"):
            appliance.ctl("group", "update", names["own"], "--cpus", wrong)
    appliance.kill()
    appliance.start()
    wait_until(lambda: len(groups(appliance)) == 2, "the tenants are restored", 30)
    assert groups(appliance)["own"]["cpus"] == cpus[:1], "kept over a restart"
    wait_until(lambda: compute_threads(appliance) == [cpus[:1], cpus[1:]], "the groups compute on these CPUs")
    appliance.ctl("tenant", "remove", "own")
    wait_until(lambda: compute_threads(appliance) == [cpus], "the groups compute on these CPUs")


def test_own_cpus_do_not_depend_on_the_order_of_starts(new_appliance, models):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    appliance = new_appliance()
    appliance.start()
    for name, backbone in (("large", "minilm-l6"), ("small", "bert-tiny")):
        appliance.add_tenant(name, models(backbone=backbone))
    names = {tenant: group["name"] for tenant, group in groups(appliance).items()}
    appliance.ctl("group", "update", names["large"], "--cpus", str(cpus[-1]))
    for _ in range(3):
        appliance.kill()
        appliance.start()
        wait_until(lambda: len(groups(appliance)) == 2, "the tenants are restored", 30)
        assert groups(appliance)["large"]["cpus"] == cpus[-1:] and groups(appliance)["small"]["cpus"] is None
    # A group keeps its CPUs without tenants. Others cannot have them until it gives them back.
    appliance.ctl("tenant", "remove", "large")
    with pytest.raises(CtlError, match=f"itifctl group update {names['large']} --cpus auto"):
        appliance.ctl("group", "update", names["small"], "--cpus", "-".join(map(str, cpus[-2:])))
    appliance.ctl("group", "update", names["large"], "--cpus", "auto")
    with pytest.raises(CtlError, match="there is no group"):
        appliance.ctl("group", "update", names["large"], "--cpus", "auto")
    appliance.ctl("group", "update", names["small"], "--cpus", str(cpus[-1]))


def test_a_cpu_that_the_machine_lacks_is_refused(new_appliance):
    made = new_appliance()
    made.sections["device"]["cpus"] = [0, 1000]
    status, output = made.run_to_the_end()
    assert status == 1 and "device.cpus: there is no CPU 1000: this machine has 0 to" in output


@pytest.mark.parametrize("setting, allowed", [("shares", "equal, tuned"), ("unmet_demands", "proportional, equal")])
def test_an_unknown_division_is_refused(new_appliance, setting, allowed):
    made = new_appliance()
    made.sections["device"][setting] = "fair"
    status, output = made.run_to_the_end()
    assert status == 1
    assert f"device.{setting}: 'fair' is not one of: {allowed}" in output


def test_changes_wait_until_a_knee_is_measured(tuned):
    name = groups(tuned)["idle"]["name"]
    tuned.ctl("group", "update", name, "--share", "40")
    with ThreadPoolExecutor() as pool:
        measuring = pool.submit(tuned.ctl, "group", "knee", name, "--measure")
        wait_until(lambda: tuned.ctl_json("health").get("running") == "group.measure_knee", "it measures", 10)
        changes = [pool.submit(tuned.ctl, "group", "update", name, option, value)
                   for option, value in (("--share", "60"), ("--weight", "5"))]
        wait_until(lambda: tuned.ctl_json("health")["waiting"] == 2, "the changes wait", 10)
        assert groups(tuned)["idle"]["share_percent"] != 60 and not measuring.done()
        measuring.result()
        for change in changes:
            assert "waiting for group.measure_knee" in change.result().stderr
    shown = groups(tuned)["idle"]
    assert (shown["share_percent"], shown["weight"]) == (60, 5), "the changes come after the measurement"
    for batch in tuned.ctl_json("group", "knee", name)["batches"]:
        rates = [point["requests_per_s"] for point in batch["points"]]
        assert 0 < rates[0] < 0.5 * rates[-1], batch


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
    # On the whole device the group has no competitor; its compute pool must wait as beside one.
    # Another program may disturb the points of one batch size.
    last_rates = [[point["requests_per_s"] for point in batch["points"][-2:]] for batch in measured["batches"]]
    assert any(whole > 0.5 * most for most, whole in last_rates), last_rates
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
    shutil.rmtree(kept.parent)
    kept.parent.touch()  # no directory: nothing can be saved there
    with pytest.raises(CtlError, match=f"the knee of group {name} is in use, but not saved: a restart forgets it"):
        tuned.ctl("group", "knee", name, "--measure")
    assert tuned.ctl_json("group", "knee", name)["batches"]
    with pytest.raises(CtlError, match=f"the profile of group {name} is in use, but not saved"):
        tuned.ctl("profile", "run", name)
    for wrong in ("0", "101", "much"):
        with pytest.raises(CtlError, match="--threshold"):
            tuned.ctl("group", "knee", name, "--threshold", wrong)
