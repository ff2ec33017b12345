"""The rights of the process: user, capabilities, no_new_privs, core dumps. Control, tenants and a handover work with
all of it."""

import grp
import os
import pwd
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from harness.appliance import CtlError
from harness.clients import Traffic, connect, wait_until
from harness.processes import each_thread

NOBODY = pwd.getpwnam("nobody")
PORT = 1 << 12 | 1 << 13  # net_admin and net_raw, to open net_af_packet
# Kept if the process may not raise its limits of locked memory and of niceness.
IPC_LOCK, SYS_NICE = 1 << 14, 1 << 23


def status_of(pid, task=None):
    text = Path(f"/proc/{pid}/task/{task}/status" if task else f"/proc/{pid}/status").read_text(encoding="utf-8")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def capabilities(status):
    return {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}


def kept(status):
    return capabilities(status)["CapEff"] & ~(IPC_LOCK | SYS_NICE)


def assert_adds_serves_and_removes(appliance, namespaces, models, name="t"):
    added = appliance.add_tenant(name, models())
    with connect(namespaces, added) as client:
        for turn in range(5):
            assert client.infer_tokens([101, 1000 + turn, 102], "logits").payload
    appliance.ctl("tenant", "rotate-key", name)
    appliance.ctl("tenant", "remove", name)


@pytest.fixture
def rooted(new_appliance):
    """An appliance whose sockets are in a folder of their own, as in /run/itif."""
    appliance = new_appliance()
    appliance.endpoint = f"ipc://{appliance.directory}/run/control.sock"
    appliance.sections["control"]["endpoint"] = appliance.endpoint
    appliance.sections["control"]["events_endpoint"] = f"ipc://{appliance.directory}/run/events.sock"
    return appliance


@pytest.fixture
def unprivileged(rooted):
    """An appliance that becomes `nobody`."""
    rooted.sections["process"] = {"user": "nobody"}
    return rooted


def test_no_new_privileges_and_no_core_dumps(appliance):
    status = status_of(appliance.process.pid)
    assert status["NoNewPrivs"] == "1"
    limits = Path(f"/proc/{appliance.process.pid}/limits").read_text(encoding="utf-8")
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]


def test_core_dumps_if_configured(new_appliance):
    appliance = new_appliance()
    appliance.sections["process"] = {"core_dumps": True}
    appliance.start()
    limits = Path(f"/proc/{appliance.process.pid}/limits").read_text(encoding="utf-8")
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    own = Path("/proc/self/limits").read_text(encoding="utf-8")
    assert core in own.splitlines(), "as itifd was started"


def test_the_user_and_the_capabilities(unprivileged, namespaces, models):
    appliance = unprivileged.start()
    pid = appliance.process.pid
    status = status_of(pid)
    assert set(status["Uid"].split()) == {str(NOBODY.pw_uid)}
    assert set(status["Gid"].split()) == {str(NOBODY.pw_gid)}
    assert len(set(capabilities(status).values())) == 1
    assert kept(status) == PORT, "for the handover's port"
    assert Path(f"/proc/{pid}/status").stat().st_uid == 0, "not dumpable: /proc is root's"
    assert_adds_serves_and_removes(appliance, namespaces, models)
    threads = threads_of(pid)
    assert {thread["Uid"].split()[1] for thread in threads} == {str(NOBODY.pw_uid)}
    workers = [thread for thread in threads if "worker" in thread["Name"]]
    assert workers and {capabilities(thread)["CapPrm"] for thread in workers} == {0}
    assert appliance.stop() == 0
    appliance.start()  # the registry is nobody's now
    assert appliance.stop() == 0


def threads_of(pid):
    return each_thread(pid, lambda task: status_of(pid, task.name))


def test_workers_of_root_have_no_capabilities(appliance, namespaces, models):
    workers = [thread for thread in threads_of(appliance.process.pid) if "worker" in thread["Name"]]
    assert workers and all(set(capabilities(thread).values()) == {0} for thread in workers)
    assert_adds_serves_and_removes(appliance, namespaces, models, "of-root")
    assert "process.user" in appliance.log(), "a warning names what an operator should set"


def test_without_handovers_no_capability_is_kept(unprivileged, namespaces, models):
    unprivileged.sections["process"]["handover"] = False
    appliance = unprivileged.start()
    assert kept(status_of(appliance.process.pid)) == 0
    assert_adds_serves_and_removes(appliance, namespaces, models)
    refused = appliance.ctl("handover", check=False)
    assert refused.returncode != 0 and "process.handover" in refused.stderr
    assert appliance.ctl("health").returncode == 0
    assert appliance.stop() == 0


def test_a_handover_of_an_unprivileged_process(unprivileged, namespaces, models):
    appliance = unprivileged.start()
    added = appliance.add_tenant("moved", models())
    with connect(namespaces, added) as client, Traffic(client) as traffic:
        wait_until(lambda: traffic.answers, "requests are answered")
        for _ in range(3):  # the third one uses the names of the first one's files
            appliance.handover()
            before = len(traffic.answers)
            wait_until(lambda before=before: len(traffic.answers) > before, "the new process answers")
            status = status_of(appliance.process.pid)
            assert set(status["Uid"].split()) == {str(NOBODY.pw_uid)}
            assert kept(status) == PORT
            wait_until(lambda: "has ended" in appliance.log().splitlines()[-1], "the old process ends")
    assert not traffic.losses
    assert_adds_serves_and_removes(appliance, namespaces, models)
    assert appliance.stop() == 0


def test_files_that_no_model_needs_may_be_unreadable(unprivileged, models):
    appliance = unprivileged.start()
    directory = Path(tempfile.mkdtemp(dir="/tmp"))  # nobody may not enter pytest's directories
    try:
        shutil.copytree(models(seed=1), directory / "model")
        directory.chmod(0o755)
        results = directory / "model" / "eval_results.json"
        results.write_text("{}", encoding="utf-8")
        results.chmod(0o600)
        appliance.add_tenant("a", directory / "model")
        (directory / "model" / "config.json").chmod(0o600)
        with pytest.raises(CtlError, match="config.json: Permission denied"):
            appliance.add_tenant("b", directory / "model")
    finally:
        shutil.rmtree(directory)


def test_a_handover_to_a_user(rooted, namespaces, models):
    appliance = rooted.start()
    appliance.add_tenant("t", models())
    appliance.sections["process"] = {"user": "nobody", "group": "nogroup"}
    appliance.write_config()
    appliance.handover()
    status = status_of(appliance.process.pid)
    assert set(status["Uid"].split()) == {str(NOBODY.pw_uid)}
    assert set(status["Gid"].split()) == {str(grp.getgrnam("nogroup").gr_gid)}
    assert_adds_serves_and_removes(appliance, namespaces, models, "u")
    assert appliance.stop() == 0


def test_a_handover_to_a_process_that_allows_none(unprivileged, namespaces, models):
    appliance = unprivileged.start()
    appliance.add_tenant("t", models())
    appliance.sections["process"]["handover"] = False
    appliance.write_config()
    appliance.handover()
    assert_adds_serves_and_removes(appliance, namespaces, models, "u")
    refused = appliance.ctl("handover", check=False)
    assert refused.returncode != 0 and "process.handover" in refused.stderr
    assert appliance.stop() == 0


def test_a_handover_that_needs_a_folder_of_root_is_refused(new_appliance, namespaces, models):
    appliance = new_appliance()  # its sockets are in a folder that others may enter
    appliance.sections["process"] = {"user": "nobody"}
    appliance.start()
    refused = appliance.ctl("handover", check=False)
    assert refused.returncode != 0 and "control.sock" in refused.stderr
    assert_adds_serves_and_removes(appliance, namespaces, models)
    assert appliance.stop() == 0


@pytest.mark.parametrize("settings, parts", [
    ({"user": "no-such-user"}, ("process.user", "no-such-user", "adduser")),
    ({"user": "nobody", "group": "no-such-group"}, ("process.group", "no-such-group")),
    ({"group": "nogroup"}, ("process.group needs process.user",)),
])
def test_a_user_that_does_not_exist_is_refused(new_appliance, settings, parts):
    appliance = new_appliance()
    appliance.sections["process"] = settings
    status, output = appliance.run_to_the_end()
    assert status == 1 and all(part in output for part in parts), output


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
def test_another_user_than_the_own_is_refused(new_appliance):
    appliance = new_appliance()
    appliance.sections["process"] = {"user": "daemon"}
    appliance.write_config()
    status, output = appliance.run_to_the_end(
        prefix=("setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups"))
    assert status == 1 and "process.user" in output and "daemon" in output, output


@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
def test_a_start_without_root_as_the_unit_does_it(rooted, namespaces, models):
    appliance = rooted
    names = "+net_admin,+net_raw,+ipc_lock"
    appliance.environment["RUNTIME_DIRECTORY"] = str(appliance.directory / "run")
    for path in (appliance.directory, appliance.directory / "run", appliance.directory / "state"):
        path.mkdir(exist_ok=True)
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
        path.chmod(0o700)
    appliance.start(("setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups",
                     f"--inh-caps=-all,{names}", f"--ambient-caps=-all,{names}", f"--bounding-set=-all,{names}"))
    assert kept(status_of(appliance.process.pid)) == PORT
    assert_adds_serves_and_removes(appliance, namespaces, models)
    appliance.handover()
    assert kept(status_of(appliance.process.pid)) == PORT
    assert_adds_serves_and_removes(appliance, namespaces, models, "u")
    assert appliance.stop() == 0


def test_the_process_still_ends_by_signals(unprivileged):
    appliance = unprivileged.start()
    appliance.process.send_signal(signal.SIGINT)
    assert appliance.process.wait(20) == 0
