"""Finds which engine is right where this one and llama.cpp choose different tokens in greedy.js: evaluates llama.cpp's
tokens in float64 (parity.py's forward64). Adds the results to build/greedy/NAME.json.

  venv/bin/python tools/vectors/greedy.py gemma-2b …     after greedy.js; models in build/models/
"""
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from parity import File, ROOT, errors, forward64


class Weights(dict):
    """Dequantises a tensor on each access and doesn't keep it: a 2B model in float64 does not fit into memory."""

    def __init__(self, reader):
        super().__init__((t.name, t) for t in reader.tensors)

    def __getitem__(self, name):
        t = super().__getitem__(name)
        return dequantize(t.data, t.tensor_type).astype(np.float64)

    def get(self, name, default=None):
        return self[name] if name in self else default


class BigFile(File):
    def __init__(self, path):
        reader = GGUFReader(path)
        self.read_header(reader)
        self.w = Weights(reader)


for name in sys.argv[1:]:
    left = ROOT / 'build' / 'greedy' / name
    record = json.loads(left.with_suffix('.json').read_text())
    led = record['led']
    ids, seconds, n = led['ids'], led['seconds'], len(led['ids'])
    f = BigFile(ROOT / 'build' / 'models' / f'{name}.gguf')
    truth = forward64(f, led['prompt'] + ids[:-1])[-n:]
    theirs, ours = (np.fromfile(f'{left}.{who}.bin', '<f4').reshape(n, -1) for who in ('llama', 'node'))
    at = np.arange(n)
    record['truth'] = {'choices': truth.argmax(-1).tolist(), 'llamaNmse': float(errors(theirs, truth).mean()),
                       'oursNmse': float(errors(ours, truth).mean()),
                       'margins': (truth[at, ids] - truth[at, seconds]).tolist()}
    left.with_suffix('.json').write_text(json.dumps(record))
    print(name, 'llama.cpp', (theirs.argmax(-1) == truth.argmax(-1)).sum(), record['truth']['llamaNmse'],
          'ours', (ours.argmax(-1) == truth.argmax(-1)).sum(), record['truth']['oursNmse'], flush=True)
