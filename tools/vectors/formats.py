#!/usr/bin/env python3
"""Writes test vectors for src/file/formats.c, computed by ggml through its C interface.

  python3 tools/vectors/formats.py PATH-TO/libggml-base.so     (quant.py says how to get it)

Writes tests/vectors/formats-ggml.inc and its provenance file. Needs only Python. Deterministic.
"""
import hashlib
import struct
import sys
from pathlib import Path

import quant as base

# type number of GGML, values and bytes per block, offsets of f16 numbers in a block
FORMATS = {
    'Q4_1': (3, 32, 20, (0, 2)), 'Q5_0': (6, 32, 22, (0,)), 'Q5_1': (7, 32, 24, (0, 2)),
    'Q2_K': (10, 256, 84, (80, 82)), 'Q3_K': (11, 256, 110, (108,)), 'Q4_K': (12, 256, 144, (0, 2)),
    'Q5_K': (13, 256, 176, (0, 2)), 'Q6_K': (14, 256, 210, (208,)), 'IQ4_NL': (20, 32, 18, (0,)),
    'IQ4_XS': (23, 256, 136, (0,)),
}
SCALES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0x2A2A, 0x9D9D, 0x1234]
RANDOM = 65536   # number of values in the random blocks of each type


def random_blocks(number, items, size, halves):
    """Returns random blocks with every kind of scale but NaN. The C test generates the same blocks."""
    r, out = base.splitmix(number), bytearray()
    for i in range(RANDOM // items):
        block = bytearray(b''.join(struct.pack('<Q', next(r)) for _ in range((size + 7) // 8))[:size])
        for j, at in enumerate(halves):
            struct.pack_into('<H', block, at, SCALES[(i + 5 * j) % len(SCALES)])
        out += block
    return bytes(out)


def main():
    lib = base.load(sys.argv[1])
    base.TYPES.update({name: row[0] for name, row in FORMATS.items()})
    r = base.splitmix(99)
    real = [sum(next(r) / 2 ** 64 - 0.5 for _ in range(4)) * (0.02 if i < 128 else 0.3) for i in range(256)]
    parts, rows = ['/* Made by tools/vectors/formats.py from ggml; see formats-ggml.md. Do not edit. */\n'], []
    for name, (number, items, size, halves) in FORMATS.items():
        low = name.lower()
        raw = base.quantise(lib, name, real)
        parts.append(base.array('uint8_t', f'ggml_{low}', list(raw), '%d', 24))
        parts.append(base.array('uint32_t', f'ggml_{low}_back', base.words(base.dequantise(lib, name, raw, 256)),
                                '0x%08x', 8))
        wild = random_blocks(number, items, size, halves)
        words = base.one_nan(base.dequantise(lib, name, wild, RANDOM))
        digest = base.fnv(struct.pack('<%dI' % len(words), *words))
        places = list(halves) + [-1] * (2 - len(halves))
        rows.append(f'    {{ {number}, {{ {places[0]}, {places[1]} }}, ggml_{low}, ggml_{low}_back, 0x{digest:016x}u }},')
    parts.append(base.array('uint16_t', 'ggml_format_scales', SCALES, '0x%04x', 13))
    parts.append('enum { GGML_FORMAT_RANDOM = %d };\n' % RANDOM)
    parts.append('static const struct {\n    int id, f16_at[2];\n    const uint8_t *blocks;\n    const uint32_t *back;\n'
                 '    uint64_t random_hash;\n} ggml_formats[] = {\n' + '\n'.join(rows) + '\n};\n')
    (base.HERE / 'formats-ggml.inc').write_text('\n'.join(parts))
    version = hashlib.sha256(Path(sys.argv[1]).read_bytes()).hexdigest()
    (base.HERE / 'formats-ggml.md').write_text(PROVENANCE % version)


PROVENANCE = '''# formats-ggml.inc: provenance

Contents: results of ggml's `dequantize_row_*` for Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL and IQ4_XS.
For each type, there are the bit patterns of 256 pseudo-random values after `ggml_quantize_chunk` and
`dequantize_row_*`, and the FNV-1a hash of 65536 weights of random blocks. The blocks have f16 scales of every kind
except NaN, and come from splitmix64, seeded with the number of the type, so the test can make them, too.

Source: `libggml-base.so` of npm `@node-llama-cpp/linux-x64` 3.22.1 (llama.cpp, MIT), called through its C interface. The SHA-256 digest
of that library is %s.

Made by: `python3 tools/vectors/formats.py PATH-TO/libggml-base.so`. The comment at the head of `formats.py` says how to
get the library. The file contains no data of a model. All NaNs (an infinite scale times 0) are written as 0x7fc00000.
'''

if __name__ == '__main__':
    main()
