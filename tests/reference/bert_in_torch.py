#!/usr/bin/env python3
"""BERT-base in PyTorch on a GPU, for comparison with itif-bench: the encoder (`itif-bench encoder`), one model per
tenant (`itif-bench tenants`), and attention by cuDNN's and FlashAttention's kernels (`itif-bench operators`).
tools/gpu-check runs it after those benches.

Each case runs eagerly (scaled_dot_product_attention) and as a replayed CUDA graph. Models of several tenants run one
after another, and each on a separate stream. Weights are random, because times do not depend on them. Results are
checked against f32 before they are timed.

--beside names the files that those benches wrote with --json. Their figures are printed beside PyTorch's; the ratio is
PyTorch's time divided by ours. --json writes rows in the format of itif-bench (`itif-bench show` prints them). The
spread is itif-bench's: (90th percentile - 10th) / median. Needs PyTorch only.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import time

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, INTERMEDIATE, VOCAB, POSITIONS = 12, 768, 12, 3072, 30522, 512

# The cases of tools/itif-bench/benches/encoder.cc, and one large batch.
CASES = [("1x32", [32]), ("1x128", [128]), ("4x128", [128] * 4), ("8x64", [64] * 8), ("128x128", [128] * 128)]
TENANTS = [2, 3, 4, 5]
LENGTH = 128


class Bert:
    """Computes the last hidden states of token ids."""

    def __init__(self, seed, device, dtype):
        generator = torch.Generator().manual_seed(seed)

        def random(*shape):
            return (torch.randn(*shape, generator=generator) * 0.02).to(device, dtype)

        def norm():
            return torch.ones(HIDDEN, device=device, dtype=dtype), torch.zeros(HIDDEN, device=device, dtype=dtype)

        self.words, self.positions, self.first = random(VOCAB, HIDDEN), random(POSITIONS, HIDDEN), norm()
        self.layers = [
            {
                "qkv": (random(3 * HIDDEN, HIDDEN), random(3 * HIDDEN)),
                "out": (random(HIDDEN, HIDDEN), random(HIDDEN)),
                "up": (random(INTERMEDIATE, HIDDEN), random(INTERMEDIATE)),
                "down": (random(HIDDEN, INTERMEDIATE), random(HIDDEN)),
                "norms": (norm(), norm()),
            }
            for _ in range(LAYERS)
        ]

    def __call__(self, ids):
        """ids [batch, length] → [batch, length, hidden]"""
        batch, length = ids.shape
        x = F.layer_norm(F.embedding(ids, self.words) + self.positions[:length], (HIDDEN,), *self.first)
        for layer in self.layers:
            qkv = F.linear(x, *layer["qkv"]).view(batch, length, 3, HEADS, HIDDEN // HEADS)
            q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
            context = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, HIDDEN)
            x = F.layer_norm(x + F.linear(context, *layer["out"]), (HIDDEN,), *layer["norms"][0])
            wide = F.gelu(F.linear(x, *layer["up"]))
            x = F.layer_norm(x + F.linear(wide, *layer["down"]), (HIDDEN,), *layer["norms"][1])
        return x


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def time_ms(call, device, seconds):
    """Times of calls, each from its start on the host to its end on the device."""
    for _ in range(3):
        call()
    finish(device)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 9:
        start = time.perf_counter()
        call()
        finish(device)
        times.append((time.perf_counter() - start) * 1e3)
    times.sort()
    return times


class Report:
    def __init__(self, beside):
        self.rows, self.ours = [], {}
        for path in beside:
            for row in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["rows"]:
                if row["mode"] in ("f32", "bf16", "f16", "itif"):
                    self.ours[row["case"], row["unit"]] = row["value"]

    def add(self, name, mode, times, unit="ms"):
        middle = times[len(times) // 2]
        at = lambda share: times[round(share * (len(times) - 1))]
        row = {"case": name, "mode": mode, "value": middle, "unit": unit, "spread": (at(0.9) - at(0.1)) / middle}
        if (ours := self.ours.get((name, unit))) is not None:
            row |= {"limit": ours, "ratio": middle / ours}
        self.rows.append(row)
        beside = f"  itif {row['limit']:.4f}, {row['ratio']:.2f} times" if "limit" in row else ""
        print(f"{name}  {mode}  {middle:.4f} {unit}  {100 * row['spread']:.1f} %{beside}", flush=True)

    def write(self, path, device):
        memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        machine = {
            "cpu": platform.processor() or platform.machine(),
            "cpus": os.cpu_count(),
            "memory_bytes": memory_bytes,
            "kernel": f"{platform.system()} {platform.release()}",
        }
        name = torch.cuda.get_device_name() if device == "cuda" else machine["cpu"]
        document = {
            "bench": "pytorch",
            "commit": "",
            "machine": machine,
            "device": f"PyTorch {torch.__version__} on {name}",
            "limit_name": "itif",
            "notes": [],
            "rows": self.rows,
        }
        pathlib.Path(path).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def captured(call):
    """Captures `call` as a graph. Returns its replay function and its outputs, which each replay overwrites."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph.replay, result


def check(what, got, expected):
    cosine = F.cosine_similarity(got.float().flatten(), expected.float().flatten(), dim=0).item()
    if not cosine >= 0.999:
        sys.exit(f"{what}: cosine {cosine} with f32")


def ids_of(batch, length, device):
    return torch.randint(0, VOCAB, (batch, length), generator=torch.Generator().manual_seed(batch)).to(device)


def run_encoder(report, device, dtype, seconds, name_of_type):
    model, exact = Bert(1, device, dtype), Bert(1, device, torch.float32)
    for name, lengths in CASES:
        ids = ids_of(len(lengths), lengths[0], device)
        eager = lambda: model(ids)
        expected = exact(ids)
        check(name, eager(), expected)
        report.add(name, f"PyTorch eager, {name_of_type}", time_ms(eager, device, seconds))
        if device == "cuda":
            replay, result = captured(eager)
            replay()
            finish(device)
            check(f"{name}, graph", result, expected)
            report.add(name, f"PyTorch graph, {name_of_type}", time_ms(replay, device, seconds))


def run_tenants(report, device, dtype, seconds, name_of_type):
    models = [Bert(seed, device, dtype) for seed in range(max(TENANTS))]
    ids = ids_of(1, LENGTH, device)
    streams = [torch.cuda.Stream() for _ in models] if device == "cuda" else []

    def in_turn(count):
        return [model(ids) for model in models[:count]]

    def on_streams(count):
        begin = torch.cuda.current_stream()
        for model, stream in zip(models[:count], streams):
            stream.wait_stream(begin)
            with torch.cuda.stream(stream):
                model(ids)
        for stream in streams[:count]:
            begin.wait_stream(stream)

    for count in TENANTS:
        name = f"bert-base, {count} tenants, {name_of_type}"
        report.add(name, "PyTorch eager, in turn", time_ms(lambda: in_turn(count), device, seconds))
        if device == "cuda":
            report.add(name, "PyTorch eager, streams", time_ms(lambda: on_streams(count), device, seconds))
            replay, _ = captured(lambda: in_turn(count))
            report.add(name, "PyTorch graph, in turn", time_ms(replay, device, seconds))
            replay, _ = captured(lambda: on_streams(count))
            report.add(name, "PyTorch graph, streams", time_ms(replay, device, seconds))


def run_attention(report, device, dtype, seconds, name_of_type):
    """Attention of `tokens` rows in segments of 128, repeated often enough to hide the wait for the GPU."""
    repeats = 32 if device == "cuda" else 1
    backends = {"PyTorch": None}
    if device == "cuda":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backends = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention": SDPBackend.FLASH_ATTENTION}
    for tokens in (32, 128, 512, 8192):
        length = min(tokens, LENGTH)
        shape = (tokens // length, HEADS, length, HIDDEN // HEADS)
        q, k, v = (torch.randn(*shape, device=device, dtype=dtype) for _ in range(3))
        expected = F.scaled_dot_product_attention(q.float(), k.float(), v.float())
        for name, backend in backends.items():

            def call():
                for _ in range(repeats):
                    result = F.scaled_dot_product_attention(q, k, v)
                return result

            def timed():
                check(f"attention by {name}", call(), expected)
                replay = captured(call)[0] if device == "cuda" else call
                return [1e3 * ms / repeats for ms in time_ms(replay, device, seconds)]

            try:
                if backend is None:
                    times = timed()
                else:
                    with sdpa_kernel(backend):
                        times = timed()
            except RuntimeError as error:  # unsupported for this GPU, type or size
                print(f"skipped: attention by {name}: {str(error).splitlines()[0]}", flush=True)
                continue
            report.add(f"attention {tokens}", f"{name}, {name_of_type}", times, "us")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dtype", choices=["f16", "bf16", "f32"], default="f16")
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on a row")
    parser.add_argument("--beside", action="append", default=[], metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--only", choices=["encoder", "tenants", "attention"])
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[args.dtype]
    report = Report(args.beside)
    with torch.inference_mode():
        for name, run in (("encoder", run_encoder), ("tenants", run_tenants), ("attention", run_attention)):
            if args.only in (None, name):
                run(report, args.device, dtype, args.seconds, args.dtype)
    if args.json:
        report.write(args.json, args.device)


if __name__ == "__main__":
    main()
