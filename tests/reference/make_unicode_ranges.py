#!/usr/bin/env python3
"""Writes lib/text/unicode_ranges.h: the code points that the reference drops, splits at or strips.

The tokenizers library classifies characters by tables of an old Unicode version. It treats a character assigned
since then (an accent, a punctuation mark) as an ordinary letter, as it did when the models were trained. This
script therefore queries the library for each code point, instead of using a current Unicode library.
Run it in the environment of requirements-newest.txt.
"""

import argparse
import pathlib
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

HEADER = """\
// Classes of code points as the reference tokenizer sees them. Made by
// tests/reference/make_unicode_ranges.py from tokenizers {version}: do not edit.
#pragma once

#include <cstdint>

namespace itif::text {{

struct CodePointRange {{
  uint32_t first;
  uint32_t last;
}};

// clang-format off
{tables}
// clang-format on

}}  // namespace itif::text
"""


def bert(**on):
    steps = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**steps, **on})


CLEAN, CHINESE = bert(clean_text=True), bert(handle_chinese_chars=True)
STRIP = bert(strip_accents=True)
SPLIT = pre_tokenizers.BertPreTokenizer()
MARKS, COMPATIBLE = normalizers.StripAccents(), normalizers.NFKD()
# Decomposed since Unicode 15, which Python 3.11 lacks.
CYRILLIC_MODIFIERS = range(0x1E030, 0x1E06E)


def classes(character):
    """The names of the tables that contain a character."""
    cleaned = CLEAN.normalize_str(character)
    words = SPLIT.pre_tokenize_str(f"a{character}b")
    if cleaned == "":
        yield "kDropped"
    if cleaned == " " or len(words) == 2:
        yield "kWhitespace"
    if len(words) == 3:
        yield "kPunctuation"
    if len(CHINESE.normalize_str(character)) == 3:
        yield "kChinese"
    # A composite of only marks, such as U+0344, is decomposed before its parts are looked up.
    if (
        STRIP.normalize_str(character) == ""
        and unicodedata.normalize("NFD", character) == character
    ):
        yield "kNonspacingMarks"
    if MARKS.normalize_str(character) == "":
        yield "kMarks"
    is_new = ord(character) in CYRILLIC_MODIFIERS or unicodedata.normalize("NFKD", character) != character
    if is_new and COMPATIBLE.normalize_str(character) == character:
        yield "kUndecomposed"


COMMENTS = dict(
    kDropped="removed by clean_text: controls, formats, private use",
    kWhitespace="end a word",
    kPunctuation="are words of their own",
    kChinese="are words of their own where tokenize_chinese_chars is on",
    kNonspacingMarks="removed by strip_accents, after decomposition",
    kMarks="removed by ALBERT's StripAccents, after compatibility decomposition",
    kUndecomposed="kept by compatibility decomposition, but decomposed by a newer Unicode",
)


def table(name, points):
    ranges = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    lines, line = [], " "
    for first, last in ranges:
        entry = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(entry) > 100:
            lines.append(line)
            line = " "
        line += entry
    lines.append(line)
    return (
        f"// {COMMENTS[name]}\nconstexpr CodePointRange {name}Ranges[] = {{\n"
        + "\n".join(lines)
        + "\n};"
    )


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=root / "lib/text/unicode_ranges.h")
    out = parser.parse_args().out
    points = {name: [] for name in COMMENTS}
    for point in range(0x110000):
        if not 0xD800 <= point < 0xE000:
            for name in classes(chr(point)):
                points[name].append(point)
    tables = "\n\n".join(table(name, points[name]) for name in COMMENTS)
    out.write_text(HEADER.format(version=tokenizers.__version__, tables=tables))


if __name__ == "__main__":
    main()
