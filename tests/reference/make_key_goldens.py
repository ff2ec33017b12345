#!/usr/bin/env python3
"""Writes tests/data/keys.json: keys added to the models of tests/data, and what the newest libraries then answer.

Each row changes files of a directory, as [file, JSON pointer, value], and has one of:

    "refused": part of our message. The library fails, or "differs" says by how much its answer changes (numbers: the
               largest difference; tokenizers: the texts with other ids)
    "ids":     the library's ids of TEXTS, which are ours
    "same":    true: the library's answer does not change, and ours must not either

Run it in the environment of requirements-newest.txt.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import sentence_transformers
import torch
import transformers
from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoTokenizer, MarianMTModel

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/data"
TEXTS = ["A fine day.", "one of two", "x<new>y <NEW> <left> z", "[MASK] the <mask> end", "ab</s>ba <extra> the", "THE the 日本", "a <ne w> b", "[mask] of\x01x ꙮ"]
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 2]])
BERT, ROBERTA, ALBERT, MARIAN = (f"saved_tokenizers/{name}" for name in ("bert", "roberta", "albert", "marian"))
ENCODER, NARROW, SENTENCE = "goldens/roberta-f32", "goldens/distilbert-f32", "goldens/sentence-roberta-f32"
PLAIN, IMAGES, TRANSLATION = "goldens/classifier-bf16", "goldens/vit-f32", "generation/greedy"
REGRESSION, SCORES, ENCODING = "goldens/regression-f32", "goldens/cross-encoder-f32", "config_sentence_transformers.json"
CONFIG, TOKENIZER, SENTENCE_CONFIG = "config.json", "tokenizer_config.json", "sentence_bert_config.json"
WHOLE, CLASS = "tokenizer.json", "/tokenizer_class"
OTHER_FRAME = [
    [WHOLE, "/post_processor/single/0/SpecialToken/id", "[PAD]"],
    [WHOLE, "/post_processor/pair/0/SpecialToken/id", "[PAD]"],
    [WHOLE, "/post_processor/special_tokens/[PAD]", {"id": "[PAD]", "ids": [0], "tokens": ["[PAD]"]}],
]
OTHER_STEPS = [  # of tokenizer.json
    [[WHOLE, "/normalizer/clean_text", False]],
    [[WHOLE, "/normalizer/lowercase", False]],
    [[WHOLE, "/normalizer/strip_accents", False]],
    [[WHOLE, "/model/continuing_subword_prefix", "@@"]],
    [[WHOLE, "/model/max_input_chars_per_word", 3]],
    [[WHOLE, "/model/unk_token", "[PAD]"]],
    OTHER_FRAME,
]
OTHER_ADDED = [[TOKENIZER, "/added_tokens_decoder", {"3469": {"content": "<extra>", "special": True}}]]
OTHER_SETTINGS = [[TOKENIZER, "/unk_token", "[PAD]"], [TOKENIZER, "/cls_token", "[MASK]"], [TOKENIZER, "/do_lower_case", False]]
JSON_CLASS = [TOKENIZER, CLASS, "PreTrainedTokenizerFast"]
BERT_IDS = [WHOLE, "/post_processor", {"type": "BertProcessing", "sep": ["[SEP]", 7], "cls": ["[CLS]", 2]}]
PADDING = [WHOLE, "/padding", {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "i"}]
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
NO_CLASS = [TOKENIZER, "/tokenizer_class", None]
CHAT = "{% for m in messages %}user: {{ m['content'] }}{% endfor %}"
FORWARD = {"method": "forward", "method_output_name": "last_hidden_state"}
LEFT_MASK = ["special_tokens_map.json", "", {"mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": True}}]


def of_type(model_type, **keys):
    return [CONFIG, "", {"model_type": model_type} | keys]


REFUSED = [  # (directory, changes, message)
    (ENCODER, [[CONFIG, "/is_causal", True]], "'is_causal' must be false"),
    (IMAGES, [[CONFIG, "/is_causal", True]], "'is_causal' must be false"),
    (TRANSLATION, [[CONFIG, "/is_causal", True]], "'is_causal' must be false"),
    (ENCODER, [[CONFIG, "/per_layer_config", {"0": {"intermediate_size": 20}}]], "'per_layer_config' must be {}"),
    (ENCODER, [[CONFIG, "/transformers_weights", "other.safetensors"]], "'transformers_weights' must be"),
    (NARROW, [[CONFIG, "/num_attention_heads", 1]], "'num_attention_heads' must be equal to 'n_heads'"),
    (NARROW, [[CONFIG, "/num_hidden_layers", 1]], "'num_hidden_layers' must be equal to 'n_layers'"),
    (TRANSLATION, [[CONFIG, "/num_attention_heads", 1]], "'num_attention_heads' must be equal to"),
    (TRANSLATION, [[CONFIG, "/num_hidden_layers", 1]], "'num_hidden_layers' must be equal to 'encoder_layers'"),
    (ENCODER, [["adapter_config.json", "", {"peft_type": "LORA", "r": 2, "target_modules": ["query"], "lora_alpha": 50,
                                            "init_lora_weights": False, "base_model_name_or_path": "x"}]], "is an adapter"),
    (REGRESSION, [[CONFIG, "/problem_type", "single_label_classification"]], "'problem_type' must be regression or multi_label_classification"),
    (SCORES, [[ENCODING, "/activation_fn", "torch.nn.modules.activation.Softplus"]], "'activation_fn' must be torch.nn's Sigmoid or Identity"),
    (SCORES, [[ENCODING, "/default_prompt_name", "q"], [ENCODING, "/prompts", {"q": "a b "}]], "'default_prompt_name' must be null"),
    (SCORES, [["modules.json", "/0/path", "0_Transformer"]], "a CrossEncoder must have one module"),
    (SENTENCE, [[SENTENCE_CONFIG, "/modality_config/message", FORWARD | {"format": "flat"}], [TOKENIZER, "/chat_template", CHAT]],
     "'modality_config.message'"),
    (SENTENCE, [["2_Dense/config.json", "/activation_function", "activations.ReLU"]], "'activation_function' must be torch.nn's"),
    (SENTENCE, [["modules.json", "/2/type", "modules.Dense"]], "expected a class of sentence_transformers"),
    (IMAGES, [["preprocessor_config.json", "/do_center_crop", True], ["preprocessor_config.json", "/crop_size", {"height": 9, "width": 9}]],
     "'do_center_crop' must be false"),
    (IMAGES, [["preprocessor_config.json", "/do_pad", True], ["preprocessor_config.json", "/pad_size", {"height": 99, "width": 99}]],
     "'do_pad' must be false"),
    (IMAGES, [["preprocessor_config.json", "/default_to_square", False], ["preprocessor_config.json", "/size", 20]],
     "'default_to_square' must be true"),
    (BERT, [[TOKENIZER, "/fast_tokenizer_files", ["tokenizer.4.0.0.json"]], ["tokenizer.4.0.0.json", "", {"version": "1.0"}]],
     "'fast_tokenizer_files'"),
    (ALBERT, [[TOKENIZER, "/add_prefix_space", False]], "'add_prefix_space'"),
    (ALBERT, [of_type("roberta", tokenizer_class="T5Tokenizer"), [TOKENIZER, "/tokenizer_class", None]], "'tokenizer_class' must be AlbertTokenizer"),
    (PLAIN, [[CONFIG, "/tokenizer_class", "BertJapaneseTokenizer"], [TOKENIZER, "", {"word_tokenizer_type": "mecab"}]],
     "'tokenizer_class' must be BertTokenizer"),
    ("albert_tokenizer", [of_type("albert"), [TOKENIZER, "/add_bos_token", False]], "'add_bos_token' must be absent"),
    ("albert_tokenizer", [of_type("albert"), [TOKENIZER, "/add_eos_token", True]], "'add_eos_token' must be absent"),
    (BERT, [[TOKENIZER, "/tokenizer_class", "MPNetTokenizer"]], "'tokenizer_class' must be BertTokenizer"),
    (ROBERTA, [of_type("bert", tokenizer_class="HerbertTokenizerFast"), [TOKENIZER, "/tokenizer_class", None]],
     "'tokenizer_class' must be RobertaTokenizer"),
    (BERT, [of_type("roberta"), NO_CLASS], "'tokenizer_class' must be BertTokenizer for these files, found \"RobertaTokenizer\""),
    (BERT, [of_type("albert"), NO_CLASS], "'tokenizer_class' must be BertTokenizer for these files, found \"AlbertTokenizer\""),
    (ROBERTA, [of_type("distilbert"), NO_CLASS], "'tokenizer_class' must be RobertaTokenizer for these files, found \"BertTokenizer\""),
    (ALBERT, [of_type("bert"), NO_CLASS], "'tokenizer_class' must be AlbertTokenizer for these files, found \"BertTokenizer\""),
    (BERT, [JSON_CLASS, [WHOLE, "/post_processor/special_tokens/[CLS]/ids", [7]]], "post_processor must give \"[CLS]\" the id 2"),
    (BERT, [JSON_CLASS, [WHOLE, "/post_processor/special_tokens/[SEP]/ids", [3, 3]]], "post_processor must give \"[SEP]\" the id 3"),
    (BERT, [JSON_CLASS, BERT_IDS], "post_processor must give \"[SEP]\" the id 3"),
    (ROBERTA, [JSON_CLASS, [WHOLE, "/post_processor/cls", ["<s>", 7]]], "post_processor must give \"<s>\" the id 0"),
    (ALBERT, [[WHOLE, "/post_processor/special_tokens/[CLS]/ids", [7]]], "post_processor must give \"[CLS]\" the id 2"),
    (BERT, [[TOKENIZER, "", {"tokenizer_class": "PreTrainedTokenizerFast"}], PADDING], "'padding.pad_token' must be the pad_token"),
    (ROBERTA, [[TOKENIZER, "", {"tokenizer_class": "PreTrainedTokenizerFast"}], PADDING], "'padding.pad_token' must be the pad_token"),
    (IMAGES, [["preprocessor_config.json", "/size", None]], "'size' must be set or absent"),
    (IMAGES, [["preprocessor_config.json", "/resample", None]], "'resample' must be set or absent"),
    (IMAGES, [["preprocessor_config.json", "/rescale_factor", None]], "'rescale_factor' must be set or absent"),
    (IMAGES, [["preprocessor_config.json", "/image_mean", None]], "'image_mean' must be set or absent"),
    (IMAGES, [["preprocessor_config.json", "/image_std", None]], "'image_std' must be set or absent"),
    (IMAGES, [["preprocessor_config.json", "/default_to_square", None], ["preprocessor_config.json", "/size", 20]],
     "'default_to_square' must be true"),
    (IMAGES, [["preprocessor_config.json", "/image_processor_type", None], [CONFIG, "/image_processor_type", "CLIPImageProcessor"]],
     "config.json: 'image_processor_type' must be ViTImageProcessor"),
    (IMAGES, [[CONFIG, "/qkv_bias", None]], "'qkv_bias' must be true or false"),
    (TRANSLATION, [[CONFIG, "/tie_word_embeddings", None]], "'tie_word_embeddings' must be true or false"),
    (TRANSLATION, [[CONFIG, "/scale_embedding", None]], "'scale_embedding' must be true or false"),
    (BERT, [[TOKENIZER, "/tokenize_chinese_chars", None]], "'tokenize_chinese_chars' must be true or false"),
    (BERT, [[TOKENIZER, "/do_lower_case", None]], "'do_lower_case' must be true or false"),
    (BERT, [JSON_CLASS, [WHOLE, "/normalizer/lowercase", None]], "'lowercase' must be true or false"),
    (BERT, [JSON_CLASS, [WHOLE, "/added_tokens/5/normalized", None]], "'normalized' must be true or false"),
    (ROBERTA, [[WHOLE, "/pre_tokenizer/add_prefix_space", None]], "'add_prefix_space' must be true or false"),
    (ROBERTA, [[TOKENIZER, "/add_prefix_space", None]], "'add_prefix_space' must be true or false"),
    (ALBERT, [[TOKENIZER, "/do_lower_case", None]], "'do_lower_case' of tokenizer_config.json disagree"),
    (ALBERT, [[TOKENIZER, "/add_prefix_space", None]], "'add_prefix_space'"),
    (BERT, [["tokenizer.json", "/added_tokens/5/id", 3471]], "\"<extra>\" must have the id 3469"),
    (ROBERTA, [["tokenizer.json", "/added_tokens/5/id", 503]], "\"<left>\" must have the id 500"),
    ("roberta_tokenizer", [of_type("roberta"), [TOKENIZER, "/added_tokens_decoder", {"505": {"content": "<new>"}}]],
     "\"<new>\" must have the id 500"),
    ("albert_tokenizer", [of_type("albert"), [TOKENIZER, "/added_tokens_decoder", {"405": {"content": "<new>", "normalized": False}}]],
     "\"<new>\" must have the id 400"),
    (BERT, [[TOKENIZER, "/extra_special_tokens", ["<ne w>", "the"]]], "lacks the additional special token \"<ne w>\""),
    (BERT, [[TOKENIZER, "/image_token", "fine d"]], "lacks the additional special token \"fine d\""),
    (ROBERTA, [[TOKENIZER, "/image_token", "fine d"]], "lacks the additional special token \"fine d\""),
]  # fmt: skip

IDS_OF_TEXTS = [  # (directory, changes)
    (BERT, [[TOKENIZER, "/extra_special_tokens", ["e", "<extra>"]]]),
    (BERT, [[TOKENIZER, "/extra_special_tokens", {"image_token": "e", "audio_token": "d"}]]),
    (BERT, [[TOKENIZER, "/additional_special_tokens", ["e"]], [TOKENIZER, "/extra_special_tokens", None]]),
    (BERT, [[TOKENIZER, "/image_token", "e"], [TOKENIZER, "/add_bos_token", True]]),
    (BERT, [[TOKENIZER, "/eos_token", "e"]]),
    (BERT, [[TOKENIZER, "/model_specific_special_tokens", {"image_token": "e"}]]),
    (BERT, [[TOKENIZER, "/additional_special_tokens", ["e"]]]),
    (BERT, [[TOKENIZER, "/additional_special_tokens", ["e"]], ["special_tokens_map.json", "", {"extra_special_tokens": ["d"]}]]),
    (BERT, [["special_tokens_map.json", "", {"additional_special_tokens": ["e"]}]]),
    (BERT, [[TOKENIZER, "/extra_special_tokens", {"image_token": "d"}], [TOKENIZER, "/additional_special_tokens", ["e"]]]),
    (BERT, [[TOKENIZER, "/extra_special_tokens", []], ["special_tokens_map.json", "", {"additional_special_tokens": ["e"]}]]),
    (ROBERTA, [[TOKENIZER, "/additional_special_tokens", ["i"]]]),
    (PLAIN, [["special_tokens_map.json", "", {"extra_special_tokens": ["b"], "bos_token": "a"}]]),
    (PLAIN, [["special_tokens_map.json", "", {"additional_special_tokens": ["<NEW>"]}],
             ["added_tokens.json", "", {"<NEW>": 0, "<left>": 1}]]),
    (ROBERTA, [[TOKENIZER, "/extra_special_tokens", {"image_token": "i"}]]),
    (ROBERTA, [[TOKENIZER, "/image_token", "i"]]),
    (ROBERTA, [[TOKENIZER, "/tokenizer_class", "BartTokenizer"]]),
    (ROBERTA, [of_type("roberta"), NO_CLASS, [WHOLE, "/pre_tokenizer/add_prefix_space", True]]),
    *[(name, [[TOKENIZER, "", {"tokenizer_class": "PreTrainedTokenizerFast"}], [WHOLE, "/added_tokens", tokens]])
      for name in (BERT, ROBERTA, ALBERT) for tokens in ([], [{"id": 2, "content": "[CLS]" if name != ROBERTA else "</s>", "special": True} | FLAGS])],
    (BERT, [[WHOLE, "/post_processor/special_tokens/[CLS]/ids", [7]]]),
    (BERT, [BERT_IDS]),
    (ROBERTA, [[WHOLE, "/post_processor/cls", ["<s>", 7]]]),
    (BERT, [PADDING]),
    (BERT, [JSON_CLASS, PADDING]),
    (BERT, [[TOKENIZER, "", {"tokenizer_class": "PreTrainedTokenizerFast"}], [WHOLE, "/padding", PADDING[2] | {"pad_token": "[PAD]"}]]),
    ("albert_tokenizer", [of_type("albert"), [TOKENIZER, "/do_lower_case", None]]),
    (BERT, [JSON_CLASS, [TOKENIZER, "/do_lower_case", None], [TOKENIZER, "/tokenize_chinese_chars", None]]),
    (BERT, [of_type("distilbert"), NO_CLASS, [TOKENIZER, "/do_lower_case", False]]),
    (ALBERT, [of_type("albert"), NO_CLASS]),
    (MARIAN, [of_type("marian"), NO_CLASS]),
    ("roberta_tokenizer", [of_type("roberta"), LEFT_MASK]),
    ("roberta_tokenizer", [of_type("roberta"), LEFT_MASK, ["added_tokens.json", "", {"<mask>": 4}]]),
    ("roberta_tokenizer", [of_type("roberta"), ["special_tokens_map.json", "", {"sep_token": "<pad>", "cls_token": "<s>"}]]),
    ("roberta_tokenizer", [of_type("roberta"), [TOKENIZER, "/added_tokens_decoder", {}], ["special_tokens_map.json", "", {"sep_token": "<pad>"}]]),
    (MARIAN, [[TOKENIZER, "/image_token", "</s>"]]),
    (MARIAN, [[TOKENIZER, "/fast_tokenizer_files", ["tokenizer.4.0.0.json"]]]),
    (ROBERTA, [[TOKENIZER, "/fast_tokenizer_files", ["tokenizer.json"]]]),
    *[(BERT, [[TOKENIZER, CLASS, name], *changes]) for name in ("BertTokenizer", "ConvBertTokenizer", "PreTrainedTokenizerFast")
      for changes in OTHER_STEPS + [OTHER_SETTINGS, OTHER_ADDED]],
    *[(BERT, [[TOKENIZER, CLASS, name], [TOKENIZER, "/do_lower_case", False]]) for name in ("DPRReaderTokenizer", "DistilBertTokenizer")],
    (PLAIN, [[TOKENIZER, CLASS, "ConvBertTokenizer"], [TOKENIZER, "/do_lower_case", False]]),
    (PLAIN, [[TOKENIZER, CLASS, "DPRContextEncoderTokenizer"], [TOKENIZER, "/do_lower_case", False]]),
    (PLAIN, [["special_tokens_map.json", "", {"mask_token": {"content": "[MASK]", "lstrip": False, "rstrip": False, "normalized": True, "single_word": False}}]]),
]  # fmt: skip

UNREAD = {  # of config.json
    "prefix": "translate: ", "task_specific_params": {"x": {"num_beams": 4}}, "pruned_heads": {"0": [0]}, "sliding_window": 2,
    "layer_types": ["sliding_attention"] * 2, "attention_chunk_size": 2, "use_bidirectional_attention": False, "head_dim": 2,
    "num_key_value_heads": 1, "rms_norm_eps": 0.1, "attn_logit_softcapping": 1.0, "softcap": 1.0, "embedding_multiplier": 2.0,
    "rope_theta": 1e4, "tie_encoder_decoder": True, "torchscript": True, "finetuning_task": "x", "model_parallel": True,
    "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}, "output_hidden_states": True,
    "sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid", "gradient_checkpointing": True,
    "norm_first": True, "classifier_dropout": 0.9, "attention_probs_dropout_prob": 0.9, "hidden_dropout_prob": 0.9,
    "repetition_penalty": 5.0, "num_beams": 4, "mask_token_id": 3, "sep_token_id": 3, "bos_token_id": 3, "eos_token_id": 3,
}  # fmt: skip

SAME = [(ENCODER, [[CONFIG, "/" + key, value]]) for key, value in UNREAD.items()] + [
    (ENCODER, [[CONFIG, "/is_causal", False]]),
    (ENCODER, [[CONFIG, "/per_layer_config", None]]),
    (NARROW, [[CONFIG, "/sinusoidal_pos_embds", True]]),
    (TRANSLATION, [[CONFIG, "/is_decoder", True]]),
    (TRANSLATION, [[CONFIG, "/encoder_layerdrop", 1.0]]),
    (SENTENCE, [[TOKENIZER, "/chat_template", CHAT]]),
    (SENTENCE, [["1_Pooling/config.json", "/include_prompt", False]]),
    (SENTENCE, [["1_Pooling/config.json", "/pooling_mode_cls_token", True]]),
    (SENTENCE, [["config_sentence_transformers.json", "/similarity_fn_name", "euclidean"]]),
    (SENTENCE, [["modules.json", "/1/kwargs", ["task"]]]),
    (IMAGES, [["preprocessor_config.json", "/do_convert_rgb", False]]),
    (IMAGES, [[CONFIG, "/image_processor_type", "CLIPImageProcessor"]]),
    (IMAGES, [["preprocessor_config.json", "/image_processor_type", None], [CONFIG, "/image_processor_type", "ViTImageProcessorFast"]]),
    (IMAGES, [["preprocessor_config.json", "/crop_size", {"height": 9, "width": 9}]]),
    (BERT, [[TOKENIZER, "/add_eos_token", True]]),
    (BERT, [[TOKENIZER, "/strip_accents", None]]),
    (BERT, [[TOKENIZER, "/never_split", ["the"]]]),
    (BERT, [[TOKENIZER, "/do_basic_tokenize", False]]),
    (BERT, [[TOKENIZER, "/padding_side", "left"]]),
    (BERT, [[TOKENIZER, "/pad_token_type_id", 1]]),
    (ROBERTA, [[TOKENIZER, "/errors", "ignore"]]),
    (ROBERTA, [[TOKENIZER, "/trim_offsets", False]]),
    (ALBERT, [[TOKENIZER, "/remove_space", False]]),
    (MARIAN, [[TOKENIZER, "/special_tokens_pattern", "none"]]),
    (MARIAN, [[TOKENIZER, "/token_type_ids_pattern", "all_zeros"]]),
    (MARIAN, [[TOKENIZER, "/source_lang", "xyz"]]),
]  # fmt: skip


def apply(directory, changes):
    for file, pointer, value in changes:
        path = directory / file
        document = value
        if pointer:
            document = json.loads(path.read_text())
            *parents, last = pointer.split("/")[1:]
            inner = document
            for parent in parents:
                inner = inner[int(parent) if isinstance(inner, list) else parent]
            inner[last] = value
        path.write_text(json.dumps(document))


def ids_of_texts(directory):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    return [tokenizer(text)["input_ids"] for text in TEXTS]


def numbers(directory):
    if (directory / ENCODING).exists() and json.loads((directory / ENCODING).read_text()).get("model_type") == "CrossEncoder":
        return sentence_transformers.CrossEncoder(str(directory), device="cpu").predict([["a b", "b c"], ["c", "a"]])
    if (directory / "modules.json").exists():
        return sentence_transformers.SentenceTransformer(str(directory), device="cpu").encode(["A fine day.", "two"])
    if (directory / "preprocessor_config.json").exists():
        image = np.arange(40 * 50 * 3, dtype=np.uint32).reshape(40, 50, 3) * 7 % 256
        pixels = AutoImageProcessor.from_pretrained(directory)(image.astype(np.uint8), return_tensors="pt")["pixel_values"]
        return AutoModel.from_pretrained(directory, dtype=torch.float32).eval()(pixels).last_hidden_state.detach().numpy()
    if AutoConfig.from_pretrained(directory).model_type == "marian":
        model = MarianMTModel.from_pretrained(directory, dtype=torch.float32).eval()
        return model(input_ids=IDS, decoder_input_ids=torch.tensor([[1, 3, 4, 5]])).logits.detach().numpy()
    model = AutoModel.from_pretrained(directory, dtype=torch.float32).eval()
    return model(IDS).last_hidden_state.detach().numpy()


def add_adapter_weights(directory):
    """Random weights of an adapter, as adapter_config.json describes it."""
    if not (directory / "adapter_config.json").exists():
        return
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    config = json.loads((directory / "adapter_config.json").read_text())
    kept = json.dumps(config)
    (directory / "adapter_config.json").unlink()
    model = AutoModel.from_pretrained(directory)
    lora = LoraConfig(r=2, target_modules=["query"], lora_alpha=50, init_lora_weights=False)
    with tempfile.TemporaryDirectory() as out:
        get_peft_model(model, lora).save_pretrained(out)
        shutil.copy(pathlib.Path(out) / "adapter_model.safetensors", directory)
    (directory / "adapter_config.json").write_text(kept)


def answer(name, changes):
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder) / "model"
        shutil.copytree(DATA / name, directory)
        apply(directory, changes)
        add_adapter_weights(directory)
        torch.manual_seed(0)
        return ids_of_texts(directory) if "tokenizer" in name or name == PLAIN else numbers(directory)


def difference(before, after):
    if isinstance(before, list):
        return sum(a != b for a, b in zip(before, after))
    if before.shape != after.shape:
        return "shape"
    return round(float(np.abs(before - after).max()), 6)


def base_of(name, changes):
    """The unchanged directory; a config.json that only a row adds stays, without its class."""
    kept = [[file, pointer, {"model_type": value["model_type"]}] for file, pointer, value in changes if file == CONFIG and not pointer]
    if any(file == TOKENIZER and not pointer for file, pointer, _ in changes):
        kept.append([TOKENIZER, "", {}])
    return answer(name, kept)


def main():
    transformers.logging.set_verbosity_error()
    rows = []
    for name, changes, message in REFUSED:
        row = {"model": name, "changes": changes, "refused": message}
        before = base_of(name, changes)
        try:
            row["differs"] = difference(before, answer(name, changes))
        except Exception as error:
            row["error"] = type(error).__name__
        print(row, file=sys.stderr)
        rows.append(row)
    for name, changes in IDS_OF_TEXTS:
        for change in changes:
            if change[0] == "added_tokens.json" and "<NEW>" in change[2]:
                size = len(AutoTokenizer.from_pretrained(DATA / name))
                change[2] = {token: size + index for token, index in change[2].items()}
        ids = answer(name, changes)
        changed = difference(base_of(name, changes), ids)
        print(name, changes, changed, file=sys.stderr)
        rows.append({"model": name, "changes": changes, "ids": ids})
    for name, changes in SAME:
        differs = difference(answer(name, []), answer(name, changes))
        if differs:
            print("DIFFERS", name, changes, differs, file=sys.stderr)
        rows.append({"model": name, "changes": changes, "same": True})
    versions = f"transformers {transformers.__version__}, sentence-transformers {sentence_transformers.__version__}"
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (DATA / "keys.json").write_text(f'{{"reference": "{versions}", "texts": {json.dumps(TEXTS, ensure_ascii=False)}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
