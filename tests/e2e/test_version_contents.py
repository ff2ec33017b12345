"""A version's number always means the same contents: files that are replaced after their installation."""

import json
import os
import shutil
import subprocess

import pytest
from harness import appliance as appliance_module
from harness.appliance import CtlError
from harness.clients import connect, wait_until
from harness.namespaces import run
from test_versions import FAR, IDS, ask, distance, states, versions, with_samples

CHANGED = "has other contents than when version"


def replace(directory, source, *, older=True):
    """Replaces a model's files as cp -p, rsync -a or tar do: the files' times are older than the installation."""
    for file in source.iterdir():
        copy = directory / f"{file.name}.new"
        shutil.copyfile(file, copy)
        if older:
            os.utime(copy, (1_600_000_000, 1_600_000_000))
        copy.rename(directory / file.name)


def touch(directory):
    for file in directory.iterdir():
        file.touch()


def restart(appliance):
    appliance.kill()
    appliance.launch()
    wait_until(lambda: appliance.ctl("tenant", "list", check=False).returncode == 0, "itifd", 30)
    wait_until(lambda: appliance.ctl_json("health", check=False)["status"] != "restoring", "its tenants", 30)


def warnings(appliance, seen=0):
    return [line for line in appliance.log()[seen:].splitlines() if CHANGED in line]


def digests(appliance, name):
    return {each["version"]: each.get("digest") for each in versions(appliance, name)}


@pytest.fixture
def copies(models, tmp_path):
    """copies(name, seed): a directory of its own with the model of a seed."""

    def copy(name, seed=1):
        return shutil.copytree(models(seed=seed), tmp_path / name)

    return copy


@pytest.fixture(scope="module")
def answers(models):
    """answers(seed): the logits that itif-run computes from the files of a seed."""
    known = {}

    def of(seed):
        if seed not in known:
            line = json.dumps({"ids": IDS, "kind": "logits"}) + "\n"
            made = subprocess.run((appliance_module.program("itif-run"), "--model", str(models(seed=seed)), "--samples"),
                                  capture_output=True, text=True, check=True, input=line).stdout
            known[seed] = json.loads(made)["expect"]["values"]
        return known[seed]

    return of


def logits(client):
    answer = ask(client, kind="logits")
    return answer.model_version, answer.floats()


def test_versions_show_their_digests(appliance, copies, models):
    appliance.add_tenant("shown", copies("shown"))
    appliance.ctl("tenant", "update", "shown", "--model", str(models(seed=1)))
    appliance.ctl("tenant", "update", "shown", "--model", str(models(seed=2)))
    shown = digests(appliance, "shown")
    assert all(len(digest) == 64 for digest in shown.values()), shown
    assert shown[1] == shown[2] != shown[3], "the digest is that of the contents"
    table = appliance.ctl("tenant", "versions", "shown").stdout
    assert "DIGEST" in table and f" {shown[3][:12]} " in table and shown[3][:13] not in table, table


@pytest.mark.parametrize("how", ("restart", "handover"))
def test_replaced_files_are_a_new_version(appliance, namespaces, models, copies, answers, how):
    directory = copies("changed")
    added = appliance.add_tenant("changed", directory)
    other = appliance.add_tenant("other", copies("other"))
    before = digests(appliance, "changed")[1]
    replace(directory, models(seed=2))
    sample = {"ids": IDS, "kind": "logits", "expect": {"values": answers(2), "tolerance": FAR}}
    (directory / "itif-samples.jsonl").write_text(json.dumps(sample) + "\n", encoding="utf-8")
    with connect(namespaces, added) as client, connect(namespaces, other) as beside:
        assert logits(client)[0] == 1 and distance(logits(client)[1], answers(1)) < FAR
        seen = len(appliance.log())
        if how == "handover":
            appliance.handover()
        else:
            restart(appliance)
        version, values = logits(client)
        assert version == 2 and distance(values, answers(2)) < FAR
        assert logits(beside)[0] == 1
    told = warnings(appliance, seen)
    assert len(told) == 1, told
    assert f"tenant 'changed': {directory} {CHANGED} 1 was installed: they serve as version 2" in told[0]
    assert states(appliance, "changed") == [(2, "active"), (1, "previous")]
    shown = digests(appliance, "changed")
    assert shown[1] == before != shown[2]
    seen = len(appliance.log())
    restart(appliance)
    assert not warnings(appliance, seen)
    assert states(appliance, "changed") == [(2, "active"), (1, "previous")]
    assert appliance.ctl_json("tenant", "update", "changed", "--reload")["tenant"]["version"] == 3


def test_touched_files_are_the_same_version(appliance, namespaces, copies):
    directory = copies("same")
    added = appliance.add_tenant("same", directory)
    for turn in range(2):
        touch(directory)
        (directory / "README.md").write_text(f"turn {turn}")
        if turn == 0:
            restart(appliance)
        else:
            appliance.handover()
        with connect(namespaces, added) as client:
            assert logits(client)[0] == 1
    replace(directory, copies("equal"))
    restart(appliance)
    assert states(appliance, "same") == [(1, "active")]
    assert not warnings(appliance)


def test_replaced_files_that_fail_their_samples_fail_the_tenant(appliance, namespaces, models, copies, answers,
                                                                tmp_path):
    sample = {"ids": IDS, "kind": "logits", "expect": {"values": answers(1), "tolerance": FAR}}
    directory = with_samples(models(seed=1), tmp_path / "checked", sample)
    added = appliance.add_tenant("checked", directory)
    other = appliance.add_tenant("other", copies("other"))
    replace(directory, models(seed=2))
    restart(appliance)
    shown = appliance.ctl_json("tenant", "show", "checked")["tenant"]
    assert shown["state"] == "failed" and shown["version"] == 1
    for part in (str(directory), CHANGED + " 1", "jsonl:1"):
        assert part in shown["message"], shown
    assert states(appliance, "checked") == [(1, "active")]
    with connect(namespaces, other) as beside:
        assert logits(beside)[0] == 1
    with pytest.raises(CtlError, match="jsonl:1"):
        appliance.ctl("tenant", "resume", "checked")
    replace(directory, models(seed=1))
    appliance.ctl("tenant", "resume", "checked")
    with connect(namespaces, added) as client:
        version, values = logits(client)
        assert version == 1 and distance(values, answers(1)) < FAR


def test_a_handover_to_files_that_fail_their_samples_changes_nothing(appliance, namespaces, models, answers, tmp_path):
    sample = {"ids": IDS, "kind": "logits", "expect": {"values": answers(1), "tolerance": FAR}}
    directory = with_samples(models(seed=1), tmp_path / "checked", sample)
    added = appliance.add_tenant("checked", directory)
    replace(directory, models(seed=2))
    with pytest.raises(CtlError, match="'checked' cannot be loaded.*jsonl:1"):
        appliance.ctl("handover")
    with connect(namespaces, added) as client:
        version, values = logits(client)
        assert version == 1 and distance(values, answers(1)) < FAR
    assert states(appliance, "checked") == [(1, "active")]


def test_a_rollback_to_replaced_files_is_refused(appliance, namespaces, models, copies, answers):
    old = copies("old")
    added = appliance.add_tenant("back", old)
    appliance.ctl("tenant", "update", "back", "--model", str(models(seed=2)))
    assert [each["loaded"] for each in versions(appliance, "back")] == [True, True]
    restart(appliance)
    assert [each["loaded"] for each in versions(appliance, "back")] == [True, False]
    replace(old, models(seed=3))
    before = versions(appliance, "back")
    with connect(namespaces, added) as client:
        with pytest.raises(CtlError, match=f"{old} {CHANGED} 1 .*itifctl tenant update back --model {old}"):
            appliance.ctl("tenant", "rollback", "back")
        assert versions(appliance, "back") == before
        version, values = logits(client)
        assert version == 2 and distance(values, answers(2)) < FAR
        replace(old, models(seed=1))
        appliance.ctl("tenant", "rollback", "back")
        version, values = logits(client)
        assert version == 1 and distance(values, answers(1)) < FAR
    assert states(appliance, "back") == [(2, "rolled_back"), (1, "active")]


def test_a_replaced_canary_is_a_new_canary(appliance, namespaces, models, copies, answers):
    added = appliance.add_tenant("tried", models(seed=1))
    directory = copies("canary", seed=2)
    appliance.ctl("tenant", "update", "tried", "--model", str(directory), "--canary", "50%")
    replace(directory, models(seed=3))
    restart(appliance)
    assert states(appliance, "tried") == [(3, "canary"), (2, "rolled_back"), (1, "active")]
    with connect(namespaces, added) as client:
        given = dict(logits(client) for _ in range(60))
    assert set(given) == {1, 3}
    assert distance(given[1], answers(1)) < FAR and distance(given[3], answers(3)) < FAR


def failed(appliance, name):
    shown = appliance.ctl_json("tenant", "show", name)["tenant"]
    assert shown["state"] == "failed", shown
    return shown["message"]


def test_files_of_a_canary_do_not_become_active(appliance, namespaces, models, copies, answers):
    """The active version's files are replaced by those of its canary, which is to answer a tenth of the requests."""
    directory = copies("reloaded")
    added = appliance.add_tenant("reloaded", directory)
    replace(directory, models(seed=2))
    appliance.ctl("tenant", "update", "reloaded", "--reload", "--canary", "10%")
    lost = f"{directory} held other contents than version 1, which is active, when version 2 was installed"
    assert lost in appliance.log()
    assert lost in appliance.ctl_json("tenant", "show", "reloaded")["tenant"]["warning"]
    with connect(namespaces, added) as client:
        with pytest.raises(CtlError, match="'reloaded' cannot be loaded.*version 2, which is the canary"):
            appliance.ctl("handover")
        given = dict(logits(client) for _ in range(100))
        assert set(given) == {1, 2} and distance(given[1], answers(1)) < FAR
        restart(appliance)
        message = failed(appliance, "reloaded")
        for part in (CHANGED + " 1", "version 2, which is the canary", "tenant promote reloaded"):
            assert part in message, message
        assert states(appliance, "reloaded") == [(2, "canary"), (1, "active")]
        replace(directory, models(seed=1))
        appliance.ctl("tenant", "resume", "reloaded")  # now the canary's files are gone
        assert states(appliance, "reloaded") == [(2, "canary"), (1, "active")]
        assert {logits(client)[0] for _ in range(60)} == {1}
        message = appliance.ctl_json("tenant", "show", "reloaded")["tenant"]["canary_message"]
        assert "those of version 1, which is active" in message, message
        replace(directory, models(seed=2))
        restart(appliance)
        appliance.ctl("tenant", "promote", "reloaded")
        version, values = logits(client)
        assert version == 2 and distance(values, answers(2)) < FAR
    assert states(appliance, "reloaded") == [(2, "active"), (1, "previous")]


@pytest.mark.parametrize("how", ("restart", "handover"))
def test_files_that_were_rolled_back_do_not_become_active(appliance, namespaces, models, copies, answers, how):
    directory = copies("returned")
    added = appliance.add_tenant("returned", directory)
    replace(directory, models(seed=2))
    appliance.ctl("tenant", "update", "returned", "--reload")
    warned = appliance.ctl("tenant", "rollback", "returned").stderr
    assert f"warning: {directory} held other contents than version 1, which is active, when version 2 was" in warned
    with connect(namespaces, added) as client:
        assert logits(client)[0] == 1
        if how == "handover":
            with pytest.raises(CtlError, match="'returned' cannot be loaded.*version 2, which was rolled back"):
                appliance.ctl("handover")
            version, values = logits(client)
            assert version == 1 and distance(values, answers(1)) < FAR
            return
        restart(appliance)
        message = failed(appliance, "returned")
        for part in (CHANGED + " 1", "version 2, which was rolled back", "tenant update returned --reload"):
            assert part in message, message
        assert states(appliance, "returned") == [(2, "rolled_back"), (1, "active")]
        appliance.ctl("tenant", "update", "returned", "--reload")
        version, values = logits(client)
        assert version == 3 and distance(values, answers(2)) < FAR
        # An admin has chosen these contents after the rollback.
        replace(directory, models(seed=4))
        restart(appliance)
        replace(directory, models(seed=2))
        restart(appliance)
        version, values = logits(client)
        assert version == 5 and distance(values, answers(2)) < FAR


def test_a_replaced_base_is_a_new_version_of_its_adapters(appliance, namespaces, models, copies, tmp_path):
    adapter = tmp_path / "adapter"
    run(appliance_module.program("itif-mkmodel"), "--backbone", "bert-tiny", "--lora-rank", "8", "--seed", "5", "--out",
        str(adapter))
    base = copies("base")
    adapted = appliance.add_tenant("adapted", adapter, "--base", str(base))
    plain = appliance.add_tenant("plain", base)
    with connect(namespaces, adapted) as client:
        before = logits(client)
    replace(base, models(seed=2))
    restart(appliance)
    told = warnings(appliance)
    assert len(told) == 2 and any(f"tenant 'adapted': {adapter} over {base} {CHANGED} 1" in line for line in told), told
    for name, added in (("adapted", adapted), ("plain", plain)):
        assert states(appliance, name) == [(2, "active"), (1, "previous")]
        with connect(namespaces, added) as client:
            after = logits(client)
            assert after[0] == 2
            assert name == "plain" or distance(after[1], before[1]) > FAR
    (adapter / "adapter_config.json").touch()
    replace(base, models(seed=2), older=False)
    seen = len(appliance.log())
    restart(appliance)
    assert not warnings(appliance, seen)
