#!/usr/bin/env python3
"""Writes tests/data/goldens/cross-encoder-f32 and cross-encoder-labels-f32: small CrossEncoders of one and of three
labels as sentence-transformers 6 saves them, with seeded random weights, and the answers of predict():

    golden.json: {"cases": [...], "texts": [...], "variants": [{"changes": [[file, pointer, value]], "texts": [...]}]}

Cases are as in make_goldens.py. Texts also have "text" and "pair". The last pair is cut to the longest text. A variant
changes files of the directory. Run it in the environment of requirements-newest.txt.
"""

import json
import pathlib
import shutil
import tempfile

import torch
import transformers
from make_key_goldens import DATA, apply
from sentence_transformers import CrossEncoder
from transformers import BertConfig, BertForSequenceClassification

WORDS = DATA / "goldens/regression-f32"  # its tokenizer
TEXTS = [["a b", "b c"], ["", "a"], ["The Day", "x y z"], ["[MASK] a", "b [SEP] c"], [" a fine\tday ", ""], ["a b c " * 9, "x y " * 9]]
SETTINGS, MODEL, SENTENCE = "config_sentence_transformers.json", "config.json", "sentence_bert_config.json"
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"
UNSET = [SETTINGS, "/activation_fn", None]

VARIANTS = [
    [[SETTINGS, "/activation_fn", IDENTITY]],
    [[SETTINGS, "/activation_fn", SIGMOID]],
    [[SETTINGS, "/activation_fn", "own.code.Activation"]],
    [UNSET],
    [UNSET, [MODEL, "/sentence_transformers", {"activation_fn": IDENTITY}]],
    [UNSET, [MODEL, "/sentence_transformers", {"activation_fn": None}], [MODEL, "/sbert_ce_default_activation_function", IDENTITY]],
    [UNSET, [MODEL, "/sbert_ce_default_activation_function", SIGMOID]],
    [[SENTENCE, "/max_seq_length", 9]],
    [[SETTINGS, "/keep_in_fp32_modules", ["0.model.classifier"]]],
]


def save_model(out, labels):
    torch.manual_seed(23)
    config = BertConfig(
        vocab_size=97, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, num_labels=labels,
        max_position_embeddings=32, type_vocab_size=2, initializer_range=0.2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as plain:
        BertForSequenceClassification(config).save_pretrained(plain)
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORDS / file, plain)
        CrossEncoder(plain, device="cpu").save_pretrained(str(out), create_model_card=False)


def answers(directory):
    model = CrossEncoder(str(directory), device="cpu")
    texts = []
    for text, pair in TEXTS:
        encoded = {key: rows[0] for key, rows in model.tokenizer([text], [pair], truncation="longest_first").items()}
        values = [round(float(value), 8) for value in model.predict([(text, pair)])[0:1].reshape(-1)]
        texts.append(dict(text=text, pair=pair, ids=encoded["input_ids"], token_types=encoded["token_type_ids"], kind="logits",
                          shape=[len(values)], values=values))  # fmt: skip
    return texts


def changed_answers(directory, changes):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "model"
        shutil.copytree(directory, copy)
        apply(copy, changes)
        return answers(copy)


def main():
    transformers.logging.set_verbosity_error()
    for name, labels in (("cross-encoder-f32", 1), ("cross-encoder-labels-f32", 3)):
        out = DATA / "goldens" / name
        shutil.rmtree(out, ignore_errors=True)
        save_model(out, labels)
        texts = answers(out)
        variants = [dict(changes=changes, texts=changed_answers(out, changes)) for changes in VARIANTS]
        cases = [{key: one[key] for key in ("ids", "token_types", "kind", "shape", "values")} for one in texts]
        golden = dict(model=name, reference="sentence-transformers 6.2.0", cases=cases, texts=texts, variants=variants)
        (out / "golden.json").write_text(json.dumps(golden) + "\n")
        for variant in [dict(changes=[], texts=texts), *variants]:
            print(name, variant["changes"], [one["values"] for one in variant["texts"]], len(variant["texts"][-1]["ids"]))


if __name__ == "__main__":
    main()
