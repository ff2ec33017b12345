"""A failed start prints one line that names the cause and the remedy, and ends with an exit status."""

import os
import socket
import subprocess
from pathlib import Path

import pytest
from harness.appliance import HUGEPAGES, program
from harness.namespaces import SERVER_IPV4, run


def refusal(appliance, *parts, prefix=()):
    """The one error line of an itifd that does not start; it must contain all of `parts`."""
    status, output = appliance.run_to_the_end(prefix=prefix)
    assert status not in (0, None) and status > 0, f"exit status {status}\n{output}"
    errors = [line for line in output.splitlines() if "error" in line]
    assert len(errors) == 1, f"not one error line:\n{output}"
    for part in parts:
        assert part.lower() in errors[0].lower(), f"'{part}' is not in: {errors[0]}"
    return errors[0]


def test_configuration_errors_name_file_line_and_key(new_appliance):
    appliance = new_appliance()
    appliance.sections["batching"]["max_tokns"] = 5
    refusal(appliance, str(appliance.config_path), "batching.max_tokns", "unknown key")


def test_a_missing_configuration(new_appliance):
    result = subprocess.run((program("itifd"), "--config", "/nonexistent.conf"), capture_output=True,
                            text=True, timeout=20, check=False)
    assert result.returncode > 0
    assert "/nonexistent.conf" in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_config_check_finds_the_same(new_appliance):
    appliance = new_appliance()
    appliance.write_config()
    assert appliance.ctl("config", "check", str(appliance.config_path)).returncode == 0
    appliance.sections["device"]["kind"] = "abacus"
    appliance.write_config()
    result = appliance.ctl("config", "check", str(appliance.config_path), check=False)
    assert result.returncode > 0 and "device.kind" in result.stdout + result.stderr


def test_a_missing_interface(new_appliance):
    appliance = new_appliance()
    appliance.eal[-1] = "--vdev=net_af_packet0,iface=nosuchlink"
    refusal(appliance, "net_af_packet0")


def test_a_missing_port(new_appliance):
    appliance = new_appliance()
    appliance.port["device"] = "net_af_packet7"
    refusal(appliance, "net_af_packet7")


def test_an_unknown_eal_argument(new_appliance):
    appliance = new_appliance()
    appliance.eal.append("--no-such-argument")
    refusal(appliance, "eal")


def test_a_busy_control_socket(appliance, new_appliance):
    second = new_appliance()
    second.sections["control"]["endpoint"] = appliance.endpoint
    line = refusal(second, "control.sock")
    assert "running" in line or "in use" in line or "another" in line
    assert appliance.ctl("health").returncode == 0, "the first one is unharmed"


def test_a_socket_left_by_a_killed_process_is_taken_over(appliance):
    appliance.kill()
    assert Path(appliance.endpoint.removeprefix("ipc://")).exists()
    appliance.start()


def test_a_busy_prometheus_port(new_appliance, namespaces):
    appliance = new_appliance()
    appliance.sections["telemetry"]["prometheus"] = "127.0.0.1:9464"
    run("ip", "-n", namespaces.server, "link", "set", "lo", "up")
    import harness.namespaces as module
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    module._enter(f"/var/run/netns/{namespaces.server}")
    try:
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 9464))
        taken.listen()
    finally:
        module._libc.setns(home, module.CLONE_NEWNET)
        os.close(home)
    with taken:
        refusal(appliance, "127.0.0.1:9464", "in use")


@pytest.mark.skipif(not HUGEPAGES, reason="no hugepages on this machine to hide from itifd")
def test_no_hugepages(new_appliance, namespaces):
    """A mount namespace without hugetlbfs, as on a new machine. itifd serves, and one line gives the cost and the
    remedy."""
    appliance = new_appliance()
    script = 'umount -a -t hugetlbfs; exec "$@"'
    appliance.start(prefix=("unshare", "--mount", "sh", "-c", script, "sh"))
    lines = [line for line in appliance.log().splitlines() if "without hugepages" in line]
    assert len(lines) == 1 and "mount -t hugetlbfs" in lines[0], appliance.log()
    namespaces.in_client("ping", "-c", "1", "-W", "2", SERVER_IPV4)


def test_no_permission(new_appliance):
    appliance = new_appliance()
    os.chmod(appliance.directory, 0o777)
    (appliance.directory / "state").mkdir(mode=0o777, exist_ok=True)
    os.chmod(appliance.directory / "state", 0o777)
    refusal(appliance, prefix=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))


def test_a_state_directory_that_cannot_be_created(new_appliance):
    appliance = new_appliance()
    blocker = appliance.directory / "file"
    blocker.write_text("not a directory", encoding="utf-8")
    appliance.write_config()
    text = appliance.config_path.read_text(encoding="utf-8")
    appliance.config_path.write_text(text.replace('/state"', '/file/state"'), encoding="utf-8")
    appliance.launch(write_config=False)
    assert appliance.process.wait(30) > 0
    assert "/file/state" in appliance.log()


def fill(path):
    """Writes until the disk is full."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        for size in (4096, 1):
            while os.write(fd, bytes(size)):
                pass
    except OSError:
        pass
    finally:
        os.close(fd)


def test_a_full_disk(new_appliance, models):
    """The registry on a small, full file system. Adding a tenant reports it, and the appliance keeps working."""
    appliance = new_appliance()
    state = appliance.directory / "small"
    state.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(state))
    try:
        appliance.sections["control"]["state_dir"] = str(state)
        appliance.start()
        added = appliance.add_tenant("before", models(seed=1))
        fill(state / "filler")
        failed = None
        for turn in range(40):  # SQLite's allocated pages may hold a few more rows
            result = appliance.ctl("tenant", "add", f"t{turn}", "--model", str(models(seed=1)), check=False)
            if result.returncode != 0:
                failed = result
                break
        assert failed is not None, "the disk never filled"
        message = (failed.stdout + failed.stderr).strip()
        assert len(message.splitlines()) == 1, message
        assert "full" in message or "space" in message, message
        (state / "filler").unlink()
        assert appliance.ctl("tenant", "add", "after", "--model", str(models(seed=1))).returncode == 0
        assert added["tenant"]["name"] == "before"
    finally:
        appliance.kill()
        subprocess.run(("umount", "-l", str(state)), check=False)
