"""Tenants are added, changed and removed under traffic, without losses for other tenants."""

import contextlib
import shutil

import itif_client
import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, assert_accounted, connect

IDS = [101, 2000, 2001, 102]


@contextlib.contextmanager
def bystanders(appliance, namespaces, models, count=2):
    """Traffic of other tenants, all of which must be answered."""
    added = [appliance.add_tenant(f"bystander{i}", models(seed=i + 1)) for i in range(count)]
    traffic = [Traffic(connect(namespaces, each)) for each in added]
    with contextlib.ExitStack() as stack:
        for each in traffic:
            stack.enter_context(each)
            each.wait_for(3)
        yield traffic
        for each in traffic:
            each.wait_for(3)
    for each in traffic:
        assert not each.losses and not each.refusals, (each.losses, each.refusals)


def test_adding_updating_and_removing_disturbs_no_others(appliance, namespaces, models):
    with bystanders(appliance, namespaces, models) as traffic:
        for turn in range(4):
            added = appliance.add_tenant("passing", models(seed=10 + turn))
            with connect(namespaces, added) as client:
                first = client.infer_tokens(IDS, "logits").floats()
                appliance.ctl("tenant", "update", "passing", "--model", str(models(seed=20 + turn)))
                second = client.infer_tokens(IDS, "logits").floats()
                assert first != second, "the new model answers"
            appliance.ctl("tenant", "remove", "passing")
            with connect(namespaces, added, max_silent_tries=2) as client, pytest.raises(itif_client.Lost):
                client.infer_tokens(IDS, "logits")  # an unknown tenant gets no answer
            for each in traffic:
                each.wait_for(2)
    assert_accounted(appliance)


def test_a_model_swap_under_traffic_loses_no_request(appliance, namespaces, models):
    added = appliance.add_tenant("swapped", models(seed=1))
    with Traffic(connect(namespaces, added)) as traffic:
        for turn in range(4):
            appliance.ctl("tenant", "update", "swapped", "--model", str(models(seed=2 + turn % 2)))
            traffic.wait_for(5)
    assert not traffic.losses and not traffic.refusals, (traffic.losses, traffic.refusals)


def test_pause_and_resume(appliance, namespaces, models):
    with bystanders(appliance, namespaces, models, count=1):
        added = appliance.add_tenant("paused", models(seed=5))
        with connect(namespaces, added) as client:
            assert client.infer_tokens(IDS, "logits")
            appliance.ctl("tenant", "pause", "paused")
            with pytest.raises(itif_client.Refused, match="not_admitted"):
                client.infer_tokens(IDS, "logits")
            appliance.ctl("tenant", "resume", "paused")
            assert client.infer_tokens(IDS, "logits")


def test_keys_rotate_one_generation_at_a_time(appliance, namespaces, models):
    added = appliance.add_tenant("keys", models())
    second = appliance.ctl_json("tenant", "rotate-key", "keys")
    assert second["key"] != added["key"]
    for each in (added, second):
        with connect(namespaces, each) as client:
            assert client.infer_tokens(IDS, "logits")
    third = appliance.ctl_json("tenant", "rotate-key", "keys")
    with connect(namespaces, added, max_silent_tries=2) as client:
        with pytest.raises((itif_client.Lost, itif_client.Refused)):
            client.infer_tokens(IDS, "logits", timeout_s=1)
    for each in (second, third):
        with connect(namespaces, each) as client:
            assert client.infer_tokens(IDS, "logits")


def test_a_quota_refuses_the_excess_and_says_when_to_retry(appliance, namespaces, models):
    added = appliance.add_tenant("quota", models(), "--quota-rps", "5")
    refused = []
    with connect(namespaces, added) as client:
        for turn in range(60):
            try:
                client.infer_tokens([101, 1000 + turn, 102], "logits")
            except itif_client.Refused as status:
                assert status.status == "over_quota" and status.retry_after_us > 0
                refused.append(status)
    assert refused


def test_models_that_do_not_fit_are_refused_and_nothing_changes(appliance, namespaces, models, tmp_path):
    with bystanders(appliance, namespaces, models, count=1):
        broken = tmp_path / "broken"
        broken.mkdir()
        source = models(seed=1)
        for file in source.iterdir():
            if file.is_file():
                (broken / file.name).write_bytes(file.read_bytes())
        weights = broken / "model.safetensors"
        whole = weights.read_bytes()
        for name, data in {"truncated": whole[: len(whole) // 2], "hostile": b"\xff" * 8 + whole[8:],
                           "empty": b""}.items():
            weights.write_bytes(data)
            with pytest.raises(CtlError) as error:
                appliance.add_tenant(name, broken)
            assert "model.safetensors" in str(error.value), str(error.value)
        with pytest.raises(CtlError, match="no-such"):
            appliance.add_tenant("missing", tmp_path / "no-such")
        names = [tenant["name"] for tenant in tenants(appliance)]
        assert names == ["bystander0"]


def tenants(appliance):
    answer = appliance.ctl_json("tenant", "list")
    return answer["tenants"] if isinstance(answer, dict) else answer


def test_a_full_group_is_named_when_the_next_one_starts(new_appliance, models):
    appliance = new_appliance()
    appliance.sections.setdefault("batching", {})["max_tenants"] = 2
    appliance.start()
    groups = [appliance.add_tenant(f"t{i}", models())["tenant"]["group"] for i in range(3)]
    assert groups == [groups[0], groups[0], f"{groups[0]}.2"]
    (warning,) = [line for line in appliance.log().splitlines() if " is full: " in line]
    assert f"tenant 't2' starts the group {groups[2]}, because {groups[0]} is full: all 2 slots" in warning


def test_errors_quote_taken_and_unknown_names(appliance, models):
    appliance.add_tenant("one", models())
    with pytest.raises(CtlError, match="one"):
        appliance.add_tenant("one", models())
    for command in (["show"], ["remove"], ["pause"], ["rotate-key"]):
        with pytest.raises(CtlError, match="nobody"):
            appliance.ctl("tenant", *command, "nobody")


def test_groups_store_equal_weights_once(new_appliance, namespaces, models, tmp_path):
    appliance = new_appliance()
    # Other processes then do not change the available memory.
    appliance.sections["device"]["memory"] = 900 << 20
    appliance.start()
    groups = lambda: appliance.ctl_json("group", "list")["groups"]
    weights = lambda: {group["tenants"][0]: group["weight_bytes"] for group in groups()}
    taken = lambda: (900 << 20) - appliance.ctl_json("device")["available_bytes"]
    workspaces = lambda: sum(group["workspace_bytes"] for group in groups())

    def logits(added):
        with connect(namespaces, added) as client:
            return client.infer_tokens(IDS, "logits").floats()

    nothing = taken()
    one = appliance.add_tenant("one", models(seed=1))
    expected = logits(one)
    whole = weights()["one"]
    two = appliance.add_tenant("two", shutil.copytree(models(seed=1), tmp_path / "copy"), "--group", "apart")
    assert len(groups()) == 2
    assert weights()["one"] == whole and weights()["two"] < whole / 20, "a head and no encoder"
    assert logits(two) == expected == logits(one)

    appliance.ctl("tenant", "remove", "one")
    assert weights() == {"two": whole}
    assert logits(two) == expected
    again = appliance.add_tenant("one", models(seed=1), "--group", "again")
    other = appliance.add_tenant("other", models(seed=2), "--group", "again")
    assert logits(again) == expected != logits(other)
    assert weights()["one"] < 1.1 * whole, "the other model, and a head"
    appliance.ctl("tenant", "remove", "two")
    assert logits(again) == expected
    assert 2 * whole - 8192 < weights()["one"] < 2 * whole, "both models, and the outputs of heads once"
    appliance.ctl("tenant", "remove", "other")
    assert weights() == {"one": whole}
    assert taken() - workspaces() - nothing < 1.2 * whole
    assert logits(again) == expected
    appliance.ctl("tenant", "remove", "one")
    assert taken() == nothing
    assert_accounted(appliance)
