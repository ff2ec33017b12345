"""A group that is made under load measures its costs without holding other operations up."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

from harness.clients import Traffic, connect, wait_until


def planner(appliance, tenant):
    (group,) = [each for each in appliance.ctl_json("group", "list")["groups"] if tenant in each["tenants"]]
    return group["name"], group["planner"]


def test_operations_do_not_wait_for_a_first_profile(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["batching"]["planner"] = "auto"
    appliance.start()
    busy = appliance.add_tenant("busy", models(backbone="minilm-l6"))
    appliance.add_tenant("small", models())
    appliance.ctl("tenant", "update", "small", "--reload")
    large_model = models(backbone="bert-medium")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        for _ in range(8):
            stack.enter_context(Traffic(stack.enter_context(connect(namespaces, busy)), tokens=128))
        adding = pool.submit(appliance.add_tenant, "large", large_model)
        wait_until(lambda: appliance.ctl_json("health").get("running") == "tenant.add", "the load begins", 10)
        began = time.monotonic()
        appliance.ctl("tenant", "rollback", "small")
        appliance.ctl("tenant", "remove", "busy")
        assert time.monotonic() - began < 50
        added = adding.result()
    with connect(namespaces, added) as client:
        assert client.infer_tokens([101, 2000, 102], "logits", timeout_s=20).payload
    name, _ = planner(appliance, "large")
    wait_until(lambda: appliance.ctl("profile", "show", name, check=False).returncode == 0, "it is measured", 120)
    wait_until(lambda: planner(appliance, "large")[1] == "auto", "the group uses the configured planner", 5)
    assert "its costs are measured later" in appliance.log()
    assert appliance.stop() == 0
