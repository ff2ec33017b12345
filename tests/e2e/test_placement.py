"""Tenants are in the groups in which they were: after kills, starts and handovers, whichever model loads first."""

import sqlite3

import pytest
from harness.clients import connect, wait_until


def groups(appliance):
    listed = appliance.ctl_json("group", "list")["groups"]
    return sorted((each["name"], sorted(each["tenants"]), each["share_percent"]) for each in listed)


def restart(appliance, count):
    appliance.kill()
    appliance.start()
    wait_until(lambda: loaded(appliance) == count, "the tenants are restored", 60)


def loaded(appliance):
    tenants = appliance.ctl_json("tenant", "list")["tenants"]
    return sum(each["state"] in ("serving", "paused") for each in tenants)


@pytest.mark.parametrize("large", ["x", "y"])
def test_a_restart_merges_no_groups(new_appliance, models, large):
    """A large vocabulary takes longer to load."""
    appliance = new_appliance().start()
    vocab = {name: 60000 if name == large else 3000 for name in ("x", "y")}
    appliance.add_tenant("x", models(backbone=f"bert-tiny --vocab {vocab['x']}"))
    name = groups(appliance)[0][0]
    appliance.ctl("group", "update", name, "--share", "70")
    appliance.add_tenant("y", models(backbone=f"bert-tiny --vocab {vocab['y']}"), "--group", "own")
    before = groups(appliance)
    assert before == sorted([(name, ["x"], 70.0), ("own", ["y"], 30.0)])
    for _ in range(3):
        restart(appliance, 2)
        assert groups(appliance) == before
    for _ in range(2):
        appliance.handover()
        assert groups(appliance) == before
    restart(appliance, 2)
    assert groups(appliance) == before
    assert appliance.stop() == 0


def test_a_restart_splits_no_group(new_appliance, namespaces, models):
    """The group is made for a model with a large vocabulary, and again when a smaller one loads first."""
    appliance = new_appliance().start()
    appliance.add_tenant("large", models(backbone="bert-tiny --vocab 60000"), "--group", "own")
    added = appliance.add_tenant("small", models())
    chosen = appliance.add_tenant("chosen", models(seed=2), "--group", "own")
    before = groups(appliance)
    assert before == [("own", ["chosen", "large", "small"], 100.0)]
    for _ in range(2):
        restart(appliance, 3)
        assert groups(appliance) == before
    appliance.handover()
    assert groups(appliance) == before
    appliance.ctl("tenant", "remove", "large")
    restart(appliance, 2)
    assert groups(appliance) == [("own", ["chosen", "small"], 100.0)]
    for each in (added, chosen):
        with connect(namespaces, each) as client:
            assert client.infer_tokens([101, 2000, 102], "logits").payload
    assert appliance.stop() == 0


def test_a_registry_without_placements(new_appliance, models):
    """Registries of schema version 9 do not say where tenants were placed."""
    appliance = new_appliance().start()
    appliance.add_tenant("x", models(backbone="bert-tiny --vocab 60000"))
    appliance.add_tenant("y", models(), "--group", "own")
    before = groups(appliance)
    for _ in range(2):
        assert appliance.stop() == 0
        with sqlite3.connect(appliance.directory / "state" / "registry.db") as database:
            database.execute("UPDATE tenant SET placed_group = '', placed_vocab = 0, checksum = 'edited'")
        database.close()
        appliance.start()
        wait_until(lambda: loaded(appliance) == 2, "the tenants are restored", 60)
        assert groups(appliance) == before
        with sqlite3.connect(appliance.directory / "state" / "registry.db") as database:
            rows = database.execute("SELECT name, placed_group FROM tenant ORDER BY id").fetchall()
        database.close()
        assert rows == [("x", before[0][0]), ("y", "own")]
    assert appliance.stop() == 0
