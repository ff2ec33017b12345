"""Finds modules that include each other. A module is a header with the source of its name: x.h and x.cc. Includes run
one way among modules, so that each can be read, tested and moved with only those below it.

`check(root)` returns the violations as "file:line: the violation, and the remedy", with the number of files.
"""

from pathlib import Path

import layer_rules

FOLDERS = ("lib", "kernels", "app", "tools")


def target_of(path, name, files):
    """The file that `path` includes as "name"; None: it is generated, or a library's."""
    tool = "/".join(path.split("/")[:2])
    for folder in ("lib/", "", f"{tool}/", f"{Path(path).parent.as_posix()}/"):
        if folder + name in files:
            return folder + name
    return None


def read_includes(root):
    """By module, the modules that it includes, each with one such include's place; and how many files were read."""
    root = Path(root)
    files = {file.relative_to(root).as_posix(): file
             for folder in FOLDERS for file in sorted((root / folder).rglob("*"))
             if file.suffix in layer_rules.SUFFIXES and file.is_file()}
    includes = {}
    for path, file in files.items():
        module = path.rsplit(".", 1)[0]
        below = includes.setdefault(module, {})
        for number, line in enumerate(layer_rules.code_lines(file.read_text(encoding="utf-8")), 1):
            include = layer_rules.INCLUDE.match(line)
            target = target_of(path, include.group(1), files) if include and include.group(1) else None
            other = target.rsplit(".", 1)[0] if target else module
            if other != module:
                below.setdefault(other, f"{path}:{number}")
    return includes, len(files)


def reachable(includes, start):
    """All modules that `start` includes, also by way of others."""
    seen, waiting = set(), [start]
    while waiting:
        for other in includes.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def check(root):
    includes, count = read_includes(root)
    below = {module: reachable(includes, module) for module in includes}
    violations = [f"{place}: {other} includes {module}, perhaps by way of others: move what both need to a header below both"
                  for module, others in includes.items() for other, place in others.items()
                  if module in below.get(other, ())]
    return violations, count
