#!/usr/bin/env python3
"""Writes a source with one defect: mutate.py SOURCE OUT OLD NEW. OLD must occur exactly once, so that a change of the
line that a mutant breaks is noticed."""

import sys
from pathlib import Path

source, out, old, new = sys.argv[1:]
text = Path(source).read_text(encoding="utf-8")
if text.count(old) != 1:
    sys.exit(f"{source} holds {old!r} {text.count(old)} times, not once: update tests/simt/mutants/meson.build")
Path(out).write_text(text.replace(old, new), encoding="utf-8")
