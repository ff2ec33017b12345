"""LoRA adapters as tenants: they answer as merged weights, beside their base and other models, and stay after a
restart."""

import json
import shutil
import struct

import pytest
from harness import appliance as appliance_module
from harness.appliance import CtlError
from harness.clients import Traffic, assert_accounted, connect
from harness.namespaces import run

IDS = [101, 2000, 2001, 102]


@pytest.fixture(scope="module")
def adapters(scratch):
    """adapters(seed=…, rank=…): the directory of a LoRA adapter over the models of the fixture `models`, made once."""
    made = {}

    def make(seed=1, rank=8, backbone="bert-tiny"):
        key = (seed, rank, backbone)
        if key not in made:
            directory = scratch / "adapters" / "-".join(str(part) for part in key)
            run(appliance_module.program("itif-mkmodel"), "--backbone", backbone, "--lora-rank", str(rank), "--seed",
                str(seed), "--out", str(directory))
            made[key] = directory
        return made[key]

    return make


def read_tensors(path):
    """name → (shape, values) of an F32 file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = entry["shape"], list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
    return tensors


def write_tensors(path, tensors):
    header, body = {}, b""
    for name, (shape, values) in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(piece)]}
        body += piece
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def merged(base, adapter, directory):
    """The base with the adapter's updates in its weights: W + alpha / r · B · A."""
    shutil.copytree(base, directory)
    config = json.loads((adapter / "adapter_config.json").read_text())
    scale = config["lora_alpha"] / config["r"]
    tensors = read_tensors(base / "model.safetensors")
    updates = read_tensors(adapter / "adapter_model.safetensors")
    for name, ((rank, k), a) in updates.items():
        if not name.endswith(".lora_A.weight"):
            continue
        (n, _), b = updates[name.replace(".lora_A.", ".lora_B.")]
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        shape, weight = tensors[f"{module}.weight"]
        assert shape == [n, k]
        for row in range(n):
            of_row = b[row * rank : (row + 1) * rank]
            for column in range(k):
                weight[row * k + column] += scale * sum(of_row[r] * a[r * k + column] for r in range(rank))
    write_tensors(directory / "model.safetensors", tensors)
    return directory


def logits(namespaces, added):
    with connect(namespaces, added) as client:
        return client.infer_tokens(IDS, "logits").floats()


def weight_bytes(appliance):
    (group,) = appliance.ctl_json("group", "list")["groups"]
    return group["weight_bytes"]


def assert_close(got, expected):
    assert len(got) == len(expected)
    assert all(abs(a - b) <= 0.05 * max(1, abs(b)) for a, b in zip(got, expected)), (got, expected)


def test_adapters_answer_as_merged_weights(appliance, namespaces, models, adapters, tmp_path):
    base = appliance.add_tenant("base", models(seed=1))
    plain = weight_bytes(appliance)
    first = appliance.add_tenant("first", adapters(seed=1), "--base", str(models(seed=1)))
    second = appliance.add_tenant("second", adapters(seed=2, rank=16), "--base", "first")
    tuned = appliance.add_tenant("tuned", models(seed=7))
    alone = {name: appliance.add_tenant(name, merged(models(seed=1), adapter, tmp_path / name))
             for name, adapter in {"whole-first": adapters(seed=1), "whole-second": adapters(seed=2, rank=16)}.items()}
    of_base = logits(namespaces, base)
    assert_close(logits(namespaces, first), logits(namespaces, alone["whole-first"]))
    assert_close(logits(namespaces, second), logits(namespaces, alone["whole-second"]))
    assert logits(namespaces, first) != of_base != logits(namespaces, tuned)
    shown = appliance.ctl_json("tenant", "show", "second")["tenant"]
    assert shown["base_dir"] == str(models(seed=1)) and 0 < shown["adapter_bytes"] < shown["weight_bytes"]
    for name in ("tuned", "whole-first", "whole-second", "second", "first"):
        appliance.ctl("tenant", "remove", name)
    assert weight_bytes(appliance) == plain
    assert logits(namespaces, base) == of_base
    assert_accounted(appliance)


def test_adapters_change_under_traffic_of_their_base(appliance, namespaces, models, adapters):
    base = appliance.add_tenant("base", models(seed=1))
    with Traffic(connect(namespaces, base)) as traffic:
        traffic.wait_for(3)
        for turn in range(3):
            added = appliance.add_tenant("adapter", adapters(seed=1 + turn), "--base", "base")
            before = logits(namespaces, added)
            appliance.ctl("tenant", "update", "adapter", "--model", str(adapters(seed=5 + turn)), "--base", "base")
            assert logits(namespaces, added) != before
            appliance.ctl("tenant", "remove", "adapter")
            traffic.wait_for(3)
    assert not traffic.losses and not traffic.refusals, (traffic.losses, traffic.refusals)


def test_adapters_are_there_after_a_restart(appliance, namespaces, models, adapters):
    appliance.add_tenant("base", models(seed=1))
    added = appliance.add_tenant("adapter", adapters(seed=3), "--base", "base")
    before = logits(namespaces, added)
    appliance.ctl("tenant", "remove", "base")
    assert logits(namespaces, added) == before
    appliance.kill()
    appliance.start()
    assert_close(logits(namespaces, added), before)


def test_adapters_without_base_and_damaged_ones_are_refused(appliance, namespaces, models, adapters, tmp_path):
    base = appliance.add_tenant("base", models(seed=1))
    before = weight_bytes(appliance)
    with pytest.raises(CtlError, match="name its base"):
        appliance.add_tenant("adapter", adapters())
    with pytest.raises(CtlError, match="no tenant named 'ghost'"):
        appliance.add_tenant("adapter", adapters(), "--base", "ghost")
    with pytest.raises(CtlError, match="expected an adapter"):
        appliance.add_tenant("adapter", models(seed=2), "--base", "base")
    broken = tmp_path / "broken"
    shutil.copytree(adapters(), broken)
    config = json.loads((broken / "adapter_config.json").read_text())
    for key, value in {"peft_type": "IA3", "lora_bias": True, "r": 4, "init_lora_weights": "pissa",
                       "layer_replication": [[0, 1]]}.items():
        (broken / "adapter_config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(CtlError) as error:
            appliance.add_tenant("adapter", broken, "--base", "base")
        assert "adapter_config.json" in str(error.value) or "adapter_model.safetensors" in str(error.value)
    (broken / "adapter_config.json").write_text(json.dumps(config))
    weights = broken / "adapter_model.safetensors"
    whole = weights.read_bytes()
    for data in (whole[: len(whole) // 2], b"\xff" * 8 + whole[8:], b""):
        weights.write_bytes(data)
        with pytest.raises(CtlError, match="adapter_model.safetensors"):
            appliance.add_tenant("adapter", broken, "--base", "base")
    assert weight_bytes(appliance) == before
    assert [tenant["name"] for tenant in appliance.ctl_json("tenant", "list")["tenants"]] == ["base"]
    assert logits(namespaces, base)
