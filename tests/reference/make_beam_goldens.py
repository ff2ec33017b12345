#!/usr/bin/env python3
"""Adds to tests/data/beam_search.json the answers of the installed transformers' generate(), by version.

The "model" is a hash of the previous tokens (hash_logits). tests/unit/runtime/beam_search_test.cc computes the same
hash, so that only the search is compared. The first 400 cases have the answers of 4.36.2, whose search differs in
places; itif follows the newest version of the file.

Run it in the environment of requirements.txt, then in that of requirements-newest.txt.
"""

import json
import random
from pathlib import Path

import torch
import transformers
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

ROOT = Path(__file__).resolve().parents[2]
MASK = (1 << 64) - 1
FIRST_CASES = 400  # of random_case()
MORE_CASES = 300  # of another_case()


def splitmix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_logits(case: dict, tokens: list[int]) -> list[float]:
    state = splitmix(case["seed"])
    for token in tokens:
        state = splitmix(state ^ (token + 1))
    logits = [(splitmix(state ^ ((v + 1) << 32)) >> 44) / 2**20 * case["spread"] for v in range(case["vocab"])]
    for token in case["eos"]:
        logits[token] += case["eos_lift"]
    return logits


class HashModel(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig
    main_input_name = "input_ids"

    def __init__(self, config, case):
        super().__init__(config)
        self.case = case
        self.anchor = torch.nn.Parameter(torch.zeros(1))
        self.post_init()

    def can_generate(self):
        return True

    def prepare_inputs_for_generation(self, input_ids, **kwargs):
        return {"input_ids": input_ids}

    @staticmethod
    def _reorder_cache(past, beam_idx):
        return past

    def _temporary_reorder_cache(self, past, beam_idx):
        return past

    def forward(self, input_ids, **kwargs):
        rows = [hash_logits(self.case, row.tolist()) for row in input_ids]
        logits = torch.tensor(rows, dtype=torch.float32)[:, None, :]
        return CausalLMOutput(logits=logits)


def random_case(choose: random.Random, number: int) -> dict:
    vocab = choose.choice([24, 37, 64, 150])
    beams = choose.choice([1, 2, 3, 4, 4, 5, 8])
    eos = choose.sample(range(vocab), choose.choice([1, 1, 1, 1, 2, 3]))
    if max(2, 1 + len(eos)) * beams > vocab:
        eos = eos[:1]
    case = {
        "seed": number * 7919 + 1,
        "vocab": vocab,
        "spread": choose.choice([1.0, 2.0, 8.0]),
        "eos": eos,
        "eos_lift": choose.choice([0.0, 0.5, 1.0, 2.0, 4.0]),
    }
    config = {
        "eos_token_id": eos if len(eos) > 1 or choose.random() < 0.2 else eos[0],
        "decoder_start_token_id": choose.randrange(vocab),
        "num_beams": beams,
        "length_penalty": choose.choice([1.0, 1.0, 0.0, 0.6, 2.0, -1.0, 1.5]),
        "early_stopping": choose.choice([False, False, True, "never"]),
    }
    config["max_new_tokens" if choose.random() < 0.3 else "max_length"] = choose.choice([2, 3, 5, 9, 16, 30])
    if choose.random() < 0.4:
        words = [[choose.randrange(vocab)] for _ in range(choose.choice([1, 2, 6]))]
        words += [[choose.randrange(vocab) for _ in range(choose.choice([2, 2, 3]))] for _ in range(40)]
        if choose.random() < 0.3:
            words.append([eos[0]])  # transformers ignores a ban of the end token
        config["bad_words_ids"] = words
    if choose.random() < 0.25:
        config["forced_bos_token_id"] = choose.randrange(vocab)
    if choose.random() < 0.3:
        config["forced_eos_token_id"] = eos[0] if choose.random() < 0.9 else choose.randrange(vocab)
    case["config"] = config
    return case


def another_case(choose: random.Random, number: int) -> dict:
    """Settings that random_case() lacks: several forced ends, normalised scores, no length, several ends."""
    case = random_case(choose, number)
    config = case["config"]
    vocab = case["vocab"]
    if choose.random() < 0.5:
        config["renormalize_logits"] = True
        config.setdefault("bad_words_ids", [[choose.randrange(vocab)] for _ in range(5)])
    if choose.random() < 0.5:
        config["forced_eos_token_id"] = sorted(choose.sample(range(vocab), choose.choice([1, 2, 3])))
    if choose.random() < 0.3:
        config.pop("max_length", None)
        config.pop("max_new_tokens", None)
        if choose.random() < 0.5:
            config["max_length"] = 20
    return case


def generate(case: dict) -> list[int]:
    given = dict(case["config"])
    start = given.pop("decoder_start_token_id")
    model = HashModel(PretrainedConfig(vocab_size=case["vocab"], is_encoder_decoder=False), case)
    config = GenerationConfig(**given, pad_token_id=0, do_sample=False, use_cache=False)
    with torch.no_grad():
        out = model.generate(inputs=torch.tensor([[start]]), generation_config=config)
    return out[0].tolist()[1:]


def new_cases() -> list[dict]:
    choose = random.Random(20261123)
    return [another_case(choose, 10_000 + number) for number in range(MORE_CASES)]


def main() -> None:
    path = ROOT / "tests/data/beam_search.json"
    cases = json.loads(path.read_text())
    if len(cases) == FIRST_CASES:
        cases += new_cases()
    version = transformers.__version__
    for case in cases:
        answers = case.setdefault("answers", {})
        if "result" in case:
            answers["4.36.2"] = case.pop("result")
        try:
            answers[version] = generate(case)
        except ValueError as error:  # this version of transformers cannot run the case
            print("skipped:", error)
    cases = [case for case in cases if case["answers"]]
    path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
    differ = sum(1 for c in cases if len({tuple(a) for a in c["answers"].values()}) > 1)
    print(f"{len(cases)} cases, {differ} with different answers, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
