"""Runs the layer rules over the sources, and over bad files that they must refuse. Prints TAP."""

import sys
import tempfile
from pathlib import Path

import layer_rules

# path, content, what the violation must contain ("" for: must be allowed)
CASES = (
    ("lib/base/x.h", '#include "wire/header.h"\n', "lib/base/x.h:1: base may not include wire"),
    ("lib/net/x.cc", '\n#include "tenant/snapshot.h"\n', "lib/net/x.cc:2: net may not include tenant"),
    ("lib/runtime/x.cc", '#include "net/port.h"\n', "runtime may not include net"),
    ("lib/pipeline/x.cc", '#include "control/server.h"\n', "pipeline may not include control"),
    ("lib/client/x.cc", '#include "net/frame.h"\n', "client may not include net"),
    ("lib/config/x.cc", '#include "wire/header.h"\n', "config may not include wire"),
    ("lib/control/x.cc", '#include "runtime/group.h"\n', "control may not include runtime"),
    ("lib/sched/x.cc", '#  include "device/device.h"\n', "sched may not include device"),
    ("lib/net/y.cc", '#include "port.h"\n', "is in no layer"),
    ("lib/strange/x.cc", "int x;\n", "strange is no layer"),
    ("lib/runtime/y.cc", "#include <rte_mbuf.h>\n", "DPDK (<rte_mbuf.h>) is allowed only"),
    ("app/x.cc", "#include <rte_eal.h>\n", "DPDK"),
    ("tools/itif-loadgen/x.cc", "#include <zmq.hpp>\n", "ZeroMQ"),
    ("lib/runtime/z.cc", "#include <dnnl.hpp>\n", "oneDNN"),
    ("lib/device/no_cuda.cc", "#include <cuda_runtime.h>\n", "CUDA"),
    ("lib/net/z.cc", "auto t = std::chrono::steady_clock::now();\n", "steady_clock reads ambient"),
    ("lib/sched/y.cc", "clock_gettime(CLOCK_MONOTONIC, &t);\n", "clock_gettime"),
    ("lib/sched/z.cc", "std::random_device seed;\n", "random_device"),
    ("lib/net/w.cc", "uint64_t t = rte_rdtsc();\n", "rte_rdtsc"),
    ("lib/net/v.cc", "int r = rand();\n", "rand("),
    ("lib/net/long.cc", "int x;\n" * 401, "split a file"),
    ("lib/net/ok.cc", '#include <rte_mbuf.h>\n#include "wire/header.h"\n#include "net/port.h"\n', ""),
    ("lib/base/clock.cc", "clock_gettime(CLOCK_MONOTONIC, &t);\n", ""),
    ("lib/base/comment.cc", '// #include "wire/header.h"\n/* steady_clock\n*/ int x;\n', ""),
    ("lib/base/text.cc", 'const char* x = "steady_clock";\n', ""),
    ("lib/base/member.cc", "x.time(); y->rand(); z::time();\n", ""),
    ("lib/device/host_device.cc", "#include <dnnl.hpp>\n", ""),
    ("kernels/cuda/x.cu", '#include <cuda_bf16.h>\n#include "kernels/args.h"\n', ""),
    ("tools/itif-loadgen/dpdk_sender.cc", "#include <rte_ethdev.h>\n", ""),
    ("app/itifd.cc", '#include "pipeline/worker.h"\n#include "control/server.h"\n', ""),
)


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def result(self, passed, name, details=()):
        self.count += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.count} - {name}")
        for line in details:
            print(f"# {line}")


def run_case(tap, path, content, expected):
    with tempfile.TemporaryDirectory() as root:
        file = Path(root, path)
        file.parent.mkdir(parents=True)
        file.write_text(content, encoding="utf-8")
        violations, _ = layer_rules.check(root)
    if expected:
        passed = len(violations) == 1 and expected in violations[0]
    else:
        passed = not violations
    tap.result(passed, f"{path} is {'refused' if expected else 'allowed'}",
               [] if passed else [f"content: {content[:80]!r}", f"got: {violations}"])


def main(root):
    tap = Tap()
    above = []
    for layer, allowed in layer_rules.LAYERS.items():
        foreign = [name for name in allowed if name not in above]
        tap.result(not foreign, f"the row of {layer} points downwards only", foreign)
        above.append(layer)
    for case in CASES:
        run_case(tap, *case)
    violations, count = layer_rules.check(root)
    tap.result(count > 50, f"the sources are found ({count} files)")
    tap.result(not violations, "the sources keep the layers", violations)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
