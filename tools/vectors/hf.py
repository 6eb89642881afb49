"""Runs Hugging Face transformers on the weights of a GGUF file (parity.File), undoing the changes of llama.cpp's
converter: it added 1 to Gemma's norms, permuted Llama's q and k so that RoPE rotates neighbouring columns, and
transposed GPT-2's matrices. Attention is "eager", the implementation that has Gemma 2's soft caps.
"""
import numpy as np
import torch
import transformers

LAYER = {'attn_norm': 'input_layernorm', 'attn_q': 'self_attn.q_proj', 'attn_k': 'self_attn.k_proj',
         'attn_v': 'self_attn.v_proj', 'attn_output': 'self_attn.o_proj', 'attn_q_norm': 'self_attn.q_norm',
         'attn_k_norm': 'self_attn.k_norm', 'ffn_norm': 'post_attention_layernorm', 'ffn_gate': 'mlp.gate_proj',
         'ffn_up': 'mlp.up_proj', 'ffn_down': 'mlp.down_proj'}
POST_NORMS = {'post_attention_norm': 'post_attention_layernorm', 'ffn_norm': 'pre_feedforward_layernorm',
              'post_ffw_norm': 'post_feedforward_layernorm'}
PER_LAYER = {'inp_gate': 'per_layer_input_gate', 'proj': 'per_layer_projection', 'post_norm': 'post_per_layer_input_norm'}
GEMMA4 = {'per_layer_token_embd': 'embed_tokens_per_layer', 'per_layer_model_proj': 'per_layer_model_projection',
          'per_layer_proj_norm': 'per_layer_projection_norm'}
PHI3 = {'attn_qkv': 'self_attn.qkv_proj', 'ffn_up': 'mlp.gate_up_proj'}
GPT2_LAYER = {'attn_norm': 'ln_1', 'attn_qkv': 'attn.c_attn', 'attn_output': 'attn.c_proj', 'ffn_norm': 'ln_2',
              'ffn_up': 'mlp.c_fc', 'ffn_down': 'mlp.c_proj'}
# Llama 3's RoPE scaling, with the parameters from which tests/js/models.js makes the files' table of factors.
LLAMA3 = {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
          'original_max_position_embeddings': 64}


def unpermute(w, heads):
    """Undoes the converter's permutation of the rows of each head, which turned halves into neighbouring pairs."""
    return w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def common(f):
    return dict(vocab_size=len(f.w['token_embd.weight']), hidden_size=f.d, intermediate_size=f.ffn,
                num_hidden_layers=f.layers, num_attention_heads=f.heads, num_key_value_heads=f.kv_heads,
                head_dim=f.head_dim, rms_norm_eps=f.eps, max_position_embeddings=f.context, attn_implementation='eager',
                tie_word_embeddings='output.weight' not in f.w)


def plain_rope(base):
    return {'rope_type': 'default', 'rope_theta': base}


def layer_types(f):
    return ['full_attention' if f.is_global(l) else 'sliding_attention' for l in range(f.layers)]


def gemma(f):
    return transformers.GemmaForCausalLM, transformers.GemmaConfig(
        **common(f), hidden_activation='gelu_pytorch_tanh', rope_parameters=plain_rope(f.base))


def gemma2(f):
    return transformers.Gemma2ForCausalLM, transformers.Gemma2Config(
        **common(f), query_pre_attn_scalar=f.head_dim, sliding_window=f.window, layer_types=layer_types(f),
        attn_logit_softcapping=f.attention_cap, final_logit_softcapping=f.final_cap, rope_parameters=plain_rope(f.base))


def gemma3(f):
    scaled = plain_rope(f.base) | ({'rope_type': 'linear', 'factor': f.rope_factor} if f.rope_factor != 1 else {})
    return transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(
        **common(f), query_pre_attn_scalar=f.head_dim, sliding_window=f.window, layer_types=layer_types(f),
        rope_parameters={'full_attention': scaled, 'sliding_attention': plain_rope(f.base_local)})


def gemma4(f):
    turning = int((f.w['rope_freqs.weight'] == 1).sum()) / (f.head_dim / 2)
    kv = f.kv_heads if isinstance(f.kv_heads, list) else [f.kv_heads] * f.layers
    ffn = f.ffn if isinstance(f.ffn, list) else [f.ffn] * f.layers
    local = [l for l in range(f.layers) if not f.is_global(l)]
    config = common(f) | dict(
        intermediate_size=ffn[0], num_key_value_heads=kv[local[0]], head_dim=f.head_dim_local,
        num_global_key_value_heads=kv[-1], global_head_dim=f.head_dim,
        attention_k_eq_v=not f.has(f.owner(f.layers - 1), 'attn_v'), num_kv_shared_layers=f.shared, use_double_wide_mlp=ffn[0] != ffn[-1],
        hidden_size_per_layer_input=f.per_layer, vocab_size_per_layer_input=len(f.w['token_embd.weight']),
        sliding_window=f.window, layer_types=layer_types(f), final_logit_softcapping=f.final_cap,
        hidden_activation='gelu_pytorch_tanh',
        rope_parameters={'full_attention': {'rope_type': 'proportional', 'partial_rotary_factor': turning,
                                            'rope_theta': f.base}, 'sliding_attention': plain_rope(f.base_local)})
    return transformers.Gemma4ForCausalLM, transformers.Gemma4TextConfig(**config)


def gpt2(f):
    return transformers.GPT2LMHeadModel, transformers.GPT2Config(
        vocab_size=len(f.w['token_embd.weight']), n_positions=f.context, n_embd=f.d, n_layer=f.layers, n_head=f.heads,
        n_inner=f.ffn, layer_norm_epsilon=f.eps, attn_implementation='eager')


def llama(f):
    scaled = 'rope_freqs.weight' in f.w
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(
        **common(f), attention_bias='blk.0.attn_q.bias' in f.w,
        rope_parameters=LLAMA3 | {'rope_theta': f.base} if scaled else plain_rope(f.base))


def granite(f):
    return transformers.GraniteForCausalLM, transformers.GraniteConfig(
        **common(f), rope_parameters=plain_rope(f.base), embedding_multiplier=f.embedding_scale,
        residual_multiplier=f.residual_scale, attention_multiplier=f.attention_scale, logits_scaling=f.logit_scale)


def phi3(f):
    factors = {f'{name}_factor': [float(x) for x in f.w[f'rope_factors_{name}.weight']] for name in ('short', 'long')}
    rope = {'rope_type': 'longrope', 'rope_theta': f.base, 'partial_rotary_factor': f.rotated / f.head_dim,
            'original_max_position_embeddings': f.short_context, 'attention_factor': f.rope_gain} | factors
    # transformers chooses Phi's long or short factors by the length of the text, the engine by that of the context.
    if f.context > f.short_context:
        rope['short_factor'] = rope['long_factor']
    else:
        rope['long_factor'] = rope['short_factor']
    return transformers.Phi3ForCausalLM, transformers.Phi3Config(
        **common(f), rope_parameters=rope, sliding_window=f.window or None, pad_token_id=None)


def smollm3(f):
    return transformers.SmolLM3ForCausalLM, transformers.SmolLM3Config(
        **common(f), rope_parameters=plain_rope(f.base), no_rope_layer_interval=f.recipe['unrotated'], pad_token_id=None)


def qwen2(f):
    return transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**common(f), rope_parameters=plain_rope(f.base))


def qwen3(f):
    return transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**common(f), rope_parameters=plain_rope(f.base))


MAKERS = {make.__name__: make for make in (gemma, gemma2, gemma3, gemma4, gpt2, granite, llama, phi3, qwen2, qwen3, smollm3)}


def gpt2_state(f):
    state = {'transformer.wte.weight': f.w['token_embd.weight'], 'transformer.wpe.weight': f.w['position_embd.weight'],
             'lm_head.weight': f.w.get('output.weight', f.w['token_embd.weight'])}
    for part in ('weight', 'bias'):
        state[f'transformer.ln_f.{part}'] = f.w[f'output_norm.{part}']
        for l in range(f.layers):
            for ours, theirs in GPT2_LAYER.items():
                state[f'transformer.h.{l}.{theirs}.{part}'] = f.w[f'blk.{l}.{ours}.{part}'].T
    return state


def state_of(f):
    shift = 1.0 if f.architecture.startswith('gemma') and not f.architecture.startswith('gemma4') else 0.0
    names = LAYER | PER_LAYER | (PHI3 if f.architecture == 'phi3' else {}) | (POST_NORMS if f.has(0, 'post_ffw_norm') else {})
    state = {'model.embed_tokens.weight': f.w['token_embd.weight'], 'model.norm.weight': f.w['output_norm.weight'] - shift,
             'lm_head.weight': f.w.get('output.weight', f.w['token_embd.weight'])}
    for full, w in f.w.items():
        if not full.startswith('blk.'):
            if full.split('.')[0] in GEMMA4:
                state[f"model.{GEMMA4[full.split('.')[0]]}.weight"] = w
            continue
        _, l, group, part = full.split('.')
        if group == 'layer_output_scale':
            state[f'model.layers.{l}.layer_scalar'] = w
            continue
        if f.recipe.get('rope') == 'pairs' and group in ('attn_q', 'attn_k'):
            w = unpermute(w, f.heads if group == 'attn_q' else f.kv_heads)
        state[f'model.layers.{l}.{names[group]}.{part}'] = w - shift if group.endswith('_norm') else w
    return state


def load(model, state):
    """Sets a model's weights, as float32, and returns the model."""
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v.astype(np.float32))) for k, v in state.items()},
                          strict=True)
    return model.eval()


def model_of(f):
    make, config = MAKERS[f.architecture](f)
    return load(make(config), gpt2_state(f) if f.architecture == 'gpt2' else state_of(f))


def transformers_model(f):
    """Returns a function that maps ids to the logits of every position."""
    model = model_of(f)
    # Without output_hidden_states, transformers 5.23 cannot run a Gemma 4 that shares keys but has no per-layer inputs.

    def run(ids):
        with torch.no_grad():
            return model(torch.tensor([ids]), use_cache=False, output_hidden_states=True).logits[0].numpy()
    return run
