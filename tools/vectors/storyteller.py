#!/usr/bin/env python3
"""Evaluates the storyteller with Hugging Face transformers, and tokenizes texts with SentencePiece.

Dequantises models/storyteller/storyteller.gguf (Q8_0), runs Gemma3ForCausalLM in float32 over public-domain tales that
the model was not trained on, and writes tests/vectors/storyteller.json. Then run tools/vectors/storyteller.js.

    pip install -r tools/models/train/requirements.txt
    python3 tools/vectors/storyteller.py --corpus DIR --tokenizer build/train/tokenizer.model
"""
import argparse
import hashlib
import json
import sys
from pathlib import Path

import gguf
import torch
import transformers
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "models" / "train"))
from corpus import read_corpus  # noqa: E402
from data import chunks  # noqa: E402
from export import BLOCK  # noqa: E402
from tokenizer import Tokenizer  # noqa: E402

MODEL = ROOT / "models" / "storyteller" / "storyteller.gguf"
OUT = ROOT / "tests" / "vectors" / "storyteller.json"
# Titles: The Naughty Boy (held out of training), Why Dog and Cat Are Enemies, Mr Korbes (too difficult for the training
# data).
TALES = ["simple/1236", "simple/1296", "simple/1342"]
RUN = 450
EVERYTHING = 1000


def field(reader, key):
    return reader.fields[key].contents()


def load(path):
    """Loads a GGUF file as a transformers model in float32."""
    reader = gguf.GGUFReader(path)
    g = {k.removeprefix("gemma3."): field(reader, k) for k in reader.fields if k.startswith("gemma3.")}
    weights = {t.name: torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type)) for t in reader.tensors}
    layers = g["block_count"]
    config = Gemma3TextConfig(
        vocab_size=len(weights["token_embd.weight"]), hidden_size=g["embedding_length"],
        intermediate_size=g["feed_forward_length"], num_hidden_layers=layers,
        num_attention_heads=g["attention.head_count"], num_key_value_heads=g["attention.head_count_kv"],
        head_dim=g["attention.key_length"], query_pre_attn_scalar=g["attention.key_length"],
        sliding_window=g["attention.sliding_window"], rms_norm_eps=g["attention.layer_norm_rms_epsilon"],
        layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": g["rope.freq_base"]},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}},
        tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh")
    model = Gemma3ForCausalLM(config)
    state = {"model.embed_tokens.weight": weights["token_embd.weight"],
             "model.norm.weight": weights["output_norm.weight"] - 1}
    for layer in range(layers):
        for theirs, ours in BLOCK.items():
            w = weights[f"blk.{layer}.{ours}.weight"]
            state[f"model.layers.{layer}.{theirs}.weight"] = w - 1 if w.ndim == 1 else w
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
    model.tie_weights()
    return model.eval()


def pieces(corpus, tokenizer):
    """Yields the tales, split between paragraphs into texts that fit the context."""
    by_key = {d.key: d for d in read_corpus(corpus, EVERYTHING)}
    for key in TALES:
        for ids in chunks(tokenizer, by_key[key].text, RUN):
            yield tokenizer.decode([i for i in ids if i not in (tokenizer.bos, tokenizer.eos)])


@torch.no_grad()
def nll(model, ids):
    logits = model(input_ids=torch.tensor([ids[:-1]]), use_cache=False).logits[0]
    return torch.nn.functional.cross_entropy(logits.double(), torch.tensor(ids[1:])).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--tokenizer", required=True, help="the .model file of training")
    args = parser.parse_args()
    tokenizer, model = Tokenizer(args.tokenizer), load(MODEL)
    texts = []
    for text in pieces(args.corpus, tokenizer):
        ids = [tokenizer.bos, *tokenizer.encode(text)]
        texts.append({"text": text, "ids": ids, "nll": nll(model, ids)})
    result = {
        "modelSha256": hashlib.sha256(MODEL.read_bytes()).hexdigest(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "texts": texts,
    }
    OUT.write_text(json.dumps(result, separators=(",", ":")).replace('},{"text"', '},\n{"text"') + "\n")


if __name__ == "__main__":
    main()
