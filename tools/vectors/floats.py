"""Measures the accuracy of `quantizeFloats: 'q8_0'` on files like Google's QAT models (layers in Q4_0, embedding in
floats). Compares logits with the embedding in floats and in Q8_0 with float64 arithmetic on the file's weights.

Uses random models (make-model.js, 1152 wide) and a trained one, which llama_model_quantize (libllama's C interface)
quantises from F32. numpy (parity.py), llama.cpp (llama.js) and js/cli.js run them. Writes
tests/vectors/floats.md, which no test reads. Needs the packages of parity.py and llama.js, and a built package.

  NODE_LLAMA_CPP=FOLDER venv/bin/python tools/vectors/floats.py TRAINED.gguf

TRAINED.gguf is for example build/storyteller/storyteller-f32.gguf.
"""
import json
import os
import sys
import tempfile

import numpy as np
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from mixes import IDS, SHAPE, quantiser
from parity import OUT, File, errors, forward64, llama_rows, node, our_rows

EMBEDDING = 'token_embd.weight'
TALE = 200   # number of tokens of the tale that is the trained model's prompt


def log_p(rows):
    shifted = rows - rows.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def loss(rows, ids):
    """Returns the mean -ln p of all ids but the first."""
    return -float(log_p(rows)[np.arange(len(ids) - 1), ids[1:]].mean())


def divergence(rows, exact):
    """Returns the mean Kullback-Leibler divergence of logits from the exact ones, in nats."""
    p, q = log_p(exact), log_p(rows)
    return float((np.exp(p) * (p - q)).sum(-1).mean())


def study(path, ids):
    """Returns logits by name: exact (float64), rounded (float64 with the embedding in Q8_0), keep and q8_0 (this
    package with this value of `quantizeFloats`), llama.cpp."""
    f = File(path)
    rows = {'exact': forward64(f, ids)}
    q8 = GGMLQuantizationType.Q8_0
    f.w[EMBEDDING] = dequantize(quantize(f.w[EMBEDDING].astype(np.float32), q8), q8).astype(np.float64)
    rows['rounded'] = forward64(f, ids)
    for mode in ('keep', 'q8_0'):
        rows[mode] = our_rows(path, ids, '--quantize-floats', mode)
    return rows | {'llama.cpp': llama_rows(path, ids)}


def line(name, rows):
    e = {key: errors(value, rows['exact']).mean() for key, value in rows.items() if key != 'exact'}
    return (f'| {name} | {e["rounded"]:.2e} | {e["keep"]:.3e} | {e["q8_0"]:.3e} | {e["q8_0"] / e["keep"]:.3f} '
            f'| {e["llama.cpp"]:.2e} |')


def trained_file(folder, source):
    target = os.path.join(folder, 'trained.gguf')
    quantiser(os.environ['NODE_LLAMA_CPP'])(source, target, 2, embedding=1)   # layers in Q4_0, embedding in F16
    return target


def main():
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ('F16', 'BF16', 'F32'):
            path = os.path.join(folder, 'random.gguf')
            node('tools/models/make-model.js', path, '--type', 'Q4_0', '--embedding-type', kind, *SHAPE)
            lines.append(line(f'random, embedding {kind}', study(path, IDS)))
            print(lines[-1], flush=True)
        ids = json.loads((OUT / 'storyteller.json').read_text())['texts'][0]['ids'][:TALE]
        rows = study(trained_file(folder, sys.argv[1]), ids)
        lines.append(line('trained, embedding F16', rows))
        print(lines[-1], flush=True)
        text = [f'| {key} | {loss(value, ids):.5f} | {divergence(value, rows["exact"]):.1e} |' for key, value in rows.items()]
    (OUT / 'floats.md').write_text(RECORD % (TALE, '\n'.join(lines), '\n'.join(text)))


RECORD = '''# Float matrices packed as Q8_0

Made by `tools/vectors/floats.py` with npm `node-llama-cpp` 3.22.1 (llama.cpp, MIT). Like Google's QAT models (quantisation-aware training), the files
have layers in Q4_0, but an embedding matrix in floats, which is also the output head. The random models have six layers and a width of 1152, and are
measured at 40 positions. The trained model is the storyteller before its weights were rounded for the package, quantised by `llama_model_quantize`,
measured at %d positions of a tale.

The table shows the NMSE ([parity.md](parity.md#reference)) of the logits against float64 arithmetic on the file's
weights, averaged over the positions:

- `rounding`: float64 arithmetic with the embedding matrix rounded to Q8_0. This is the error of rounding alone.
- `keep`, `q8_0`: this package (Node, simd128) with this value of the option `quantizeFloats` (its default `auto` is
  `keep`). The error of `keep` comes from the quantised activations in the Q4_0 layers.
- `llama.cpp`: llama.cpp with the same file.

| model | rounding | keep | q8_0 | q8_0 / keep | llama.cpp |
|---|---|---|---|---|---|
%s

The next table shows the predictions of the trained model, in nats: the mean -ln p of the tale's tokens, and the mean
Kullback-Leibler divergence from the exact predictions (float64 arithmetic on the file's weights). `rounded` is
`rounding` above.

| | -ln p | divergence |
|---|---|---|
%s
'''

if __name__ == '__main__':
    main()
