"""Runs the layer rules, the rule of one-way includes, the rules of plain words and the width of comments over the
repository, and over bad files that they must refuse. Prints TAP."""

import sys
import tempfile
from pathlib import Path

import comment_widths
import include_cycles
import layer_rules
import plain_words

# path, content, a part of the violation ("": the file is allowed)
LAYER_CASES = (
    ("lib/base/x.h", '#include "wire/header.h"\n', "lib/base/x.h:1: base may not include wire"),
    ("lib/net/x.cc", '\n#include "tenant/snapshot.h"\n', "lib/net/x.cc:2: net may not include tenant"),
    ("lib/runtime/x.cc", '#include "net/port.h"\n', "runtime may not include net"),
    ("lib/pipeline/x.cc", '#include "control/server.h"\n', "pipeline may not include control"),
    ("lib/pipeline/y.cc", '#include "execution/group_stage.h"\n', "pipeline may not include execution"),
    ("lib/pipeline/z.cc", '#include "runtime/group.h"\n', "pipeline may not include runtime"),
    ("lib/client/x.cc", '#include "net/frame.h"\n', "client may not include net"),
    ("lib/config/x.cc", '#include "wire/header.h"\n', "config may not include wire"),
    ("lib/control/x.cc", '#include "runtime/group.h"\n', "control may not include runtime"),
    ("lib/sched/x.cc", '#  include "device/device.h"\n', "sched may not include device"),
    ("lib/net/y.cc", '#include "port.h"\n', "is in no layer"),
    ("lib/sim/x.cc", '#include "serving/tenant_service.h"\n', "sim may not include serving"),
    ("lib/sim/y.cc", "#include <rte_ring.h>\n", "DPDK"),
    ("lib/sim/dpdk_x.cc", '#include <rte_ring.h>\n#include "execution/group_stage.h"\n', ""),
    ("lib/device/sim/x.cc", '#include "device/host/memory.h"\n', ""),
    ("lib/device/host/y.cc", '#include "device/sim/machine.h"\n', "host may not include"),
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
    ("lib/device/x.cc", '#include "device/host/gemm.h"\n', "may not include lib/device/host"),
    ("lib/device/cuda/y.cc", '#include "device/host/gemm.h"\n', "cuda may not include lib/device/host"),
    ("lib/device/host/x.cc", '#include "device/stream/async_stream.h"\n#include "device/device.h"\n', ""),
    ("lib/device/open_device.cc", '#include "device/host/x.h"\n#include "device/cuda/x.h"\n', ""),
    ("lib/device/cuda/memory/x.h", '#include "device/cuda/graph/graphs.h"\n', "memory may not include"),
    ("lib/device/cuda/cudnn/x.cc", '#include "device/cuda/gemm/gemm.h"\n', "cudnn may not include"),
    ("lib/device/cuda/gemm/x.cc", '#include "device/cuda/driver/error.h"\n#include "device/device.h"\n', ""),
    ("lib/device/cuda/x.cc", '#include "device/cuda/gemm/gemm.h"\n', ""),
    ("lib/device/cuda/graph/x.cc", '#include "device/cuda/stream.h"\n', "graph may not include lib/device/cuda"),
    ("lib/device/cuda/odd/x.cc", '#include "device/cuda/gemm/gemm.h"\n', "odd is no known subfolder"),
    ("lib/runtime/x.cc", '#include "runtime/batch/executor.h"\n', "may not include lib/runtime/batch"),
    ("lib/runtime/generate/x.cc", '#include "runtime/batch/executor.h"\n', "generate may not include"),
    ("lib/runtime/batch/x.cc", '#include "runtime/cost/cost_floor.h"\n#include "runtime/group.h"\n', ""),
    ("lib/runtime/make_group.cc", '#include "runtime/batch/x.h"\n#include "runtime/generate/x.h"\n', ""),
    ("lib/runtime/x.h", '#include "runtime/make_group.h"\n', "may not include lib/runtime/make_group.*"),
    ("lib/runtime/batch/y.cc", '#include "runtime/make_group.h"\n', "may not include lib/runtime/make_group.*"),
    ("tools/itif-bench/workload/x.cc", '#include "peers/modes.h"\n', "workload may not include"),
    ("tools/itif-bench/benches/x.cc", '#include "peers/modes.h"\n#include "benches.h"\n', ""),
    ("tools/itif-bench/ingest/x.cc", "#include <rte_ring.h>\n", ""),
    ("tools/itif-bench/benches/y.cc", "#include <rte_ring.h>\n", "DPDK"),
    ("tools/itif-bench/ingest/y.cc", '#include "benches/x.h"\n', "ingest may not include"),
    ("app/itifd.cc", '#include "pipeline/worker.h"\n#include "control/server.h"\n', ""),
)

WORD_CASES = (
    ("lib/a.h", "int x;\n\n// Of equals the youngest.\n", "lib/a.h:3: opens with 'Of'"),
    ("lib/b.cc", "// A long lead\n// ends here. What waits is\n// not computed.\n", "lib/b.cc:2: opens with 'What'"),
    ("lib/c.cc", "int x;  // a field\nint y;  // Nobody reads this\n", "lib/c.cc:2: opens with 'Nobody'"),
    ("kernels/d.cu", "/* Whether a row\n * is padding. */\n", "kernels/d.cu:1: opens with 'Whether'"),
    ("lib/e.cc", "// Errors: None of it is freed.\n", "opens with 'None'"),
    ("lib/f.cc", "// The figures of\n// late turns are a sum of late.\n", "'of late' is an idiom"),
    ("app/g.cc", 'log_warn("small batches are "\n         "not made, come again");\n', "app/g.cc:1: 'come again'"),
    ("tools/h.cc", 'fail(Code::kInternal, "Whoever waits for it, spoils it");\n', "opens with 'Whoever'"),
    ("tools/i", "#!/bin/bash\nx=1  # Where the files are\n", "tools/i:2: opens with 'Where'"),
    ("tests/unit/j.py", "x = 1\n# Likewise of the others.\n", "tests/unit/j.py:2: opens with 'Likewise'"),
    ("tools/meson.build", "# That is made of all sources.\n", "opens with 'That'"),
    ("conf/k.conf", "# Bytes. Nothing is kept of them.\n", "conf/k.conf:1: opens with 'Nothing'"),
    ("docs/l.md", "# Title\n\nA list:\n- Who asks first, is first.\n", "docs/l.md:4: opens with 'Who'"),
    ("README.md", "It serves without hugepages\nall the same.\n", "'all the same' is an idiom"),
    ("conf/sim/ac.cfg", "seed = 1;\n# Whoever sweeps it.\n", "conf/sim/ac.cfg:2: opens with 'Whoever'"),
    ("conf/ad.service.in", "# Nothing is locked by it.\n[Unit]\n", "conf/ad.service.in:1: opens with 'Nothing'"),
    ("tools/lib/ae.c", "// Nor is it a script.\n", "opens with 'Nor'"),
    ("results/README.md", "Of what was measured.\n", "opens with 'Of'"),
    ("meson.build", "error('Of fuzzers it needs one')\n", "meson.build:1: opens with 'Of'"),
    ("meson_options.txt", "option('a',\n       description: 'Where it is built')\n", "meson_options.txt:2: opens with 'Where'"),
    ("tools/af", "#!/bin/bash\n[[ $# == 1 ]] || die \"a build.\n  None of it runs\"\n", "tools/af:3: opens with 'None'"),
    ("tools/lib/ag.sh", "x=$(awk '{print}' f)\nsay 'it does not come again'\n", "tools/lib/ag.sh:2: 'come again'"),
    ("tools/ah", "#!/bin/bash\ncat <<END\nRun $x.\nWhat is left, is removed.\nEND\n", "tools/ah:4: opens with 'What'"),
    ("tools/ai", '#!/usr/bin/env python3\nimport sys\nsys.exit(f"bench: {x}. "\n         "Of these none ran")\n',
     "tools/ai:3: opens with 'Of'"),
    ("tools/aj.py", 'parser.add_argument("--a", help="Whose figures are read")\n', "tools/aj.py:1: opens with 'Whose'"),
    ("tools/ak", "#!/usr/bin/env python3\n\"\"\"Whoever runs it.\"\"\"\n", "tools/ak:2: opens with 'Whoever'"),
    ("lib/m.h", "// Ties go to the youngest hypothesis. Is it whole? What if not?\n", ""),
    ("lib/n.h", "int x;  // a sum of\nint y;  // late packets\n", ""),
    ("lib/o.cc", "// Offers a row; all rows are\n// all the same size. Whatsoever is a word.\n", ""),
    ("tests/p.cc", 'check("What a fine day, come again");\n', ""),
    ("tools/q.py", 'x = None  # None: all, in order\ny = "# Of no comment here"\n', ""),
    ("docs/r.md", "## What runs where\n\n## 2. Who may connect\n\n```\nOf what is code\n```\n", ""),
    ("docs/v.md", "Do not write `let go` or \"anew\".\n", ""),
    ("tests/data/s.md", "Of what is data.\n", ""),
    ("tests/fuzz/corpus/t.md", "Of what is data.\n", ""),
    ("results/u.md", "Of what was measured.\n", ""),
    ("docs/w.md", "| word | meaning |\n|---|---|\n| plan | which rows stand where |\n", "'stand where' is an idiom"),
    ("tools/x.py", 'def f():\n    """Whoever waits for it.\n    """\n', "opens with 'Whoever'"),
    ("tests/unit/y.cc", "TEST(Calls, OfOddSizesAreDivided) {}\n", "opens with 'Of'"),
    ("tests/unit/z.cc", "TEST_F(Calls, LargestOfLateWins) {}\n", "'Of Late' is an idiom"),
    ("lib/aa.cc", "x = largest_of_late(y);\n", "lib/aa.cc:1: 'of late' is an idiom"),
    ("tools/al", "#!/bin/bash\n# It is bash's. x\nx=${#y} # $(\"Of\" is short)\necho 'x'\\''y' \"a b c\"\n", ""),
    ("tests/am.py", 'check("Of what is data")\n', ""),
    ("lib/ab.cc", "TEST(Calls, TakesAStreamEach) {}\nTEST(Calls, ANewOneWins) {}\nx = of_latency;\n", ""),
)


WIDTH_CASES = (
    ("lib/a.cc", "  // " + 95 * "a" + "\n  // " + 96 * "a" + "\nint " + 99 * "a" + ";\n", "lib/a.cc:2: a comment"),
    ("lib/b.h", "int " + 80 * "a" + ";  // " + 20 * "a" + "\n", "lib/b.h:1: a comment ends at column 110"),
    ("kernels/c.cu", "/* a\n" + 101 * "a" + " */\n", "kernels/c.cu:2: "),
    ("tools/d", "#!/bin/bash\n# " + 99 * "a" + "\n", "tools/d:2: a comment ends at column 101"),
    ("tools/e", "#!/usr/bin/env python3\nx = 1  # " + 99 * "a" + "\n", "tools/e:2: "),
    ("tests/gpu/meson.build", "x = '" + 80 * "a" + "',  # " + 20 * "a" + "\n", "tests/gpu/meson.build:1: "),
    ("conf/f.conf", "a = 1;  # " + 99 * "a" + "\n", "conf/f.conf:1: "),
    ("tools/g.py", 'x = "' + 60 * "a" + " # " + 60 * "a" + '"\n', ""),
    ("tools/h.py", "def f(" + 90 * "a" + "):  # fmt: skip\n", ""),
    ("lib/i.cc", 'x = "' + 60 * "a" + "// " + 60 * "a" + '";\n', ""),
)

# Files, a part of each violation (none: the files are allowed)
CYCLE_CASES = (
    ({"lib/a/x.h": '#include "a/y.h"\n', "lib/a/y.h": "", "lib/a/y.cc": '#include "a/x.h"\n'},
     ["lib/a/x.h:1: lib/a/y includes lib/a/x", "lib/a/y.cc:1: "]),
    ({"lib/a/x.h": '#include "a/y.h"\n', "lib/a/y.h": '\n#include "a/z.h"\n', "lib/a/z.h": "",
      "lib/a/z.cc": '#include "a/x.h"\n'}, ["lib/a/x.h:1: ", "lib/a/y.h:2: ", "lib/a/z.cc:1: "]),
    ({"tools/t/b/x.h": '#include "b/y.h"\n', "tools/t/b/y.h": '#include "b/x.h"\n'}, ["tools/t/b/x.h", "tools/t/b/y.h"]),
    ({"lib/a/x.cc": '#include "a/x.h"\n', "lib/a/x.h": '#include "a/y.h"\n', "lib/a/y.cc": '#include "a/y.h"\n',
      "lib/a/y.h": "", "lib/a/x_part.cc": '#include "a/x.h"\n'}, []),
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


def run_case(tap, rules, path, content, expected):
    with tempfile.TemporaryDirectory() as root:
        file = Path(root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
        violations, _ = rules.check(root)
    if expected:
        passed = len(violations) == 1 and expected in violations[0]
    else:
        passed = not violations
    tap.result(passed, f"{path} is {'refused' if expected else 'allowed'}",
               [] if passed else [f"content: {content[:80]!r}", f"got: {violations}"])


def run_cycle_case(tap, files, expected):
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            file = Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        violations, _ = include_cycles.check(root)
    passed = len(violations) == len(expected) and all(map(str.__contains__, violations, expected))
    tap.result(passed, f"a cycle of {len(expected)} modules is found", [] if passed else [f"got: {violations}"])


def main(root):
    tap = Tap()
    above = []
    for layer, allowed in layer_rules.LAYERS.items():
        foreign = [name for name in allowed if name not in above]
        tap.result(not foreign, f"the row of {layer} points downwards only", foreign)
        above.append(layer)
    for rules, cases, name in ((layer_rules, LAYER_CASES, "the sources keep the layers"),
                               (plain_words, WORD_CASES, "comments, messages and documents use plain words"),
                               (comment_widths, WIDTH_CASES, "comments fit 100 columns")):
        for case in cases:
            run_case(tap, rules, *case)
        violations, count = rules.check(root)
        tap.result(count > 50, f"the files are found ({count} files)")
        tap.result(not violations, name, violations)
    for files, expected in CYCLE_CASES:
        run_cycle_case(tap, files, expected)
    violations, count = include_cycles.check(root)
    tap.result(count > 50, f"the files are found ({count} files)")
    tap.result(not violations, "modules include each other one way only", violations)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
