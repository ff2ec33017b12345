#!/usr/bin/env python3
"""Compares our token ids with those of transformers' generate() for the full-size translation model (6+6 layers,
hidden 512, 8 heads, 58,101 tokens) with seeded random weights, alone and in one batch. Run it in the environment of
requirements.txt.
"""

import argparse
import sys
import tempfile

import itif_run
import numpy as np
import torch
import transformers

LENGTHS = (1, 7, 16, 17, 31, 120)
BEAMS = (4, 1, 2)


def make(folder, beams):
    config = transformers.MarianConfig(
        vocab_size=58101, d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="swish",
        scale_embedding=True, max_position_embeddings=512, pad_token_id=58100, decoder_start_token_id=58100,
        eos_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config).eval()
    generator = torch.Generator().manual_seed(2)
    for name, parameter in sorted(model.named_parameters()):
        if "embed_positions" in name:
            continue
        noise = torch.randn(parameter.shape, generator=generator)
        if "decoder" in name and "final_layer_norm.weight" in name:
            parameter.data = noise
        elif "layer_norm.weight" in name:
            parameter.data = 1.0 + 0.1 * noise
        else:
            parameter.data = 0.05 * noise
    model.generation_config = transformers.GenerationConfig(
        num_beams=beams, max_length=60, bad_words_ids=[[58100], [7, 8]], eos_token_id=0,
        pad_token_id=58100, decoder_start_token_id=58100, forced_eos_token_id=0,
    )  # fmt: skip
    model.save_pretrained(folder, safe_serialization=True)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    itif_run.add_arguments(parser)
    arguments = parser.parse_args()
    failed = 0
    for beams in BEAMS:
        with tempfile.TemporaryDirectory() as folder:
            model = make(folder, beams)
            numbers = np.random.default_rng(3)
            inputs = [[*numbers.integers(1, 58100, n - 1).tolist(), 0] for n in LENGTHS]
            with torch.no_grad():
                expected = [model.generate(torch.tensor([ids]))[0].tolist()[1:] for ids in inputs]
            lines = [dict(ids=ids, kind="tokens") for ids in inputs]
            for batch in (1, len(lines)):
                answers = itif_run.run(arguments, [folder], lines, "f32", batch=batch)
                differing = sum(a.get("tokens") != e for a, e in zip(answers, expected))
                failed += differing > 0
                print(f"{'✗' if differing else ' '} beams {beams}, batches of {batch}: {len(lines)} sequences, "
                      f"{sum(map(len, expected))} tokens, {len({t for e in expected for t in e})} of them distinct, "
                      f"{differing} sequences differ", flush=True)  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
