"""Converts a checkpoint to Hugging Face's safetensors and to GGUF files in the layout of llama.cpp's converter
(gemma3: norms stored as 1 + w, tied head, SentencePiece pieces with scores and no merges).

    python3 tools/models/train/export.py --out build/storyteller            storyteller-{f32,q8_0,q4_0}.gguf
    python3 tools/models/train/export.py --ship models/storyteller/storyteller.gguf
"""
import argparse
import json
import shutil
import subprocess
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

from model import make_config, make_model
from tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[3]
TYPES = {"F32": gguf.LlamaFileType.ALL_F32, "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
         "Q4_0": gguf.LlamaFileType.MOSTLY_Q4_0}

# Names of a layer's tensors in Hugging Face's files and in GGUF.
BLOCK = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def save_safetensors(folder, config, checkpoint):
    """Writes the checkpoint to folder/hf for transformers."""
    tokenizer = Tokenizer(folder / "tokenizer.model")
    model = make_model(make_config(config["model"], tokenizer), 0)
    model.load_state_dict(torch.load(folder / f"{checkpoint}.pt")["model"])
    model.save_pretrained(folder / "hf")
    shutil.copy(folder / "tokenizer.model", folder / "hf")
    return folder / "hf"


def tensors(hf, layers):
    """Yields names and float32 arrays in the order of llama.cpp's converter. Norms become 1 + w."""
    weights = {k.removeprefix("model."): v.numpy() for k, v in load_file(hf / "model.safetensors").items()}
    yield "token_embd.weight", weights["embed_tokens.weight"]
    for layer in range(layers):
        for theirs, ours in BLOCK.items():
            w = weights[f"layers.{layer}.{theirs}.weight"]
            yield f"blk.{layer}.{ours}.weight", w + 1 if w.ndim == 1 else w
    yield "output_norm.weight", weights["norm.weight"] + 1


def chat_template():
    """Returns Gemma 3's chat template of the test models (tools/models/chat-templates.js)."""
    script = "import('./tools/models/chat-templates.js').then((m) => process.stdout.write(m.GEMMA3))"
    return subprocess.run(["node", "-e", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def write_vocabulary(writer, path):
    model = Tokenizer(path).model
    kinds = [(model.is_unknown, gguf.TokenType.UNKNOWN), (model.is_control, gguf.TokenType.CONTROL),
             (model.is_byte, gguf.TokenType.BYTE)]
    pieces, scores, types = [], [], []
    for i in range(model.get_piece_size()):
        piece = model.id_to_piece(i)
        kind = next((t for test, t in kinds if test(i)), gguf.TokenType.NORMAL)
        if piece.strip("\n") == "":   # a run of line breaks; SentencePiece does not report user-defined pieces
            kind = gguf.TokenType.USER_DEFINED
        pieces.append(piece)
        scores.append(model.get_score(i))
        types.append(kind)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(model.bos_id())
    writer.add_eos_token_id(model.eos_id())
    writer.add_unk_token_id(model.unk_id())
    writer.add_pad_token_id(model.pad_id())
    writer.add_eot_token_id(model.piece_to_id("<end_of_turn>"))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(chat_template())


def write_metadata(writer, config, kind):
    writer.add_type("model")
    writer.add_name("Storyteller")
    writer.add_description("A tiny Gemma 3 that tells children's stories; made to test and to show gemma-wasm.")
    writer.add_license("mit")
    writer.add_languages(["en"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["full_attention"]["rope_theta"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_file_type(TYPES[kind])


def block_type(kind, name, data):
    """Returns a tensor's type. Norms stay F32. With Q4_0, the embedding is Q8_0, as in public files."""
    if data.ndim == 1:
        return gguf.GGMLQuantizationType.F32
    return gguf.GGMLQuantizationType["Q8_0" if kind == "Q4_0" and name == "token_embd.weight" else kind]


def write_gguf(hf, kind, path):
    config = json.loads((hf / "config.json").read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "gemma3")
    write_metadata(writer, config, kind)
    write_vocabulary(writer, hf / "tokenizer.model")
    for name, data in tensors(hf, config["num_hidden_layers"]):
        t = block_type(kind, name, data)
        data = np.ascontiguousarray(data, dtype=np.float32)
        writer.add_tensor(name, gguf.quants.quantize(data, t), raw_dtype=t)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(path, path.stat().st_size, "bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--from", dest="folder", type=Path, default=Path("build/train"), help="train.py's --out")
    parser.add_argument("--config", default=Path(__file__).with_name("config.json"), type=Path)
    parser.add_argument("--checkpoint", default="last")
    parser.add_argument("--out", type=Path, default=Path("build/storyteller"), help="folder for all three types")
    parser.add_argument("--ship", type=Path, help="also copy the Q8_0 file there")
    args = parser.parse_args()
    hf = save_safetensors(args.folder, json.loads(args.config.read_text()), args.checkpoint)
    for kind in TYPES:
        write_gguf(hf, kind, args.out / f"storyteller-{kind.lower()}.gguf")
    if args.ship:
        args.ship.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(args.out / "storyteller-q8_0.gguf", args.ship)


if __name__ == "__main__":
    main()
