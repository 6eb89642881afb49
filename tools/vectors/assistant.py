"""Writes the drafts of transformers' Gemma4AssistantForCausalLM in float32, for tests/js/assistant.test.js.

The assistant reads the keys and values of two layers of its target: the last local layer and the last global layer that
have their own. transformers' candidate generator passes them after the target has evaluated the prompt. All draft
tokens of a chain have the same position: that of the token that was drawn last. With a window of w tokens, layers
attend to the last w - 1 positions of the target, as in llama.cpp. transformers attends to one or two more, depending on
how its cache was filled, so this program cuts the keys and values of local layers to w - 1 positions. It also corrects
two errors of transformers 5.23.0: it refuses assistants, because none of their layers computes keys; and it does not
pass the keys of a target whose layers share none. Needs the packages of parity.py.

  venv/bin/python tools/vectors/assistant.py         writes tests/vectors/assistant.json and .bin
"""
import json

import numpy as np
import torch
import transformers
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator

from hf import gemma4, load, model_of, state_of
from parity import ROOT, File, model_path, versions

PAIRS = {'assistant-f32': 'gemma4-f32', 'assistant-dense-f32': 'gemma4-values-f32'}
LENGTHS = (1, 2, 20, 24, 70)
CHAIN = 3
PROJECTIONS = {'nextn.pre_projection': 'pre_projection', 'nextn.post_projection': 'post_projection',
               'masked_embd_centroids': 'masked_embedding.centroids'}


def modes(config, usual=transformers.Gemma4TextConfig.kv_sharing_modes.fget):
    """Returns whether each layer reuses keys and values ("reuse") or provides them to an assistant ("store")."""
    if config.num_kv_shared_layers == config.num_hidden_layers:
        return ['reuse'] * config.num_hidden_layers
    if config.num_kv_shared_layers:
        return usual(config)
    last = {kind: l for l, kind in enumerate(config.layer_types)}
    return ['store' if l in last.values() else None for l in range(config.num_hidden_layers)]


transformers.Gemma4TextConfig.kv_sharing_modes = property(modes)


def assistant(f, target):
    """Returns transformers' model of an assistant."""
    f.shared = 0   # Gemma4AssistantConfig shares the keys and values of all layers
    _, text = gemma4(f)
    text.vocab_size_per_layer_input = 0
    centroids = f.w.get('masked_embd_centroids.weight', np.zeros((1, 1)))
    config = transformers.Gemma4AssistantConfig(
        text_config=text, backbone_hidden_size=target.d, use_ordered_embeddings=len(centroids) > 1,
        num_centroids=len(centroids), centroid_intermediate_top_k=32, attn_implementation='eager')
    state = {k: v for k, v in state_of(f).items() if k != 'lm_head.weight'} | {'lm_head.weight': f.w['token_embd.weight']}
    state |= {f'{theirs}.weight': f.w[f'{ours}.weight'] for ours, theirs in PROJECTIONS.items() if f'{ours}.weight' in f.w}
    model = transformers.Gemma4AssistantForCausalLM(config)
    if config.use_ordered_embeddings:
        state['masked_embedding.token_ordering'] = f.w['masked_embd_ordering']
    return load(model, state)


class Logits(torch.nn.Module):
    """An assistant that keeps the logits of its calls, and cuts the keys and values of local layers to their window."""

    def __init__(self, model):
        super().__init__()
        self.model, self.logits, self.seen = model, [], None

    def forward(self, shared_kv_states, **inputs):
        window = self.model.config.text_config.sliding_window - 1
        cut = {k: tuple(x[:, :, -window:] if k == 'sliding_attention' else x for x in v)
               for k, v in shared_kv_states.items()}
        out = self.model(shared_kv_states=cut, **inputs)
        self.logits.append(out.logits[0, 0].numpy().copy())
        return out


def chain(target, model, ids):
    """Returns the draft tokens and the logits after ids, of which the target has evaluated all but the last."""
    keeper = Logits(model)
    settings = transformers.GenerationConfig(max_length=1000)
    with torch.no_grad():
        outputs = target(torch.tensor([ids[:-1]]), use_cache=False, output_hidden_states=True, return_shared_kv_states=True)
        model.generation_config.num_assistant_tokens = CHAIN
        generator = SinglePositionMultiTokenCandidateGenerator(model, target.get_input_embeddings(), settings)
        generator.assistant_model = type('Model', (), {'device': model.device, '__call__': staticmethod(keeper.forward)})()
        found, _ = generator.get_candidates(torch.tensor([ids]), {}, outputs, False, 0)
    return found[0, len(ids):].tolist(), keeper.logits


def main():
    models, rows = {}, []
    for name, other in PAIRS.items():
        f, target = File(model_path(name)), File(model_path(other))
        pair = model_of(target), assistant(f, target)
        ids = [5 + i * i * 7919 % 300 for i in range(max(LENGTHS) + 1)]
        chains = []
        for n in LENGTHS:
            drafts, logits = chain(*pair, ids[:n + 1])
            chains.append({'evaluated': n, 'drafts': drafts})
            rows += logits
            print(name, n, drafts, flush=True)
        models[name] = {'target': other, 'weightsSha256': f.sha256, 'targetSha256': target.sha256, 'ids': ids, 'chains': chains}
    np.concatenate(rows).astype('<f4').tofile(ROOT / 'tests' / 'vectors' / 'assistant.bin')
    record = {'versions': versions(), 'models': models}
    (ROOT / 'tests' / 'vectors' / 'assistant.json').write_text(json.dumps(record, separators=(',', ':')) + '\n')


if __name__ == '__main__':
    main()
