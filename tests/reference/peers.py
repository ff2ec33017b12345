#!/usr/bin/env python3
"""Times of other programs for the same work on the same machine: BERT-base's encoder, in milliseconds.

Prints the medians of ONNX Runtime f32, PyTorch f32 and bf16, and itif-run f32 and bf16 for each batch × length. Each
is checked against PyTorch f32 before it is timed, and all use the same number of threads. They run alternately, so
that a slower phase of the machine affects all. Run it on an idle machine. --rounds repeats the whole table; the
median of all rounds is printed, with the spread.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import numpy as np
import torch
import transformers

import itif_run

transformers.logging.set_verbosity_error()

SHAPES = [(1, 128), (4, 128), (8, 64), (1, 32)]


def time_ms(call, seconds):
    """Times of single calls, after two warm-up calls."""
    call(), call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def check(name, expected, got, min_cosine):
    cosine = float((expected * got).sum() / (np.linalg.norm(expected) * np.linalg.norm(got)))
    assert cosine >= min_cosine, f"{name}: cosine {cosine} with PyTorch f32"


class Torch:
    def __init__(self, folder, dtype):
        self.name = "PyTorch " + ("bf16" if dtype == torch.bfloat16 else "f32")
        self.model = transformers.BertModel.from_pretrained(folder, torch_dtype=dtype).eval()

    def measure(self, ids, seconds, expected):
        feed = dict(
            input_ids=torch.tensor(ids), attention_mask=torch.ones(ids.shape, dtype=torch.long)
        )
        with torch.inference_mode():
            call = lambda: self.model(**feed).last_hidden_state
            check(self.name, expected, call().float().numpy(), 0.99)
            return time_ms(call, seconds)


class OnnxRuntime:
    name = "ONNX Runtime f32"

    def __init__(self, folder, threads, work):
        import onnxruntime

        model = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
        path = str(pathlib.Path(work) / "model.onnx")
        example = torch.ones((2, 8), dtype=torch.long)
        axes = {0: "batch", 1: "length"}
        torch.onnx.export(
            model,
            (example, example),
            path,
            opset_version=14,
            input_names=["ids", "mask"],
            output_names=["hidden"],
            dynamic_axes=dict(ids=axes, mask=axes, hidden=axes),
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.name = f"ONNX Runtime {onnxruntime.__version__} f32"

    def measure(self, ids, seconds, expected):
        feed = dict(ids=ids, mask=np.ones_like(ids))
        call = lambda: self.session.run(["hidden"], feed)[0]
        check(self.name, expected, call(), 0.9999)
        return time_ms(call, seconds)


class Itif:
    def __init__(self, folder, dtype, arguments):
        self.name, self.folder, self.dtype, self.arguments = (
            f"itif {dtype}",
            folder,
            dtype,
            arguments,
        )

    def measure(self, ids, seconds, expected):
        lines = [dict(ids=row, kind="hidden") for row in ids.tolist()]
        options = dict(batch=len(lines), max_tokens=512)
        answers = itif_run.run(
            self.arguments, [self.folder], lines, self.dtype, repeat=3, **options
        )
        hidden = np.array([a["values"] for a in answers], dtype=np.float32).reshape(expected.shape)
        check(self.name, expected, hidden, 0.9999 if self.dtype == "f32" else 0.99)
        repeat = max(5, int(seconds * 1e6 / answers[0]["us"]))
        answers = itif_run.run(
            self.arguments, [self.folder], lines, self.dtype, repeat=repeat, **options
        )
        return [answers[0]["us"] / 1e3]


def expected_hidden(folder, ids):
    model = transformers.BertModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(torch.tensor(ids)).last_hidden_state.numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    itif_run.add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=3, help="for each cell and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12, help="fewer for a short try")
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures here")
    arguments = parser.parse_args()
    arguments.threads = arguments.threads or 2
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "bert-base"
        config = transformers.BertConfig(num_hidden_layers=arguments.layers)
        torch.manual_seed(1)
        transformers.BertModel(config).save_pretrained(folder, safe_serialization=True)
        peers = [
            OnnxRuntime(folder, arguments.threads, work),
            Torch(folder, torch.float32),
            Torch(folder, torch.bfloat16),
            Itif(folder, "f32", arguments),
            Itif(folder, "bf16", arguments),
        ]
        generator = np.random.default_rng(1)
        inputs = {shape: generator.integers(0, 30522, shape) for shape in SHAPES}
        expected = {shape: expected_hidden(folder, ids) for shape, ids in inputs.items()}
        times = {}
        for _ in range(arguments.rounds):
            for shape in SHAPES:
                for peer in peers:
                    measured = peer.measure(inputs[shape], arguments.seconds, expected[shape])
                    times.setdefault((shape, peer.name), []).append(float(np.median(measured)))
                    print(
                        f"{shape[0]}x{shape[1]} {peer.name}: {np.median(measured):.1f} ms",
                        file=sys.stderr,
                        flush=True,
                    )
    print(
        f"BERT-base encoder, {arguments.layers} layers, {arguments.threads} threads, median ms of {arguments.rounds} rounds (least – most)"
    )
    print(f"{'batch × length':<16}" + "".join(f"{peer.name:>30}" for peer in peers))
    rows = []
    for shape in SHAPES:
        cells = []
        for peer in peers:
            rounds = times[shape, peer.name]
            cells.append(f"{np.median(rounds):.1f} ({min(rounds):.1f} – {max(rounds):.1f})")
            rows.append(
                dict(
                    case=f"{shape[0]}x{shape[1]}",
                    mode=peer.name,
                    value=float(np.median(rounds)),
                    unit="ms",
                )
            )
        print(
            f"{shape[0]:>5} × {shape[1]:<8}" + "".join(f"{cell:>30}" for cell in cells), flush=True
        )
    if arguments.json:
        arguments.json.write_text(
            json.dumps(dict(bench="peers", threads=arguments.threads, rows=rows), indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
