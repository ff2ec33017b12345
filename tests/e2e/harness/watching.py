"""Stages of a tenant's requests, and limits of groups, as itifctl shows them."""

STAGES = ["reassembly", "verify", "intake", "queue", "plan", "launch", "compute", "respond", "send", "total"]


def stages_of(appliance, name):
    document = appliance.ctl_json("tenant", "stages", name)
    assert [stage["stage"] for stage in document["stages"]] == STAGES
    return document["requests"], {stage["stage"]: stage for stage in document["stages"]}


def limit_of(appliance, group=None, interval="1s"):
    groups = appliance.ctl_json("bottleneck", *([group] if group else []), "--interval", interval)["groups"]
    assert len(groups) == 1 or group is None
    return groups[0]
