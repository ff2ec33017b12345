#!/usr/bin/env python3
"""Writes tests/data/saved_tokenizers: the small tokenizers of tests/data with added tokens, as transformers 5.24 saves
them, and its answers:

    golden.json: {"texts": [[text, [ids]], …], "decode": [[[ids], text], …]}; only Marian's decodes

Run it in the environment of requirements-newest.txt, after the scripts that write the small tokenizers.
"""

import json
import pathlib
import shutil

from tokenizers import AddedToken
from transformers import AlbertTokenizer, BertTokenizer, MarianTokenizer, RobertaTokenizer

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data"
OUT = DATA / "saved_tokenizers"
TEXTS = [
    "", "A fine day.", "a <mask> b", "a [MASK] b", "x <new> y", "x<new>y", "<new><new>", "a  <left>  b", "a<left>b", "<extra> one",
    "one<extra>two", "</s> <pad> <unk>", "[SEP] [PAD]", "Héllo WÖRLD", "the <NEW> one", "<ne w>", "hello<new>",
]  # fmt: skip
# Control characters and white space.
SPACES = [*range(1, 0x20), 0x7F, 0x85, 0xA0, 0x1680, 0x180E, 0x2003, 0x200B, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF]
TEXTS += [f"a{chr(code)}b" for code in SPACES]
# Marks and decompositions, of which the reference's old Unicode lacks some.
MARKS = [0x301, 0x7FD, 0x898, 0x903, 0xCF3, 0x1CF2, 0x32FF, 0xA7F3, 0xAB69, 0x10783, 0x11938, 0x1E030, 0x1F16C, 0x1FBF0]
TEXTS += [f"a{chr(code)}b" for code in MARKS]
LEFT = AddedToken("<left>", lstrip=True, rstrip=True, normalized=False)


def lower_scores(out):
    """As in the published ALBERTs, whose tokenizer.json lowers some scores of spiece.model by 100."""
    document = json.loads((out / "tokenizer.json").read_text())
    for entry in document["model"]["vocab"]:
        if len(entry[0]) > 2 and ("n" in entry[0] or entry[0][-1] == ","):
            entry[1] -= 100
    (out / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False) + "\n")


def write(name, tokenizer, new, decode=False, edit=None):
    tokenizer.add_tokens(new)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<extra>"]})
    out = OUT / name
    tokenizer.save_pretrained(out)
    if edit:
        edit(out)
    loaded = type(tokenizer).from_pretrained(out)
    golden = dict(texts=[[text, loaded(text)["input_ids"]] for text in TEXTS])
    if decode:
        golden["decode"] = [[ids, loaded.decode(ids, skip_special_tokens=True)] for _, ids in golden["texts"]]
    (out / "golden.json").write_text(json.dumps(golden) + "\n")
    print(name, len(loaded), sorted(file.name for file in out.iterdir()))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    write("roberta", RobertaTokenizer.from_pretrained(DATA / "roberta_tokenizer"), ["<new>", LEFT])
    write("marian", MarianTokenizer.from_pretrained(DATA / "marian_tokenizer"), ["<new>", LEFT], decode=True)
    # Tokens that are not normalised: the others are searched for in normalised text.
    words = AlbertTokenizer.from_pretrained(DATA / "albert_tokenizer")
    write("albert", words, [AddedToken("<new>", normalized=False), LEFT], edit=lower_scores)
    shutil.copy(DATA / "albert_tokenizer/spiece.model", OUT / "albert")
    lines = (DATA / "wordpiece/vocabularies/uncased.txt").read_text().splitlines()
    vocabulary = {token: number for number, token in enumerate(lines)}
    words = BertTokenizer(vocabulary, model_input_names=["input_ids", "attention_mask"])
    write("bert", words, ["<new>"])


if __name__ == "__main__":
    main()
