"""A registry that is removed, emptied, replaced by an older copy, or damaged: itifd says so, serves on or does not
start, and uses no tenant id twice."""

import json
import sqlite3

import pytest
from harness.clients import connect, wait_until


def files(appliance):
    state = appliance.directory / "state"
    return state, state / "registry.db"


def health(appliance):
    return json.loads(appliance.ctl("--json", "health", check=False).stdout)


def assert_does_not_start(appliance, *parts):
    status, output = appliance.run_to_the_end()
    assert status == 1 and all(part in output for part in parts), output


def accept(appliance):
    state, _ = files(appliance)
    return appliance.ctl("registry", "accept", str(state))


@pytest.mark.parametrize("harm", ["removed", "replaced", "emptied"])
def test_a_registry_that_is_lost_while_itifd_runs(new_appliance, namespaces, models, harm):
    appliance = new_appliance().start()
    _, database = files(appliance)
    added = appliance.add_tenant("t", models())
    saved = database.with_suffix(".aside")
    if harm == "emptied":
        saved.write_bytes(database.read_bytes())
        database.write_bytes(b"")
    else:
        database.rename(saved)
    if harm == "replaced":
        database.write_bytes(saved.read_bytes())
        database.chmod(0o600)
    wait_until(lambda: harm in health(appliance)["registry"], "health says so")
    assert health(appliance)["status"] == "degraded"
    assert harm in appliance.ctl("health", check=False).stdout
    for command in (("tenant", "add", "u", "--model", str(models())), ("tenant", "rotate-key", "t"),
                    ("tenant", "pause", "t"), ("tenant", "remove", "t")):
        refused = appliance.ctl(*command, check=False)
        assert refused.returncode == 1 and harm in refused.stderr, refused.stderr
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 102], "logits").payload, "with the key that was not rotated"
    assert f"was {harm} while itifd runs" in appliance.log()
    if harm != "emptied":
        saved.rename(database)
        wait_until(lambda: health(appliance)["registry"] == "ok", "the very same file is back")
        appliance.ctl("tenant", "rotate-key", "t")
    appliance.stop()


def test_a_start_without_the_registry(new_appliance, models):
    appliance = new_appliance().start()
    _, database = files(appliance)
    first = appliance.add_tenant("t", models())
    second = appliance.add_tenant("u", models())
    assert appliance.stop() == 0
    database.unlink()
    assert_does_not_start(appliance, "registry.db is missing or empty", "ids up to 2", "itifctl registry accept")
    assert not database.exists()
    database.write_bytes(b"")
    database.chmod(0o600)
    assert_does_not_start(appliance, "registry.db is missing or empty")
    accept(appliance)
    appliance.start()
    third = appliance.add_tenant("t", models())
    assert third["tenant"]["id"] == max(first["tenant"]["id"], second["tenant"]["id"]) + 1
    refused = appliance.ctl("registry", "accept", str(database.parent), check=False)
    assert refused.returncode == 5 and "stop that itifd" in refused.stderr
    assert appliance.stop() == 0


def test_an_older_copy(new_appliance, models):
    appliance = new_appliance().start()
    _, database = files(appliance)
    appliance.add_tenant("t", models())
    assert appliance.stop() == 0
    backup = database.read_bytes()
    appliance.start()
    appliance.add_tenant("u", models())
    appliance.ctl("tenant", "rotate-key", "t")
    assert appliance.stop() == 0
    database.write_bytes(backup)
    assert_does_not_start(appliance, "is older than it was")
    accept(appliance)
    appliance.start()
    assert [one["name"] for one in appliance.ctl_json("tenant", "list")["tenants"]] == ["t"]
    assert appliance.add_tenant("v", models())["tenant"]["id"] == 3
    appliance.handover()
    assert appliance.add_tenant("w", models())["tenant"]["id"] == 4
    assert appliance.stop() == 0


def test_a_changed_row(new_appliance, models):
    appliance = new_appliance().start()
    _, database = files(appliance)
    appliance.add_tenant("t", models())
    assert appliance.stop() == 0
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE tenant SET weight = 7")
    connection.close()
    assert_does_not_start(appliance, "table tenant with id = 1", "does not match its checksum")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE tenant SET weight = 8, checksum = 'edited'")
    connection.close()
    appliance.start()
    assert "edited by hand" in appliance.log()
    assert appliance.ctl_json("tenant", "show", "t")["tenant"]["weight"] == 8
    assert appliance.stop() == 0
