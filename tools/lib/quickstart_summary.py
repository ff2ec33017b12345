"""Prints the last line of the quick start, from itif-loadgen's results and itifctl's device document.

usage: quickstart_summary.py LOADGEN_JSON DEVICE_JSON

Exits 0 only if every tenant was answered and nothing was lost.
"""

import json
import sys


def main(loadgen_path, device_path):
    with open(loadgen_path, encoding="utf-8") as file:
        results = json.load(file)
    with open(device_path, encoding="utf-8") as file:
        device = json.load(file)
    total = results["total"]
    latency = total["latency"]
    print(f"quickstart: {total['answered']} requests answered, {total['lost']} lost, "
          f"p50 {latency['p50_us']:.0f} us, p99 {latency['p99_us']:.0f} us, "
          f"{total['requests_per_s']:.0f} requests/s, device {device['kind']} {device['dtype']}")
    unanswered = [tenant["name"] for tenant in results["tenants"] if tenant["answered"] == 0]
    if unanswered:
        print(f"quickstart: no request of {', '.join(unanswered)} was answered", file=sys.stderr)
    return 0 if not unanswered and total["lost"] == 0 and total["answered"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
