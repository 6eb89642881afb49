"""Makes the storyteller's model: transformers' Gemma 3, small, but with every part of the architecture: sliding-window
and global layers (5:1), two RoPE bases, q and k norms, GeGLU, four norms per layer, tied head."""
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig


def make_config(options, tokenizer):
    layers = options["num_hidden_layers"]
    return Gemma3TextConfig(
        vocab_size=tokenizer.size, pad_token_id=0, eos_token_id=tokenizer.eos,
        bos_token_id=tokenizer.bos, tie_word_embeddings=True,
        query_pre_attn_scalar=options["head_dim"], hidden_activation="gelu_pytorch_tanh",
        layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        }, **options)


def make_model(config, seed):
    torch.manual_seed(seed)
    return Gemma3ForCausalLM._from_config(config, attn_implementation="sdpa")


def hidden_matrices(model):
    """Returns the matrices of the layers, and the other weights (embedding, norms), which need another optimizer."""
    inner = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    outer = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    return inner, outer
