#!/usr/bin/env python3
"""Writes test vectors for tools/models/quantise.js, computed by ggml's quantisers in libggml-base.

  python3 tools/vectors/quantise.py PATH-TO/libggml-base.so     (quant.py says how to get it)

Writes tests/vectors/quantise-js.json: floats as hexadecimal bytes and their blocks in each type.
Needs only Python; deterministic.
"""
import json
import random
import struct
import sys

from quant import HERE, TYPES, load, quantise


def inputs():
    draw = random.Random(4)
    values = [0.0] * 32
    values += [draw.gauss(0, 1) for _ in range(64 * 32)]
    values += [draw.gauss(0, 1e-3) * 10 ** draw.uniform(-6, 6) for _ in range(32 * 32)]
    values += [(i - 16) / 2 for i in range(32)]                            # ties
    values += [(i - 15.5) / 8 for i in range(32)]
    values += [draw.choice((-1, 1)) * 2.0 ** -draw.randrange(12, 27) for _ in range(64)]   # f16 denormals
    values += [65504.0, 65519.0, -65519.9, 1.0009765625, 1.00048828125, -1.00146484375] + [0.5] * 26
    return values


def main():
    lib, values = load(sys.argv[1]), inputs()
    result = {'madeBy': 'tools/vectors/quantise.py, ggml_quantize_chunk of @node-llama-cpp/linux-x64 3.22.1',
              'input': struct.pack(f'<{len(values)}f', *values).hex()}
    result |= {name: quantise(lib, name, values).hex() for name in TYPES}
    (HERE / 'quantise-js.json').write_text(json.dumps(result, indent=1) + '\n')


if __name__ == '__main__':
    main()
