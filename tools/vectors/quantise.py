#!/usr/bin/env python3
"""Writes test vectors for tools/models/quantise.js, computed by ggml's quantisers in libggml-base.

  python3 tools/vectors/quantise.py PATH-TO/libggml-base.so     (quant.py says how to get it)

Writes tests/vectors/quantise-js.json: floats as hexadecimal bytes and their blocks in each type.
Needs only Python; deterministic.
"""
import ctypes
import json
import random
import struct
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / 'tests' / 'vectors' / 'quantise-js.json'
TYPES = {'F16': (1, 1, 2), 'Q4_0': (2, 32, 18), 'Q8_0': (8, 32, 34), 'BF16': (30, 1, 2)}


def inputs():
    draw = random.Random(4)
    values = [0.0] * 32
    values += [draw.gauss(0, 1) for _ in range(64 * 32)]
    values += [draw.gauss(0, 1e-3) * 10 ** draw.uniform(-6, 6) for _ in range(32 * 32)]
    values += [(i - 16) / 2 for i in range(32)]                            # ties
    values += [(i - 15.5) / 8 for i in range(32)]
    values += [draw.choice((-1, 1)) * 2.0 ** -draw.randrange(12, 27) for _ in range(64)]   # f16 denormals
    values += [65504.0, 65519.0, -65519.9, 1.0009765625, 1.00048828125, -1.00146484375] + [0.5] * 26
    return struct.unpack(f'<{len(values)}f', struct.pack(f'<{len(values)}f', *values))


def main():
    lib = ctypes.CDLL(sys.argv[1])
    chunk = lib.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    values = inputs()
    array = (ctypes.c_float * len(values))(*values)
    result = {'madeBy': 'tools/vectors/quantise.py, ggml_quantize_chunk of @node-llama-cpp/linux-x64 3.22.1',
              'input': bytes(array).hex()}
    for name, (number, items, size) in TYPES.items():
        out = ctypes.create_string_buffer(len(values) // items * size)
        written = chunk(number, array, out, 0, len(values) // 32, 32, None)
        assert written == len(out), (name, written, len(out))
        result[name] = out.raw.hex()
    OUT.write_text(json.dumps(result, indent=1) + '\n')


if __name__ == '__main__':
    main()
