"""Refuses comments, also those behind code, that end beyond 100 columns, and docstrings beyond 120, as Python code.

`check(root)` returns the violations as "file:line: the violation", with the number of files.
"""

from pathlib import Path

import plain_words

ROOTS = ("app", "lib", "kernels", "tools", "tests", "conf", "meson.build", "meson_options.txt")
MAX_COLUMNS = 100
MAX_DOCSTRING_COLUMNS = 120
FORMATTERS = "# fmt: skip"  # a word to black that must stand on its line


def comment_lines(text, reader):
    """The numbers of the lines that hold a comment."""
    if reader is plain_words.read_cpp:
        for match in plain_words.CPP.finditer(text):
            if match.group(0).startswith("/"):
                first = text.count("\n", 0, match.start()) + 1
                yield from range(first, first + match.group(0).count("\n") + 1)
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = plain_words.HASH.match(line) if "#" in line else None
        if match and match.group(1).count('"') % 2 == 0 and not line.endswith(FORMATTERS):
            yield number


def docstring_lines(text):
    """The numbers of the lines that hold a Python docstring."""
    for match in plain_words.DOCSTRING.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        yield from range(first, first + match.group(0).count("\n") + 1)


def check(root):
    root = Path(root)
    violations, count = [], 0
    for name in ROOTS:
        for file in [root / name] if "." in name else sorted((root / name).rglob("*")):
            path = file.relative_to(root).as_posix()
            reader = None if path.startswith(plain_words.SKIPPED) or not file.is_file() else plain_words.reader_of(file)
            if reader is None or reader is plain_words.read_markdown:
                continue
            count += 1
            text = file.read_text(encoding="utf-8")
            lines = text.split("\n")
            violations += [f"{path}:{number}: a comment ends at column {len(lines[number - 1])}: "
                           f"the limit is {MAX_COLUMNS}"
                           for number in comment_lines(text, reader) if len(lines[number - 1]) > MAX_COLUMNS]
            if reader is plain_words.read_python:
                violations += [f"{path}:{number}: a docstring's line has {len(lines[number - 1])} columns: "
                               f"the limit is {MAX_DOCSTRING_COLUMNS}"
                               for number in docstring_lines(text) if len(lines[number - 1]) > MAX_DOCSTRING_COLUMNS]
    return violations, count
