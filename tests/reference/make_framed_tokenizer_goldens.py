#!/usr/bin/env python3
"""Writes tests/data/roberta_tokenizer and tests/data/albert_tokenizer: small tokenizers trained on this repository's
documents, and the output of transformers' fast tokenizers for difficult texts:

    golden.json: {"texts": [[text, [ids]], …], "pairs": [[text, pair, [ids], [types]], …],
                  "cut": [[text, pair, max_tokens, [ids]], …], "newest": {"version": …, "texts": [[text, [ids]], …]}}

With --newest, the script only writes "newest": the texts that the installed version encodes otherwise.

Run it in the environment of requirements.txt, then with --newest in that of requirements-newest.txt.
"""

import json
import pathlib
import random
import shutil
import sys

import sentencepiece
import transformers
from tokenizers import ByteLevelBPETokenizer, pre_tokenizers
from transformers import AlbertTokenizerFast, RobertaTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
DOCUMENTS = ["README.md", "docs/protocol.md", "docs/operations.md"]


def lines():
    text = "\n".join((ROOT / name).read_text() for name in DOCUMENTS)
    return [line for line in text.splitlines() if line.strip()][:1500]


def texts(choose, specials, upper):
    yield from [
        "", " ", "  ", "a", "A fine day.", " a", "  two  spaces ", "tabs\tand\nnewlines\r\n\r\n", "end \n", "\n x", "naïve café ﬁ ½ ①",
        "日本語のテキスト", "Ωμέγα ΑΣ ЖЖ İ ß", "e\u0301 é", "\u00a0nbsp\u2003em\u3000ideographic\u2028line", "emoji 😀 👩‍👩‍👧", "don't we'll 'm 're I'VE 'd''s",
        "it 's '", "x" * 300, "ab" * 200, "123,456.789 1a2b ٣ Ⅷ ²", "\ufeffbom", "a\u200bb", "\x01\x02\x7f\x85 \x1c\x0b", "``quoted'' text", "_under_ --- ...!?",
        "!'s ?!'t", "don’t", "  leading", "trailing  ", "हिन्दी नि", "\u0301start",
    ]  # fmt: skip
    for special in specials:
        yield from [special, f"a{special}b", f"a {special} b", f"  {special}  ", f"{special}{special}", special[:-1], special.lower()]
        if upper:
            yield special.upper()
    words = (ROOT / "README.md").read_text().split()
    for _ in range(150):
        yield " ".join(choose.choice(words) for _ in range(choose.randrange(1, 20)))
    letters = "abcé ü.,'`>< \n\t日ЖΩ_-0123sSt" + "".join(specials)
    for _ in range(250):
        yield "".join(choose.choice(letters) for _ in range(choose.randrange(1, 30)))


def write(out, tokenizer, specials, seed, upper=True):
    choose = random.Random(seed)
    all_texts = list(texts(choose, specials, upper))
    some = [choose.choice(all_texts) for _ in range(120)]
    pairs, cut = [], []
    for a, b in zip(some[::2], some[1::2]):
        if not b:  # an empty second text counts as no pair
            continue
        both = tokenizer(a, b, return_token_type_ids=True)
        pairs.append([a, b, both["input_ids"], both["token_type_ids"]])
        size = choose.randrange(5, 16)
        cut.append([a, b, size, tokenizer(a, b, truncation=True, max_length=size)["input_ids"]])
        cut.append([a, None, size, tokenizer(a, truncation=True, max_length=size)["input_ids"]])
    golden = dict(texts=[[text, tokenizer(text)["input_ids"]] for text in all_texts], pairs=pairs, cut=cut)
    with open(out / "golden.json", "w") as file:
        json.dump(golden, file)
    print(out.name, len(tokenizer), "tokens", {key: len(value) for key, value in golden.items()})


def roberta():
    out = DATA / "roberta_tokenizer"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    trained = ByteLevelBPETokenizer()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(lines(), vocab_size=500, special_tokens=specials)
    trained.save_model(str(out))
    tokenizer = RobertaTokenizerFast.from_pretrained(out)
    (out / "tokenizer_config.json").write_text(json.dumps(dict(model_max_length=512)) + "\n")
    write(out, tokenizer, specials, 6)


def albert():
    out = DATA / "albert_tokenizer"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with open(out / "spiece.model", "wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(line.lower() for line in lines()), model_writer=file, vocab_size=400, hard_vocab_limit=False,
            num_threads=1, minloglevel=2, pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols="[CLS],[SEP],[MASK]",
        )  # fmt: skip
    tokenizer = AlbertTokenizerFast.from_pretrained(out)
    # The published models' tokenizer.json has these two steps; the conversion omits the first.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", add_prefix_space=True)]
    )
    (out / "tokenizer_config.json").write_text(json.dumps(dict(do_lower_case=True, model_max_length=512)) + "\n")
    # "<PAD>" is lower-cased to a piece.
    write(out, tokenizer, ["[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"], 7, upper=False)


def write_newest():
    for folder, cls in [("roberta_tokenizer", RobertaTokenizerFast), ("albert_tokenizer", AlbertTokenizerFast)]:
        path = DATA / folder / "golden.json"
        tokenizer = cls.from_pretrained(DATA / folder)
        golden = json.loads(path.read_text())
        answers = [[text, tokenizer(text)["input_ids"]] for text, _ in golden["texts"]]
        texts = [new for old, new in zip(golden["texts"], answers) if old != new]
        golden["newest"] = dict(version=transformers.__version__, texts=texts)
        path.write_text(json.dumps(golden))
        print(folder, len(texts), "texts otherwise")


if __name__ == "__main__":
    if "--newest" in sys.argv:
        write_newest()
    else:
        roberta()
        albert()
