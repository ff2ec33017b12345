"""Runs itif-bench on the simulated GPU. Checks that the execution modes compute the same and use the requested
attention. Prints TAP.

usage: bench_test.py BENCH_ON_SIMT
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MODES = {"seq", "multi-stream", "mps", "itif", "seq-fused", "packed"}


def main(program):
    results = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        # In f32, each device logs that it does not use cuDNN: the bench's, that of seq and itif,
        # that of seq-fused and packed, multi-stream's, mps's, and those of mps's two processes.
        done = subprocess.run(
            (program, "batching", "--quick", "--device", "cuda", "--attention", "cudnn", "--dtype", "f32", "--case",
             "albert-large (2 layers), 2 tenants, 2 requests, f32", "--json", str(out)),
            capture_output=True, text=True, timeout=250)
        rows = json.loads(out.read_text())["rows"]
        results.append(("every mode runs on a GPU", done.returncode == 0 and {row["mode"] for row in rows} >= MODES,
                        done.stderr + done.stdout))
        said = (done.stderr + done.stdout).count("attention uses itif's kernels")
        results.append(("every device uses the requested attention", said == 7, f"{said}: {done.stderr}{done.stdout}"))
    for number, (name, passed, details) in enumerate(results, 1):
        print(f"{'ok' if passed else 'not ok'} {number} - {name}")
        if not passed:
            print("\n".join("# " + line for line in details.splitlines()))
    print(f"1..{len(results)}")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
