"""Checks that the scripts of tests/reference can be run again: each names its environment, and a requirements file pins
every version that the committed results name. Prints TAP. Runs none of the scripts.

usage: reference_test.py ROOT
"""

import re
import sys
from pathlib import Path

ENVIRONMENTS = ("older", "newest", "either", "none", "PyTorch")


def pins(path):
    """{(package, version)} of a requirements file."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return {tuple(line.lower().split("==")) for line in lines if "==" in line}


def named(root):
    """{(package, version): file} that the results name: "reference": "transformers 5.24.0, torch 2.15.0"."""
    versions = {}
    for path in sorted((root / "tests/data").rglob("*.json")):
        for text in re.findall(r'"(?:reference|newest)": ?"([^"]+)"', path.read_text(errors="replace")):
            for package, version in re.findall(r"([A-Za-z-]+) (\d+\.\d+[.\d]*)", text):
                versions.setdefault((package.lower(), version), path.relative_to(root))
    return versions


def main(root):
    reference = root / "tests/reference"
    results = []
    pinned = [pins(reference / name) for name in ("requirements.txt", "requirements-newest.txt")]
    versions = named(root)
    missing = [f"{file} names {' '.join(version)}" for version, file in versions.items() if not any(version in all_of for all_of in pinned)]
    results.append((f"the requirements files pin all {len(versions)} versions of the results", len(versions) > 6 and not missing, missing))
    both = [set(dict(all_of)) for all_of in pinned]
    results.append(("each file has the packages of most scripts", {"torch", "transformers", "tokenizers"} <= both[0] & both[1], both))
    rows = dict(re.findall(r"^\| `(\w+\.py)` \| ([^|]+) \|", (reference / "README.md").read_text(), re.M))
    scripts = {path.name for path in reference.glob("*.py")} - {"itif_run.py"}  # a module
    results.append(("README.md has each script", set(rows) == scripts, sorted(set(rows) ^ scripts)))
    unclear = [f"{name}: {where}" for name, where in rows.items() if not where.startswith(ENVIRONMENTS)]
    results.append(("README.md says in which environment each runs", rows and not unclear, unclear))
    silent = [name for name, where in rows.items() if where.startswith("newest")
              and "requirements-newest.txt" not in (reference / name).read_text()]
    results.append(("a script of the newest environment names it", not silent, silent))
    print(f"1..{len(results)}")
    for number, (name, good, details) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {name}")
        for line in [] if good else details:
            print(f"# {line}")
    return 0 if all(good for _, good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
