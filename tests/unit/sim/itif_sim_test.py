"""Runs itif-sim's subcommands in processes of their own. Prints TAP.

usage: itif_sim_test.py ITIF_SIM [TCB_SCENARIO]

The figures of TCB are checked if its scenario is given.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

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


def run(program, *arguments, cwd=None):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=200, cwd=cwd)


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


# One figure of each kind but 16, whose decisions are timed on this CPU.
SIMULATED = ["9", "10", "13", "15a"]


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


def check_gslice(program, check):
    with tempfile.TemporaryDirectory() as folder:
        done = run(program, "gslice", "--quick", "--json", "--out", str(Path(folder, "new")))
        written = {path.name for path in Path(folder, "new").iterdir()}
        text = Path(folder, "new", "report.md").read_text() if "report.md" in written else ""
    report = json.loads(done.stdout) if done.stdout else {}
    check("gslice writes a report", {"report.md", "figures.json"} <= written, done.stderr)
    figures = ("figures-8-10-f16", "figure-12ab-f16", "figure-14-f16", "figure-12c-50ms", "figure-12c-100ms",
               "figure-15-slab", "figure-15-slices", "figure-15-clipper", "figure-16")
    check("gslice shows each figure in its report", all(f"({name}.svg)" in text for name in figures), text)
    check("gslice draws each figure", "cannot run gnuplot" in done.stderr
          or done.returncode == 0 and {f"{name}.svg" for name in figures} <= written, done.stderr + str(written))
    for stated in ("[38.82]", "[6.00 to 13.00]", "[1.20 to 4.00]", "[2.00 to 3.00]", "[1.02 to 1.50]", "[at most 300.0]", "[10,000]"):
        check(f"gslice shows the paper's {stated} beside its own", stated in text, text)
    mixes = {(row["mix"], row["mode"]): row for row in report.get("mixes", [])}
    check("gslice has eight mixes under three modes", len(mixes) == 24, done.stderr)
    for mix in ("C1", "C2", "C3", "C4"):
        rates = [mixes.get((mix, mode), {}).get("answers_per_s", 0) for mode in ("default", "slab", "tuned slices")]
        check(f"gslice: each part of GSLICE answers more of {mix}", 0 < rates[0] < rates[1] < rates[2], str(rates))
    rows = report.get("components", [])
    check("gslice has three groups with five choices of components", len(rows) == 15, str(rows))
    by_model = {}
    for row in rows:
        by_model.setdefault(row["model"], {})[row["components"]] = row["answers_per_s"]
    for model, rates in by_model.items():
        gains = {mode: rate / rates["none"] for mode, rate in rates.items()}
        ordered = 1 < gains["zero copy"] < gains["streams"] < gains["batching"] < gains["all"] * 1.03
        check(f"gslice: each component answers more with {model}", ordered, str(gains))
    if by_model:
        gain = {model: rates["streams"] / rates["none"] for model, rates in by_model.items()}
        check("gslice: streams bring light groups more", gain["minilm-l6"] > gain["vit-base"] > gain["albert-large"] > 1,
              str(gain))
    rises = {(row["slo_ms"], row["control"]): row["convergence_ms"] for row in report.get("convergences", [])
             if row["step"] == "the objective rises"}
    for slo_ms, paper_ms in ((50, 300), (100, 500)):
        check(f"gslice: slab converges at {slo_ms} ms within the paper's time, and aimd later",
              0 < rises.get((slo_ms, "slab"), 0) < paper_ms and rises[slo_ms, "aimd"] > 2 * rises[slo_ms, "slab"], str(rises))
    lines = {line["name"]: line for line in report.get("time_lines", [])}
    check("gslice has six time lines", len(lines) == 6, str(list(lines)))
    check("gslice: batches over time", all(max(group["batch_requests"]) > 1 for group in lines["figure-12c-50ms"]["groups"])
          if "figure-12c-50ms" in lines else False, done.stderr)


def check_paper(program, tcb, check):
    arguments = ["paper", tcb, "--quick", "--json", "--figures", ",".join(SIMULATED)]
    done = run(program, *arguments)
    experiments = json.loads(done.stdout)["experiments"] if done.returncode == 0 else []
    check("paper has every figure", sorted(sum((e["figures"] for e in experiments), [])) == sorted(SIMULATED), done.stderr)
    check("every curve of the paper has each point",
          experiments and all(len(e["points"]) == 2 * len({p["curve"] for p in e["points"]}) for e in experiments))
    again = run(program, "paper", tcb, "--quick", "--json", "--figures", "13").stdout
    check("the same seed gives the same figures", experiments
          and json.loads(again)["experiments"] == [e for e in experiments if e["figures"] == ["13"]])

    def values(figure, metric):
        """{x: {curve: value}} of a figure."""
        points = next((e["points"] for e in experiments if figure in e["figures"]), [])
        by_x = {}
        for point in points:
            by_x.setdefault(point["x"], {})[point["curve"]] = point[metric]
        return by_x

    saturated = values("10", "throughput").get(500, {})
    check("less padding answers more past saturation",
          saturated and saturated["naive"] < saturated["turbo"] < saturated["concat"] <= saturated["packed"],
          str(saturated))
    by_rows = values("15a", "utility")
    check("das has more utility than fcfs and edf past saturation",
          by_rows and all(utility["das"] > max(utility["fcfs"], utility["edf"]) for utility in by_rows.values()),
          str(by_rows))
    times = values("13", "row_us")
    check("slots make rows cheaper", times and times[5]["slotted"] < times[1]["slotted"], str(times))
    done = run(program, "paper", tcb, "--figures", "9,8")
    check("paper refuses an unknown figure", done.returncode == 1 and "15a" in done.stderr, done.stderr)
    done = run(program, "paper", str(Path(tcb).with_name("tcb-decoder.cfg")), "--figures", "16")
    check("a decoder's experiments are others", done.returncode == 1 and "no figure '16'" in done.stderr, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        done = run(program, "paper", tcb, "--quick", "--figures", "16", "--out", folder)
        written = {path.name for path in Path(folder).iterdir()}
        check("paper writes a report", {"report.md", "figures.json"} <= written or "gnuplot" in done.stderr, done.stderr)


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


def main(program, loadgen, tcb=None):
    results = []

    def check(name, good, output=""):
        results.append((name, bool(good), output))

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
        check_generation(program, folder, check)
        done = run(program, "faults", "--first-seed", "1000", "--seeds", "3")
        check("faults prints its figures", done.returncode == 0 and done.stdout.startswith("3 seeds: "), done.stderr)

        check_groups(program, folder, check)
        check_knee(program, folder, check)
    if tcb:
        check_paper(program, tcb, check)
        check_gslice(program, check)
    print(f"1..{len(results)}")
    for number, (name, good, output) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        for line in [] if good else output.splitlines():
            print(f"# {line}")
    return 0 if all(good for _, good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
