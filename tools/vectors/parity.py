"""Writes the logits of reference implementations at every position, for tests/js/parity.test.js.

  F32, F16, BF16: Hugging Face transformers in float32, on the file's weights: hf.py.
  quantised:      float64 arithmetic on the dequantised weights: forward64 below, an independent numpy
                  implementation, which is checked against transformers on every model.

The PyPI package `gguf` reads the weights, not this project's parser.

  python3 -m venv venv && venv/bin/pip install torch==2.13.0 transformers==5.23.0 gguf numpy
  venv/bin/python tools/vectors/parity.py            writes tests/vectors/*.bin and parity.json
  venv/bin/python tools/vectors/parity.py NAME …     updates only these models
  venv/bin/python tools/vectors/parity.py FILE IDS   prints statistics of every layer, to find where results differ
"""
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / 'tests' / 'vectors'
# Numbers of tokens of each model's prompts: one; fewer than the window; several windows.
LENGTHS = {'parity-f32': (1, 20, 110), 'parity-f16': (1, 20, 110), 'parity-bf16': (1, 20, 110),
           'parity-q8_0': (1, 20, 110), 'parity-q4_0': (1, 20, 110), 'mqa-f32': (60,), 'mqa-q4_0': (60,),
           'mix-q4_k_m': (1, 24), 'mix-q5_k_m': (1, 24), 'mix-q3_k': (1, 24), 'mix-q2_k': (1, 24),
           'mix-iq4_xs': (1, 24), 'mix-k': (1, 24)}
FAMILIES = ('gemma', 'gemma2', 'gemma4', 'gpt2', 'llama', 'qwen3')
LENGTHS |= {f'{family}-{kind}': (1, 70) if kind in ('f32', 'outliers') else (1, 28)
            for family in FAMILIES for kind in ('f32', 'outliers', 'f16', 'bf16', 'q8_0', 'q4_0', 'q4_k_m')}
LENGTHS |= {f'{family}-{kind}': (1, 70) if kind == 'f32' else (1, 28)
            for family in ('granite', 'phi3', 'smollm3', 'qwen2') for kind in ('f32', 'q4_k_m')}
LENGTHS |= {'gemma3-outliers': (1, 70), 'gemma3-scaled-f32': (1, 70), 'gemma4-values-f32': (1, 70), 'llama2-f32': (1, 40), 'smollm-f32': (1, 40),
            'phi3-long-f32': (1, 70), 'phi3-window-f32': (1, 70)}
LENGTHS |= {f'gemma4r{n}-outliers': (22,) for n in (0, 1, 2, 3, 4, 5, 7, 8, 9, 14)}

# Rules of architectures. scaled: embeddings are scaled by sqrt(width). rope: rotates halves or neighbouring pairs; if
# missing, positions come from a table. period n: every n-th layer is global. base, local: RoPE bases of global and
# local layers. same_window: all layers have the window. unrotated n: every n-th layer has no RoPE.
GEMMA = {'scaled': True, 'rope': 'halves', 'act': 'gelu'}
LLAMA = {'rope': 'pairs', 'act': 'silu'}
RECIPES = {'gemma': GEMMA, 'gemma2': GEMMA | {'period': 2}, 'gemma3': GEMMA | {'period': 6, 'base': 1e6, 'local': 1e4},
           'gemma4': GEMMA, 'gemma4-assistant': GEMMA, 'gpt2': {'act': 'gelu'}, 'llama': LLAMA, 'granite': LLAMA, 
           'phi3': LLAMA | {'rope': 'halves', 'same_window': True},
           'smollm3': LLAMA | {'unrotated': 4}, 'qwen2': LLAMA | {'rope': 'halves'}, 'qwen3': LLAMA | {'rope': 'halves'}}


class File:
    """Configuration and weights of a GGUF file: float64 arrays, matrices of shape [out, in]."""

    def __init__(self, path):
        reader = GGUFReader(path)
        self.read_header(reader)
        self.w, digest = {}, hashlib.sha256()
        for t in sorted(reader.tensors, key=lambda t: t.name):
            digest.update(t.data.tobytes())
            ids = t.tensor_type.name == 'I32'
            self.w[t.name] = (t.data if ids else dequantize(t.data, t.tensor_type)).astype(np.float64)
        self.sha256 = digest.hexdigest()

    def read_header(self, reader):
        self.architecture = reader.get_field('general.architecture').contents()
        self.recipe = recipe = RECIPES[self.architecture]

        def key(name, default=None):
            field = reader.get_field(f'{self.architecture}.{name}')
            return default if field is None else field.contents()

        self.layers = key('block_count')
        self.d = key('embedding_length')
        self.ffn = key('feed_forward_length')
        self.heads = key('attention.head_count')
        self.kv_heads = key('attention.head_count_kv', self.heads)
        self.head_dim = key('attention.key_length', self.d // self.heads)
        self.head_dim_local = key('attention.key_length_swa', self.head_dim)
        self.shared = key('attention.shared_kv_layers', 0)
        self.per_layer = key('embedding_length_per_layer_input', 0)
        self.window = key('attention.sliding_window')
        self.eps = key('attention.layer_norm_rms_epsilon', key('attention.layer_norm_epsilon'))
        self.base = key('rope.freq_base', recipe.get('base', 10000.0))
        self.base_local = key('rope.freq_base_swa', recipe.get('local', self.base))
        self.pattern = key('attention.sliding_window_pattern', recipe.get('period', 1))
        self.attention_cap = key('attn_logit_softcapping')
        self.final_cap = key('final_logit_softcapping')
        self.embedding_scale = key('embedding_scale', np.sqrt(self.d) if recipe.get('scaled') else 1.0)
        self.residual_scale = key('residual_scale', 1.0)
        self.attention_scale = key('attention.scale', 1 if self.architecture == 'gemma4' else 1 / np.sqrt(self.head_dim))
        self.rope_factor = key('rope.scaling.factor', 1.0)
        self.logit_scale = key('logit_scale', 1.0)
        self.rotated = key('rope.dimension_count', self.head_dim)
        self.short_context = key('rope.scaling.original_context_length')
        self.rope_gain = key('rope.scaling.attn_factor', 1.0)
        self.context = key('context_length')
        self.float = all(t.tensor_type.name in ('F32', 'F16', 'BF16') for t in reader.tensors)

    def is_global(self, layer):
        if self.recipe.get('same_window'):
            return not self.window
        if isinstance(self.pattern, list):
            return not self.pattern[layer]
        return layer % self.pattern == self.pattern - 1

    def ffn_of(self, layer):
        return self.layer(layer, 'ffn_down').shape[1]

    def head_dim_of(self, layer):
        return self.head_dim if self.is_global(layer) else self.head_dim_local

    def owner(self, layer):
        """Returns the layer whose keys and values a layer uses: itself, or the last one of the same kind (global
        or local) that has its own."""
        last = min(layer, self.layers - self.shared - 1)
        return max(l for l in range(last + 1) if l == layer or self.is_global(l) == self.is_global(layer))

    def layer(self, layer, name):
        return self.w[f'blk.{layer}.{name}.weight']

    def has(self, layer, name):
        return f'blk.{layer}.{name}.weight' in self.w

    def linear(self, layer, name, x):
        bias = self.w.get(f'blk.{layer}.{name}.bias', 0.0)
        return x @ self.layer(layer, name).T + bias

    def norm(self, name, x):
        """Applies LayerNorm if the norm has a bias, otherwise RMS norm."""
        weight, bias = self.w[f'{name}.weight'], self.w.get(f'{name}.bias')
        if bias is None:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight + bias


def rope(x, base, factors, pairs):
    """Applies RoPE to x[position, head, dim]: rotates pairs of columns (i, i + dim / 2), or neighbours if `pairs`, by
    position / base^(2 i / dim) / factor."""
    n, _, dim = x.shape
    angle = np.arange(n)[:, None] * (base ** (-2.0 * np.arange(dim // 2) / dim) / factors)[None]
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = np.empty_like(x)
    first, second = (slice(0, None, 2), slice(1, None, 2)) if pairs else (slice(0, dim // 2), slice(dim // 2, None))
    a, b = x[..., first], x[..., second]
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + np.exp(-x))


def heads_of(f, l, x):
    """Returns queries, keys and values of layer l as [position, head, dim], with norms and RoPE applied."""
    if f.architecture == 'gemma4':
        return gemma4_heads_of(f, l, x)
    n, width, kv = len(x), f.heads * f.head_dim, f.kv_heads * f.head_dim
    if f.has(l, 'attn_qkv'):
        q, k, v = np.split(f.linear(l, 'attn_qkv', x), [width, width + kv], axis=-1)
    else:
        q, k, v = (f.linear(l, name, x) for name in ('attn_q', 'attn_k', 'attn_v'))
    q, k, v = (t.reshape(n, -1, f.head_dim) for t in (q, k, v))
    if f.has(l, 'attn_q_norm'):
        q, k = f.norm(f'blk.{l}.attn_q_norm', q), f.norm(f'blk.{l}.attn_k_norm', k)
    kind, unrotated = f.recipe.get('rope'), f.recipe.get('unrotated')
    if kind and not (unrotated and l % unrotated == unrotated - 1):
        base = f.base if f.is_global(l) else f.base_local
        factors = f.w.get('rope_freqs.weight', f.rope_factor if f.is_global(l) else 1.0)
        if f.short_context:
            factors = f.w[f"rope_factors_{'long' if f.context > f.short_context else 'short'}.weight"]
        q, k = (np.concatenate([f.rope_gain * rope(t[..., :f.rotated], base, factors, kind == 'pairs'), t[..., f.rotated:]],
                               axis=-1) for t in (q, k))
    return q, k, v


def gemma4_heads_of(f, l, x):
    """Returns queries, keys and values of Gemma 4's layer l. Values are normed without weights; without attn_v, they
    are the keys before their norm. Keys and values are None if those of another layer are used. Only global layers have
    RoPE factors."""
    n, dim = len(x), f.head_dim_of(l)
    glob = f.is_global(l)
    base, factors = (f.base, f.w.get('rope_freqs.weight', 1.0)) if glob else (f.base_local, 1.0)
    q = f.norm(f'blk.{l}.attn_q_norm', f.linear(l, 'attn_q', x).reshape(n, -1, dim))
    q = rope(q, base, factors, False)
    if f.owner(l) != l:
        return q, None, None
    k = f.linear(l, 'attn_k', x).reshape(n, -1, dim)
    v = f.linear(l, 'attn_v', x).reshape(n, -1, dim) if f.has(l, 'attn_v') else k
    v = v / np.sqrt((v * v).mean(-1, keepdims=True) + f.eps)
    return q, rope(f.norm(f'blk.{l}.attn_k_norm', k), base, factors, False), v


def attention(f, l, x, kept):
    n = len(x)
    q, k, v = heads_of(f, l, x)
    if k is None:
        k, v = kept[f.owner(l)]
    kept[l] = k, v
    k, v = (np.repeat(t, f.heads // t.shape[1], axis=1) for t in (k, v))
    scores = np.einsum('ihd,jhd->hij', q, k) * f.attention_scale
    if f.attention_cap:
        scores = f.attention_cap * np.tanh(scores / f.attention_cap)
    distance = np.arange(n)[:, None] - np.arange(n)[None]
    visible = distance >= 0 if f.is_global(l) else (distance >= 0) & (distance < f.window)
    scores = np.where(visible, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return f.linear(l, 'attn_output', np.einsum('hij,jhd->ihd', p, v).reshape(n, -1))


def feed_forward(f, l, x):
    act = gelu_tanh if f.recipe['act'] == 'gelu' else silu
    if f.layer(l, 'ffn_up').shape[0] == 2 * f.ffn_of(l):
        gate, up = np.split(f.linear(l, 'ffn_up', x), 2, axis=-1)
        return f.linear(l, 'ffn_down', act(gate) * up)
    if not f.has(l, 'ffn_gate'):
        return f.linear(l, 'ffn_down', act(f.linear(l, 'ffn_up', x)))
    return f.linear(l, 'ffn_down', act(f.linear(l, 'ffn_gate', x)) * f.linear(l, 'ffn_up', x))


def per_layer_inputs(f, ids, x):
    """Returns Gemma 4's additional inputs of layers as [position, layer, width]: the layer's token embedding, combined
    with a projection of the main one."""
    shape = len(ids), f.layers, f.per_layer
    table = f.w['per_layer_token_embd.weight'][ids].reshape(shape) * np.sqrt(f.per_layer)
    projected = (x @ f.w['per_layer_model_proj.weight'].T / np.sqrt(f.d)).reshape(shape)
    return (f.norm('per_layer_proj_norm', projected) + table) / np.sqrt(2)


def forward64(f, ids, trace=None):
    x = f.w['token_embd.weight'][ids] * f.embedding_scale
    if 'position_embd.weight' in f.w:
        x = x + f.w['position_embd.weight'][:len(ids)]
    inputs = per_layer_inputs(f, ids, x) if f.per_layer else None
    kept = {}
    for l in range(f.layers):
        a = attention(f, l, f.norm(f'blk.{l}.attn_norm', x), kept)
        x = x + (f.norm(f'blk.{l}.post_attention_norm', a) if f.has(l, 'post_attention_norm') else a) * f.residual_scale
        h = feed_forward(f, l, f.norm(f'blk.{l}.ffn_norm', x))
        x = x + (f.norm(f'blk.{l}.post_ffw_norm', h) if f.has(l, 'post_ffw_norm') else h) * f.residual_scale
        if f.per_layer:
            g = gelu_tanh(f.linear(l, 'inp_gate', x)) * inputs[:, l]
            x = x + f.norm(f'blk.{l}.post_norm', f.linear(l, 'proj', g))
        if f.has(l, 'layer_output_scale'):
            x = x * f.layer(l, 'layer_output_scale')
        if trace:
            trace(l, x)
    logits = f.norm('output_norm', x) @ f.w.get('output.weight', f.w['token_embd.weight']).T / f.logit_scale
    return f.final_cap * np.tanh(logits / f.final_cap) if f.final_cap else logits


def errors(rows, truth):
    """Returns the NMSE of the logits at every position."""
    rows, truth = rows.astype(np.float64), truth.astype(np.float64)
    return ((rows - truth) ** 2).sum(-1) / (truth ** 2).sum(-1)


def node(*arguments):
    """Runs Node in the root of the repository. Returns its standard output."""
    return subprocess.run(['node', *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def model_path(name):
    """Returns the path of a test model."""
    return node('tests/js/models.js', name)


def rows_of(ids, command):
    """Returns float64 logits that a Node program writes to a file. `command` maps the ids and the file to arguments."""
    with tempfile.NamedTemporaryFile() as out:
        node(*command(','.join(map(str, ids)), out.name))
        return np.fromfile(out.name, '<f4').astype(np.float64).reshape(len(ids), -1)


def our_rows(path, ids, *flags):
    """Returns this package's logits at every position."""
    return rows_of(ids, lambda text, out: ['js/cli.js', 'logits', path, '--ids', text, '--all', '--out', out, *flags])


def llama_rows(path, ids):
    """Returns llama.cpp's logits at every position."""
    return rows_of(ids, lambda text, out: ['tools/vectors/llama.js', path, text, out])


def prompts_of(name, vocab):
    draw = random.Random(name.split('-')[0])   # the same ids for every tensor type of a model
    return [[draw.randrange(vocab) for _ in range(n)] for n in LENGTHS[name]]


def versions():
    import torch
    import transformers
    return {'transformers': transformers.__version__, 'torch': torch.__version__, 'numpy': np.__version__}


def make(names):
    from hf import transformers_model
    OUT.mkdir(exist_ok=True)
    models = {} if set(names) == set(LENGTHS) else json.loads((OUT / 'parity.json').read_text())['models']
    for name in names:
        f = File(model_path(name))
        prompts = prompts_of(name, len(f.w['token_embd.weight']))
        exact = [forward64(f, ids) for ids in prompts]
        theirs = [transformers_model(f)(ids) for ids in prompts]
        apart = max(float(errors(a, b).max()) for a, b in zip(theirs, exact))
        print(name, sum(map(len, prompts)), 'positions, transformers against float64: NMSE', apart,
              'logit deviation', np.concatenate(exact).std(), flush=True)
        # A model with outliers amplifies the rounding errors of float32.
        assert apart < (1e-7 if name.endswith('outliers') else 1e-9), f'{name}: the two references differ by {apart}'
        rows = np.concatenate(theirs if f.float else exact).astype('<f4')
        (OUT / f'{name}.bin').write_bytes(rows.tobytes())
        models[name] = {'truth': 'transformers float32' if f.float else 'float64 on the dequantised weights',
                        'weightsSha256': f.sha256, 'prompts': prompts, 'transformersAgainstFloat64': apart}
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
