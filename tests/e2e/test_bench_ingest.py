"""`itif-bench ingest` over memif and sockets, with itif-loadgen as the sender. tests/unit/bench runs the rest."""

import json
import os
import shutil
import subprocess

import pytest
from harness.appliance import program


def ingest(directory, *cases, environment=None):
    """The results of the cases, and what it printed."""
    file = directory / "ingest.json"
    chosen = [word for case in cases for word in ("--case", case)]
    done = subprocess.run((program("itif-bench"), "ingest", "--quick", "--seconds", "0.2", "--json", str(file), *chosen),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(file.read_text(encoding="utf-8"))


needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="sender and receiver need a CPU each")


@needs_two_cpus
def test_every_receiver_of_a_flood(tmp_path):
    results = ingest(tmp_path, "memif, 64 B, header", "memif, 1 KB x 589, full")
    has_testpmd = shutil.which("dpdk-testpmd") is not None
    assert any("dpdk-testpmd" in note for note in results["notes"]) != has_testpmd, results["notes"]
    for case in ("memif, 64 B, header", "memif, 1 KB x 589, full"):
        rows = {row["mode"]: row for row in results["rows"] if row["case"] == case}
        assert set(rows) == {"worker", "recvmmsg", "answers", "worker / recvmmsg"}, rows
        assert all(row["value"] > 0 for row in rows.values()), rows
        assert ("limit" in rows["worker"]) == has_testpmd
    rates = {row["mode"]: row["value"] for row in results["rows"] if row["case"] == "memif, 64 B, header"}
    assert rates["answers"] > 0.5 * rates["worker"], "each request of one datagram is answered"


@needs_two_cpus
def test_without_testpmd_its_row_is_skipped_by_name(tmp_path):
    results = ingest(tmp_path, "memif, 64 B, none", environment={**os.environ, "PATH": str(tmp_path)})
    assert [note for note in results["notes"] if "dpdk-testpmd" in note], results["notes"]
    assert all("limit" not in row for row in results["rows"])
    assert {row["mode"] for row in results["rows"]} == {"worker", "recvmmsg", "answers", "worker / recvmmsg"}
