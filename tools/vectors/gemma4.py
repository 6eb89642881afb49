"""Compares the errors of this package, transformers and llama.cpp on random Gemma 4 models with outliers.

tools/models/random-gemma4.js chooses the shapes. Each model runs as an F32 file in transformers in float32 (hf.py) and
in this package, and as quantised files in this package and in llama.cpp (llama.js). The reference of quantised files is
float64 arithmetic (parity.py). Prints tables and writes them to tests/vectors/gemma4-random.md. Needs the packages of
parity.py and llama.js, and a built package. Exits with status 1 if a quantised file's mean error exceeds llama.cpp's,
or if an F32 file's NMSE against transformers exceeds 1e-6 at a position where transformers' NMSE against float64 is at
most 1e-7.

  venv/bin/python tools/vectors/gemma4.py [MODELS [QUANTISED]]   numbers of models, and of those to quantise (60, 20)
"""
import json
import os
import random
import sys
import tempfile

import numpy as np

from hf import transformers_model
from parity import ROOT, File, errors, forward64, llama_rows, node, our_rows, versions

TOKENS = 60
LIMIT, EXACT = 1e-6, 1e-7
MAKE = '''import { makeModel } from './tools/models/make-model.js';
import { randomGemma4 } from './tools/models/random-gemma4.js';
const spec = { ...randomGemma4(Number(process.argv[1])), ...JSON.parse(process.argv[2]) };
await makeModel(spec, process.argv[3]);
console.log(JSON.stringify(spec));'''
D_WIDE = ('attn_q', 'attn_k', 'attn_v', 'ffn_gate', 'ffn_up', 'inp_gate')


def super_blocks(spec, wanted, otherwise, more):
    """Returns the types of a file as llama.cpp's quantiser chooses them. Groups whose rows are not whole super-blocks
    of 256 values get `otherwise`; the others get the type that `more` names, or else `wanted`. Returns None if all get
    `otherwise`."""
    local = spec['headDimLocal']
    rows = {group: [spec['dModel']] for group in D_WIDE}
    rows |= {'attn_output': [spec['heads'] * local, spec['heads'] * spec['headDim']],
             'ffn_down': spec['ffn'] if isinstance(spec['ffn'], list) else [spec['ffn']], 'proj': [spec['perLayer'] or 1]}   # without per-layer embeddings, there is no proj
    tables = [spec['dModel'], spec['perLayer'] * spec['layers']]

    def fits(sizes):
        return all(n % 256 == 0 for n in sizes)
    types = {group: more.get(group, wanted) if fits(sizes) else otherwise for group, sizes in rows.items()}
    if set(types.values()) == {otherwise}:
        return None
    return {'type': otherwise, 'types': types, 'embeddingType': 'Q6_K' if fits(tables) else 'Q8_0'}


KINDS = {'Q8_0': lambda spec: {'type': 'Q8_0'}, 'Q4_0': lambda spec: {'type': 'Q4_0', 'embeddingType': 'Q8_0'},
         'Q6_K': lambda spec: super_blocks(spec, 'Q6_K', 'Q8_0', {}),
         'Q4_K_M': lambda spec: super_blocks(spec, 'Q4_K', 'Q5_0', {'attn_v': 'Q6_K', 'ffn_down': 'Q6_K'})}


def made(folder, number, change):
    """Makes a file. Returns its path and its specification."""
    path = os.path.join(folder, 'model.gguf')
    return path, json.loads(node('--input-type=module', '-e', MAKE, str(number), json.dumps(change), path))


def shape_of(spec):
    """Returns the cells of a table that describe a model. Layers are G (global) or L (local)."""
    kinds = ''.join('L' if local else 'G' for local in spec['pattern'])
    own = spec['layers'] - spec['sharedLayers']
    kv = spec['kvHeads'] if isinstance(spec['kvHeads'], list) else [spec['kvHeads']] * spec['layers']
    ffn = spec['ffn'] if isinstance(spec['ffn'], list) else [spec['ffn']]
    return [kinds[:own] + (f' + {kinds[own:]}' if kinds[own:] else ''), spec['dModel'],
            ', '.join(map(str, dict.fromkeys(ffn))),
            f"{spec['heads']} / {', '.join(map(str, dict.fromkeys((kv[spec['pattern'].index(True)], kv[-1]))))}",
            f"{spec['headDimLocal']}, {spec['headDim']}", spec['window'], spec['perLayer'] or '',
            'yes' if spec['keysAsValues'] else '', spec['finalCap'], f"{spec['outliers']}: {', '.join(spec['outlierNorms'])}"]


def row(*cells):
    line = f'| {" | ".join(map(str, cells))} |'
    print(line, flush=True)
    return line


def study(folder, number, quantised):
    """Returns the table row of the F32 file, the rows of quantised files, the errors at every position of the F32 file
    against transformers and of transformers against float64, and whether a quantised file missed its limit."""
    draw = random.Random(number)
    path, spec = made(folder, number, {})
    ids = [draw.randrange(spec['vocab']) for _ in range(TOKENS)]
    f = File(path)
    truth, theirs, ours = forward64(f, ids), transformers_model(f)(ids), our_rows(path, ids)
    found, own = errors(ours, theirs), errors(theirs, truth)
    cells = [f'{e.mean():.1e}, {e.max():.1e}' for e in (found, own, errors(ours, truth))]
    line, more, failed = row(number, *shape_of(spec), *cells), [], False
    for kind, make in KINDS.items():
        change = make(spec)
        if not quantised or not change:
            continue
        path, _ = made(folder, number, change)
        truth = forward64(File(path), ids)
        ours, llama = (errors(rows(path, ids), truth) for rows in (our_rows, llama_rows))
        missed = ours.mean() > llama.mean()
        more.append(row(number, kind, f'{ours.mean():.1e}, {ours.max():.1e}', f'{llama.mean():.1e}, {llama.max():.1e}',
                        'missed' if missed else ''))
        failed = failed or missed
    return line, more, found, own, failed


def main():
    count, quantised = [int(a) for a in sys.argv[1:3]] + [60, 20][len(sys.argv) - 1:]
    with tempfile.TemporaryDirectory() as folder:
        found = [study(folder, n, n < quantised) for n in range(count)]
    ours, own = (np.concatenate([one[i] for one in found]) for i in (2, 3))
    above, exact = ours > LIMIT, own <= EXACT
    summary = (f"{count} models, {len(ours)} positions: largest NMSE {ours.max():.1e}, {above.sum()} positions above {LIMIT:g}. "
               f"Where transformers' own error is at most {EXACT:g}: largest NMSE {ours[exact].max():.1e}, "
               f'{(above & exact).sum()} positions above {LIMIT:g}')
    print(summary)
    text = RECORD % (summary, json.dumps(versions()), '\n'.join(line for line, *_ in found),
                     '\n'.join(line for _, more, *_ in found for line in more))
    (ROOT / 'tests' / 'vectors' / 'gemma4-random.md').write_text(text)
    sys.exit(1 if (above & exact).any() or any(failed for *_, failed in found) else 0)


RECORD = '''# Random Gemma 4 models

Made by `tools/vectors/gemma4.py`. `tools/models/random-gemma4.js` chooses the shapes of the models. In some norms, a few
channels are up to a factor larger than the others (column "outliers": factor, then norms). Each model evaluates one
prompt of 60 random ids. The error is the NMSE ([parity.md](parity.md#reference)) of the logits at one position. For
prompts of 22 ids, `parity.json` has reference logits of some of these models (`gemma4r` and the model's number).

F32 files, compared with transformers in float32:
**%s.**
At the other positions, rounding in float32 alone causes errors near 1e-6, as the column for transformers against float64 shows.
Versions: `%s`.

- "layers": L is local, G is global. Layers after + use the keys and values of layers before it.
- "ffn": if there are two numbers, the second is for the layers after +.
- "kv heads", "head_dim": if there are two numbers, the first is for local layers, the second for global layers.
- Errors: the mean over all positions, and the worst position.

| | layers | d_model | ffn | heads / kv heads | head_dim | window | per-layer | V = K | cap | outliers | ours against transformers | transformers against float64 | ours against float64 |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
%s

Quantised files, against float64 arithmetic on the dequantised weights, mean and worst position. In Q6_K and Q4_K_M files,
groups whose rows are not whole super-blocks have Q8_0 and Q5_0; models without such rows are left out. The mean error must not exceed llama.cpp's.

| | file | ours | llama.cpp | |
|---|---|---|---|---|
%s
'''

if __name__ == '__main__':
    main()
