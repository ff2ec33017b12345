"""Which layer may include which, and where each foreign library may appear.

The table points downwards only: a layer may include itself and what its row names, and every name in a
row stands above that row. `check(root)` reads the sources under root and returns the violations as
"file:line: what, and what is allowed".
"""

import re
from pathlib import Path

# In dependency order, as in the top meson.build.
LAYERS = {
    "base": (),
    "wire": ("base",),
    "tensor": ("base",),
    "request": ("base", "wire"),
    "tenant": ("base",),
    "plan": ("base",),
    "sched": ("base", "request", "tenant"),
    "config": ("base",),
    "telemetry": ("base",),
    "kernels": ("base", "tensor"),
    "device": ("base", "tensor", "kernels"),
    "model": ("base", "tensor", "kernels", "device"),
    "backbone": ("base", "tensor", "kernels", "device", "model"),
    "runtime": ("base", "wire", "tensor", "request", "tenant", "plan", "sched", "telemetry",
                "kernels", "device", "model", "backbone"),
    "net": ("base", "wire", "request"),
    "pipeline": ("base", "wire", "tensor", "request", "tenant", "plan", "sched", "config",
                 "telemetry", "kernels", "device", "model", "backbone", "runtime", "net"),
    "control": ("base", "wire", "tenant", "telemetry", "model"),
    "appliance": ("base", "wire", "tensor", "request", "tenant", "plan", "sched", "config", "telemetry",
                  "kernels", "device", "model", "backbone", "runtime", "net", "pipeline", "control"),
    "client": ("base", "wire"),
}
# Programs may include every layer.
PROGRAMS = ("app", "tools")

# Foreign headers (a regular expression of the name between the brackets), and the only paths, as
# prefixes, that may include them.
FOREIGN = (
    ("DPDK", r"rte_|ethdev_|bus_", ("lib/net/", "lib/pipeline/", r"tools/[^/]+/(dpdk|eal)_")),
    ("ZeroMQ", r"zmq", ("lib/control/", "tools/itifctl/")),
    ("oneDNN", r"dnnl|oneapi/dnnl", ("lib/device/host", "kernels/host/", "tools/itif-bench/bare_host")),
    ("CUDA", r"cu(da|blas)|nv(rtc|ml)|mma\.h|cooperative_groups", ("kernels/cuda/", "lib/device/cuda")),
    ("SQLite", r"sqlite3", ("lib/control/",)),
    ("libconfig", r"libconfig", ("lib/config/",)),
    ("spdlog", r"spdlog/", (r"lib/base/log\.cc",)),
    ("prometheus-cpp", r"prometheus/", ("lib/telemetry/",)),
    ("Highway", r"hwy/", ("kernels/host/", "lib/device/host")),
    ("utf8proc", r"utf8proc", ("lib/model/",)),
    ("SentencePiece", r"sentencepiece", (r"lib/model/sentencepiece_file\.h",)),
    ("libpng and libjpeg", r"png\.h|jpeglib|jerror", ("tools/itifctl/picture", "tests/unit/control/picture")),
)

# Time and randomness are injected: what would read them behind our back, and who may.
AMBIENT = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday|random_device"
    r"|rte_rdtsc\w*|rte_get_tsc_cycles|rte_get_timer_cycles|rte_rand\w*|__rdtsc\w*"
    r"|(?<![\w.>:])s?rand\(|(?<![\w.>:])time\()")
AMBIENT_ALLOWED = ("lib/base/clock.cc",)

MAX_LINES = 400

SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def layer_of(path):
    """"lib/net/port.cc" → "net", "kernels/host/x.cc" → "kernels", "tools/itifctl/x.cc" → "tools"."""
    parts = path.split("/")
    if parts[0] == "lib":
        return parts[1] if len(parts) > 2 else None
    return parts[0]


def code_lines(text):
    """The lines of `text` without comments; line numbers are kept."""
    blank = lambda match: "\n" * match.group(0).count("\n")
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    return [re.sub(r'(?<!:)//(?=(?:[^"]*"[^"]*")*[^"]*$).*', "", line) for line in text.split("\n")]


def check_include(path, layer, name, quoted):
    if not quoted:
        for library, pattern, allowed in FOREIGN:
            if re.match(pattern, name) and not any(re.match(prefix, path) for prefix in allowed):
                yield f"{library} (<{name}>) is allowed only in {', '.join(allowed)}"
        return
    target = name.split("/")[0]
    if layer in PROGRAMS:
        return
    if target not in LAYERS:
        yield f'"{name}" is in no layer: write "layer/file.h"'
    elif target != layer and target not in LAYERS[layer]:
        yield f"{layer} may not include {target}: it may include {', '.join(LAYERS[layer]) or 'none'}"


def check_file(path, text):
    layer = layer_of(path)
    if layer not in LAYERS and layer not in PROGRAMS:
        yield f"{path}:1: {layer} is no layer: add it to tests/unit/layers/layer_rules.py"
        return
    lines = code_lines(text)
    if text.count("\n") > MAX_LINES:
        yield f"{path}:{MAX_LINES}: {text.count(chr(10))} lines: split a file of more than {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        if include:
            name = include.group(1) or include.group(2)
            for what in check_include(path, layer, name, include.group(1) is not None):
                yield f"{path}:{number}: {what}"
        elif layer not in PROGRAMS and path not in AMBIENT_ALLOWED:
            ambient = AMBIENT.search(STRING.sub('""', line))
            if ambient:
                yield (f"{path}:{number}: {ambient.group(0)} reads ambient time or randomness: take a "
                       "Clock or a Random")


def check(root):
    """All violations under root, in path order, and how many files were read."""
    root = Path(root)
    violations, count = [], 0
    for folder in ("lib", "kernels", "app", "tools"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                count += 1
                violations += check_file(file.relative_to(root).as_posix(),
                                         file.read_text(encoding="utf-8"))
    return violations, count
