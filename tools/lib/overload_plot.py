"""Draws goodput and latency against the offered load, from the rows of tools/bench-overload, with gnuplot."""

import subprocess
import sys
import tempfile
from pathlib import Path

BESIDE = ", quiet beside"
SCRIPT = """set terminal svg size 900,420 background '#ffffff'
set output '{out}'
set multiplot layout 1,2
set key bottom
set xlabel 'offered, times the closed loop'
set logscale x 2
set yrange [0:*]
set ylabel 'answers in time/s'
plot '{data}' index 0 using 1:2 with linespoints title 'one tenant', \\
     '{data}' index 1 using 1:2 with linespoints title 'a quiet tenant beside', \\
     {capacity} with lines dashtype 2 title 'closed loop'
set key top
set logscale y
set yrange [*:*]
set ylabel 'ms'
plot '{data}' index 0 using 1:3 with linespoints title 'p99, one tenant', \\
     '{data}' index 1 using 1:4 with linespoints title 'p50, quiet tenant', \\
     '{data}' index 1 using 1:5 with linespoints title 'p99, quiet tenant'
"""


def lines_of(rows, beside):
    """Lines of offered load, answers in time/s, and latencies in ms; "?" for a figure that a row lacks."""
    lines = []
    for row in rows:
        factor = row["case"].removesuffix(BESIDE)
        if row["mode"] != "goodput" or not factor.endswith("x") or row["case"].endswith(BESIDE) != beside:
            continue
        ms = [f"{row[name] / 1e3:.4g}" if name in row else "?" for name in ("p99_us", "quiet_p50_us", "quiet_p99_us")]
        lines.append(" ".join([factor[:-1], f"{row['in_time_per_s']:.6g}", *ms]))
    return "\n".join(lines)


def draw(rows, out):
    """Writes the curves to `out`, an SVG file."""
    goodput = [row for row in rows if row["mode"] == "goodput"]
    if not lines_of(goodput, False):
        sys.exit("bench-overload: --plot: there are no rows of goodput to draw")
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "overload.dat")
        data.write_text(f"{lines_of(goodput, False)}\n\n\n{lines_of(goodput, True)}\n", encoding="utf-8")
        script = SCRIPT.format(out=str(out).replace("'", "''"), data=data, capacity=goodput[0]["capacity_per_s"])
        try:
            done = subprocess.run(["gnuplot", "-e", "set datafile missing '?'", "-"], input=script, text=True,
                                  capture_output=True, check=False)
        except FileNotFoundError:
            sys.exit("bench-overload: --plot needs gnuplot")
    if done.returncode != 0:
        sys.exit(f"bench-overload: gnuplot: {done.stderr}")
