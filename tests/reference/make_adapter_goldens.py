#!/usr/bin/env python3
"""Writes the LoRA adapters of tests/data/adapters and the results of PEFT.

Each directory is an adapter as PEFT saves it, over a model of tests/data/goldens, and golden.json:

    {"base": DIRECTORY, "reference": "peft 0.21.0, ...", "cases": [{"ids": [...], "token_types": [...],
     "kind": "logits", "shape": [n], "values": [... f32 ...]}, ...]}

A model that generates: "ids" and the "tokens" of generate(), in tests/data/generation_adapters.
Images: "pixels" [channels, height, width] f32 as the model takes them, instead of ids. The base runs in f32, and
the adapter beside it, not merged.
Run it in the environment of requirements-newest.txt.
"""

import argparse
import json
import os
import pathlib
import shutil

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import numpy as np
import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model

torch.set_num_threads(1)
BERT_LINEAR = ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]

# name: base, class, kind of result, LoraConfig
ADAPTERS = {
    "bert-usual": dict(
        base="classifier-bf16",
        cls="BertForSequenceClassification",
        kind="logits",
        lora=dict(task_type="SEQ_CLS", r=4, lora_alpha=16, target_modules=["query", "value"]),
    ),
    # Every GEMM and the pooler; rsLoRA, ranks and scales by module, all biases.
    "bert-all": dict(
        base="plain-f32",
        cls="BertModel",
        kind="hidden",
        lora=dict(
            task_type="FEATURE_EXTRACTION",
            r=8,
            lora_alpha=4,
            use_rslora=True,
            bias="all",
            target_modules="all-linear",
            rank_pattern={"layer.0.attention.self.key": 2, "intermediate.dense": 13},
            alpha_pattern={"^encoder.layer.1.output.dense": 9, "value": 1},
        ),
    ),
    "bert-tokens": dict(
        base="tokens-f32",
        cls="BertForTokenClassification",
        kind="token_logits",
        lora=dict(task_type="TOKEN_CLS", r=3, lora_alpha=6, target_modules=BERT_LINEAR, bias="lora_only"),
    ),
    # A base without this head: it comes with the adapter.
    "bert-new-head": dict(
        base="pretraining-f32",
        cls="BertForSequenceClassification",
        num_labels=4,
        kind="logits",
        lora=dict(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "value"]),
    ),
    "bert-dora": dict(
        base="classifier-bf16",
        cls="BertForSequenceClassification",
        kind="logits",
        lora=dict(task_type="SEQ_CLS", r=4, lora_alpha=4, use_dora=True, target_modules=BERT_LINEAR),
    ),
    "roberta-expression": dict(
        base="roberta-classifier-bf16",
        cls="RobertaForSequenceClassification",
        kind="logits",
        lora=dict(task_type="SEQ_CLS", r=5, lora_alpha=10, target_modules=r".*layer\.\d+\.attention.*(query|dense)"),
    ),
    "distilbert-all": dict(
        base="distilbert-classifier-f16",
        cls="DistilBertForSequenceClassification",
        kind="logits",
        lora=dict(
            task_type="SEQ_CLS",
            r=8,
            lora_alpha=8,
            target_modules=["q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"],
        ),
    ),
    "albert-shared": dict(
        base="albert-classifier-f32",
        cls="AlbertForSequenceClassification",
        kind="logits",
        lora=dict(
            task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["query", "ffn", "embedding_hidden_mapping_in"]
        ),
    ),
    # The names of transformers 5, over a base with the names of transformers 4.
    "vit-new-names": dict(
        base="vit-classifier-f32",
        cls="ViTForImageClassification",
        kind="logits",
        lora=dict(
            r=4,
            lora_alpha=8,
            target_modules=["q_proj", "v_proj", "o_proj", "projection", "fc1", "fc2"],
            modules_to_save=["classifier"],
        ),
    ),
}


def randomise(model, seed):
    """Random values for all that the adapter saves: PEFT starts with updates of zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if "lora_magnitude" in name:
                parameter.mul_(1 + 0.3 * noise.abs())
            elif "lora_" in name:
                parameter.copy_(noise * 0.15)
            else:
                parameter.add_(noise * 0.2)


def inputs(config, seed):
    generator = np.random.default_rng(seed)
    if config.model_type == "vit":
        for _ in range(3):
            yield generator.standard_normal((config.num_channels, config.image_size, config.image_size)).astype(
                np.float32
            ), None
        return
    roberta = config.model_type == "roberta"
    longest = config.max_position_embeddings - (config.pad_token_id + 1 if roberta else 0)
    for length in [1, 7, longest // 2 + 3, longest]:
        ids = generator.integers(5, config.vocab_size, length)
        types = np.zeros(length, dtype=np.int64)
        if getattr(config, "type_vocab_size", 1) > 1:
            types[length // 2 :] = 1
        yield ids, types


def result(model, kind, one, types):
    with torch.no_grad():
        if types is None:
            return model(pixel_values=torch.tensor(one)[None]).logits[0]
        feed = dict(input_ids=torch.tensor(one)[None], attention_mask=torch.ones((1, len(one)), dtype=torch.long))
        if getattr(model.config, "type_vocab_size", 0):
            feed["token_type_ids"] = torch.tensor(types)[None]
        out = model(**feed)
    return out.last_hidden_state[0] if kind == "hidden" else out.logits[0]


def shortest(values):
    return [float(str(x)) for x in np.asarray(values).astype(np.float32).ravel()]


def save(model, directory, base):
    model.save_pretrained(directory)
    (directory / "README.md").unlink(missing_ok=True)
    config = json.loads((directory / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    for key in ("target_modules", "modules_to_save"):  # sets, saved in any order
        if isinstance(config[key], list):
            config[key].sort()
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


def write_golden(directory, base, cases):
    torch_version = torch.__version__.split("+")[0]
    versions = f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch_version}"
    head = json.dumps(dict(base=base, reference=versions))[:-1]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (directory / "golden.json").write_text(f'{head}, "cases": [\n{lines}\n]}}\n')


def make(name, spec, seed, data):
    directory = data / "adapters" / name
    shutil.rmtree(directory, ignore_errors=True)
    base = data / "goldens" / spec["base"]
    cls = getattr(transformers, spec["cls"])
    more = {"num_labels": spec["num_labels"]} if "num_labels" in spec else {}
    torch.manual_seed(seed)
    model = cls.from_pretrained(base, dtype=torch.float32, attn_implementation="eager", **more)
    model = get_peft_model(model, LoraConfig(**spec["lora"]))
    randomise(model, seed)
    model.eval()
    save(model, directory, spec["base"])
    cases = []
    for one, types in inputs(model.config, seed):
        value = result(model, spec["kind"], one, types)
        model.disable_adapter_layers()
        plain = result(model, spec["kind"], one, types)
        model.enable_adapter_layers()
        difference = float((value - plain).abs().max())
        assert difference > 0.02 and bool(torch.isfinite(value).all()), (name, difference)
        case = dict(pixels=shortest(one)) if types is None else dict(ids=one.tolist(), token_types=types.tolist())
        cases.append(dict(**case, kind=spec["kind"], shape=list(value.shape), values=shortest(value)))
    write_golden(directory, f"goldens/{spec['base']}", cases)
    print(f"{name}: {len(cases)} cases, {sum(1 for n, _ in model.named_modules() if n.endswith('lora_A'))} modules")


def make_generating(data):
    directory = data / "generation_adapters" / "marian"
    shutil.rmtree(directory, ignore_errors=True)
    base = data / "generation" / "beams-2-gelu"
    torch.manual_seed(1)
    plain = transformers.MarianMTModel.from_pretrained(base, dtype=torch.float32).eval()
    model = transformers.MarianMTModel.from_pretrained(base, dtype=torch.float32)
    # Without task_type: peft 0.21's class for SEQ_2_SEQ_LM fails with this version of transformers.
    lora = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "out_proj", "fc1", "fc2"])
    model = get_peft_model(model, LoraConfig(**lora))
    randomise(model, 99)
    model.eval()
    save(model, directory, "beams-2-gelu")
    changed = model.get_base_model()
    generator = np.random.default_rng(5)
    cases, num_changed = [], 0
    for length in [1, 2, 3, 7, 15, 16, 17, 30, 33, 60]:
        ids = generator.integers(1, model.config.vocab_size - 1, length)
        ids[-1] = 0
        with torch.no_grad():
            tokens = [m.generate(input_ids=torch.tensor(ids)[None])[0].tolist()[1:] for m in (changed, plain)]
        num_changed += tokens[0] != tokens[1]
        cases.append(dict(ids=ids.tolist(), tokens=tokens[0]))
    assert num_changed > 5, num_changed
    write_golden(directory, "generation/beams-2-gelu", cases)
    print(f"marian: {len(cases)} cases, {num_changed} differ from the base's")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=pathlib.Path, default=here.parent / "data")
    data = parser.parse_args().data
    for seed, (name, spec) in enumerate(ADAPTERS.items(), start=1):
        make(name, spec, seed, data)
    make_generating(data)


if __name__ == "__main__":
    main()
