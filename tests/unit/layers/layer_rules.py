"""The layers that each layer may include, and the places of each foreign library.

The table points downwards only: a layer may include itself and the layers that its row names, and a row names
only layers of earlier rows. `check(root)` reads the sources under root and returns the violations as
"file:line: the violation, and what is allowed", with the number of files.
"""

import re
from pathlib import Path

# In dependency order, as in the top meson.build.
LAYERS = {
    "base": (),
    "wire": (),
    "tensor": ("base",),
    "tenant": ("base", "wire"),
    "request": ("base", "wire", "tenant"),
    "plan": ("base",),
    "slice": ("base",),
    "sched": ("base", "request", "tenant", "slice"),  # batch control's verdict on a share
    "config": ("base", "tensor", "plan", "sched"),  # the names of planners and batch policies
    "telemetry": ("base",),
    "kernels": ("base", "tensor"),
    "device": ("base", "tensor", "kernels"),
    "json": ("base",),
    "text": ("base", "json"),
    "model": ("base", "tensor", "kernels", "device", "json", "text"),
    "backbone": ("base", "kernels", "device", "json", "text", "model"),
    "runtime": ("base", "wire", "request", "plan", "slice", "sched", "kernels", "device", "text", "model",
                "backbone"),
    "net": ("base", "wire", "request"),
    "pipeline": ("base", "wire", "request", "tenant", "sched", "config", "telemetry", "device", "net"),
    "execution": ("base", "wire", "request", "slice", "telemetry", "device", "runtime", "pipeline"),
    "control": ("base", "tenant", "json"),
    "serving": ("base", "wire", "tenant", "plan", "slice", "config", "telemetry", "device", "json", "model",
                "backbone", "runtime", "net", "pipeline", "execution", "control"),
    "client": ("base", "wire"),
    "sim": ("base", "wire", "tensor", "tenant", "request", "plan", "slice", "sched", "config", "telemetry", "kernels",
            "device", "json", "model", "backbone", "runtime", "net", "pipeline", "execution", "control", "client"),
}
# Rooms inside a folder, lowest first: a room may include itself and the rooms before it in this
# list. "" stands for the files of the folder itself. A name with ".*" is a room of such files:
# those of that name, with any suffix.
ROOMS = {
    "lib/device": ("", "stream", "host", "sim", "cuda", "no_cuda.*", "open_device.*"),
    "lib/device/cuda": ("driver", "memory", "slices", "graph", "gemm", "cudnn", ""),
    "lib/runtime": ("", "cost", "batch", "generate", "make_group.*"),
    "tools/itif-bench": ("commit.*", "report", "benches.*", "limits", "workload", "child_process.*", "peers", "ingest", "benches", "all.*", "main.*"),
}
# Rooms that do not know each other though one stands above the other.
APART = {("lib/device", "cuda", "host"), ("lib/device/cuda", "cudnn", "gemm"), ("lib/runtime", "generate", "batch"),
         ("tools/itif-bench", "limits", "report")}

# Programs may include every layer.
PROGRAMS = ("app", "tools")

# Foreign headers (a regular expression of the name between the brackets), and the path prefixes
# (regular expressions, too) that may include them.
FOREIGN = (
    ("DPDK", r"rte_|ethdev_|bus_", ("lib/net/", "lib/pipeline/", "lib/serving/", "lib/sim/dpdk_", r"tools/[^/]+/(dpdk|eal)_",
                        "tools/itif-bench/ingest/")),
    ("ZeroMQ", r"zmq", ("lib/control/", "tools/itifctl/")),
    ("oneDNN", r"dnnl|oneapi/dnnl", ("lib/device/host", "kernels/host/", "tools/itif-bench/limits/bare_host")),
    ("CUDA", r"cu(da|blas)|nv(rtc|ml)|mma\.h|cooperative_groups", ("kernels/cuda/", "lib/device/cuda")),
    ("SQLite", r"sqlite3", ("lib/control/",)),
    ("libpcap", r"pcap", (r"tools/itif-loadgen/pcap_file\.cc",)),
    ("libseccomp", r"seccomp\.h", (r"lib/serving/(seccomp_filter|sandbox)\.cc",)),
    ("libconfig", r"libconfig", ("lib/config/",)),
    ("spdlog", r"spdlog/", (r"lib/base/log\.cc",)),
    ("prometheus-cpp", r"prometheus/", ("lib/telemetry/",)),
    ("Highway", r"hwy/", ("kernels/host/", "lib/device/host")),
    ("utf8proc", r"utf8proc", ("lib/text/",)),
    ("SentencePiece", r"sentencepiece", (r"lib/text/sentencepiece_file\.h",)),
    ("libpng and libjpeg", r"png\.h|jpeglib|jerror", ("tools/itifctl/picture", "tests/unit/control/picture")),
)

# Calls that read ambient time or randomness, which are injected instead, and the files that may
# call them.
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


def room_of(folder, path):
    """"lib/device/cuda", "lib/device/cuda/gemm/blas.h" → "gemm"; "" for a file of the folder itself that is in
    no room."""
    inner = path.removeprefix(folder + "/").split("/")
    if len(inner) > 1:
        return inner[0]
    files = inner[0].split(".")[0] + ".*"
    return files if files in ROOMS[folder] else ""


def check_room(path, name):
    for folder, rooms in ROOMS.items():
        target = name if folder.startswith("tools/") else "lib/" + name
        if folder.startswith("tools/") and path.startswith(folder + "/"):
            target = f"{folder}/{name}"
        if not path.startswith(folder + "/") or not target.startswith(folder + "/"):
            continue
        mine, other = room_of(folder, path), room_of(folder, target)
        if mine not in rooms or (other not in rooms and not folder.startswith("tools/")):
            yield f"{other if mine in rooms else mine} is no known subfolder of {folder}: add it to tests/unit/layers/layer_rules.py"
        elif other not in rooms:
            continue  # a header of another library
        elif (folder, mine, other) in APART or rooms.index(other) > rooms.index(mine):
            yield f"{folder}/{mine} may not include {folder}/{other}: subfolders include those before them in {rooms}"


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
            for what in check_room(path, name) if include.group(1) else ():
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
