"""Runs itif-run (tools/itif-run) in one process, with JSON lines in and out."""

import json
import pathlib
import subprocess

DEFAULT = pathlib.Path(__file__).resolve().parents[2] / "build/tools/itif-run/itif-run"


def add_arguments(parser):
    parser.add_argument(
        "--itif-run", type=pathlib.Path, default=DEFAULT, help="the program to compare"
    )
    parser.add_argument("--threads", type=int, default=0, help="of the host device; 0: all cores")


def run(arguments, models, lines, dtype, **options):
    """The answers to `lines` (dicts), in order. `options` are itif-run's: batch=8, repeat=0, …"""
    command = [str(arguments.itif_run), "--dtype", dtype, "--threads", str(arguments.threads)]
    for model in models:
        command += ["--model", str(model)]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-"), str(value)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines), (len(answers), len(lines))
    return answers
