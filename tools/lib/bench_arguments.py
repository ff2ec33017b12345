"""Types of the numbers that benches take as arguments. argparse names the argument of a value that a type refuses."""

import argparse
import math
import re

# More is a typing mistake. Every program that the benches start can hold numbers of this size.
MOST = 1_000_000


def whole_number(text):
    """A count of rounds, seconds, tokens or clients."""
    if not re.fullmatch(r"[0-9]+", text) or not 1 <= int(text) <= MOST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST:,}, found '{text}'")
    return int(text)


def positive_number(text):
    """A rate, a factor or a time."""
    number = _number(text)
    if not 0 < number <= MOST:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and at most {MOST:,}, found '{text}'")
    return number


def part(text):
    """A part of the machine's time, or of a throughput."""
    number = _number(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and at most 1, found '{text}'")
    return number


def duration(text):
    """A duration as itif-loadgen takes it. Returns its text."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)", text)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"must be a duration above 0 as in 500ms, found '{text}'")
    return text


def counts(text):
    """Whole numbers from 0, with commas between them; none for an empty text. Returns their texts."""
    if not re.fullmatch(r"(?:[0-9]+(?:,[0-9]+)*)?", text):
        raise argparse.ArgumentTypeError(f"must be whole numbers with commas between them, found '{text}'")
    return [str(int(count)) for count in text.split(",") if count]


def _number(text):
    try:
        return float(text)
    except ValueError:
        return math.nan  # in no range
