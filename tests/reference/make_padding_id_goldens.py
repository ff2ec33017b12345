#!/usr/bin/env python3
"""Adds requests with padding ids inside the text to golden.json of the RoBERTa models of tests/data/goldens, with the
answers of transformers' RobertaModel: its positions skip padding ids, and without a mask it attends to them.

Run it in the environment of requirements-newest.txt, after make_goldens.py.
"""

import json
import pathlib

import numpy as np
import torch
import transformers

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "tests/data/goldens"
NAMES = ["roberta-f32", "roberta-classifier-bf16"]
PADDING = 1
TEXTS = [
    [2, 9, PADDING, 40, 41, 3],
    [PADDING, 17, 18, 3],
    [2, PADDING, PADDING, 30, PADDING, 31, 32, 33, 3, PADDING],
    [PADDING],
]


def main():
    reference = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    for name in NAMES:
        model = transformers.RobertaModel.from_pretrained(GOLDENS / name, dtype=torch.float32).eval()
        assert model.config.pad_token_id == PADDING
        path = GOLDENS / name / "golden.json"
        golden = json.loads(path.read_text())
        cases = [case for case in golden.pop("cases") if "reference" not in case]
        for ids in TEXTS:
            with torch.no_grad():
                hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            values = [float(str(x)) for x in hidden.numpy().astype(np.float32).ravel()]
            case = dict(ids=ids, token_types=[0] * len(ids), kind="hidden", shape=list(hidden.shape), values=values)
            cases.append(case | dict(reference=reference))
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        path.write_text(f'{json.dumps(golden)[:-1]}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
