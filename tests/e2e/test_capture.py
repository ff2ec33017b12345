"""dpdk-dumpcap and dpdk-telemetry.py on a running appliance, and the EAL arguments that disable them: one test for
each cell of the table in docs/operations.md."""

import re
import time
from pathlib import Path

import pytest
from harness.appliance import HUGEPAGES, UDP_PORT
from harness.captures import read_frames, udp_of
from harness.clients import Recorder, connect, stranger
from harness.dpdk_tools import dumpcap, telemetry
from harness.namespaces import CLIENT_IPV4, SERVER_IPV4
from itif_client import NO_CACHE

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
MARK = b"seen by dumpcap"
needs_hugepages = pytest.mark.skipif(
    not HUGEPAGES, reason="no hugepages: dpdk-dumpcap is a secondary process and needs them")


def datagrams(path):
    return [each for frame in read_frames(path) if (each := udp_of(frame))] if path.exists() else []


def capture(appliance, send, seen, seconds=15):
    """Runs dpdk-dumpcap and calls send() until seen(datagrams) or dumpcap ends. Returns dumpcap and the datagrams."""
    path = appliance.directory / "capture.pcapng"
    path.unlink(missing_ok=True)
    deadline = time.monotonic() + seconds
    with dumpcap(appliance, path) as running:
        while running.alive() and not seen(datagrams(path)) and time.monotonic() < deadline:
            send()
            time.sleep(0.02)
        return running.alive(), running.stop(), running.output, datagrams(path)


@needs_hugepages
def test_dumpcap_shows_requests_and_responses_unchanged(appliance, namespaces, models):
    added = appliance.add_tenant("t", models())
    with connect(namespaces, added, make=Recorder) as client:
        def ask():
            client.infer_tokens([101, 2000, 102], "logits", flags=NO_CACHE)

        def is_answer(each):
            return each.source == (SERVER_IPV4, UDP_PORT) and each.payload in client.received

        def both(seen):  # the capture may begin between a request and its answer
            return any(map(is_answer, seen)) and not all(map(is_answer, seen))

        _, status, output, seen = capture(appliance, ask, both)
        assert status == 0, output
        asked = [each for each in seen if each.target == (SERVER_IPV4, UDP_PORT)]
        answered = [each for each in seen if is_answer(each)]
        assert asked and answered, output
        assert all(each.source[0] == CLIENT_IPV4 and each.payload in client.sent for each in asked)
        assert all(each.checksums_hold for each in answered)
        ask()  # after the capture has ended
    assert appliance.stop() == 0


# Argument, whether telemetry works with it, whether dumpcap does.
CELLS = [
    ("--no-telemetry", False, True),
    ("--no-huge", True, False),
    ("--in-memory", True, False),
    ("--no-shconf", True, False),
    ("--huge-unlink", True, False),
    ("--huge-unlink=always", True, False),
    ("--huge-unlink=existing", True, True),
    ("--huge-unlink=never", True, True),
    ("--single-file-segments", True, True),
    ("--legacy-mem", True, True),
]


@needs_hugepages
@pytest.mark.parametrize("argument, has_telemetry, has_dumpcap", CELLS, ids=[cell[0] for cell in CELLS])
def test_eal_arguments_disable_telemetry_and_dumpcap(new_appliance, namespaces, argument, has_telemetry, has_dumpcap):
    appliance = new_appliance()
    appliance.eal.remove("--single-file-segments")
    appliance.eal.append(argument)
    if argument in ("--no-huge", "--legacy-mem"):
        appliance.eal += ["-m", "256"]
    appliance.start()
    with stranger(namespaces) as client:
        alive, status, output, seen = capture(
            appliance, lambda: client.ping(MARK), lambda seen: any(MARK in each.payload for each in seen))
        client.ping(MARK)
    assert (telemetry(appliance, "/itif/stats") is not None) == has_telemetry
    said = [line for line in appliance.log().splitlines() if "dpdk-dumpcap" in line]
    if has_dumpcap:
        assert any(MARK in each.payload for each in seen) and status == 0 and not said, output
    else:
        assert not alive and status != 0 and not seen, output
        assert len(said) == 1 and "is off" in said[0], said
        assert argument.removesuffix("=always") in said[0], said
    assert appliance.stop() == 0


def test_the_document_has_the_same_table():
    rows = re.findall(r"^\| (`--[^|]*) \| ([^|]*) \| ([^|]*) \|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    written = [(argument, not telemetry_cell.startswith("off"), not dumpcap_cell.startswith("off"))
               for arguments, telemetry_cell, dumpcap_cell in rows
               for argument in re.findall(r"`(--[^`]*)`", arguments)]
    assert sorted(written) == sorted(CELLS)
