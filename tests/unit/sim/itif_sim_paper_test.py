"""Checks the figures of itif-sim's subcommands paper and gslice against what the papers state. Prints TAP.

usage: itif_sim_paper_test.py ITIF_SIM TCB_SCENARIO
"""

import json
import sys
import tempfile
from pathlib import Path

from itif_sim_checks import Checks, run

# One figure of each kind but 16, whose decisions are timed on this CPU.
SIMULATED = ["9", "10", "13", "15a"]


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


def main(program, tcb):
    check = Checks()
    check_paper(program, tcb, check)
    check_gslice(program, check)
    return check.report()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
