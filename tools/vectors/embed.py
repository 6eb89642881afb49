"""Writes reference embeddings for tests/js/embed.test.js, computed in float32 on the weights of a GGUF file.
EmbeddingGemma: transformers' Gemma3TextModel with bidirectional attention, the mean of all tokens, the dense layers,
normalisation to length 1, as in sentence-transformers. Qwen3-Embedding: Qwen3Model and the vector of the last token.

  node tools/vectors/embed-llama.js texts          writes tests/vectors/embed.json
  venv/bin/python tools/vectors/embed.py           writes tests/vectors/embed.bin   (venv: see parity.py)
  venv/bin/python tools/vectors/embed.py NAME …    adds these models to embed.bin
  node tools/vectors/embed-llama.js                adds the distances of llama.cpp's vectors to embed.json
"""
import json
import sys

import numpy as np
import torch
import transformers
from hf import common, layer_types, load, plain_rope, state_of
from parity import GEMMA, OUT, RECIPES, File, model_path, versions

RECIPES['gemma-embedding'] = GEMMA | {'period': 6, 'base': 1e6, 'local': 1e4}


def text_model(f):
    if f.architecture == 'qwen3':
        config = transformers.Qwen3Config(**common(f), rope_parameters=plain_rope(f.base))
        return filled(transformers.Qwen3Model(config), f)
    config = transformers.Gemma3TextConfig(
        **common(f), query_pre_attn_scalar=f.head_dim, sliding_window=f.window, layer_types=layer_types(f),
        use_bidirectional_attention=True,
        rope_parameters={'full_attention': plain_rope(f.base), 'sliding_attention': plain_rope(f.base_local)})
    # Gemma3TextConfig converts a window of n tokens to n // 2 + 1, the exclusive bound of distances in its mask.
    assert config.sliding_window == f.window // 2 + 1
    return filled(transformers.Gemma3TextModel(config), f)


def filled(model, f):
    return load(model, {k.removeprefix('model.'): v for k, v in state_of(f).items() if k.startswith('model.')})


def vector(f, model, ids):
    with torch.no_grad():
        hidden = model(torch.tensor([ids])).last_hidden_state[0]
        if f.architecture == 'qwen3':
            return (hidden[-1] / hidden[-1].norm()).numpy()
        mean = hidden.mean(0)
        for name in ('dense_2', 'dense_3'):
            if f'{name}.weight' in f.w:
                mean = torch.from_numpy(f.w[f'{name}.weight'].astype(np.float32)) @ mean
        return (mean / mean.norm()).numpy()


def main():
    path = OUT / 'embed.json'
    about = json.loads(path.read_text())
    names = sys.argv[1:]
    rows = [np.frombuffer((OUT / 'embed.bin').read_bytes(), '<f4')] if names else []
    at = sum(map(len, rows))
    for name in names or about['models']:
        model = about['models'][name]
        f = File(model_path(name))
        network = text_model(f)
        made = [vector(f, network, ids) for ids in about['texts'][model['texts']]['ids']]
        model |= {'weightsSha256': f.sha256, 'first': at, 'width': f.d}
        rows += made
        at += sum(map(len, made))
        print(name, len(made), 'vectors', made[-1][:3], flush=True)
    (OUT / 'embed.bin').write_bytes(np.concatenate(rows).astype('<f4').tobytes())
    about |= {'truth': 'transformers float32 on the dequantised weights', 'versions': versions()}
    path.write_text(json.dumps(about, ensure_ascii=False) + '\n')


main()
