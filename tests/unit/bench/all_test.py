"""Runs `itif-bench all` over two small benches: well, with one of them failing, and without gnuplot. Prints TAP.

usage: all_test.py ITIF_BENCH
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def run(program, out, *options, environment=None):
    command = [program, "all", "--quick", "--dtype", "f32", "--out", str(out), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)


def killed_whole(program, out):
    """True if the bench, which would take minutes, ends when `all` is killed."""
    process = subprocess.Popen([program, "all", "--dtype", "f32", "--out", str(out), "--only", "tenants"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        while not (child := children.read_text().strip()):
            time.sleep(0.01)
        # A new child has its parent's command line, then setpriv's, then the bench's.
        line = b""
        while b"\0tenants\0" not in line or b"\0all\0" in line or b"setpriv" in line:
            time.sleep(0.01)
            line = Path(f"/proc/{child}/cmdline").read_bytes()
    finally:
        process.kill()
    process.communicate(timeout=60)  # until all processes have closed its output
    for _ in range(1000):
        try:
            if ") Z " in Path(f"/proc/{child}/stat").read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):  # its parent has reaped it
            return True
        time.sleep(0.01)
    return False


def interrupted(program, out):
    """Checks that Ctrl-C in the second bench keeps the first in the report, and leaves no models behind."""
    temporary = out / "tmp"
    temporary.mkdir(parents=True)
    process = subprocess.Popen([program, "all", "--quick", "--dtype", "f32", "--out", str(out), "--only", "gemm,sharing",
                                "--case", "1x768x768", "--case", "identical models"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                               env={**os.environ, "TMPDIR": str(temporary)})
    deadline = time.monotonic() + 120
    while not list(temporary.glob("itif-bench-*/*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=60)[0].decode()
    deadline = time.monotonic() + 60
    while (left := list(temporary.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.01)
    report = (out / "report.md").read_text()
    return [("an interrupted run ends by the signal", process.returncode == -signal.SIGINT, f"{process.returncode} {output}"),
            ("an interrupted run removes its models", not left, str(left)),
            ("the report of an interrupted run has the benches that ended",
             "[gemm.json](gemm.json)" in report and "1x768x768" in report and "**Incomplete**" in report, report)]


def gslice(program, out):
    """Checks of the benches of GSLICE's figures, with tiny models and runs."""
    done = run(program, out, "--only", "slices,slab,components", "--threads", "1", "--seconds", "0.3", "--case", "C1", "--case", "figure 16",
               "--case", "objective, 25 ms, f32", "--case", "convergence, 25 ms", "--case", "bert-mini, f32")
    if done.returncode != 0:
        return [("the benches of GSLICE's figures run", False, done.stdout + done.stderr)]
    report = (out / "report.md").read_text()
    slices, slab, components = (json.loads((out / f"{name}.json").read_text()) for name in ("slices", "slab", "components"))
    modes = ["default", "slab", "equal slices", "tuned slices"]
    rates = {row["mode"]: row["value"] for row in slices["rows"]
             if row["case"] == "C1, all groups, f32" and row["unit"] == "answers/s"}
    stated = {row["mode"]: row["paper"] for row in slices["rows"] if row["unit"] == "times" and "paper" in row}
    shares = {row["case"]: row["value"] for row in slices["rows"] if row["unit"] == "% of the device"}
    late = [row["mode"] for row in slab["rows"] if row["case"].startswith("objective") and row["unit"] == "% late"]
    converged = {(row["case"], row["mode"]) for row in slab["rows"] if row["case"].startswith("convergence") and row["value"] > 0}
    (line,) = slab["time_lines"]
    gains = [row["mode"] for row in components["rows"] if row["unit"] == "times"]
    return [
        ("slices: every mode serves, beside the paper's ratios",
         list(rates) == modes and all(rate > 0 for rate in rates.values())
         and abs(stated.get("GUE, slab / default", 0) - 2.087) < 1e-9 and len(stated) == 7, str(slices["rows"])),
        ("slices: two groups divide the device", len(shares) == 2 and 2 <= sum(shares.values()) <= 100.001, str(shares)),
        ("slices: a time line in the results and in the report",
         [one["name"] for one in slices["time_lines"]] == ["figure-16"] and "Figure 16" in report
         and (out / "figure-16.gp").exists() and (out / "figures-8-10-f32.gp").exists(), report),
        ("slab: late answers under each control", late == ["slab", "aimd", "fixed"], str(slab["rows"])),
        ("slab: each control converges after three kinds of steps", len(converged) == 6, str(slab["rows"])),
        ("slab: a time line of batches", [one["name"] for one in line["series"]] == ["slab", "aimd"]
         and all(max(one["batch_requests"]) > 0 for one in line["series"]) and (out / "figure-14-f32.gp").exists(), str(line)),
        ("components: each alone, and all", gains == [f"{name} / none" for name in ("streams", "zero copy", "batching", "all")]
         and (out / "figure-12ab-f32.gp").exists(), str(components["rows"]))]


def unknown_cases(program, out):
    """Checks that a bench refuses a name that none of its cases has. Some measured for long, and then succeeded."""
    names = subprocess.run([program, "nosuch"], capture_output=True, text=True, timeout=60).stderr
    benches = [name for name in names.split("there are: all, ")[1].strip().split(", ") if name not in ("operators", "swap", "overload")]
    assert len(benches) > 20, names
    results = []
    for bench in benches:
        start = time.monotonic()
        done = subprocess.run([program, bench, "--quick", *(() if bench == "ingest" else ("--dtype", "f32")), "--case", "nosuch"],
                              capture_output=True, text=True, timeout=120)
        results.append((f"{bench}: a name that no case has", done.returncode == 1
                        and "--case: no case is named 'nosuch'; there are: " in done.stderr and done.stderr.count("\n") == 1,
                        f"{time.monotonic() - start} s: {done.stdout}{done.stderr}"))
    some = subprocess.run([program, "gemm", "--quick", "--dtype", "f32", "--case", "1x768x768", "--case", "nosuch"],
                          capture_output=True, text=True, timeout=120)
    results.append(("one of two names is unknown", some.returncode == 1 and "1x768x768" in some.stdout
                    and "no case is named 'nosuch'; " in some.stderr, some.stdout + some.stderr))
    done = run(program, out, "--only", "gemm,encoder", "--case", "nosuch")
    results.append(("no bench has a case of that name", done.returncode == 1
                    and "no bench has a case named 'nosuch'" in done.stderr, done.stdout + done.stderr))
    return results


def sharing(program, out):
    """Checks that our figures have those of GSLICE's Table 1, with a tiny model."""
    done = run(program, out, "--only", "sharing", "--case", "identical models")
    if done.returncode != 0:
        return [("the bench of shared weights runs", False, done.stdout + done.stderr)]
    results = json.loads((out / "sharing.json").read_text())
    stated = {row["mode"]: row["paper"] for row in results["rows"] if "paper" in row}
    report = (out / "report.md").read_text()
    return [
        ("sharing: the paper's values and ratios", stated == {
            "size": 98, "load, alone": 430, "load, shared": 89, "load, alone / shared": 430 / 89, "memory, alone": 917,
            "memory, shared": 805, "tenants that fit, alone": 17,
            "tenants that fit, shared": 18, "tenants that fit, shared / alone": 18 / 17}, str(stated)),
        ("sharing: all lines of the paper's table in the report",
         all(f"GSLICE's Table 1, {name}" in report for name in ("Alexnet", "ResNet-50", "ResNet-152", "VGG-19"))
         and "[4.83]" in report, report)]


def ingest(program, out):
    """Checks of the datagrams' bench, with short runs in one process."""
    done = run(program, out, "--only", "ingest", "--seconds", "0.1", "--case", "64 B, header", "--case",
               "64 B, header, overloaded", "--case", "1 KB x 588, full", "--case", "tags of 66 bytes", "--case",
               "1 KB x 4, header, 1000 open")
    if done.returncode != 0:
        return [("the bench of datagrams runs", False, done.stdout + done.stderr)]
    results = json.loads((out / "ingest.json").read_text())
    rows = {(row["case"], row["mode"], row["unit"]): row for row in results["rows"]}
    timed = [("64 B, header", "hand-over"), ("64 B, header", "answered"), ("64 B, header, overloaded", "refused"),
             ("1 KB x 588, full", "hand-over")]
    return [
        ("ingest: each case has its time, cycles, rate and bits, beside receiving alone",
         all(rows[(*case, unit)]["value"] > 0 and rows[(*case, unit)]["limit"] > 0
             for case in timed for unit in ("ns", "cycles", "M/s", "Gb/s")), str(rows)),
        ("ingest: the units agree",
         all(abs(rows[(*case, "ns")]["value"] * rows[(*case, "M/s")]["value"] - 1e3) < 1 for case in timed), str(rows)),
        ("ingest: a refusal beside an answer", rows[("64 B, header, overloaded", "per answered", "times")]["value"] > 0,
         str(rows)),
        ("ingest: a plot of sizes and of open requests",
         all(what in (out / "ingest.dat").read_text() for what in ("header", "full", "1000")), ""),
        ("ingest: tags one by one", rows[("tags of 66 bytes", "one by one", "ns")]["value"] > 0, str(rows))]


SWAP_SCRIPT = """#!/usr/bin/python3
import json, sys
arguments = sys.argv[1:]
print("called with", " ".join(arguments))
if "--fail" in arguments:
    sys.exit("bench-swap: no namespaces")
sizes = {"median": 1500.0, "min": 1.0, "max": 2.0}
rows = [{"case": "bert-tiny", "mode": "without changes", "value": 4.0, "unit": "ms", "p50_us": sizes,
         "unanswered": {"median": 0}, "runs": [{"change_s": {}}], "disturbed": 1},
        {"case": "bert-tiny", "mode": "with changes", "value": 5.0, "unit": "ms", "p50_us": sizes, "p99_ratio": 1.25,
         "unanswered": {"median": 2}, "runs": [{"change_s": {"add": 0.03}}], "disturbed": 0}]
if "none" not in arguments:
    with open(arguments[arguments.index("--json") + 1], "w") as file:
        file.write("{" if "--damaged" in arguments else json.dumps({"rows": rows}))
"""


def swap(program, folder):
    """Checks of the bench that runs a program of tools/, with a program that only writes figures."""
    script = Path(folder, "bench-swap")
    script.write_text(SWAP_SCRIPT)
    script.chmod(0o755)
    out = Path(folder, "swap.json")

    def run_swap(*words):
        return subprocess.run([program, "swap", "--script", str(script), *words], capture_output=True, text=True, timeout=60)

    done = run_swap("--quick", "--load", "0.3", "--case", "bert-tiny", "--json", str(out))
    rows = {(row["mode"], row["unit"]): row["value"] for row in json.loads(out.read_text())["rows"]} if out.exists() else {}
    shown = subprocess.run([program, "show", str(out)], capture_output=True, text=True, timeout=60)
    failing, damaged, none = run_swap("--fail"), run_swap("--damaged"), run_swap("--case", "none")
    foreign = [run_swap(option, "bogus") for option in ("--device", "--threads", "--dtype", "--attention", "--fidelity")]
    lost = subprocess.run([program, "swap", "--script", str(Path(folder, "lost"))], capture_output=True, text=True, timeout=60)
    moved = Path(folder, "itif-bench")
    moved.write_bytes(Path(program).read_bytes())
    moved.chmod(0o755)
    elsewhere = subprocess.run([str(moved), "swap"], capture_output=True, text=True, timeout=60,
                               env={**os.environ, "LD_LIBRARY_PATH": str(Path(program).parent)})
    listed = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60).stdout
    return [
        ("swap: passes on its options, and those that it does not know", done.returncode == 0
         and "--rounds 1 --seconds 3 --case bert-tiny --load 0.3" in done.stdout, done.stdout + done.stderr),
        ("swap: its figures are rows", rows == {
            ("without changes", "p99 ms"): 4, ("without changes", "p50 ms"): 1.5, ("without changes", "unanswered"): 0,
            ("with changes", "p99 ms"): 5, ("with changes", "p50 ms"): 1.5, ("with changes", "unanswered"): 2,
            ("p99, with changes / without changes", "times"): 1.25, ("add", "ms of a change"): 30}, str(rows)),
        ("swap: show prints them", shown.returncode == 0 and "1.25 ×" in shown.stdout, shown.stdout + shown.stderr),
        ("swap: an error of the program is one of the bench", failing.returncode == 1 and "no namespaces" in failing.stderr
         and "exit status 1" in failing.stderr, failing.stderr),
        ("swap: damaged figures are refused", damaged.returncode == 1 and "cannot be read" in damaged.stderr, damaged.stderr),
        ("swap: a name that no case has", none.returncode == 1 and "no case is named 'none'" in none.stderr, none.stderr),
        ("swap: options of other benches are refused by name", all(
            one.returncode == 1 and one.stderr.startswith("itif-bench: swap starts appliances of its own") and one.stderr.count("\n") == 1
            and "called with" not in one.stdout for one in foreign), str([one.stderr for one in foreign])),
        ("swap: a program that is not there", lost.returncode == 1 and "--script: " in lost.stderr, lost.stderr),
        ("swap: outside of the source tree", elsewhere.returncode == 1 and "tools/bench-swap was not found" in elsewhere.stderr,
         elsewhere.stderr),
        ("swap is listed", "\n  swap " in listed, listed)]


OVERLOAD_SCRIPT = """#!/usr/bin/python3
import json, sys
arguments = sys.argv[1:]
print("called with", " ".join(arguments))
quiet = {"quiet_p50_us": 1000.0, "quiet_p99_us": 2000.0}
rows = [{"case": "quiet alone", "mode": "goodput", "value": 0, "unit": "answers in time/s", "capacity_per_s": 100.0,
         "disturbed": 0, "runs": [{}], **quiet},
        {"case": "2x, quiet beside", "mode": "goodput", "value": 90.0, "unit": "answers in time/s",
         "capacity_per_s": 100.0, "in_time_per_s": 90.0, "sent_per_s": 200.0, "repeats_per_s": 5.0, "p99_us": 3000.0, "disturbed": 1,
         "runs": [{}], **quiet},
        {"case": "refusals while long batches run", "mode": "refusal delay", "value": 900.0, "unit": "us",
         "sent_p50_us": 200.0, "sent_max_us": 800.0, "delay_p50_us": 400.0, "delay_max_us": 900.0, "disturbed": 0,
         "runs": [{}]},
        {"case": "3x for 20 s, das", "mode": "utility", "value": 49.0, "unit": "utility/s",
         "capacity_utility_per_s": 50.0, "most_waiting": 70, "disturbed": 0, "runs": [{}], **quiet}]
if "--damaged" in arguments:
    del rows[1]["sent_per_s"]
with open(arguments[arguments.index("--json") + 1], "w") as file:
    file.write(json.dumps({"rows": rows}))
"""


def overload(program, folder):
    """Checks of the bench that runs tools/bench-overload, with a program that only writes figures."""
    script = Path(folder, "bench-overload")
    script.write_text(OVERLOAD_SCRIPT)
    script.chmod(0o755)
    out = Path(folder, "overload.json")
    done = subprocess.run([program, "overload", "--script", str(script), "--quick", "--factor", "2", "--json", str(out)],
                          capture_output=True, text=True, timeout=60)
    written = json.loads(out.read_text()) if out.exists() else {"rows": [], "notes": []}
    rows = {(row["case"], row["mode"]): (row["value"], row["unit"]) for row in written["rows"]}
    ratios = {row["case"]: row["ratio"] for row in written["rows"] if "ratio" in row}
    late = "refusals while long batches run"
    damaged = subprocess.run([program, "overload", "--script", str(script), "--damaged"], capture_output=True, text=True,
                             timeout=60)
    return [
        ("overload: passes on its options, and those that it does not know", done.returncode == 0
         and "--rounds 1 --seconds 3 --factor 2" in done.stdout, done.stdout + done.stderr),
        ("overload: its figures are rows", rows == {
            ("quiet alone", "quiet p50"): (1, "ms"), ("quiet alone", "quiet p99"): (2, "ms"),
            ("2x, quiet beside", "in time"): (90, "answers/s"), ("2x, quiet beside", "offered"): (200, "requests/s"),
            ("2x, quiet beside", "repeated"): (5, "requests/s"), ("2x, quiet beside", "p99"): (3, "ms"),
            ("2x, quiet beside", "quiet p50"): (1, "ms"), ("2x, quiet beside", "quiet p99"): (2, "ms"),
            (late, "sent after the deadline, p50"): (0.2, "ms"), (late, "sent after the deadline, at most"): (0.8, "ms"),
            (late, "received after the deadline, p50"): (0.4, "ms"), (late, "received after the deadline, at most"): (0.9, "ms"),
            ("3x for 20 s, das", "utility"): (49, "utility/s"), ("3x for 20 s, das", "most waiting"): (70, "requests"),
            ("3x for 20 s, das", "quiet p50 after it"): (1, "ms"), ("3x for 20 s, das", "quiet p99 after it"): (2, "ms")},
         str(rows)),
        ("overload: rates beside those of the closed loop", ratios == {"2x, quiet beside": 0.9, "3x for 20 s, das": 0.98},
         str(ratios)),
        ("overload: a note about disturbed runs", any("2x, quiet beside: 1 of 1" in note for note in written["notes"]),
         str(written["notes"])),
        ("overload: damaged figures are refused", damaged.returncode == 1 and "cannot be read" in damaged.stderr,
         damaged.stderr)]


def main(program):
    results = []
    # Selects one row of gemm and none of gemm-choice.
    small = ("--only", "gemm,gemm-choice", "--case", "1x768x768")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "new", "out")
        done = run(program, out, *small)
        report = (out / "report.md").read_text() if done.returncode == 0 else ""
        gemm = json.loads((out / "gemm.json").read_text()) if report else {"rows": []}
        results.append(("a run of two benches", done.returncode == 0 and len(gemm["rows"]) == 1
                        and "## gemm\n" in report and "## gemm-choice\n" in report
                        and "1x768x768" in report and "**failed**" not in report, done.stderr + report))

        (out / "gemm.json").unlink(missing_ok=True)
        (out / "gemm.json").mkdir()
        (out / "gemm.json" / "in the way").touch()
        done = run(program, out, *small)
        report = (out / "report.md").read_text()
        results.append(("a failing bench is reported, and the other still runs",
                        done.returncode == 1 and report.count("| **failed** |") == 1
                        and "**Failed: exit status 1**" in report
                        and json.loads((out / "gemm-choice.json").read_text())["bench"] == "gemm-choice",
                        done.stderr + report))

        done = run(program, out, "--only", "gemm-choice,nonsense")
        results.append(("an unknown bench is refused", done.returncode != 0 and "nonsense" in done.stderr,
                        done.stderr))

        (out / "report.md").unlink()
        (out / "report.md").mkdir()
        (out / "gemm-choice.json").unlink()
        done = run(program, out, *small)
        results.append(("an unwritable report is refused before any bench runs",
                        done.returncode == 1 and "report.md" in done.stderr
                        and not (out / "gemm-choice.json").exists(), done.stderr))
        for what, words, said in (
                ("--json with a directory", ("gemm", "--quick", "--case", "1x768x768", "--json", folder), folder),
                ("no bench", (), "batching"), ("an unknown bench", ("gem",), "gemm, gemm-choice"),
                ("an unknown option", ("gemm", "--fast"), "--fast"),
                ("--seconds without runs of seconds", ("gemm", "--seconds", "1"), "--seconds is for slices, slab, components, ingest"),
                ("runs of no time", ("slab", "--seconds", "0"), "--seconds"),
                ("runs of a time that is no number", ("slab", "--seconds", "nan"), "--seconds"),
                ("--attention without attention", ("gemm", "--attention", "cudnn"), "--attention is for encoder, operators, "),
                ("--fidelity where each mode has its own", ("tenants", "--fidelity", "thesis"), "--fidelity is for encoder, "),
                ("--attention with thesis", ("encoder", "--attention", "cudnn", "--fidelity", "thesis"), "its own attention")):
            done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
            results.append((f"refused before it measures: {what}",
                            done.returncode != 0 and said in done.stderr and "median" not in done.stdout,
                            done.stdout + done.stderr))

        done = run(program, Path(folder, "attention"), "--attention", "cudnn", "--device", "host", "--only",
                   "gemm,encoder", "--case", "1x768x768", "--case", "1x128")
        notes = [json.loads(Path(folder, "attention", f"{bench}.json").read_text())["notes"]
                 for bench in ("gemm", "encoder")]
        results.append(("--attention applies to the benches with attention only",
                        done.returncode == 0 and "--attention cudnn" in Path(folder, "attention", "report.md").read_text()
                        and ["attention cudnn needs a GPU" in str(one) for one in notes] == [False, True], str(notes)))

        results += unknown_cases(program, Path(folder, "unknown"))

        results.append(("the running bench ends when it is killed", killed_whole(program, Path(folder, "killed")), ""))
        results += interrupted(program, Path(folder, "interrupted"))

        done = run(program, Path(folder, "qkv"), "--only", "operators", "--case", "get Q/K/V, f32")
        report = Path(folder, "qkv", "report.md").read_text()
        results.append(("Figure 5.5 shows the operator that the bench times",
                        done.returncode == 0 and Path(folder, "qkv", "figure-5.5.gp").exists()
                        and "| get Q/K/V | f32 |" in report, done.stderr + report))

        done = run(program, Path(folder, "launches"), "--only", "operators", "--case", "launches, 2 layers, f32",
                   "--case", "softmax, 2 layers, f32")
        operators = json.loads(Path(folder, "launches", "operators.json").read_text())["rows"]
        launches = {row["mode"]: row["value"] for row in operators if row["unit"] == "launches"}
        modes = ["seq", "multi-stream", "mps", "itif"]
        # One instance launches as often as sequential tenants if each tenant gets a pass of its
        # own, because the tokens of more do not fit in the cores' caches.
        results.append(("Table 5.4 has every mode: separate tenants launch like sequential ones, fused ones less",
                        list(launches) == [*modes, "packed"] and launches["itif"] <= launches["seq"]
                        and launches["seq"] == launches["multi-stream"] == launches["mps"]
                        and launches["packed"] < launches["itif"], done.stderr + str(launches)))
        results.append(("Table 5.3 has every mode",
                        [row["mode"] for row in operators if row["case"].startswith("softmax")] == modes,
                        done.stderr + str(operators)))

        done = run(program, Path(folder, "thesis"), "--only", "encoder,batching", "--fidelity", "thesis", "--case",
                   "albert-large (2 layers), 2 tenants, 4 requests, f32", "--case", "1x128")
        report = Path(folder, "thesis", "report.md").read_text()
        batching = json.loads(Path(folder, "thesis", "batching.json").read_text())
        rows = batching["rows"]
        results.append(("--fidelity applies to the benches that choose", done.returncode == 0
                        and "--fidelity thesis" in report, done.stderr + report))
        results.append(("every mode of Figures 5.2 to 5.4 gives equal results",
                        [row["mode"] for row in rows if row["unit"] == "ms"] == [*modes, "seq-fused", "packed"]
                        and [row["mode"] for row in rows if row["unit"] == "times"]
                        == ["seq / itif, mean", "seq-fused / packed, mean"], done.stderr + str(rows)))
        results.append(("modes name the same device as other benches, and have a limit",
                        batching["device"] == gemm["device"] and batching["device"].startswith("f32 on ")
                        and all(row["limit"] > 0 for row in rows if row["unit"] != "times"), str(batching)))

        results += swap(program, folder)
        results += overload(program, folder)
        results += gslice(program, Path(folder, "gslice"))
        results += sharing(program, Path(folder, "sharing"))
        results += ingest(program, Path(folder, "ingest"))

        done = run(program, Path(folder, "plain"), "--only", "scaling", "--case", "1 layers",
                   environment={**os.environ, "PATH": folder})
        report = Path(folder, "plain", "report.md").read_text()
        results.append(("without gnuplot it writes data and scripts, and reports it",
                        done.returncode == 0 and "No plots: cannot run gnuplot" in report
                        and Path(folder, "plain", "scaling-f32.gp").exists() and ".svg" not in report,
                        done.stderr + report))
    for number, (name, passed, details) in enumerate(results, 1):
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
        if not passed:
            print("\n".join("# " + line for line in details.splitlines()))
    print(f"1..{len(results)}")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
