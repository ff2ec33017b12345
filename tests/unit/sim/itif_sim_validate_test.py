"""Checks itif-sim validate against simulated records, records of itif-loadgen and recorded loads of a real host. Prints
TAP.

usage: itif_sim_validate_test.py ITIF_SIM ITIF_LOADGEN
"""

import json
import sys
import tempfile
from pathlib import Path

from itif_sim_checks import Checks, run


def check_recorded(program, check):
    """Validates loads that were recorded on a real host (results/README.md)."""
    folder = Path(__file__).resolve().parents[3] / "results/validation-zen4-2cpu"
    for load in ("closed-1", "closed-8", "poisson-1-of-3"):
        done = run(program, "validate", "host.cfg", f"{load}.json", cwd=folder)
        check(f"validate fits the recorded load {load} within 15 %", done.returncode == 0, done.stdout + done.stderr)
    done = run(program, "validate", "host.cfg", "poisson-2-of-3.json", cwd=folder)
    check("validate refuses a recorded load that it misses by more",
          done.returncode == 1 and "off by more than 15 %" in done.stderr, done.stdout + done.stderr)


def record_of(result, rate):
    """A record of itif-loadgen, as far as validate reads it, with a simulated run's figures."""
    total = result["total"]
    return {"configuration": {"arrivals": "poisson", "rate": rate, "payload": "tokens_u16", "duration_s": 2,
                              "warmup_s": 0, "budget": {"kind": "none"}, "tries": 5, "rto_ms": 50, "timeout_ms": 10000,
                              "refusal_retries": 0, "lengths": {"kind": "uniform", "from": 3, "to": 60}},
            "total": {"latency": {"p50_us": total["latency"]["p50_us"]}, "requests_per_s": total["requests_per_s"]},
            "tenants": [{"name": "a", "weight": 1}]}


def main(program, loadgen):
    check = Checks()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "scenario.cfg")
        scenario.write_text("seed = 9; duration = \"2s\"; model: { preset = \"bert-tiny\"; };\n"
                            "data_plane: { max_contexts = 1024; };\n"
                            "arrivals: { rate = 500.0; }; lengths: { kind = \"uniform\"; from = 3; to = 60; };\n")
        truth = json.loads(run(program, "run", str(scenario), "--json").stdout)
        scenario.write_text("seed = 3; model: { preset = \"bert-tiny\"; }; data_plane: { max_contexts = 1024; };\n")
        record = Path(folder, "record.json")
        record.write_text(json.dumps(record_of(truth, 500)))
        done = run(program, "validate", str(scenario), str(record))
        check("validate accepts a record of the same machine", done.returncode == 0, done.stdout + done.stderr)
        wrong = record_of(truth, 500)
        wrong["total"]["latency"]["p50_us"] *= 1.3
        record.write_text(json.dumps(wrong))
        done = run(program, "validate", str(scenario), str(record))
        check("validate refuses a record that is 30 % slower",
              done.returncode == 1 and "off by more than 15 %" in done.stderr, done.stdout + done.stderr)

        # The load of records as itif-loadgen writes them, with each kind of deadline.
        tenant = Path(folder, "tenant.json")
        tenant.write_text(json.dumps({"key": "00" * 16, "tenant": {"id": 1, "name": "a", "auth": "header"}}))
        for budget in ("none", "500ms", "uniform:400ms-500ms", "length:400ms,1ms"):
            made = run(loadgen, "127.0.0.1", "--null-sink", "--tenants", str(tenant), "--rate", "500", "--lengths",
                       "uniform:3-60", "--duration", "50ms", "--warmup", "0s", "--drain", "0s", "--quiet", "--json",
                       str(record), *(() if budget == "none" else ("--budget", budget)))
            written = json.loads(record.read_text()) if record.exists() else {}
            figures = record_of(truth, 500)
            figures["configuration"] = written.get("configuration", {}) | {"duration_s": 2}
            record.write_text(json.dumps(figures))
            done = run(program, "validate", str(scenario), str(record))
            check(f"validate reads a record of itif-loadgen --budget {budget}", done.returncode == 0,
                  made.stderr + done.stdout + done.stderr)

    check_recorded(str(Path(program).resolve()), check)
    return check.report()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
