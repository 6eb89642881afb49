"""Logits at every position from implementations that are not ours, for tests/js/parity.test.js.

  F32, F16, BF16: Hugging Face transformers' Gemma3ForCausalLM in float32, on the file's weights.
  quantised:      float64 arithmetic on the dequantised weights (forward64 below, a second reading of
                  the architecture in numpy, itself checked here against transformers on every model).

Weights come out of the GGUF through the PyPI package `gguf`, not through our parser.

  python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.23.0 gguf numpy
  venv/bin/python tools/vectors/parity.py            writes tests/vectors/parity*.{bin,json}
  venv/bin/python tools/vectors/parity.py NAME …     only these models; the others' vectors stay
  venv/bin/python tools/vectors/parity.py FILE IDS   statistics of every layer, to find where we differ
"""
import hashlib
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / 'tests' / 'vectors'
# Lengths: one token; shorter than the window; several windows long.
LENGTHS = {'parity-f32': (1, 20, 110), 'parity-f16': (1, 20, 110), 'parity-bf16': (1, 20, 110),
           'parity-q8_0': (1, 20, 110), 'parity-q4_0': (1, 20, 110), 'mqa-f32': (60,), 'mqa-q4_0': (60,),
           'mix-q4_k_m': (1, 24), 'mix-q5_k_m': (1, 24), 'mix-q3_k': (1, 24), 'mix-q2_k': (1, 24),
           'mix-iq4_xs': (1, 24), 'mix-k': (1, 24)}


class File:
    """Config and weights of a GGUF: float64 arrays, matrices as [out, in]."""

    def __init__(self, path):
        reader = GGUFReader(path)

        def key(name, default=None):
            field = reader.get_field('gemma3.' + name)
            return default if field is None else field.contents()

        self.layers = key('block_count')
        self.d = key('embedding_length')
        self.ffn = key('feed_forward_length')
        self.heads = key('attention.head_count')
        self.kv_heads = key('attention.head_count_kv')
        self.head_dim = key('attention.key_length')
        self.window = key('attention.sliding_window')
        self.eps = key('attention.layer_norm_rms_epsilon')
        self.base = key('rope.freq_base')
        self.base_local = key('rope.freq_base_swa', 10000.0)
        self.pattern = key('attention.sliding_window_pattern', 6)
        self.context = key('context_length')
        self.float = all(t.tensor_type.name in ('F32', 'F16', 'BF16') for t in reader.tensors)
        self.w, digest = {}, hashlib.sha256()
        for t in sorted(reader.tensors, key=lambda t: t.name):
            digest.update(t.data.tobytes())
            self.w[t.name] = dequantize(t.data, t.tensor_type).astype(np.float64)
        self.sha256 = digest.hexdigest()

    def is_global(self, layer):
        return layer % self.pattern == self.pattern - 1

    def layer(self, layer, name):
        return self.w[f'blk.{layer}.{name}.weight']


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rope(x, base):
    """x[position, head, dim]: pairs (i, i + dim / 2) turn by position / base^(2 i / dim)."""
    n, _, dim = x.shape
    angle = np.arange(n)[:, None] * base ** (-2.0 * np.arange(dim // 2) / dim)[None]
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :dim // 2], x[..., dim // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def attention(f, l, x):
    n, base = len(x), f.base if f.is_global(l) else f.base_local
    q = (x @ f.layer(l, 'attn_q').T).reshape(n, f.heads, f.head_dim)
    k = (x @ f.layer(l, 'attn_k').T).reshape(n, f.kv_heads, f.head_dim)
    v = (x @ f.layer(l, 'attn_v').T).reshape(n, f.kv_heads, f.head_dim)
    q = rope(rms_norm(q, f.layer(l, 'attn_q_norm'), f.eps), base)
    k = rope(rms_norm(k, f.layer(l, 'attn_k_norm'), f.eps), base)
    k, v = (np.repeat(t, f.heads // f.kv_heads, axis=1) for t in (k, v))
    scores = np.einsum('ihd,jhd->hij', q, k) / np.sqrt(f.head_dim)
    distance = np.arange(n)[:, None] - np.arange(n)[None]
    visible = distance >= 0 if f.is_global(l) else (distance >= 0) & (distance < f.window)
    scores = np.where(visible, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return np.einsum('hij,jhd->ihd', p, v).reshape(n, -1) @ f.layer(l, 'attn_output').T


def forward64(f, ids, trace=None):
    x = f.w['token_embd.weight'][ids] * np.sqrt(f.d)
    for l in range(f.layers):
        a = attention(f, l, rms_norm(x, f.layer(l, 'attn_norm'), f.eps))
        x = x + rms_norm(a, f.layer(l, 'post_attention_norm'), f.eps)
        h = rms_norm(x, f.layer(l, 'ffn_norm'), f.eps)
        h = gelu_tanh(h @ f.layer(l, 'ffn_gate').T) * (h @ f.layer(l, 'ffn_up').T)
        x = x + rms_norm(h @ f.layer(l, 'ffn_down').T, f.layer(l, 'post_ffw_norm'), f.eps)
        if trace:
            trace(l, x)
    return rms_norm(x, f.w['output_norm.weight'], f.eps) @ f.w['token_embd.weight'].T


HF_NAMES = {'attn_norm': 'input_layernorm', 'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj',
            'attn_v': 'self_attn.v_proj', 'attn_output': 'self_attn.o_proj', 'attn_q_norm': 'self_attn.q_norm',
            'attn_k_norm': 'self_attn.k_norm', 'post_attention_norm': 'post_attention_layernorm',
            'ffn_norm': 'pre_feedforward_layernorm', 'ffn_gate': 'mlp.gate_proj', 'ffn_up': 'mlp.up_proj',
            'ffn_down': 'mlp.down_proj', 'post_ffw_norm': 'post_feedforward_layernorm'}


def transformers_model(f):
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig
    config = Gemma3TextConfig(
        vocab_size=len(f.w['token_embd.weight']), hidden_size=f.d, intermediate_size=f.ffn,
        num_hidden_layers=f.layers, num_attention_heads=f.heads, num_key_value_heads=f.kv_heads, head_dim=f.head_dim,
        query_pre_attn_scalar=f.head_dim, sliding_window=f.window, rms_norm_eps=f.eps, max_position_embeddings=f.context,
        layer_types=['full_attention' if f.is_global(l) else 'sliding_attention' for l in range(f.layers)],
        rope_parameters={'full_attention': {'rope_type': 'default', 'rope_theta': f.base},
                         'sliding_attention': {'rope_type': 'default', 'rope_theta': f.base_local}},
        attn_implementation='eager')
    model = Gemma3ForCausalLM(config).to(torch.float32).eval()
    state = {'model.embed_tokens.weight': f.w['token_embd.weight'], 'model.norm.weight': f.w['output_norm.weight'] - 1}
    for l in range(f.layers):
        for ours, theirs in HF_NAMES.items():
            w = f.layer(l, ours)   # a GGUF holds 1 + w, transformers adds the 1
            state[f'model.layers.{l}.{theirs}.weight'] = w - 1 if w.ndim == 1 else w
    state['lm_head.weight'] = state['model.embed_tokens.weight']
    model.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in state.items()}, strict=True)
    return lambda ids: model(torch.tensor([ids]), use_cache=False).logits[0].detach().numpy()


def nmse(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((((a - b) ** 2).sum(-1) / (b ** 2).sum(-1)).max())


def prompts_of(name, vocab):
    draw = random.Random(name.split('-')[0])   # the same ids for every type
    return [[draw.randrange(vocab) for _ in range(n)] for n in LENGTHS[name]]


def versions():
    import torch
    import transformers
    return {'transformers': transformers.__version__, 'torch': torch.__version__, 'numpy': np.__version__}


def make(names):
    OUT.mkdir(exist_ok=True)
    models = {} if set(names) == set(LENGTHS) else json.loads((OUT / 'parity.json').read_text())['models']
    for name in names:
        path = subprocess.run(['node', 'tests/js/models.js', name], cwd=ROOT, check=True, capture_output=True,
                              text=True).stdout.strip()
        f = File(path)
        prompts = prompts_of(name, len(f.w['token_embd.weight']))
        exact = [forward64(f, ids) for ids in prompts]
        theirs = [transformers_model(f)(ids) for ids in prompts]
        apart = max(nmse(a, b) for a, b in zip(theirs, exact))
        assert apart < 1e-9, f'{name}: the two references differ by {apart}'
        rows = np.concatenate(theirs if f.float else exact).astype('<f4')
        (OUT / f'{name}.bin').write_bytes(rows.tobytes())
        models[name] = {'truth': 'transformers float32' if f.float else 'float64 on the dequantised weights',
                        'weightsSha256': f.sha256, 'prompts': prompts, 'transformersAgainstFloat64': apart}
        print(name, rows.shape, 'transformers against float64: NMSE', apart, 'logit deviation', rows.std())
    text = json.dumps({'madeBy': 'tools/vectors/parity.py', 'versions': versions(), 'models': models})
    (OUT / 'parity.json').write_text(text.replace('"models": {', '"models": {\n').replace('}, "', '},\n"') + '\n')


if __name__ == '__main__':
    if len(sys.argv) == 3 and sys.argv[1] not in LENGTHS:
        def show(layer, x):
            print(f'layer {layer}: rms {np.sqrt((x[-1] ** 2).mean()):.6f}, first values {x[-1][:4]}')
        logits = forward64(File(sys.argv[1]), [int(i) for i in sys.argv[2].split(',')], show)
        print('last logits', logits[-1][:8])
    else:
        make(sys.argv[1:] or list(LENGTHS))
