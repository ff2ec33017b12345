#!/usr/bin/env python3
"""Writes tests/data/resize/cases.json: hashes of pictures that Pillow resized.

A picture's byte i comes from the i-th state of s' = s · 6364136223846793005 + 1442695040888963407 (mod 2^64),
starting at the case's seed: its top 8 bits ("noise"), or 0 or 255 by its top bit ("edges", at which filters
overshoot). The result is stored as its 64-bit FNV-1a hash. Filters are numbered as in Pillow.
"""

import argparse
import json
import pathlib

import numpy as np
import PIL
from PIL import Image

# (height, width) before and after.
SIZES = [
    ((28, 28), (28, 28)), ((1, 1), (5, 3)), ((5, 3), (1, 1)), ((40, 33), (28, 21)), ((9, 11), (28, 21)),
    ((28, 50), (28, 21)), ((50, 21), (28, 21)), ((17, 400), (31, 8)), ((400, 17), (8, 31)), ((7, 3), (100, 101)),
    ((480, 640), (224, 224)), ((123, 457), (224, 224)), ((1, 997), (13, 13)), ((255, 256), (254, 257)),
]


def picture(seed, count, pattern):
    state, out = seed, bytearray(count)
    for i in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
        out[i] = state >> 56 if pattern == "noise" else 255 * (state >> 63)
    return bytes(out)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return value


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "data" / "resize" / "cases.json")
    path = parser.parse_args().out
    cases = []
    for index, (before, after) in enumerate(SIZES):
        channels = (3, 1)[index % 3 == 2]
        pattern = ("noise", "edges")[index % 2]
        data = picture(index + 1, before[0] * before[1] * channels, pattern)
        array = np.frombuffer(data, np.uint8).reshape(*before, channels)
        image = Image.fromarray(array.squeeze(-1) if channels == 1 else array)
        for resample in range(6):
            resized = np.asarray(image.resize((after[1], after[0]), resample)).tobytes()
            cases.append({"filter": resample, "from": before, "to": after, "channels": channels, "pattern": pattern,
                          "seed": index + 1, "fnv": f"{fnv(resized):016x}"})
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join(json.dumps(case) for case in cases)
    path.write_text(f'{{"reference": "Pillow {PIL.__version__}", "cases": [\n{rows}\n]}}\n')
    print(f"{path}: {len(cases)} cases")


if __name__ == "__main__":
    main()
