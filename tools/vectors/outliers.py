"""Compares the errors of this package, llama.cpp and float32 arithmetic on 17 random Gemma 3 models with outliers.

The configurations vary heads, windows, patterns of local layers and head_dim. In each, some channels of some norms are
up to 100 times larger than the others. make-model.js makes files of several types. numpy in float64 (parity.py, the
reference), transformers in float32 (hf.py), llama.cpp (llama.js) and this package run them. Prints a table and writes
it to tests/vectors/outliers.md. Exits with status 1 if this package's errors exceed a limit: 1e-6 at every position for
F32, 1e-6 in the mean for F16 and BF16, llama.cpp's mean for all types. Needs the packages of parity.py and llama.js,
and a built package.

  venv/bin/python tools/vectors/outliers.py [CONFIGURATION …]      only these, numbered from 0
  TOKENS=400 …      maximal length of a prompt
"""
import json
import os
import random
import sys
import tempfile

from parity import ROOT, File, errors, forward64, llama_rows, node, our_rows

QAT = 'Q4_0, embedding F16'
KINDS = {'F32': {'type': 'F32'}, 'F16': {'type': 'F16'}, 'BF16': {'type': 'BF16'}, 'Q8_0': {'type': 'Q8_0'},
         'Q4_0': {'type': 'Q4_0'}, QAT: {'type': 'Q4_0', 'embeddingType': 'F16'},
         'Q4_K mix': {'type': 'Q5_0', 'embeddingType': 'Q8_0',
                      'types': {'attn_v': 'Q8_0', 'attn_output': 'Q4_K', 'ffn_down': 'Q6_K'}}}
FLOATS = ('F32', 'F16', 'BF16')
WAYS = ('float32', 'default', 'q8_0', 'llama.cpp')
TOKENS = int(os.environ.get('TOKENS', 1500))   # maximal length of a prompt in tokens
K, BEFORE, AFTER = ['attn_k_norm'], ['attn_norm', 'ffn_norm'], ['post_attention_norm', 'post_ffw_norm']
VOCAB = 512
# Columns: layers, d_model, ffn, heads, kv heads, head_dim, window, n (every n-th layer is global), number of tokens,
# norms with outliers, factor of the outliers
ROWS = [(6, 128, 256, 4, 1, 64, 32, 6, 300, K, 50), (6, 128, 256, 4, 2, 64, 64, 6, 500, BEFORE, 70),
        (6, 128, 256, 4, 4, 64, 64, 6, 400, AFTER, 70), (7, 160, 512, 4, 1, 256, 128, 6, 600, K, 30),
        (7, 160, 512, 2, 1, 128, 100, 3, 800, BEFORE, 100), (12, 192, 512, 4, 2, 64, 48, 6, 700, K, 30),
        (12, 192, 512, 8, 2, 32, 256, 4, 1000, K, 20), (4, 256, 768, 4, 1, 128, 512, 2, 1500, K, 50),
        (4, 256, 768, 2, 2, 128, 512, 4, 1200, BEFORE, 100), (6, 96, 256, 8, 1, 32, 16, 2, 300, K + BEFORE, 20),
        (6, 320, 512, 5, 1, 256, 64, 6, 350, K, 70), (9, 128, 256, 4, 2, 128, 200, 3, 900, AFTER, 50),
        (8, 224, 512, 8, 4, 64, 32, 5, 450, K, 30), (10, 128, 512, 4, 4, 64, 96, 6, 640, BEFORE, 50),
        (6, 192, 512, 6, 3, 128, 40, 6, 550, ['output_norm'] + K, 40), (5, 128, 256, 4, 1, 64, 300, 5, 1100, K, 20),
        (6, 160, 256, 4, 2, 128, 77, 2, 420, K + BEFORE + AFTER, 20)]
NAMES = ('layers', 'dModel', 'ffn', 'heads', 'kvHeads', 'headDim', 'window', 'pattern')
MAKE = '''import { makeModel } from './tools/models/make-model.js';
await makeModel(JSON.parse(process.argv[1]), process.argv[2]);'''


def tokens_of(number):
    return min(ROWS[number][8], TOKENS)


def spec_of(number, kind):
    row = ROWS[number]
    return dict(zip(NAMES, row), architecture='gemma3', seed=700 + number, context=2048, vocab=VOCAB, quiet=[],
                outlierNorms=row[9], outliers=row[10], name=f'outliers {number}', **KINDS[kind])


def ways(kind):
    """Yields names and flags of the ways to run this package."""
    yield 'default', []
    if kind == QAT:
        yield 'q8_0', ['--quantize-floats', 'q8_0']


def study(folder, number, kind):
    """Returns the errors of each of WAYS at every position."""
    from hf import transformers_model
    path = os.path.join(folder, 'model.gguf')
    node('--input-type=module', '-e', MAKE, json.dumps(spec_of(number, kind)), path)
    draw = random.Random(number)
    ids = [draw.randrange(VOCAB) for _ in range(tokens_of(number))]
    f = File(path)
    truth = forward64(f, ids)
    found = {'float32': errors(transformers_model(f)(ids), truth)} if kind == 'F32' else {}
    for name, more in ways(kind):
        found[name] = errors(our_rows(path, ids, *more), truth)
    return found | {'llama.cpp': errors(llama_rows(path, ids), truth)}


def missed(kind, found):
    """Returns the names of the limits that this package's errors exceed."""
    ours, list_ = found['default'], []
    if kind == 'F32' and ours.max() > 1e-6:
        list_.append('worst')
    if kind in FLOATS and ours.mean() > 1e-6:
        list_.append('mean')
    if ours.mean() > found['llama.cpp'].mean():
        list_.append('above llama.cpp')
    return list_


def rows_of(text):
    """Returns the table rows in a text, by configuration and kind of file."""
    lines = [line.strip() for line in text.splitlines()]
    rows = [(line, [cell.strip() for cell in line.split('|')]) for line in lines]
    return {(int(cells[1]), cells[2]): line for line, cells in rows if len(cells) > 3 and cells[2] in KINDS}


def keep(lines):
    """Writes the rows to outliers.md, and keeps the rows of other configurations there."""
    path = ROOT / 'tests' / 'vectors' / 'outliers.md'
    rows = (rows_of(path.read_text()) if path.exists() else {}) | rows_of('\n'.join(lines))
    order = sorted(rows, key=lambda key: (key[0], list(KINDS).index(key[1])))
    table = '\n'.join(f'| {n} | {" | ".join(map(str, r[:9]))} | {", ".join(r[9])} | {r[10]} |'
                      for n, r in enumerate(ROWS))
    path.write_text(RECORD % (table, '\n'.join(rows[key] for key in order)))


def main():
    lines, failed = [], False
    with tempfile.TemporaryDirectory() as folder:
        for number in [int(a) for a in sys.argv[1:]] or range(len(ROWS)):
            for kind in KINDS:
                found = study(folder, number, kind)
                cells = [f'{found[w].mean():.1e}, {found[w].max():.1e}' if w in found else '' for w in WAYS]
                bars = missed(kind, found)
                failed = failed or bool(bars)
                lines.append(f'| {number} | {kind} | {tokens_of(number)} | {" | ".join(cells)} | {", ".join(bars)} |')
                print(lines[-1], flush=True)
    keep(lines)
    sys.exit(1 if failed else 0)


RECORD = '''# Outliers: 17 configurations of Gemma 3

Made by `tools/vectors/outliers.py`. The models have random weights, but in some norms, a few channels are up to
`factor` times larger than the others. Each model evaluates one prompt of random ids. The error is the NMSE
([parity.md](parity.md#reference)) of the logits at one position, against float64 arithmetic on the file's weights. The
first table describes the models:

| | layers | d_model | ffn | heads | kv heads | head_dim | window | global every | tokens | norms with outliers | factor |
|---|---|---|---|---|---|---|---|---|---|---|---|
%s

The second table shows the mean error over all positions, and the error at the worst position, of transformers in
float32 ("float32": the error of this arithmetic itself), of this package with its defaults ("ours") and with
`quantizeFloats: 'q8_0'` ("ours, embedding packed"), and of llama.cpp with its defaults. "limits exceeded" names the
script's limits that this package's errors exceed. Where a prompt has fewer tokens than above, it was shortened with
`TOKENS`.

| | file | tokens | float32 | ours | ours, embedding packed | llama.cpp | limits exceeded |
|---|---|---|---|---|---|---|---|
%s
'''

if __name__ == '__main__':
    main()
