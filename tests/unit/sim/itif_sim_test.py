"""Checks itif-sim's subcommands, apart from validate and the papers' figures. Prints TAP.

usage: itif_sim_test.py ITIF_SIM
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from itif_sim_checks import Checks, run

SCENARIO = """
seed = 5;
duration = "1s";
model: { preset = "bert-tiny"; };
data_plane: { max_contexts = 1024; };
arrivals: { kind = "poisson"; rate = 800.0; };
deadlines: { kind = "fixed"; from = "20ms"; };
client: { max_in_flight = 4096; auth = "full"; };
link: { loss = 0.02; corruption = 0.02; jitter = "200us"; };
tenants = ( { name = "a"; }, { name = "b"; share = 2.0; } );
"""

GENERATING = """
seed = 5;
duration = "1s";
check_answers = true;
model: { preset = "marian-tiny"; vocab = 1024; };
batching: { planner = "concat:row_tokens=100"; joining = "batches"; cleaning = "slot"; };
data_plane: { max_contexts = 1024; };
arrivals: { rate = 200.0; };
output: { kind = "normal"; from = 2; to = 60; mean = 20.0; beams = 2; };
client: { max_in_flight = 4096; };
"""

GROUPS = """
seed = 3;
duration = "4s";
model: { preset = "bert-tiny"; };
slices: { mode = "tuned"; lend = false; };
groups = ( { name = "a"; arrivals: { rate = 400.0; }; }, { name = "b"; slice: { from = "2s"; }; } );
"""


def check_groups(program, folder, check):
    """Several groups divide the device; commands for one group refuse them."""
    scenario = Path(folder, "groups.cfg")
    scenario.write_text(GROUPS)
    done = run(program, "run", str(scenario))
    lines = done.returncode == 0 and "a/tenant" in done.stdout and "\nb  " in done.stdout
    check("run prints a line per group", lines, done.stdout + done.stderr)
    done = run(program, "run", str(scenario), "--json")
    groups = json.loads(done.stdout)["groups"] if done.returncode == 0 else []
    shares = [[second["share_percent"] for second in group["time_line"]] for group in groups]
    arrives = len(shares) == 2 and shares[0][0] == 30 and shares[1][1] == 0 and shares[1][2] == 30
    check("run has a time line of each group's part", arrives, str(shares) + done.stderr)
    for command in (["plan", str(scenario)], ["paper", str(scenario)], ["validate", str(scenario), "none.json"]):
        done = run(program, *command)
        refused = done.returncode == 1 and "has 2 groups" in done.stderr
        check(f"{command[0]} refuses several groups", refused, done.stderr)
        if command[0] == "plan":
            check("plan says what to do with several groups", "smallest share by `itif-sim plan --shares`" in done.stderr, done.stderr)
    done = run(program, "sweep", str(scenario), "--vary", "arrivals.rate=1,2")
    check("sweep refuses a value that each group has", done.returncode == 1 and "several groups" in done.stderr,
          done.stderr)


def check_knee(program, folder, check):
    scenario = Path(folder, "knee.cfg")
    scenario.write_text('model: { preset = "bert-tiny"; }; lengths: { kind = "uniform"; from = 64; to = 64; };\n')
    arguments = ["knee", str(scenario), "--parts", "5,20,50,100", "--batches", "1,64"]
    done = run(program, *arguments)
    check("knee prints a row of knees", done.returncode == 0 and "\nknee " in done.stdout, done.stdout + done.stderr)
    done = run(program, *arguments, "--json")
    batches = json.loads(done.stdout)["batches"] if done.returncode == 0 else []
    knees = [batch["knee_percent"] for batch in batches]
    check("larger batches have larger knees", len(knees) == 2 and knees[0] < knees[1], str(knees) + done.stderr)
    rises = all(a["requests_per_s"] <= b["requests_per_s"] * 1.001 for batch in batches
                for a, b in zip(batch["points"], batch["points"][1:]))
    check("throughput rises with the part", rises, done.stdout)
    for wrong, why in ((["--parts", "50,20"], "ascending"), (["--parts", "0.5"], "--parts"), (["--batches", "0"], "--batches"),
                       (["--threshold", "-1"], "--threshold: -1 is not a number from 0 to 10"),
                       (["--threshold", "nan"], "--threshold: nan is not"), (["--thresholds", "1"], "--thresholds")):
        done = run(program, "knee", str(scenario), *wrong)
        check(f"knee refuses {' '.join(wrong)}", done.returncode == 1 and why in done.stderr, done.stderr)


def check_generation(program, folder, check):
    scenario = Path(folder, "generating.cfg")
    scenario.write_text(GENERATING)
    logs = [Path(folder, f"generating{i}") for i in (1, 2)]
    runs = [run(program, "run", str(scenario), "--json", "--log", str(log)) for log in logs]
    total = json.loads(runs[0].stdout)["total"] if runs[0].returncode == 0 else {}
    check("a model that generates answers every request",
          total and total["answered"] == total["sent"] > 100 and 15 < total["output_tokens"] / total["answered"] < 25,
          runs[0].stdout + runs[0].stderr)
    check("its events are the same in a second process, byte for byte",
          logs[0].read_bytes() == logs[1].read_bytes() and b" kv blocks " in logs[0].read_bytes(), runs[1].stderr)
    done = run(program, "run", str(scenario))
    check("a run prints the generated tokens", "\ngenerated " in done.stdout, done.stdout + done.stderr)
    scenario.write_text(GENERATING.replace("concat:row_tokens=100", "turbo"))
    done = run(program, "run", str(scenario))
    check("a planner that generation refuses is refused by name and line",
          done.returncode == 1 and f"{scenario}:6: batching.planner: 'turbo'" in done.stderr, done.stderr)


def check_sweep(program, scenario, check):
    done = run(program, "sweep", scenario, "--json", "--vary", "arrivals.rate=400,800", "--vary",
               "batching.scheduler=fair,fcfs", "--metrics", "throughput,p99")
    points = json.loads(done.stdout)["points"] if done.returncode == 0 else []
    check("a sweep has a point per pair of values",
          len(points) == 4 and points[0]["throughput"] < points[2]["throughput"], done.stdout + done.stderr)
    done = run(program, "sweep", scenario, "--json", "--vary", "batching.batch_control=aimd,slab,fixed",
               "--metrics", "throughput,p99")
    points = json.loads(done.stdout)["points"] if done.returncode == 0 else []
    check("a sweep varies the batch control", [point["batching.batch_control"] for point in points] ==
          ["aimd", "slab", "fixed"], done.stdout + done.stderr)
    done = run(program, "sweep", scenario, "--vary", "batching.batch_control=clipper")
    check("a sweep refuses an unknown batch control",
          done.returncode == 1 and "'clipper' is not one of: aimd, slab, fixed" in done.stderr, done.stderr)
    done = run(program, "sweep", scenario, "--vary", "arrivals.speed=1")
    check("a sweep refuses an unknown parameter", done.returncode == 1 and "arrivals.speed" in done.stderr, done.stderr)
    done = run(program, "sweep", scenario, "--vary", "arrivals.burst_factor=2,3", "--vary", "deadlines.from=100us,20ms")
    check("a sweep names a parameter without effect", done.returncode == 0
          and "arrivals.burst_factor changed no figure" in done.stderr and "deadlines" not in done.stderr, done.stderr)


def check_specs(program, scenario, check):
    """Policies and planners whose settings have commas."""
    done = run(program, "sweep", scenario, "--json", "--metrics", "utility", "--vary",
               "batching.scheduler=das:eta=0.7,fair;sjf", "--vary", "num_tenants=1,2")
    points = json.loads(done.stdout)["points"] if done.returncode == 0 else []
    check("a sweep takes policies with settings", [p["batching.scheduler"] for p in points]
          == ["das:eta=0.7,fair"] * 2 + ["sjf"] * 2, done.stdout + done.stderr)
    done = run(program, "plan", scenario, "--json", "--in-time", "0", "--planners", "slotted:row_tokens=128,slot_tokens=64;",
               "--schedulers", "das:eta=0.7,fair;")
    tried = json.loads(done.stdout)["tried"] if done.stdout else []
    check("plan takes policies and planners with settings", [(t["planner"], t["scheduler"]) for t in tried]
          == [("slotted:row_tokens=128,slot_tokens=64", "das:eta=0.7,fair")], done.stdout + done.stderr)


def check_plan(program, scenario, check):
    done = run(program, "plan", scenario, "--json", "--in-time", "0.9", "--planners", "naive,packed", "--max-requests",
               "1,64")
    document = json.loads(done.stdout) if done.stdout else {"tried": [], "chosen": None}
    served = [tried["device_use"] for tried in document["tried"] if tried["serves"]]
    check("plan chooses the least device use that serves",
          len(document["tried"]) == 4 and document["chosen"]["device_use"] <= 1.01 * min(served), done.stdout + done.stderr)
    done = run(program, "plan", scenario, "--p99", "1us")
    check("plan fails if nothing serves", done.returncode == 1 and "no configuration" in done.stderr, done.stderr)


def check_shares(program, folder, check):
    """plan on shares of the device."""
    scenario = Path(folder, "shares.cfg")
    scenario.write_text('seed = 3; duration = "1s"; model: { preset = "minilm-l6"; }; arrivals: { rate = 500.0; };\n')
    arguments = ["plan", str(scenario), "--shares", "1,10,50,100", "--max-requests", "1,16"]
    done = run(program, *arguments, "--json", "--p99", "3ms")
    document = json.loads(done.stdout) if done.stdout else {"tried": [], "chosen": None}
    tried = {(one["share_percent"], one["max_requests"]): one for one in document["tried"]}
    shares = sorted({share for (share, _), one in tried.items() if one["serves"]})
    check("plan tries each share", len(tried) == 8, done.stdout + done.stderr)
    check("a smaller share is slower", tried and tried[1, 16]["p99_ms"] > tried[10, 16]["p99_ms"] > tried[100, 16]["p99_ms"],
          done.stdout)
    check("plan chooses the smallest share that serves", shares == [10, 50, 100]
          and document["chosen"]["share_percent"] == 10, done.stdout + done.stderr)
    done = run(program, *arguments, "--p99", "3ms")
    lines = done.stdout.splitlines()
    check("plan prints the shares", done.returncode == 0 and " share " in lines[0]
          and [" 10% " in line for line in lines if line.endswith("  chosen")] == [True], done.stdout + done.stderr)
    done = run(program, "plan", str(scenario), "--json")
    own = [one["share_percent"] for one in json.loads(done.stdout)["tried"]] if done.stdout else []
    check("without shares, the device is whole", own == [100], done.stdout + done.stderr)
    fixed = Path(folder, "fixed.cfg")
    fixed.write_text(scenario.read_text() + 'slices: { mode = "fixed"; }; slice: { percent = 30.0; };\n')
    done = run(program, "plan", str(fixed), "--json")
    own = [one["share_percent"] for one in json.loads(done.stdout)["tried"]] if done.stdout else []
    check("without shares to try, plan takes the scenario's", own == [30], done.stdout + done.stderr)
    tuned = Path(folder, "tuned.cfg")
    tuned.write_text(scenario.read_text() + 'slices: { mode = "tuned"; }; slice: { knee = 30.0; };\n')
    for arguments, why in (([str(scenario), "--shares", "0.5"], "--shares: 0.5 is not a number from 1 to 100"),
                           ([str(tuned), "--shares", "50"], "--shares: slice.knee")):
        done = run(program, "plan", *arguments)
        check(f"plan refuses: {why}", done.returncode == 1 and why in done.stderr and not done.stdout, done.stderr)


def check_cleanup(program, scenario, check):
    """Temporary files are removed by a signal, too."""
    for signal in ("TERM", "INT"):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["timeout", "--signal", signal, "--preserve-status", "1", program, "sweep", scenario,
                                   "--vary", "seed=" + ",".join(map(str, range(500)))],
                                  env={**os.environ, "TMPDIR": folder}, capture_output=True, text=True, timeout=200)
            check(f"SIG{signal} leaves no files behind", done.returncode > 128 and not list(Path(folder).iterdir()),
                  f"status {done.returncode}, {list(Path(folder).iterdir())}")


def check_refusals(program, scenario, check):
    wrong = {
        "a third varied parameter": (["sweep", scenario, "--vary", "seed=1", "--vary", "link.loss=0", "--vary",
                                      "lengths.mean=5"], "at most two parameters"),
        "a parameter given twice": (["sweep", scenario, "--vary", "seed=1,2", "--vary", "seed=3"], "seed is given twice"),
        "an unknown type of plan": (["plan", scenario, "--dtypes", "f8"], "f8"),
        "a value out of range, before the first point runs": (["sweep", scenario, "--vary", "arrivals.rate=400,inf"],
                                                              "arrivals.rate: expected a number"),
        "an unknown scheduler of plan": (["plan", scenario, "--schedulers", "fair,fast"], "'fast' is not one of"),
        "an unknown planner of plan": (["plan", scenario, "--planners", "packed,best"], "best"),
        "a batch out of range": (["plan", scenario, "--max-requests", "4294967295"], "--max-requests"),
        "a log that cannot be written": (["run", scenario, "--log", "/dev/full"], "/dev/full: events are missing"),
        **{f"a tolerance of {value}": (["validate", scenario, "none.json", "--tolerance", value],
                                       f"--tolerance: {value} is not a number from 0 to 10") for value in ("inf", "nan", "-1")},
        "a negative number of seeds": (["faults", "--seeds", "-1"], "--seeds"),
    }
    for name, (arguments, message) in wrong.items():
        done = run(program, *arguments)
        check(f"{name} is refused", done.returncode > 0 and message in done.stderr and not done.stdout,
              done.stdout + done.stderr)
    blocked = Path(scenario, "out")  # below a file
    for arguments in (["gslice", "--out"], ["run", scenario, "--plot"], ["sweep", scenario, "--vary", "seed=1", "--plot"],
                      ["knee", scenario, "--plot"]):
        done = run(program, *arguments, str(blocked))
        check(f"{arguments[0]} refuses a directory that cannot be made before it computes",
              done.returncode == 1 and f"cannot make the directory {blocked}" in done.stderr and not done.stdout,
              done.stdout + done.stderr)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([program, "run", scenario], stdout=full, stderr=subprocess.PIPE, text=True, timeout=200)
    check("lost output is an error", done.returncode == 1 and "results are missing" in done.stderr, done.stderr)


def main(program):
    check = Checks()
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder, "scenario.cfg")
        scenario.write_text(SCENARIO)
        logs = [Path(folder, f"log{i}") for i in (1, 2)]
        runs = [run(program, "run", str(scenario), "--json", "--log", str(log)) for log in logs]
        first = json.loads(runs[0].stdout) if runs[0].returncode == 0 else {}
        check("a run prints one JSON object", first.get("total", {}).get("answered", 0) > 100, runs[0].stderr)
        check("a second process writes the same events, byte for byte",
              logs[0].read_bytes() == logs[1].read_bytes() and logs[0].stat().st_size > 10000
              and runs[0].stdout == runs[1].stdout, runs[1].stderr)
        done = run(program, "run", str(scenario))
        check("a run prints a table", "answered/s" in done.stdout and "\na " in done.stdout, done.stdout + done.stderr)

        bad = Path(folder, "bad.cfg")
        bad.write_text(SCENARIO + "arrival: { };\n")
        done = run(program, "run", str(bad))
        line = SCENARIO.count("\n") + 1
        check("an unknown setting is refused by name and line",
              done.returncode == 1 and f"{bad}:{line}: arrival: unknown key" in done.stderr, done.stderr)

        check_sweep(program, str(scenario), check)
        check_specs(program, str(scenario), check)
        check_cleanup(program, str(scenario), check)
        check_refusals(program, str(scenario), check)
        check_plan(program, str(scenario), check)
        check_shares(program, folder, check)

        check_generation(program, folder, check)
        done = run(program, "faults", "--first-seed", "1000", "--seeds", "3")
        check("faults prints its figures", done.returncode == 0 and done.stdout.startswith("3 seeds: "), done.stderr)

        check_groups(program, folder, check)
        check_knee(program, folder, check)
    return check.report()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
