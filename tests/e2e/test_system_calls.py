"""The filter of system calls: every thread has it. Control, tenants and a handover work with it."""

import os

import pytest
from test_process import assert_adds_serves_and_removes, status_of


@pytest.mark.parametrize("mode", ["refuse", "kill"])
def test_the_filter_of_system_calls(new_appliance, namespaces, models, mode):
    appliance = new_appliance()
    appliance.sections["process"] = {"seccomp": mode}
    appliance.start()
    pid = appliance.process.pid
    filtered = {status_of(pid, task)["Seccomp"] for task in os.listdir(f"/proc/{pid}/task")}
    assert filtered == {"2"}, "every thread"
    assert_adds_serves_and_removes(appliance, namespaces, models)
    appliance.handover()
    assert_adds_serves_and_removes(appliance, namespaces, models)
    assert appliance.stop() == 0


def test_without_the_filter(new_appliance):
    appliance = new_appliance()
    appliance.sections["process"] = {"seccomp": "off"}
    appliance.start()
    assert status_of(appliance.process.pid)["Seccomp"] == "0"
    assert appliance.stop() == 0


def test_a_filter_that_is_unknown_is_refused(new_appliance):
    appliance = new_appliance()
    appliance.sections["process"] = {"seccomp": "strict"}
    status, output = appliance.run_to_the_end()
    assert status == 1 and "process.seccomp: 'strict' is not one of" in output
