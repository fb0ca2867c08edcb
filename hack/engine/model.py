"""A tiny Llama: configuration and tokenizer, written here, nothing downloaded. Weights are random, made by vLLM
(`--load-format dummy`), so no file holds any.

The model answers nonsense at a steady pace, which is all that a scaler looks at. Its size is such that one core makes
a few hundred tokens a second, and its tokenizer is a table of made-up words, one token each: a prompt of N words has N
tokens, and clients may as well send token numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

VOCABULARY: Final = 2048
POSITIONS: Final = 4096
# The first numbers are the special ones; prompts are made of the others.
_SPECIAL: Final = ("<unk>", "<s>", "</s>", "<pad>")
FIRST_WORD: Final = len(_SPECIAL)


def write_model(folder: Path) -> None:
    """Write the files that an engine reads. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", _configuration()),
        ("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}),
        ("tokenizer.json", _tokenizer()),
        ("tokenizer_config.json", _tokenizer_configuration()),
    ):
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")


def _configuration() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,  # what vLLM's CPU attention has a kernel for
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 3,
    }


def _tokenizer() -> dict[str, Any]:
    words = [*_SPECIAL, *(f"w{number}" for number in range(FIRST_WORD, VOCABULARY))]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": word,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, word in enumerate(_SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(words)},
            "unk_token": "<unk>",
        },
    }


def _tokenizer_configuration() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": POSITIONS,
    }
