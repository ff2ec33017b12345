#!/usr/bin/env python3
"""Checks our use of cuDNN against the real library, without a GPU: our enumerators against its headers, and our plans
of attention (lib/device/cuda/cudnn/cudnn_plan.cc), which cuDNN accepts and compiles for GPUs described to it.

    check_cudnn.py CUDNN    a folder with include/ and lib/: the package nvidia-cudnn-cu13's nvidia/cudnn, or a toolkit

cuDNN needs a driver library. This script builds a stub that only keeps compiled code. No kernel runs.
Needs g++, nm, GoogleTest, fmt, and the CUDA toolkit (CUDA_HOME, or /usr/local/cuda) with its stubs and NVRTC."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CUDA = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))

# Compute capability times 100, name, multiprocessors, largest shared memory of a block. COMMON has
# the members that cuDNN reads and that are equal for both.
GPUS = ((800, "NVIDIA A100-SXM4-80GB", 108, 166912), (900, "NVIDIA H100 80GB HBM3", 132, 232448))
COMMON = {
    "driverVer": 13000, "cudaDeviceId": 0, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "smCountOrigin": 0, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
    "oversizedSharedMemoryPerBlock": 0, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "memoryBusWidth": 5120,
    "l2CacheSize": 52428800, "totalGlobalMem": 85000000000,
}

# The driver's functions that load compiled code; they succeed. All others return
# CUDA_ERROR_STUB_LIBRARY.
KEEPS = {"cuInit": "", "cuLibraryLoadData": "void** it", "cuLibraryGetKernel": "void** it",
         "cuKernelGetFunction": "void** it", "cuLibraryGetModule": "void** it", "cuModuleGetFunction": "void** it",
         "cuDriverGetVersion": "int* version", "cuFuncGetAttribute": "int* value", "cuKernelGetAttribute": "int* value"}
SETS = {"void** it": "*it = &anything;", "int* version": "*version = 13000;", "int* value": "*value = 0;", "": ""}


def make_driver(folder):
    symbols = subprocess.run(("nm", "-D", "--defined-only", CUDA / "lib64/stubs/libcuda.so"), check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    names = sorted({line.split()[2].split("@")[0] for line in symbols.splitlines() if line.split()[2].startswith("cu")})
    lines = ["#define _GNU_SOURCE", "#include <dlfcn.h>", "static int anything;"]
    for name in names:
        if name.startswith("cuGetProcAddress"):
            lines.append(f"int {name}(const char* of, void** f) {{ return (*f = dlsym(RTLD_DEFAULT, of)) ? 0 : 500; }}")
        elif name in KEEPS:
            lines.append(f"int {name}({KEEPS[name]}) {{ {SETS[KEEPS[name]]} return 0; }}")
        elif name in ("cuGetErrorName", "cuGetErrorString"):
            lines.append(f'int {name}(int error, const char** text) {{ *text = "no driver"; return 0; }}')
        else:
            lines.append(f"int {name}() {{ return 34; }}")
    source = folder / "driver.c"
    source.write_text("\n".join(lines), encoding="utf-8")
    subprocess.run(("gcc", "-w", "-shared", "-fPIC", source, "-o", folder / "libcuda.so.1",
                    "-Wl,-soname,libcuda.so.1"), check=True)


def main(cudnn):
    compile_cc = ("g++", "-std=c++23", "-w", f"-I{REPOSITORY}", f"-I{REPOSITORY}/lib", f"-I{cudnn}/include",
                  f"-I{CUDA}/include")
    subprocess.run((*compile_cc, "-fsyntax-only", REPOSITORY / "tests/reference/cudnn_abi.cc"), check=True)
    print("our enumerators match cuDNN's headers")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_driver(folder)
        program = folder / "cudnn_test"
        sources = (REPOSITORY / "tests/simt/cudnn_test.cc", REPOSITORY / "lib/device/cuda/cudnn/cudnn_plan.cc",
                   REPOSITORY / "lib/device/cuda/cudnn/cudnn.cc")
        subprocess.run((*compile_cc, *sources, "-o", program, "-lgtest", "-lgtest_main", "-lfmt", "-ldl", "-lpthread"),
                       check=True)
        for capability, gpu, multiprocessors, shared_bytes in GPUS:
            target = {**COMMON, "deviceVer": capability, "deviceName": gpu, "multiProcessorCount": multiprocessors,
                      "maxSharedMemoryPerBlockOptin": shared_bytes}
            environment = {**os.environ, "ITIF_CUDNN_TARGET": json.dumps(target),
                           "LD_LIBRARY_PATH": f"{folder}:{cudnn}/lib:{cudnn}/lib64:{CUDA}/lib64"}
            run = subprocess.run(program, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 check=False)
            print(f"{gpu}: {run.stdout.strip().splitlines()[-1]}")
            if run.returncode != 0:
                sys.exit(run.stdout)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve())
