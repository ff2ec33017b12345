"""Loads and checks of tests that hand over to a new process."""

import json
import signal
import struct
import subprocess
import time

from .appliance import program
from .namespaces import SERVER_IPV4

F32 = 1e-4
IDS = [101, 2000, 2001, 102]
LONG = 20_000  # requests of a load that a test ends with finish(stop=True)


def start_loadgen(appliance, *options, enter=(), requests=3000, rate=300, lengths="uniform:8-64"):
    """A load in the background; `finish` returns its report, and with `stop` ends the sending before. `enter`: runs it
    there, over the veth; without, it is the peer of a memif."""
    # Over the veth a request is sent once, so that a request which no process accepts is lost. A
    # memif has one peer at a time: it is closed between two processes, and what the peer has sent
    # then is lost.
    tries = 1 if enter else 8
    report = appliance.directory / "loadgen.json"
    report.unlink(missing_ok=True)
    process = subprocess.Popen(
        (*enter, program("itif-loadgen"), SERVER_IPV4, "--tenants", str(appliance.directory / "tenants.json"),
         "--rate", str(rate), "--requests", str(requests), "--lengths", lengths, "--tries", str(tries),
         "--refusal-retries", "0", "--timeout", "60s", "--quiet", "--json", str(report), *options),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(stop=False):
        if stop and process.poll() is None:
            time.sleep(1)
            process.send_signal(signal.SIGINT)  # the answers still come
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return json.loads(report.read_text(encoding="utf-8"))

    return process, finish


def nothing_lost(report):
    total = report["total"]
    assert total["answered"] == total["sent"] > 0 and total["lost"] == total["refused"] == 0, total


def add_tenants(appliance, models, number=2):
    added = [appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(number)]
    (appliance.directory / "tenants.json").write_text(json.dumps(added), encoding="utf-8")
    return added


def floats(payload):
    return struct.unpack(f"<{len(payload) // 4}f", payload)


def same_answers(answers):
    """The answers to the same tokens are equal, whichever process computed them."""
    first = {}
    for token, payload in answers:
        before = first.setdefault(token, payload)
        worst = max(abs(a - b) for a, b in zip(floats(before), floats(payload)))
        assert worst <= F32, f"token {token}: off by {worst}"
    return len(answers)


def goes_on(appliance, client, pid):
    """The same process answers requests and control, and accepts changes."""
    assert appliance.process.pid == pid and appliance.alive()
    client.infer_tokens(IDS)
    appliance.ctl("tenant", "update", "t0", "--weight", "2")
    assert appliance.ctl_json("health")["status"] == "ok"


def failing(appliance, *options, status=1):
    result = appliance.ctl("handover", *options, check=False)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stderr
