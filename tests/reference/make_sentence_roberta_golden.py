#!/usr/bin/env python3
"""Writes tests/data/goldens/sentence-roberta-f32: a small RoBERTa sentence model as sentence-transformers 6 saves it,
with the tokenizer of tests/data/roberta_tokenizer and seeded random weights, and the library's answers:

    golden.json: {"cases": [...], "texts": [...]}

Cases are as in make_goldens.py. Texts also have "text", and encode() cuts the last to max_seq_length. Run it in
the environment of requirements-newest.txt.
"""

import json
import pathlib
import shutil
import tempfile

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data"
OUT = DATA / "goldens/sentence-roberta-f32"
HIDDEN, EMBEDDING, MAX_TOKENS = 32, 20, 24
TEXTS = ["", "A fine day.", "  two  spaces ", "a <mask> b </s> c", "naïve café 日本語", "a request is cut into fragments of equal size " * 3]


def save_model():
    torch.manual_seed(17)
    config = RobertaConfig(
        vocab_size=500, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5, initializer_range=0.5,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as plain:
        RobertaModel(config).save_pretrained(plain)
        RobertaTokenizer.from_pretrained(DATA / "roberta_tokenizer").save_pretrained(plain)
        modules = [Transformer(plain, max_seq_length=MAX_TOKENS), Pooling(HIDDEN, "mean"), Dense(HIDDEN, EMBEDDING), Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save(str(OUT), create_model_card=False)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    save_model()
    model = SentenceTransformer(str(OUT), device="cpu")
    cases, texts = [], []
    for text in TEXTS:
        ids = model.tokenizer(text, truncation=True)["input_ids"]
        values = [round(value, 8) for value in model.encode(text).tolist()]
        answer = dict(ids=ids, kind="embedding", shape=[EMBEDDING], values=values)
        cases.append(answer | dict(token_types=[0] * len(ids)))
        texts.append(answer | dict(text=text))
    with open(OUT / "golden.json", "w") as file:
        json.dump(dict(model=OUT.name, reference="sentence-transformers 6.2.0", cases=cases, texts=texts), file)
    print(OUT.name, [len(case["ids"]) for case in cases])


if __name__ == "__main__":
    main()
