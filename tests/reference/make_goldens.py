#!/usr/bin/env python3
"""Writes the small models of tests/data/goldens and the results of transformers.

Each directory is a Hugging Face (or sentence-transformers) model in the format of downloads, with seeded random
weights, and golden.json:

    {"model": NAME, "reference": "transformers 4.36.2, torch 1.13.1",
     "cases": [{"ids": [...], "token_types": [...], "kind": "hidden", "shape": [n, hidden],
                "values": [... row-major f32 ...]}, ...]}

kind is one of hidden, pooled, embedding, logits, token_logits. Expected values are computed in f32 from
the weights in the file, so the goldens include the rounding of F16 and BF16 files.
Run it in the environment of requirements.txt; the same versions write the same weights.
"""

import argparse
import json
import os
import pathlib
import shutil

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["the", "and", "good", "bad", "movie", "paris", "##ing", "##ed", "##s", "not", "very"]


def vocabulary(size):
    """Special tokens, every letter as start and continuation, digits and marks, then a few words."""
    tokens = (
        SPECIAL + list(LETTERS) + ["##" + c for c in LETTERS] + list("0123456789.,!?'-") + WORDS
    )
    tokens += [f"[unused{i}]" for i in range(size)]
    return tokens[:size]


# name: (transformers class, stored type, configuration, extras)
BASE = dict(
    layer_norm_eps=1e-12,
    type_vocab_size=2,
    max_position_embeddings=32,
    hidden_act="gelu",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
)
MODELS = {
    "plain-f32": dict(
        cls="BertModel",
        dtype=torch.float32,
        config=dict(
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=2,
            intermediate_size=100,
            vocab_size=97,
        ),
    ),
    "sharded-f16": dict(
        cls="BertModel",
        dtype=torch.float16,
        shard="20KB",
        config=dict(
            hidden_size=64,
            num_attention_heads=4,
            num_hidden_layers=1,
            intermediate_size=52,
            vocab_size=101,
            type_vocab_size=1,
            max_position_embeddings=64,
            hidden_act="gelu_new",
        ),
    ),
    "classifier-bf16": dict(
        cls="BertForSequenceClassification",
        dtype=torch.bfloat16,
        config=dict(
            hidden_size=48,
            num_attention_heads=2,
            num_hidden_layers=3,
            intermediate_size=100,
            vocab_size=120,
            hidden_act="relu",
            layer_norm_eps=1e-5,
            id2label={0: "negative", 1: "neutral", 2: "positive"},
            label2id={"negative": 0, "neutral": 1, "positive": 2},
        ),
    ),
    "regression-f32": dict(
        cls="BertForSequenceClassification",
        dtype=torch.float32,
        config=dict(
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=1,
            intermediate_size=52,
            vocab_size=97,
            num_labels=1,
            problem_type="regression",
        ),
    ),
    "tokens-f32": dict(
        cls="BertForTokenClassification",
        dtype=torch.float32,
        config=dict(
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=2,
            intermediate_size=52,
            vocab_size=97,
            max_position_embeddings=64,
            id2label={0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"},
            label2id={"O": 0, "B-PER": 1, "I-PER": 2, "B-LOC": 3, "I-LOC": 4},
        ),
    ),
    "sentence-mean-f16": dict(
        cls="BertModel",
        dtype=torch.float16,
        pooling="mean",
        normalize=True,
        config=dict(
            hidden_size=64,
            num_attention_heads=4,
            num_hidden_layers=1,
            intermediate_size=100,
            vocab_size=101,
            max_position_embeddings=64,
            layer_norm_eps=1e-6,
        ),
    ),
    "sentence-cls-bf16": dict(
        cls="BertModel",
        dtype=torch.bfloat16,
        pooling="cls",
        normalize=False,
        config=dict(
            hidden_size=48,
            num_attention_heads=2,
            num_hidden_layers=1,
            intermediate_size=52,
            vocab_size=97,
            type_vocab_size=1,
        ),
    ),
    # The format of the oldest published checkpoints: "bert." before every name, LayerNorm.gamma and
    # .beta, a position_ids buffer, and the tensors of the pre-training heads.
    "pretraining-f32": dict(
        cls="BertForPreTraining",
        dtype=torch.float32,
        old_names=True,
        config=dict(
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=1,
            intermediate_size=52,
            vocab_size=97,
        ),
    ),
    # Positions start after the padding id; the classifier has a dense layer.
    "roberta-f32": dict(
        cls="RobertaModel",
        dtype=torch.float32,
        tokenizer=None,
        config=dict(
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=2,
            intermediate_size=52,
            vocab_size=97,
            type_vocab_size=1,
            max_position_embeddings=35,
            layer_norm_eps=1e-5,
            pad_token_id=1,
        ),
    ),
    "roberta-classifier-bf16": dict(
        cls="RobertaForSequenceClassification",
        dtype=torch.bfloat16,
        tokenizer=None,
        config=dict(
            hidden_size=48,
            num_attention_heads=2,
            num_hidden_layers=2,
            intermediate_size=100,
            vocab_size=120,
            type_vocab_size=1,
            max_position_embeddings=66,
            pad_token_id=1,
            id2label={0: "no", 1: "yes", 2: "maybe"},
            label2id={"no": 0, "yes": 1, "maybe": 2},
        ),
    ),
    # No token types, no pooler, other tensor names; computed (sinusoidal) positions are stored like
    # learned ones.
    "distilbert-f32": dict(
        cls="DistilBertModel",
        dtype=torch.float32,
        tokenizer="DistilBertTokenizer",
        base=False,
        config=dict(
            dim=36,
            n_heads=3,
            n_layers=2,
            hidden_dim=100,
            vocab_size=97,
            max_position_embeddings=32,
            sinusoidal_pos_embds=True,
        ),
    ),
    "distilbert-classifier-f16": dict(
        cls="DistilBertForSequenceClassification",
        dtype=torch.float16,
        tokenizer="DistilBertTokenizer",
        base=False,
        config=dict(
            dim=48,
            n_heads=2,
            n_layers=1,
            hidden_dim=52,
            vocab_size=120,
            max_position_embeddings=64,
            activation="relu",
            id2label={0: "no", 1: "yes", 2: "maybe"},
            label2id={"no": 0, "yes": 1, "maybe": 2},
        ),
    ),
    # Narrow embeddings; five layers share two groups of two blocks each, stored once.
    "albert-f32": dict(
        cls="AlbertModel",
        dtype=torch.float32,
        tokenizer=None,
        config=dict(
            embedding_size=20,
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=5,
            num_hidden_groups=2,
            inner_group_num=2,
            intermediate_size=52,
            vocab_size=97,
            hidden_act="gelu_new",
        ),
    ),
    "albert-classifier-f32": dict(
        cls="AlbertForSequenceClassification",
        dtype=torch.float32,
        tokenizer=None,
        config=dict(
            embedding_size=64,
            hidden_size=48,
            num_attention_heads=2,
            num_hidden_layers=4,
            intermediate_size=100,
            vocab_size=120,
            hidden_act="gelu",
            id2label={0: "no", 1: "yes", 2: "maybe"},
            label2id={"no": 0, "yes": 1, "maybe": 2},
        ),
    ),
    "albert-tokens-bf16": dict(
        cls="AlbertForTokenClassification",
        dtype=torch.bfloat16,
        tokenizer=None,
        config=dict(
            embedding_size=16,
            hidden_size=36,
            num_attention_heads=3,
            num_hidden_layers=3,
            num_hidden_groups=3,
            intermediate_size=52,
            vocab_size=97,
            hidden_act="gelu_new",
            id2label={0: "O", 1: "B", 2: "I"},
            label2id={"O": 0, "B": 1, "I": 2},
        ),
    ),
}


def randomise(model, seed):
    """Sets weights so large that every layer, bias and embedding affects the output."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "LayerNorm.weight" in name or "layer_norm.weight" in name:
            parameter.data = 1.0 + 0.1 * noise
        elif name.endswith(".bias"):
            parameter.data = 0.1 * noise
        elif "embeddings" in name:
            parameter.data = 0.5 * noise
        elif any(part in name for part in ("query", "key", "q_lin", "k_lin")):
            parameter.data = 0.2 * noise
        else:
            parameter.data = 0.15 * noise


def use_old_names(directory):
    path = directory / "model.safetensors"
    tensors = load_file(str(path))
    renamed = {}
    for name, tensor in tensors.items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        renamed[name.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    positions = renamed["bert.embeddings.position_embeddings.weight"].shape[0]
    renamed["bert.embeddings.position_ids"] = torch.arange(positions).unsqueeze(0)
    save_file(renamed, str(path), metadata={"format": "pt"})


def write_pooling(directory, pooling, normalize, config):
    modules = [
        dict(idx=0, name="0", path="", type="sentence_transformers.models.Transformer"),
        dict(idx=1, name="1", path="1_Pooling", type="sentence_transformers.models.Pooling"),
    ]
    if normalize:
        modules.append(
            dict(idx=2, name="2", path="2_Normalize", type="sentence_transformers.models.Normalize")
        )
    write_json(directory / "modules.json", modules)
    (directory / "1_Pooling").mkdir()
    write_json(
        directory / "1_Pooling" / "config.json",
        dict(
            word_embedding_dimension=config.hidden_size,
            pooling_mode_cls_token=pooling == "cls",
            pooling_mode_mean_tokens=pooling == "mean",
            pooling_mode_max_tokens=False,
            pooling_mode_mean_sqrt_len_tokens=False,
        ),
    )
    write_json(
        directory / "sentence_bert_config.json",
        dict(max_seq_length=config.max_position_embeddings, do_lower_case=False),
    )


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_tokenizer(directory, config, cls):
    (directory / "vocab.txt").write_text("\n".join(vocabulary(config.vocab_size)) + "\n")
    write_json(
        directory / "tokenizer_config.json",
        dict(
            tokenizer_class=cls,
            do_lower_case=True,
            strip_accents=None,
            tokenize_chinese_chars=True,
            model_max_length=config.max_position_embeddings,
            unk_token="[UNK]",
            sep_token="[SEP]",
            pad_token="[PAD]",
            cls_token="[CLS]",
            mask_token="[MASK]",
        ),
    )


def inputs(config, seed):
    """Lengths 1, 2, some odd and even ones, and the longest; token types if the model has two."""
    generator = np.random.default_rng(seed)
    # RoBERTa: the first rows of the position table are unused, and padding has no position.
    roberta = config.model_type == "roberta"
    longest = config.max_position_embeddings - (config.pad_token_id + 1 if roberta else 0)
    num_types = getattr(config, "type_vocab_size", 1)
    for index, length in enumerate([1, 2, 7, 16, longest // 2 + 3, longest]):
        ids = generator.integers(5, config.vocab_size, length)
        ids[0] = 2
        if length > 1:
            ids[-1] = 3
        types = np.zeros(length, dtype=np.int64)
        if num_types > 1 and length > 2 and index % 2 == 0:
            types[int(generator.integers(1, length)) :] = 1
        yield ids, types
    # Ids at unusual places: the vocabulary's last id first, the padding id in the middle.
    ids = generator.integers(0, config.vocab_size, 9)
    ids[0] = config.vocab_size - 1
    ids[4] = 0
    if roberta:
        ids[ids == config.pad_token_id] = 7
    types = generator.integers(0, num_types, 9)
    yield ids, types


def encoder_of(model):
    return getattr(model, model.base_model_prefix, model)


def outputs(spec, model, directory, ids, types):
    feed = dict(
        input_ids=torch.tensor(ids)[None],
        token_type_ids=torch.tensor(types)[None],
        attention_mask=torch.ones((1, len(ids)), dtype=torch.long),
    )
    if not hasattr(model.config, "type_vocab_size"):
        del feed["token_type_ids"]
    with torch.no_grad():
        encoded = encoder_of(model)(**feed)
        yield "hidden", encoded.last_hidden_state[0]
        if encoded.get("pooler_output") is not None:
            yield "pooled", encoded.pooler_output[0]
        if spec["cls"].endswith("ForSequenceClassification"):
            yield "logits", model(**feed).logits[0]
        if spec["cls"].endswith("ForTokenClassification"):
            yield "token_logits", model(**feed).logits[0]
        if "pooling" in spec:
            from sentence_transformers import models as st

            features = dict(
                token_embeddings=encoded.last_hidden_state,
                cls_token_embeddings=encoded.last_hidden_state[:, 0],
                **feed,
            )
            features = st.Pooling.load(str(directory / "1_Pooling"))(features)
            if spec["normalize"]:
                features = st.Normalize()(features)
            yield "embedding", features["sentence_embedding"][0]


def shortest(tensor):
    """The shortest decimals that read back as the same f32."""
    return [float(str(x)) for x in tensor.numpy().astype(np.float32).ravel()]


def make(name, spec, seed, root):
    directory = root / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    cls = getattr(transformers, spec["cls"])
    config = cls.config_class(**{**(BASE if spec.get("base", True) else {}), **spec["config"]})
    model = cls(config)
    randomise(model, seed)
    model.to(spec["dtype"]).save_pretrained(
        directory, safe_serialization=True, max_shard_size=spec.get("shard", "10GB")
    )
    if spec.get("old_names"):
        use_old_names(directory)
    tokenizer = spec.get("tokenizer", "BertTokenizer")
    if tokenizer:  # other tokenizers are not supported by the product: token ids only
        write_tokenizer(directory, config, tokenizer)
    if "pooling" in spec:
        write_pooling(directory, spec["pooling"], spec["normalize"], config)

    model = cls.from_pretrained(directory, torch_dtype=torch.float32).eval()
    cases = []
    for index, (ids, types) in enumerate(inputs(config, seed)):
        for kind, value in outputs(spec, model, directory, ids, types):
            # Hidden states are large, so models with a head write them for three inputs only.
            if kind == "hidden" and not spec["cls"].endswith("Model") and index not in (0, 2, 6):
                continue
            spread = float(value.std(unbiased=False)) if value.numel() > 1 else 1.0
            assert spread > 0.02 and bool(torch.isfinite(value).all()), (name, kind, spread)
            cases.append(
                dict(
                    ids=ids.tolist(),
                    token_types=types.tolist(),
                    kind=kind,
                    shape=list(value.shape),
                    values=shortest(value),
                )
            )
    reference = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    head = json.dumps(dict(model=name, reference=reference))[:-1]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (directory / "golden.json").write_text(f'{head}, "cases": [\n{lines}\n]}}\n')
    print(f"{name}: {len(cases)} cases")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "data" / "goldens")
    root = parser.parse_args().out
    for seed, (name, spec) in enumerate(MODELS.items(), start=1):
        make(name, spec, seed, root)


if __name__ == "__main__":
    main()
