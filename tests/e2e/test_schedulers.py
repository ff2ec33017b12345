"""All schedulers answer every request, and can be changed under traffic."""

import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, assert_accounted, connect

SCHEDULERS = ["fcfs", "lcfs", "sjf", "edf", "das", "das:eta=0.3,weighted,fair", "slotted_das", "fair"]


def group_of(appliance):
    (group,) = appliance.ctl_json("group", "list")["groups"]
    return group


def test_every_scheduler_answers_under_traffic(appliance, namespaces, models):
    added = [appliance.add_tenant(f"tenant{i}", models(seed=i + 1)) for i in range(3)]
    name = group_of(appliance)["name"]
    traffic = [Traffic(connect(namespaces, each)) for each in added]
    with traffic[0], traffic[1], traffic[2]:
        for scheduler in SCHEDULERS:
            said = appliance.ctl_json("group", "update", name, "--scheduler", scheduler)
            assert said == {"group": name, "scheduler": scheduler}
            assert group_of(appliance)["scheduler"] == scheduler
            for each in traffic:
                each.wait_for(3)
    for each in traffic:
        assert not each.losses and not each.refusals, (each.losses, each.refusals)
    assert_accounted(appliance)


def test_the_scheduler_survives_a_restart(appliance, models):
    appliance.add_tenant("only", models())
    name = group_of(appliance)["name"]
    assert group_of(appliance)["scheduler"] == "fair"
    appliance.ctl("group", "update", name, "--scheduler", "das:eta=0.25", "--planner", "turbo")
    appliance.stop()
    appliance.start()
    group = group_of(appliance)
    assert (group["scheduler"], group["planner"]) == ("das:eta=0.25", "turbo")


@pytest.mark.parametrize("scheduler, said", [
    ("best", "'best' is not one of: fair, fcfs, lcfs, sjf, edf, das, slotted_das"),
    ("edf:eta=0.5", "'edf' has no setting 'eta=0.5'"),
    ("das:eta=1.5", "eta is '1.5': use a number between 0 and 1"),
])
def test_errors_name_what_is_wrong(appliance, scheduler, said):
    with pytest.raises(CtlError) as error:
        appliance.ctl("group", "update", "none", "--scheduler", scheduler)
    assert said in str(error.value)
