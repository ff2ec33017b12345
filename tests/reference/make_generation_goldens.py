#!/usr/bin/env python3
"""Writes tests/data/generation: small MarianMT models of odd sizes with seeded weights, and the token ids that
transformers' generate() returns, one source at a time:

    golden.json: {"reference": …, "cases": [{"ids": [...], "tokens": [...]}, ...]}

"tokens" follow the decoder's first token. Run it in the environment of requirements.txt.

With --newest, in the environment of requirements-newest.txt: keeps the models, puts its answers beside the
older ones where they differ, and writes variants.json, the answers of models whose generation_config.json is changed:

    [{"reference": …, "model": "beams-4", "change": {key: value, null: absent}, "cases": [...]}, ...]
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from transformers import GenerationConfig, MarianConfig, MarianMTModel

torch.set_num_threads(1)
ROOT = pathlib.Path(__file__).resolve().parents[2]

# Two tenants of one group. The second has a smaller vocabulary and other search settings.
ODD = dict(
    d_model=36, encoder_layers=2, encoder_attention_heads=3, encoder_ffn_dim=52,
    decoder_layers=3, decoder_attention_heads=2, decoder_ffn_dim=100,
    activation_function="swish", scale_embedding=True, max_position_embeddings=96,
)  # fmt: skip
MODELS = {
    "beams-4": dict(
        config=dict(ODD, vocab_size=97),
        generation=dict(num_beams=4, max_length=40, bad_words_ids=[[96]], forced_eos_token_id=0),
    ),
    "beams-3-smaller": dict(
        config=dict(ODD, vocab_size=90),
        generation=dict(num_beams=3, max_length=33, length_penalty=0.6, early_stopping=True,
                        bad_words_ids=[[89], [3, 4], [5]]),
        eos_bias=0.5,
    ),
    "greedy": dict(
        config=dict(ODD, vocab_size=97),
        generation=dict(num_beams=1, max_new_tokens=30, bad_words_ids=[[96], [7]]),
        eos_bias=1.0,
    ),
    "long-never": dict(
        config=dict(d_model=40, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=64,
                    decoder_layers=2, decoder_attention_heads=5, decoder_ffn_dim=32,
                    activation_function="relu", scale_embedding=False, max_position_embeddings=128,
                    vocab_size=61),
        generation=dict(num_beams=4, max_length=90, length_penalty=2.0, early_stopping="never",
                        bad_words_ids=[[60]], forced_bos_token_id=9),
        dtype=torch.float16,
    ),
    "beams-2-gelu": dict(
        config=dict(d_model=64, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=128,
                    decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=128,
                    activation_function="gelu", scale_embedding=True, max_position_embeddings=64,
                    vocab_size=203),
        generation=dict(num_beams=2, max_length=64, length_penalty=-0.5, eos_token_id=[0, 11],
                        bad_words_ids=[[202]], forced_eos_token_id=0),
        eos_bias=1.5,
    ),
}  # fmt: skip


def randomise(model, seed, eos, eos_bias):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        if "embed_positions" in name:
            continue
        noise = torch.randn(parameter.shape, generator=generator)
        if "decoder" in name and "final_layer_norm.weight" in name:
            parameter.data = 1.5 * noise  # random signs, so that tokens do not repeat themselves
        elif "layer_norm.weight" in name:
            parameter.data = 1.0 + 0.1 * noise
        elif name.endswith(".bias"):
            parameter.data = 0.1 * noise
        elif "shared" in name:
            parameter.data = 0.3 * noise
        else:
            parameter.data = 0.2 * noise
    bias = 0.2 * torch.randn(model.final_logits_bias.shape, generator=generator)
    for token in eos:
        bias[0, token] += eos_bias
    model.final_logits_bias.copy_(bias)


def make(name, spec, seed):
    vocab = spec["config"]["vocab_size"]
    generation = dict(eos_token_id=0, pad_token_id=vocab - 1, decoder_start_token_id=vocab - 1, bos_token_id=0)
    generation.update(spec["generation"])
    # Random models tend to repeat one token. These bans prevent that, and every step has different
    # bans.
    generation["bad_words_ids"] = generation["bad_words_ids"] + [[t, t] for t in range(1, vocab)]
    config = MarianConfig(**spec["config"], pad_token_id=vocab - 1, decoder_start_token_id=vocab - 1,
                          eos_token_id=0, forced_eos_token_id=None)
    model = MarianMTModel(config).eval()
    eos = generation["eos_token_id"]
    randomise(model, seed, eos if isinstance(eos, list) else [eos], spec.get("eos_bias", 1.0))
    model.generation_config = GenerationConfig(**generation)
    dtype = spec.get("dtype", torch.float32)
    directory = ROOT / "tests/data/generation" / name
    shutil.rmtree(directory, ignore_errors=True)
    model.to(dtype).save_pretrained(directory, safe_serialization=True)
    model = MarianMTModel.from_pretrained(directory, torch_dtype=torch.float32).eval()

    numbers = np.random.default_rng(seed)
    cases = []
    for length in [1, 2, 3, 7, 15, 16, 17, 30, 33, 60]:
        for _ in range(2):
            ids = numbers.integers(1, vocab - 1, length)
            ids[-1] = 0
            with torch.no_grad():
                out = model.generate(torch.tensor(ids)[None])
            cases.append(dict(ids=ids.tolist(), tokens=out[0].tolist()[1:]))
    reference = f"transformers {transformers.__version__}, torch {torch.__version__}"
    lines = ",\n".join(json.dumps(c) for c in cases)
    (directory / "golden.json").write_text(f'{{"reference": "{reference}", "cases": [\n{lines}\n]}}\n')
    print(name, "lengths", sorted(len(c["tokens"]) for c in cases),
          "distinct", len({tuple(c["tokens"]) for c in cases}))


# Settings whose meaning newer versions changed or published models use (Helsinki-NLP/opus-mt: the
# last).
VARIANTS = [
    ("beams-4", {"max_length": None}),
    ("beams-4", {"max_length": 20}),
    ("greedy", {"max_new_tokens": None}),
    ("beams-4", {"renormalize_logits": True}),
    ("greedy", {"renormalize_logits": True}),
    ("beams-3-smaller", {"renormalize_logits": True, "early_stopping": False}),
    ("beams-4", {"forced_eos_token_id": [0], "max_length": 12}),
    ("beams-3-smaller", {"early_stopping": False}),
    ("beams-4", {"eos_token_id": [0, 5, 9]}),
    ("beams-4", {"renormalize_logits": True, "bad_words_ids": [[96]], "max_length": 64, "forced_eos_token_id": 0}),
]


def answers(directory, inputs):
    model = MarianMTModel.from_pretrained(directory, torch_dtype=torch.float32).eval()
    with torch.no_grad():
        return [model.generate(input_ids=torch.tensor(ids)[None])[0].tolist()[1:] for ids in inputs]


def add_newest():
    root = ROOT / "tests/data/generation"
    reference = f"transformers {transformers.__version__}, torch {torch.__version__}"
    for name in MODELS:
        path = root / name / "golden.json"
        golden = json.loads(path.read_text())
        for case, tokens in zip(golden["cases"], answers(path.parent, [c["ids"] for c in golden["cases"]])):
            if tokens != case["tokens"]:
                case.update(older_tokens=case["tokens"], tokens=tokens)
        lines = ",\n".join(json.dumps(c) for c in golden["cases"])
        path.write_text(f'{{"reference": "{golden["reference"]}", "newest": "{reference}", "cases": [\n{lines}\n]}}\n')
    variants = []
    for name, change in VARIANTS:
        with tempfile.TemporaryDirectory() as copy:
            shutil.copytree(root / name, copy, dirs_exist_ok=True)
            path = pathlib.Path(copy, "generation_config.json")
            settings = json.loads(path.read_text()) | change
            path.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))
            inputs = [c["ids"] for c in json.loads((root / name / "golden.json").read_text())["cases"][::3]]
            cases = [dict(ids=ids, tokens=tokens) for ids, tokens in zip(inputs, answers(copy, inputs))]
        variants.append(dict(reference=reference, model=name, change=change, cases=cases))
    (root / "variants.json").write_text("[\n" + ",\n".join(json.dumps(v) for v in variants) + "\n]\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--newest"]:
        add_newest()
        sys.exit()
    for seed, (name, spec) in enumerate(MODELS.items()):
        if len(sys.argv) < 2 or name in sys.argv[1:]:
            make(name, spec, 1000 + seed)
