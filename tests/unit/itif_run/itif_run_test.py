"""Runs itif-run on golden models and on lines that it must refuse. Prints TAP.

usage: itif_run_test.py ITIF_RUN TESTS_DATA
"""

import base64
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# An input line, and a part of the one error line.
REFUSED = (
    ("{", "line 1: not a JSON object"),
    ("[]", "line 1: not a JSON object"),
    ('{"txt": "a"}', "unknown key 'txt'"),
    ("{}", "exactly one of 'ids'"),
    ('{"ids": []}', "exactly one of 'ids'"),
    ('{"ids": [1], "text": "a"}', "exactly one of 'ids'"),
    ('{"ids": [-1]}', "'ids' must be from 0"),
    ('{"ids": 7}', "'ids' must be an array"),
    ('{"ids": [1, 2], "token_types": [0]}', "'token_types' must be as long"),
    ('{"ids": [1], "pair": "a"}', "'pair' needs 'text'"),
    ('{"text": 7}', "'text' must be a string"),
    ('{"text": "a", "kind": "poem"}', "kind 'poem' must be one of"),
    ('{"text": "a", "truncate": 1}', "'truncate' must be true or false"),
    ('{"image_u8": 7}', "'image_u8' must be a file name"),
    ('{"image_f32": "/nonexistent"}', "is missing, empty or larger"),
    ('{"text": "a", "model": 1}', "names model 1; there are 1"),
)


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def result(self, passed, name, details=""):
        self.count += 1
        self.failed += not passed
        print(f"{'ok' if passed else 'not ok'} {self.count} - {name}", flush=True)
        if not passed:
            print(f"# {details}")


def run(program, text, *options):
    return subprocess.run(
        [program, "--dtype", "f32", "--device", "host", *options],
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
    )


def check_generation_variants(tap, program, data, folder):
    """Models whose generation_config.json has settings that newer versions of transformers treat differently."""
    for number, variant in enumerate(json.loads(Path(data, "generation", "variants.json").read_text())):
        copy = Path(folder, f"variant{number}")
        shutil.copytree(Path(data, "generation", variant["model"]), copy)
        path = copy / "generation_config.json"
        settings = json.loads(path.read_text()) | variant["change"]
        path.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))
        lines = "".join(json.dumps({"ids": c["ids"], "kind": "tokens"}) + "\n" for c in variant["cases"])
        done = run(program, lines, "--model", str(copy), "--batch", "4")
        answers = [json.loads(line).get("tokens") for line in done.stdout.splitlines()]
        expected = [c["tokens"] for c in variant["cases"]]
        name = f"{variant['model']} with {json.dumps(variant['change'])}".replace("#", "\\#")
        tap.result(answers == expected, name, (done.stderr, answers, expected))


def check_adapters(tap, program, data):
    """The planner learns whose requests have adapters, which add updates to a plan's work."""
    adapter = Path(data, "adapters", "bert-usual")
    golden = json.loads((adapter / "golden.json").read_text())
    base = Path(data, golden["base"])
    cases = golden["cases"][:3]
    lines = "".join(
        json.dumps({"ids": c["ids"], "token_types": c["token_types"], "kind": c["kind"], "model": model}) + "\n"
        for model in (0, 1)
        for c in cases
    )
    models = ("--model", str(base), "--model", str(adapter), "--base", str(base))
    for planner in ("packed", "auto"):
        done = run(program, lines, *models, "--batch", "8", "--planner", planner, "--verbose")
        answers = [json.loads(line) for line in done.stdout.splitlines()][len(cases) :]
        close = len(answers) == len(cases) and all(
            abs(x - y) <= 1e-4 for a, c in zip(answers, cases) for x, y in zip(a["values"], c["values"])
        )
        tap.result(
            close and f"{len(cases)} requests of adapters" in done.stderr,
            f"requests of an adapter and of its base, planner {planner}",
            (done.stderr, answers),
        )


PLANNERS = ("packed", "naive", "turbo", "itif", "joint", "auto", "concat", "slotted:slot_tokens=16")


def check_golden(tap, program, directory, batch, planner="packed"):
    golden = json.loads((directory / "golden.json").read_text())
    cases = golden["cases"]
    lines = "".join(
        json.dumps({"ids": c["ids"], "token_types": c["token_types"], "kind": c["kind"]}) + "\n"
        for c in cases
    )
    done = run(program, lines, "--model", str(directory), "--batch", str(batch), "--planner", planner)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    worst = 1.0
    if done.returncode == 0 and len(answers) == len(cases):
        good = all(
            a["status"] == "ok"
            and a["kind"] == c["kind"]
            and a["shape"] == c["shape"]
            and a["ids"] == c["ids"]
            for a, c in zip(answers, cases)
        )
        if good:
            worst = max(
                abs(x - y) for a, c in zip(answers, cases) for x, y in zip(a["values"], c["values"])
            )
    tap.result(
        worst <= 1e-4,
        f"{directory.name} in batches of {batch}, planner {planner}",
        f"worst {worst}, {done.stderr.strip()}",
    )


def check_texts(tap, program, directory, name="", texts=None):
    """From text to result, in a directory as the library writes it. The last text is cut."""
    texts = texts or json.loads((directory / "golden.json").read_text())["texts"]
    requests = [{key: c[key] for key in ("text", "pair", "kind") if key in c} | {"truncate": True} for c in texts]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = run(program, lines, "--model", str(directory), "--batch", "4")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    worst = 1.0
    if [a.get("ids") for a in answers] == [c["ids"] for c in texts] and all("values" in a for a in answers):
        worst = max(abs(x - y) for a, c in zip(answers, texts) for x, y in zip(a["values"], c["values"]))
    tap.result(worst <= 1e-4, f"texts of {name or directory.name}", f"worst {worst}, {done.stderr.strip()}")


def check_variants(tap, program, directory, folder):
    """The directory with other keys, and the library's answers to the same texts."""
    for number, variant in enumerate(json.loads((directory / "golden.json").read_text())["variants"]):
        copy = Path(folder, f"{directory.name}{number}")
        shutil.copytree(directory, copy)
        for file, pointer, value in variant["changes"]:
            settings = json.loads((copy / file).read_text())
            (copy / file).write_text(json.dumps(settings | {pointer.removeprefix("/"): value}))
        check_texts(tap, program, copy, f"{directory.name} with {json.dumps(variant['changes'])}", variant["texts"])


def check_longest_text(tap, program, directory, folder):
    """sentence-transformers' own limit replaces a smaller one of the tokenizer."""
    copy = Path(folder, "limits")
    shutil.copytree(directory, copy)
    for file, change in (("tokenizer_config.json", {"model_max_length": 8}), ("sentence_bert_config.json", {"max_seq_length": 24})):
        settings = json.loads((copy / file).read_text())
        (copy / file).write_text(json.dumps(settings | change))
    check_texts(tap, program, copy, f"{directory.name} with max_seq_length above model_max_length")


def check_image_golden(tap, program, directory, folder):
    """Runs image payloads from files in one batch; one of them is resized."""
    golden = json.loads((directory / "image_golden.json").read_text())
    lines = []
    for number, case in enumerate(golden["cases"]):
        image = golden["images"][case["image"]]
        path = Path(folder, f"{number}.bin")
        prefix = struct.pack("<4H", image["height"], image["width"], image["channels"], 0)
        path.write_bytes(prefix + base64.b64decode(image["base64"]))
        lines.append(json.dumps({"image_" + image["payload"]: str(path), "kind": case["kind"]}))
    done = run(program, "\n".join(lines) + "\n", "--model", str(directory), "--batch", str(len(lines)))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    worst = 1.0
    if [a.get("shape") for a in answers] == [c["shape"] for c in golden["cases"]]:
        worst = max(
            abs(x - y)
            for a, c in zip(answers, golden["cases"])
            for x, y in zip(a["values"], c["values"])
        )
    tap.result(worst <= 1e-4, f"images of {directory.name}", f"worst {worst}, {done.stderr.strip()}")


def main(program, data):
    tap = Tap()
    goldens = Path(data, "goldens")
    model = str(goldens / "classifier-bf16")
    for batch in (1, 5):
        check_golden(tap, program, goldens / "classifier-bf16", batch)
    check_golden(tap, program, goldens / "sentence-mean-f16", 3)
    check_texts(tap, program, goldens / "sentence-roberta-f32")
    for planner in PLANNERS:
        check_golden(tap, program, goldens / "classifier-bf16", 5, planner)
    check_adapters(tap, program, data)
    done = run(program, "", "--model", model, "--planner", "best")
    tap.result(done.returncode != 0 and "unknown planner 'best'" in done.stderr, "an unknown planner is refused", done.stderr)
    marian = str(Path(data, "generation", "greedy"))
    done = run(program, "", "--model", marian, "--planner", "turbo")
    tap.result(
        done.returncode == 1 and "its planners are packed, naive, concat and slotted" in done.stderr,
        "a model that generates has no planner for its steps",
        done.stderr,
    )
    with tempfile.TemporaryDirectory() as folder:
        check_image_golden(tap, program, goldens / "vit-f32", folder)
        check_longest_text(tap, program, goldens / "sentence-roberta-f32", folder)
        for name in ("cross-encoder-f32", "cross-encoder-labels-f32"):
            check_texts(tap, program, goldens / name)
            check_variants(tap, program, goldens / name, folder)
        check_generation_variants(tap, program, data, folder)
        cut = Path(folder, "cut.bin")
        cut.write_bytes(struct.pack("<4H", 28, 21, 3, 0) + bytes(28 * 21 * 3 - 1))
        line = json.dumps({"image_u8": str(cut)})
        done = run(program, line + "\n", "--model", str(goldens / "vit-f32"))
        tap.result('"malformed"' in done.stdout, "a truncated image is malformed", done.stdout + done.stderr)

    done = run(
        program,
        '{"text": "good movie", "pair": "bad"}\n\n{"ids": [120]}\n'
        '{"text": "a", "kind": "embedding"}\n',
        "--model",
        model,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    tap.result(
        len(answers) == 3
        and answers[0]["kind"] == "classes"
        and answers[0]["token_types"][-1] == 1
        and abs(sum(c["probability"] for c in answers[0]["classes"]) - 1) < 1e-5,
        "a pair of texts has classes",
        answers,
    )
    tap.result(
        answers[1]["status"] == "malformed", "an id past the vocabulary is malformed", answers
    )
    tap.result(
        answers[2]["status"] == "unsupported_kind", "a kind without a head is refused", answers
    )

    # DistilBERT has no token types: a pair is its two texts with separators.
    distilbert = ("--model", str(goldens / "distilbert-classifier-f16"))
    pair = json.loads(run(program, '{"text": "good movie", "pair": "bad"}\n', *distilbert).stdout)
    alone = json.loads(run(program, json.dumps({"ids": pair.get("ids", [])}) + "\n", *distilbert).stdout)
    tap.result(
        pair["status"] == "ok" and pair["ids"].count(pair["ids"][-1]) == 2 and pair["classes"] == alone["classes"],
        "a model without token types takes a pair",
        (pair, alone),
    )

    long_text = json.dumps({"text": "a " * 500})
    cut = json.dumps({"text": "a " * 500, "truncate": True})
    done = run(program, f"{long_text}\n{cut}\n", "--model", model, "--repeat", "0")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    tap.result(
        answers[0]["status"] == "too_long"
        and len(answers[1]["ids"]) == 32
        and "values" not in answers[1],
        "a long text is refused or truncated; repeat 0 gives tokens only",
        answers,
    )

    two = "".join(
        json.dumps({"text": "good", "model": m, "kind": "hidden"}) + "\n" for m in (1, 0, 1)
    )
    done = run(program, two, "--model", model, "--model", model, "--batch", "3")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    same = len(answers) == 3 and all(a["values"] == answers[0]["values"] for a in answers)
    tap.result(same, "two models of one backbone share a batch", done.stderr)

    for line, expected in REFUSED:
        done = run(program, line + "\n", "--model", model)
        name = f"refused: {line}".replace("#", "\\#")
        tap.result(
            done.returncode == 1 and expected in done.stderr and done.stderr.count("\n") == 1,
            name,
            done.stderr,
        )
    done = run(program, "", "--model", str(goldens))
    tap.result(
        done.returncode == 1 and "config.json" in done.stderr,
        "a directory without a model is refused",
        done.stderr,
    )
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
