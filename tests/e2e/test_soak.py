"""`tools/soak` for two minutes: the memory of itifd is flat, nothing is leaked, and all sums are exact. The variable
ITIF_SOAK_MINUTES of the environment lengthens it."""

import json
import os
import subprocess
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "soak"
MINUTES = float(os.environ.get("ITIF_SOAK_MINUTES", "2"))


def test_a_soak(namespaces, tmp_path):  # the fixture skips it where no namespaces can be made
    report = tmp_path / "soak.json"
    done = subprocess.run((TOOL, "--minutes", str(MINUTES), "--json", report), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=MINUTES * 60 + 300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    row, = json.loads(report.read_text(encoding="utf-8"))["rows"]
    assert row["sent"] > 0 and row["guests"] > 0 and row["killed_clients"] > 0 and row["checked_answers"] > 0, row
    assert row["findings"] == []
