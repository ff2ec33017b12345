#!/usr/bin/env python3
"""BERT-base's encoder in PyTorch on a GPU, in milliseconds: the rows of `itif-bench encoder` and, with a model for each
tenant, of `itif-bench tenants`; for tools/gpu-check, in the same run as those.

Two ways: eager (scaled_dot_product_attention) and the same replayed as a CUDA graph. Several tenants: their models one after another, and each on a stream of
its own. Weights are random: what is timed does not depend on them. Each way is checked against f32 before it is timed.

Prints a line a row, `case<TAB>mode<TAB>median ms<TAB>spread`; the spread is that of `itif-bench`: (90th percentile -
10th) / median. Needs nothing but PyTorch.
"""

import argparse
import sys
import time

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, INTERMEDIATE, VOCAB, POSITIONS = 12, 768, 12, 3072, 30522, 512

# As in tools/itif-bench/encoder.cc, and one large batch.
CASES = [("1x32", [32]), ("1x128", [128]), ("4x128", [128] * 4), ("8x64", [64] * 8), ("128x128", [128] * 128)]
TENANTS = [2, 3, 4, 5]
LENGTH = 128


class Bert:
    """Token ids to the last hidden states."""

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
    """Each from its start on the host to its end on the device."""
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


def report(name, mode, times):
    middle = times[len(times) // 2]
    at = lambda share: times[round(share * (len(times) - 1))]
    print(f"{name}\t{mode}\t{middle:.4f}\t{(at(0.9) - at(0.1)) / middle:.3f}", flush=True)


def captured(call):
    """Replays `call` as a graph; what it returned stands where it stood then."""
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


def run_encoder(device, dtype, seconds, name_of_type):
    model, exact = Bert(1, device, dtype), Bert(1, device, torch.float32)
    for name, lengths in CASES:
        ids = ids_of(len(lengths), lengths[0], device)
        eager = lambda: model(ids)
        expected = exact(ids)
        check(name, eager(), expected)
        report(name, f"PyTorch eager, {name_of_type}", time_ms(eager, device, seconds))
        if device == "cuda":
            replay, result = captured(eager)
            replay()
            finish(device)
            check(f"{name}, graph", result, expected)
            report(name, f"PyTorch graph, {name_of_type}", time_ms(replay, device, seconds))


def run_tenants(device, dtype, seconds, name_of_type):
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
        report(name, "PyTorch eager, in turn", time_ms(lambda: in_turn(count), device, seconds))
        if device == "cuda":
            report(name, "PyTorch eager, streams", time_ms(lambda: on_streams(count), device, seconds))
            replay, _ = captured(lambda: in_turn(count))
            report(name, "PyTorch graph, in turn", time_ms(replay, device, seconds))
            replay, _ = captured(lambda: on_streams(count))
            report(name, "PyTorch graph, streams", time_ms(replay, device, seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--dtype", choices=["f16", "bf16", "f32"], default="f16")
    parser.add_argument("--seconds", type=float, default=1.0, help="spent on a row")
    parser.add_argument("--only", choices=["encoder", "tenants"])
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[args.dtype]
    with torch.inference_mode():
        if args.only != "tenants":
            run_encoder(args.device, dtype, args.seconds, args.dtype)
        if args.only != "encoder":
            run_tenants(args.device, dtype, args.seconds, args.dtype)


if __name__ == "__main__":
    main()
