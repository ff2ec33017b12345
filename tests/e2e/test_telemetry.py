"""Metrics for operators: dpdk-telemetry.py, Prometheus, itifctl."""

import json
import re
from pathlib import Path

from harness.clients import assert_accounted, connect, wait_dropped, wait_until
from harness.dpdk_tools import telemetry
from harness.namespaces import SERVER_IPV4, run


def test_dpdk_telemetry_knows_our_endpoints(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    with connect(namespaces, added) as client:
        for turn in range(5):
            client.infer_tokens([101, 1000 + turn, 102], "logits")
    listed = telemetry(appliance, "/")
    ours = {command for command in listed if command.startswith("/itif/")}
    assert ours == {"/itif/stats", "/itif/worker", "/itif/drops", "/itif/repeats", "/itif/tenants",
                    "/itif/tenant", "/itif/stages", "/itif/groups"}
    assert "/ethdev/stats" in listed
    tenant = added["tenant"]["id"]
    parameters = {"/itif/worker": ",0", "/itif/tenant": f",{tenant}", "/itif/stages": f",{tenant}"}
    for command in ours:
        assert telemetry(appliance, command + parameters.get(command, "")) is not None, command
    assert telemetry(appliance, "/itif/stats")["requests"] == 5
    assert telemetry(appliance, "/itif/tenants") == [tenant]
    assert telemetry(appliance, f"/itif/tenants,{tenant}") == [tenant]
    assert not telemetry(appliance, f"/itif/tenants,{tenant + 1}")
    assert [key.split("_")[0] for key in telemetry(appliance, "/itif/groups")] == ["0"]
    for nonsense in ("/itif/worker", "/itif/worker,99", "/itif/tenants,x", "/itif/tenant,x", "/itif/tenant,999999",
                     "/itif/stages", "/itif/stages,x", "/itif/stages,999999"):
        assert not telemetry(appliance, nonsense), nonsense


def test_prometheus_serves_the_same_figures(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["telemetry"]["prometheus"] = "127.0.0.1:9464"
    run("ip", "-n", namespaces.server, "link", "set", "lo", "up")
    appliance.start()
    added = appliance.add_tenant("scraped", models())
    appliance.add_tenant("generates", models(backbone="marian-tiny", head="none", labels=""))
    with connect(namespaces, added) as client:
        for turn in range(5):
            client.infer_tokens([101, 1000 + turn, 102], "logits")
        repeat = client.tokens([101, 1005, 102], result_kind="logits")
        client.infer(repeat)
        client.infer(repeat)
        client.send_raw(b"rubbish")
        wait_dropped(appliance, "wire_too_short", 1)
    script = ("import urllib.request as u; "
              "print(u.urlopen('http://127.0.0.1:9464/metrics', timeout=5).read().decode())")
    text = run("ip", "netns", "exec", namespaces.server, "/usr/bin/python3", "-c", script)
    assert re.search(r'^itif_\w+\{[^}]*tenant="scraped"[^}]*\} [1-9]', text, re.M), text[:3000]
    assert re.search(r'reason="wire_too_short"[^}]*\} 1$', text, re.M), text[:3000]
    counted = dict(re.findall(r'^(itif_\w+_total)\{[^}]*reason="answered_from_cache"[^}]*\} (\d+)$', text, re.M))
    assert counted == {"itif_repeated_datagrams_total": "1", "itif_tenant_repeated_datagrams_total": "1"}, text[:3000]
    blocks = dict(re.findall(r'^itif_group_kv_blocks\{[^}]*what="(\w+)"[^}]*\} (\d+)', text, re.M))
    assert int(blocks["all"]) > 0 and blocks["used"] == blocks["reserved"] == "0", text[:3000]
    assert len(re.findall(r"^itif_group_workspace_bytes\{.*\} [1-9]", text, re.M)) == 2, text[:3000]
    assert re.search(r'^itif_tenant_stage_seconds_count\{[^}]*stage="compute"[^}]*\} 6$', text, re.M), text[:3000]
    assert re.search(r'^itif_worker_busy_seconds_total\{worker="0"\} 0\.', text, re.M), text[:3000]
    assert len(re.findall(r"^itif_group_gue\{", text, re.M)) == 2
    limits = re.findall(r'^itif_group_limit\{group="([^"]+)",limit="(\w+)"\} ([01])$', text, re.M)
    assert len(limits) == 14 and sum(int(value) for _, _, value in limits) == 2, limits
    for line in text.splitlines():
        assert line.startswith("#") or not line or re.match(r"^\w+(\{.*\})? \S+$", line), line


def test_stats_add_up(appliance, namespaces, models):
    added = [appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(2)]
    for i, each in enumerate(added):
        with connect(namespaces, each) as client:
            for turn in range(3 + i):
                client.infer_tokens([101, 1000 + turn, 102], "logits")
    stats = appliance.ctl_json("stats")
    by_name = {tenant["name"]: tenant for tenant in stats["tenants"]}
    assert by_name["t0"]["answered"] == 3 and by_name["t1"]["answered"] == 4
    assert stats["total"]["answered"] == 7
    # Reading asks for publication of the histograms, so that the second read is current.
    wait_until(lambda: appliance.ctl_json("stats")["stages"]["total"]["count"] == 7, "stages are counted")
    assert stats["stages"]["compute"]["p50_us"] > 0
    for arguments in (["stats"], ["drops"], ["device"], ["health"], ["group", "list"], ["tenant", "list"]):
        table = appliance.ctl(*arguments).stdout
        assert table.strip() and "{" not in table, f"a table for people: {table}"
        json.loads(appliance.ctl("--json", *arguments).stdout)
    assert_accounted(appliance)


def test_stop_removes_the_control_socket(appliance, namespaces):
    namespaces.in_client("ping", "-c", "1", "-W", "2", SERVER_IPV4)
    assert appliance.stop() == 0
    assert not Path(appliance.endpoint.removeprefix("ipc://")).exists()
