#!/usr/bin/env python3
"""Writes tests/data/added_tokens.json: the RoBERTa of tests/data/saved_tokenizers with random added tokens that
overlap, and the library's ids of random texts:

    {"reference", "cases": [{"class", "decoder", "texts": [[text, [ids]], …]}, …]}

"decoder" is added_tokens_decoder of tokenizer_config.json. Run it in the environment of requirements-newest.txt.
"""

import json
import pathlib
import random
import shutil
import tempfile

import tokenizers
import transformers
from transformers import AutoTokenizer

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data"
MODEL = DATA / "saved_tokenizers/roberta"
LETTERS, SPACES = "ab<>", " \t\u00a0\u3000"
CASES, TEXTS = 60, 12


def flags(rng, content, strips_right):
    return dict(content=content, lstrip=rng.random() < 0.3, rstrip=strips_right and rng.random() < 0.5, normalized=rng.random() < 0.5,
                special=rng.random() < 0.3, single_word=False)  # fmt: skip


def random_tokens(rng, strips_right):
    """Tokens overlap. They begin with white space only where none removes it on its right."""
    contents = {}
    for _ in range(rng.randint(2, 6)):
        first = LETTERS if strips_right else LETTERS + " "
        contents[rng.choice(first) + "".join(rng.choices(LETTERS + " ", k=rng.randint(0, 3)))] = None
    return [flags(rng, content, strips_right) for content in contents]


def random_text(rng, tokens):
    parts = [rng.choice(tokens)["content"] if rng.random() < 0.5 else rng.choice(LETTERS + SPACES) for _ in range(rng.randint(1, 9))]
    return "".join(part[: rng.randint(1, 4)] if rng.random() < 0.3 else part for part in parts)


def write_model(directory, name, tokens):
    """Returns added_tokens_decoder."""
    shutil.copytree(MODEL, directory)
    whole = json.loads((MODEL / "tokenizer.json").read_text())
    vocabulary = whole["model"]["vocab"]
    decoder = {entry["id"]: entry for entry in whole["added_tokens"] if entry["id"] < len(vocabulary)}
    # A class that follows tokenizer.json also adds the tokens of this file.
    free = len(vocabulary) if name == "RobertaTokenizer" else max(entry["id"] for entry in whole["added_tokens"]) + 1
    for token in tokens:
        number = vocabulary.get(token["content"])
        if number is None:
            number, free = free, free + 1
        decoder[number] = token
    unset = {"id": None, "lstrip": False, "rstrip": False, "single_word": False}
    decoder = {
        str(number): {key: value for key, value in token.items() if key not in unset or (key != "id" and value)}
        for number, token in decoder.items()
    }
    settings = json.loads((MODEL / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": name, "added_tokens_decoder": decoder, "extra_special_tokens": []}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return decoder


def main():
    transformers.logging.set_verbosity_error()
    rng = random.Random(11)
    cases = []
    for number in range(CASES):
        name = "PreTrainedTokenizerFast" if number % 4 == 3 else "RobertaTokenizer"
        # <left> of tokenizer.json removes white space on both sides.
        tokens = random_tokens(rng, name != "RobertaTokenizer" or rng.random() < 0.5)
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder) / "model"
            decoder = write_model(directory, name, tokens)
            tokenizer = AutoTokenizer.from_pretrained(directory)
            texts = [random_text(rng, tokens) for _ in range(TEXTS)]
            cases.append({"class": name, "decoder": decoder, "texts": [[text, tokenizer(text)["input_ids"]] for text in texts]})
    reference = f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}"
    lines = ",\n".join(json.dumps(case) for case in cases)
    (DATA / "added_tokens.json").write_text(f'{{"reference": "{reference}", "cases": [\n{lines}\n]}}\n')
    print(len(cases), sum(len(case["texts"]) for case in cases))


if __name__ == "__main__":
    main()
