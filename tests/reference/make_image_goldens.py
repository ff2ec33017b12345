#!/usr/bin/env python3
"""Writes the small image models of tests/data/goldens and the results of transformers.

Each directory is a Hugging Face model in the format of downloads, with seeded random weights,
preprocessor_config.json, and image_golden.json:

    {"model": NAME, "reference": "transformers 4.36.2, torch 1.13.1, Pillow …",
     "images": [{"payload": "u8", "height": h, "width": w, "channels": c, "base64": …}, …],
     "cases": [{"image": 0, "kind": "hidden", "shape": [n, hidden], "values": [… row-major f32 …]}, …]}

An image_f32 payload holds the pixel values that the image processor made from a u8 image, HWC. The processor resizes
images whose size differs from the model's. Run it in the environment of requirements.txt.
"""

import argparse
import base64
import json
import pathlib
import shutil

import numpy as np
import PIL
import torch
import transformers

from make_goldens import shortest

MODELS = {
    # Not square, an odd patch, a pooler; each channel has different mean and deviation.
    "vit-f32": dict(
        cls="ViTModel",
        dtype=torch.float32,
        config=dict(image_size=[28, 21], patch_size=7, hidden_size=36, num_attention_heads=3, num_hidden_layers=2,
                    intermediate_size=52),
        processor=dict(resample=2, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]),
        others=[(40, 33), (9, 11), (28, 50)],
    ),
    # One channel, pixels past the last complete patch, no biases of q, k and v, no pooler.
    "vit-gray-f16": dict(
        cls="ViTModel",
        dtype=torch.float16,
        arguments=dict(add_pooling_layer=False),
        config=dict(image_size=20, patch_size=6, num_channels=1, hidden_size=48, num_attention_heads=2,
                    num_hidden_layers=3, intermediate_size=100, qkv_bias=False, hidden_act="gelu_new",
                    layer_norm_eps=1e-6),
        processor=dict(resample=3, image_mean=[0.4], image_std=[0.3]),
        others=[(31, 64), (20, 7)],
    ),
    "vit-classifier-bf16": dict(
        cls="ViTForImageClassification",
        dtype=torch.bfloat16,
        config=dict(image_size=32, patch_size=8, hidden_size=36, num_attention_heads=3, num_hidden_layers=2,
                    intermediate_size=100, id2label={0: "cat", 1: "dog", 2: "heron"},
                    label2id={"cat": 0, "dog": 1, "heron": 2}),
        processor=dict(resample=1, do_normalize=False),
        others=[(100, 47), (32, 31)],
    ),
    # Pixels are normalised as bytes, without resizing.
    "vit-classifier-f32": dict(
        cls="ViTForImageClassification",
        dtype=torch.float32,
        config=dict(image_size=24, patch_size=12, hidden_size=36, num_attention_heads=2, num_hidden_layers=1,
                    intermediate_size=52, hidden_act="relu", num_labels=5, qkv_bias=False),
        processor=dict(do_resize=False, do_rescale=False, image_mean=[120.0, 115.0, 100.0], image_std=[60.0, 50.0, 70.0]),
        others=[],
    ),
}


def randomise(model, seed):
    """Sets weights so large that every layer, bias and embedding affects the output."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "layernorm" in name and name.endswith("weight"):
            parameter.data = 1.0 + 0.1 * noise
        elif name.endswith(".bias"):
            parameter.data = 0.1 * noise
        elif "cls_token" in name or "position_embeddings" in name:
            parameter.data = 0.5 * noise
        elif "projection" in name:
            parameter.data = 0.05 * noise
        elif any(part in name for part in ("query", "key")):
            parameter.data = 0.2 * noise
        else:
            parameter.data = 0.15 * noise


def picture(generator, height, width, channels):
    """Waves with added noise."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    waves = 110 * np.sin(y / (3 + c) + generator.random()) * np.cos(x / (4 + c) + generator.random())
    return np.clip(127 + waves + generator.normal(0, 40, waves.shape), 0, 255).astype(np.uint8)


def payload(kind, pixels):
    height, width, channels = pixels.shape
    data = base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode()
    return dict(payload=kind, height=height, width=width, channels=channels, base64=data)


def outputs(model, values):
    with torch.no_grad():
        encoded = getattr(model, model.base_model_prefix, model)(values)
        yield "hidden", encoded.last_hidden_state[0]
        if encoded.get("pooler_output") is not None:
            yield "pooled", encoded.pooler_output[0]
        if hasattr(model, "classifier"):
            yield "logits", model(values).logits[0]


def make(name, spec, seed, root):
    directory = root / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    cls = getattr(transformers, spec["cls"])
    config = transformers.ViTConfig(**spec["config"])
    model = cls(config, **spec.get("arguments", {}))
    randomise(model, seed)
    model.to(spec["dtype"]).save_pretrained(directory, safe_serialization=True)
    size = config.image_size if isinstance(config.image_size, list) else [config.image_size] * 2
    processor = transformers.ViTImageProcessor(size=dict(height=size[0], width=size[1]), **spec["processor"])
    processor.save_pretrained(directory)

    model = cls.from_pretrained(directory, torch_dtype=torch.float32, **spec.get("arguments", {})).eval()
    generator = np.random.default_rng(seed)
    images, cases = [], []
    sizes = [tuple(size), tuple(size)] + spec["others"]
    for index, (height, width) in enumerate(sizes):
        pixels = picture(generator, height, width, config.num_channels)
        values = processor(pixels, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
        # The second is sent as the processor's output.
        as_f32 = index == 1
        images.append(payload("f32", values[0].permute(1, 2, 0).numpy()) if as_f32 else payload("u8", pixels))
        for kind, value in outputs(model, values):
            spread = float(value.std(unbiased=False))
            assert spread > 0.02 and bool(torch.isfinite(value).all()), (name, kind, spread)
            cases.append(dict(image=index, kind=kind, shape=list(value.shape), values=shortest(value)))
    reference = (f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, "
                 f"Pillow {PIL.__version__}")
    head = json.dumps(dict(model=name, reference=reference))[:-1]
    rows = {key: ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            for key, value in dict(images=images, cases=cases).items()}
    text = f'{head}, "images": [\n{rows["images"]}\n], "cases": [\n{rows["cases"]}\n]}}\n'
    (directory / "image_golden.json").write_text(text)
    print(f"{name}: {len(cases)} cases")


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "data" / "goldens")
    root = parser.parse_args().out
    for seed, (name, spec) in enumerate(MODELS.items(), start=101):
        make(name, spec, seed, root)


if __name__ == "__main__":
    main()
