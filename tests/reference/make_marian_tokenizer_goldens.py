#!/usr/bin/env python3
"""Writes tests/data/marian_tokenizer: the tokenizer of a Marian model, trained on this repository's documents, and the
output of transformers' MarianTokenizer for difficult texts and ids:

    golden.json: {"encode": [[text, [ids]], …], "decode": [[[ids], text], …],
                  "newest": {"version": …, "added": {token: id, …}, "decode": [[[ids], text], …]},
                  "gaps": {"removed": [piece, …], "encode": [[text, [ids]], …], "decode": [[[ids], text], …]}}

The committed "encode" is that of transformers 5.24, which treats language codes differently; "decode" is that of 4.36,
which by default removes spaces before punctuation. With --newest, the script only writes "newest": the same ids, and
punctuation after a space. "added" is the added_tokens.json beside the other files, for marks that no document has.
"gaps" is of the newest version, too: a vocab.json without some pieces, whose ids then have none.

Run it in the environment of requirements.txt, then with --newest in that of requirements-newest.txt.
"""

import json
import pathlib
import random
import shutil
import sys
import tempfile

import sentencepiece
import transformers
from transformers import MarianTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/marian_tokenizer"


def train(path, documents, size, **options):
    text = "\n".join((ROOT / name).read_text() for name in documents)
    lines = [line for line in text.splitlines() if line.strip()][:1200]
    with open(path, "wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=out, vocab_size=size, hard_vocab_limit=False,
            num_threads=1, minloglevel=2, **options,
        )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(model.get_piece_size())]


def texts(choose):
    yield from [
        "", " ", "a", "A fine day.", "  two  spaces ", "tabs\tand\nnewlines\r\n", "naïve café ﬁ ½ ①", "日本語のテキスト",
        "Ωμέγα ЖЖ", "e\u0301 é", "\u00a0nbsp\u2003em\u3000ideographic", "emoji 😀 👩‍👩‍👧", ">>fra<< hello", ">>fra<<hello",
        " >>fra<< not first", ">>unknown<< x", ">><<", ">>a<< b >>c<< d", "a << b >> c", "line\n>>fra<< second", "</s>",
        "a</s>b", "a <unk> b<pad>", "<pad", "</s></s>", "x" * 300, "don't we'll 'm .", "\ufeffbom", "a\u200bb", "\x01\x02",
        "▁▁ meta ▁space", "DPDK worker cores reassemble", "123,456.789", "<s> </S>", ">>fra<<\n>>deu<< two",
    ]  # fmt: skip
    words = (ROOT / "README.md").read_text().split()
    for _ in range(150):
        yield " ".join(choose.choice(words) for _ in range(choose.randrange(1, 20)))
    letters = "abcé ü.,'>< \n日ЖΩ</s>▁_-0123"
    for _ in range(150):
        yield "".join(choose.choice(letters) for _ in range(choose.randrange(1, 30)))


def write_newest():
    golden = json.loads((OUT / "golden.json").read_text())
    words = json.loads((OUT / "vocab.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder) / "marian"
        shutil.copytree(OUT, directory)
        added = {mark: len(words) + index for index, mark in enumerate(["?", "!"])}
        (directory / "added_tokens.json").write_text(json.dumps(added))
        tokenizer = MarianTokenizer.from_pretrained(directory)
        ids_of = words | added
        cases = []
        for mark in ["?", "!", ",", ".", "'▁", "n't", "'m", "'s", "'ve", "'re"]:
            pieces = ["▁a", "▁", *mark, "▁a"]
            if all(piece in ids_of for piece in pieces):
                cases.append([ids_of[piece] for piece in pieces])
            else:
                print("not in the vocabulary:", mark)
        cases += [ids for ids, _ in golden["decode"] if all(i < len(words) for i in ids)]
        decode = [[ids, tokenizer.decode(ids, skip_special_tokens=True)] for ids in cases]
    golden["newest"] = dict(version=transformers.__version__, added=added, decode=decode)
    golden["gaps"] = gaps(words)
    (OUT / "golden.json").write_text(json.dumps(golden))
    old = {tuple(ids): text for ids, text in golden["decode"]}
    print(len(decode), "decoded,", sum(old.get(tuple(ids), text) != text for ids, text in decode), "otherwise than before")


def gaps(words):
    """Ids without a piece in vocab.json are those of source.spm, where 0, 1 and 2 are special tokens."""
    removed = [piece for piece, number in words.items() if number == 2 or number % 7 == 3 or piece == ">>deu<<"]
    size = sentencepiece.SentencePieceProcessor(model_file=str(OUT / "source.spm")).get_piece_size()
    choose = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder) / "marian"
        shutil.copytree(OUT, directory)
        (directory / "vocab.json").write_text(json.dumps({p: i for p, i in words.items() if p not in removed}))
        tokenizer = MarianTokenizer.from_pretrained(directory)
        encode = [[text, tokenizer(text)["input_ids"]] for text in [*texts(choose)][::4]]
        decode = []
        for _ in range(100):
            ids = [choose.choice([0, 1, 2, 3, choose.randrange(size)]) for _ in range(choose.randrange(0, 12))]
            decode.append([ids, tokenizer.decode(ids, skip_special_tokens=True)])
    return dict(removed=removed, encode=encode, decode=decode)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    source = train(OUT / "source.spm", ["README.md", "docs/protocol.md"], 400)
    target = train(OUT / "target.spm", ["docs/operations.md", "docs/control.md"], 350,
                   normalization_rule_name="identity")
    pieces = ["</s>", "<unk>"] + sorted({p for p in source + target if p not in ("<s>", "</s>", "<unk>")})
    pieces += [">>fra<<", ">>deu<<", "<pad>"]
    (OUT / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}, indent=0, ensure_ascii=False) + "\n")
    (OUT / "tokenizer_config.json").write_text(
        json.dumps(dict(source_lang="eng", target_lang="fra", model_max_length=512, tokenizer_class="MarianTokenizer"))
        + "\n"
    )
    tokenizer = MarianTokenizer.from_pretrained(OUT)
    choose = random.Random(5)
    encode = [[text, tokenizer(text)["input_ids"]] for text in texts(choose)]
    decode = []
    for _ in range(300):
        ids = [choose.randrange(len(pieces) + (choose.random() < 0.1)) for _ in range(choose.randrange(0, 25))]
        decode.append([ids, tokenizer.decode(ids, skip_special_tokens=True)])
    for text, ids in encode[:40]:
        decode.append([ids, tokenizer.decode(ids, skip_special_tokens=True)])
    with open(OUT / "golden.json", "w") as out:
        json.dump(dict(encode=encode, decode=decode), out)
    print(len(pieces), "pieces", len(encode), len(decode))


if __name__ == "__main__":
    write_newest() if "--newest" in sys.argv else main()
