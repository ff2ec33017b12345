"""All planners give the same answers, and can be changed under traffic."""

import json

import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, assert_accounted, connect, wait_until

PLANNERS = ["naive", "turbo", "itif", "joint", "auto", "concat", "slotted:row_tokens=256,slot_tokens=64", "packed"]
# Policies that fill rows and slots, with planners that take them.
ROW_POLICIES = [("concat:row_tokens=256", "das"), ("slotted:row_tokens=256", "slotted_das")]
# Each planner lays these lengths out differently.
REQUESTS = [[101, *range(2000, 2000 + length), 102] for length in (1, 60, 7, 30, 2, 61)]


def group_of(appliance):
    (group,) = appliance.ctl_json("group", "list")["groups"]
    return group


def test_every_planner_gives_the_same_answers_under_traffic(appliance, namespaces, models):
    added = [appliance.add_tenant(f"tenant{i}", models(seed=i + 1)) for i in range(3)]
    name = group_of(appliance)["name"]
    with connect(namespaces, added[0]) as client:
        expected = [client.infer_tokens(ids, "logits").floats() for ids in REQUESTS]
    traffic = [Traffic(connect(namespaces, each)) for each in added[1:]]
    with traffic[0], traffic[1], connect(namespaces, added[0]) as client:
        for planner, scheduler in [(planner, "fair") for planner in PLANNERS] + ROW_POLICIES:
            updated = appliance.ctl_json("group", "update", name, "--planner", planner, "--scheduler", scheduler)
            assert (updated["planner"], updated["scheduler"]) == (planner, scheduler)
            assert group_of(appliance)["planner"] == planner
            for ids, logits in zip(REQUESTS, expected):
                assert client.infer_tokens(ids, "logits").floats() == pytest.approx(logits, abs=0.03)
            for each in traffic:
                each.wait_for(3)
        appliance.ctl("profile", "run", name)
    for each in traffic:
        assert not each.losses and not each.refusals, (each.losses, each.refusals)
    assert_accounted(appliance)


def test_auto_shows_what_it_compared(appliance, namespaces, models):
    added = [appliance.add_tenant(f"tenant{i}", models(seed=i + 1)) for i in range(2)]
    name = group_of(appliance)["name"]
    appliance.ctl("group", "update", name, "--planner", "auto")
    with connect(namespaces, added[0]) as client:
        for ids in REQUESTS:
            client.infer_tokens(ids, "logits")
    count = lambda: sum(batch["requests"] for batch in appliance.ctl_json("group", "planner", name)["batches"])
    wait_until(lambda: count() == len(REQUESTS), "all batches are counted")
    shown = appliance.ctl_json("group", "planner", name)
    assert shown["planner"] == "auto"
    for batch in shown["batches"]:
        predicted = {offer["planner"]: offer["predicted_ns"] for offer in batch["offers"]}
        assert set(predicted) == {"packed", "turbo", "itif", "joint"}
        assert predicted[batch["planner"]] == min(predicted.values()) > 0
        assert batch["execute_ns"] > 0 and batch["rows"] == batch["tokens"]
    table = appliance.ctl("group", "planner", name).stdout
    assert "uses planner auto" in table and "*" in table
    appliance.ctl("group", "update", name, "--planner", "turbo")
    with connect(namespaces, added[1]) as client:
        client.infer_tokens(REQUESTS[0], "logits")
    last = lambda: appliance.ctl_json("group", "planner", name)["batches"][-1]
    wait_until(lambda: last()["planner"] == "turbo", "the last batch is counted")
    assert last()["offers"] == []


def test_padding_is_counted(appliance, namespaces, models):
    added = appliance.add_tenant("only", models())
    appliance.ctl("group", "update", group_of(appliance)["name"], "--planner", "naive")
    with connect(namespaces, added) as client:
        for ids in REQUESTS:
            client.infer_tokens(ids, "logits")
    wait_until(lambda: group_of(appliance)["requests"] == len(REQUESTS), "all batches are counted")
    group = group_of(appliance)
    assert group["tokens"] == sum(len(ids) for ids in REQUESTS)
    assert group["rows"] == group["tokens"], "a batch of one request needs no padding"
    assert "PADDING" in appliance.ctl("group", "list").stdout


def test_the_planner_and_the_profile_survive_a_restart(appliance, models):
    appliance.add_tenant("only", models())
    name = group_of(appliance)["name"]
    shown = appliance.ctl_json("profile", "show", name)
    assert shown["gemm_ns"] and shown["lengths"] and name.startswith("bert-")
    appliance.ctl("group", "update", name, "--planner", "itif")
    appliance.stop()
    (kept,) = (appliance.directory / "state" / "profiles").iterdir()
    appliance.start()
    assert group_of(appliance)["planner"] == "itif"
    assert appliance.ctl_json("profile", "show", name) == shown
    # A damaged profile is measured again, while the group serves.
    appliance.stop()
    kept.write_text(kept.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    appliance.start()
    wait_until(lambda: group_of(appliance)["planner"] == "itif", "the costs are measured", 60)
    assert appliance.ctl_json("profile", "show", name)["gemm_ns"] != shown["gemm_ns"]


def test_the_rows_and_slots_of_a_planner_survive_a_restart(appliance, namespaces, models):
    added = appliance.add_tenant("only", models())
    name = group_of(appliance)["name"]
    planner = "slotted:row_tokens=256,slot_tokens=64"
    appliance.ctl("group", "update", name, "--planner", planner)
    for refused, said in (("concat:row_tokens=10000000", "row_tokens"), ("concat:slot_tokens=8", "slot_tokens")):
        with pytest.raises(CtlError) as error:
            appliance.ctl("group", "update", name, "--planner", refused)
        assert said in str(error.value)
    appliance.stop()
    appliance.start()
    assert group_of(appliance)["planner"] == planner
    with connect(namespaces, added) as client:
        for ids in REQUESTS:
            client.infer_tokens(ids, "logits")
    wait_until(lambda: group_of(appliance)["requests"] == len(REQUESTS), "all batches are counted")
    group = group_of(appliance)
    assert group["rows"] == 64 * len(REQUESTS), "each request fills a slot"


@pytest.mark.parametrize("command, said", [
    (("group", "update", "none", "--planner", "itif"), "no group 'none'"),
    (("group", "planner", "none"), "no group 'none'"),
    (("profile", "show", "none"), "no group 'none'"),
    (("profile", "run", "none"), "no group 'none'"),
    (("group", "update", "none", "--planner", "best"), "best"),
])
def test_errors_quote_wrong_names(appliance, command, said):
    with pytest.raises(CtlError) as error:
        appliance.ctl(*command)
    assert said in str(error.value), json.dumps(str(error.value))
