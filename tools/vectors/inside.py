"""Writes layer-by-layer results of transformers for tests/js/inside.test.js, in float32 on the weights of a GGUF file:
attention weights, the most likely tokens if the final norm and the head follow each layer (logit lens), the lengths of
the residual stream's vectors, and pooled vectors.

  venv/bin/python tools/vectors/inside.py      writes tests/vectors/inside.bin and inside.json   (venv: see parity.py)
"""
import json

import numpy as np
import torch
from hf import model_of
from parity import OUT, File, model_path, prompts_of, versions

MODELS = ('mqa-f32', 'gemma2-f32', 'gpt2-f32', 'llama-f32')
TOKENS, TOP = 40, 8   # 40 tokens exceed the windows of the first two models


def streams(model, ids):
    """Returns the residual stream before the first and after each layer (recorded by hooks, because hidden_states has
    the last one only after the final norm), the attention weights, the model without its head, and its output."""
    seen = []
    trunk = getattr(model, 'transformer', None) or model.model
    layers = trunk.h if hasattr(trunk, 'h') else trunk.layers
    hooks = [layer.register_forward_hook(lambda m, a, out: seen.append(out[0] if isinstance(out, tuple) else out))
             for layer in layers]
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True, use_cache=False)
    for hook in hooks:
        hook.remove()
    behind = [x[0] if x.dim() == 3 else x for x in seen]
    for mine, theirs in zip(behind[:-1], out.hidden_states[1:-1]):
        assert torch.equal(mine, theirs[0])
    return [out.hidden_states[0][0], *behind], [a[0] for a in out.attentions], trunk, out


def lens(f, model, trunk, x):
    """Returns the logits of a residual stream, as if the last layer had returned it."""
    final = trunk.ln_f if hasattr(trunk, 'ln_f') else trunk.norm
    with torch.no_grad():
        logits = model.lm_head(final(x))
    return torch.tanh(logits / f.final_cap) * f.final_cap if f.final_cap else logits


def look(name):
    f = File(model_path(name))
    ids = prompts_of(name, len(f.w['token_embd.weight']))[-1][:TOKENS]
    model = model_of(f)
    stream, attention, trunk, out = streams(model, ids)
    final = trunk.ln_f if hasattr(trunk, 'ln_f') else trunk.norm
    with torch.no_grad():
        normed = final(stream[-1])
    tops = []
    for x in stream[1:]:
        values, order = lens(f, model, trunk, x).softmax(-1).topk(TOP, -1)
        tops.append([[[i, round(v, 7)] for i, v in zip(a, b)] for a, b in zip(order.tolist(), values.tolist())])
    assert torch.allclose(lens(f, model, trunk, stream[-1]), out.logits[0], atol=1e-5)
    numbers = [*attention, *(x.norm(dim=-1) for x in stream), normed.mean(0), normed[-1]]
    flat = np.concatenate([x.numpy().ravel() for x in numbers]).astype('<f4')
    about = {'ids': ids, 'layers': f.layers, 'heads': f.heads, 'width': f.d, 'weightsSha256': f.sha256,
             'global': [bool(f.is_global(l)) for l in range(f.layers)], 'tops': tops}
    return about, flat


def main():
    torch.manual_seed(0)
    models, parts, at = {}, [], 0
    for name in MODELS:
        about, flat = look(name)
        models[name] = about | {'first': at}
        at += len(flat)
        parts.append(flat)
        print(name, len(flat), 'numbers', flush=True)
    (OUT / 'inside.bin').write_bytes(np.concatenate(parts).tobytes())
    text = json.dumps({'madeBy': 'tools/vectors/inside.py', 'versions': versions(), 'models': models})
    (OUT / 'inside.json').write_text(text + '\n')


main()
