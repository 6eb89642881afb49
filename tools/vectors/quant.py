#!/usr/bin/env python3
"""Writes test vectors for src/file/types.c, computed by ggml through its C interface.

  npm i --no-save --ignore-scripts --omit=optional @node-llama-cpp/linux-x64@3.22.1
  python3 tools/vectors/quant.py node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/libggml-base.so

Writes tests/vectors/quant-ggml.inc (C arrays, so that the test runs as wasm, too) and its provenance file
quant-ggml.md. Needs only Python. Deterministic.
"""
import ctypes
import hashlib
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[2] / 'tests' / 'vectors'
TYPES = {'F16': 1, 'Q4_0': 2, 'Q8_0': 8, 'BF16': 30}
MASK64 = (1 << 64) - 1


class TypeTraits(ctypes.Structure):
    """Beginning of struct ggml_type_traits (ggml.h)."""
    _fields_ = [('type_name', ctypes.c_char_p), ('blck_size', ctypes.c_int64),
                ('blck_size_interleave', ctypes.c_int64), ('type_size', ctypes.c_size_t),
                ('is_quantized', ctypes.c_bool), ('to_float', ctypes.c_void_p)]


def splitmix(state):
    """Generates the 64-bit numbers of splitmix64. The C test has the same generator."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        yield z ^ (z >> 31)


def fnv(data, h=0xCBF29CE484222325):
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & MASK64
    return h


def load(path):
    lib = ctypes.CDLL(path)
    lib.ggml_get_type_traits.restype = ctypes.POINTER(TypeTraits)
    lib.ggml_type_name.restype = ctypes.c_char_p
    lib.ggml_type_size.restype = ctypes.c_size_t
    lib.ggml_blck_size.restype = ctypes.c_int64
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + \
        [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    lib.ggml_fp16_to_fp32.restype = ctypes.c_float
    lib.ggml_fp16_to_fp32.argtypes = [ctypes.c_uint16]
    lib.ggml_fp32_to_fp16.restype = ctypes.c_uint16
    lib.ggml_fp32_to_fp16.argtypes = [ctypes.c_float]
    return lib


def quantise(lib, kind, floats):
    n = len(floats)
    src = (ctypes.c_float * n)(*floats)
    out = ctypes.create_string_buffer(n * 4)
    size = lib.ggml_quantize_chunk(TYPES[kind], src, out, 0, 1, n, None)
    return out.raw[:size]


def dequantise(lib, kind, raw, n):
    f = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        lib.ggml_get_type_traits(TYPES[kind]).contents.to_float)
    out = (ctypes.c_float * n)()
    f(ctypes.create_string_buffer(raw, len(raw)), out, n)
    return bytes(out)


def real_blocks():
    """Returns the values of blocks of 32 that are like weights, and edge cases."""
    r = splitmix(1)
    rows = []
    for scale in (1.0, 0.02, 1e-3, 37.5, 1e-6, 6e4):
        for _ in range(2):
            rows += [scale * sum(next(r) / 2 ** 64 - 0.5 for _ in range(4)) for _ in range(32)]
    rows += [0.0] * 32
    rows += [-0.0] * 32
    rows += [1.0, -1.0] * 16                              # two values with the greatest magnitude
    rows += [-1.0, 1.0] * 16
    rows += [(i - 16) / 8 for i in range(32)]             # exact halves, which are ties when rounding
    rows += [(i - 15.5) / 2 for i in range(32)]
    rows += [127.0] + [i + 0.5 for i in range(31)]        # exact halves in Q8_0
    rows += [0.0] * 31 + [3.0]                            # only one value that is not 0
    rows += [1e-30] * 16 + [-2e-30] * 16                  # a scale below the smallest f16 number
    rows += [float(i % 5) * 2e-7 for i in range(32)]      # a denormal f16 scale
    return list(struct.unpack('<%df' % len(rows), struct.pack('<%df' % len(rows), *rows)))


def raw_blocks(kind, bytes_per_block, n):
    """Returns blocks of random bytes with every kind of scale but NaN."""
    r = splitmix(TYPES[kind])
    scales = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0x2A2A, 0x9D9D]
    out = b''
    for i in range(n):
        body = b''.join(struct.pack('<Q', next(r)) for _ in range(8))[:bytes_per_block - 2]
        out += struct.pack('<H', scales[i % len(scales)]) + body
    return out


def tricky_floats():
    """Returns bits of floats around the values where rounding to f16 or bf16 changes, overflows or gets subnormal."""
    edges = [0, 1, 0x007FFFFF, 0x00800000, 0x33000000, 0x33000001, 0x33800000, 0x33C00000, 0x387FC000,
             0x387FE000, 0x387FF000, 0x38800000, 0x38801000, 0x38803000, 0x3F800000, 0x3F801000, 0x3F803000,
             0x3F808000, 0x3F818000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x47800000, 0x7F7FFFFF, 0x7F7F7FFF,
             0x7F7F8000, 0x7F800000, 0x34000000, 0x34400000, 0x35000000, 0x36123456, 0x38123456]
    out = []
    for e in edges:
        for d in (-1, 0, 1):
            u = e + d
            if 0 <= u <= 0x7F800000:
                out += [u, u | 0x80000000]
    return sorted(set(out))


def float_of(u):
    return struct.unpack('<f', struct.pack('<I', u))[0]


def array(c_type, name, values, form, per_line):
    lines = [', '.join(form % v for v in values[i:i + per_line]) for i in range(0, len(values), per_line)]
    return 'static const %s %s[] = {\n    %s\n};\n' % (c_type, name, ',\n    '.join(lines))


def words(raw):
    return list(struct.unpack('<%dI' % (len(raw) // 4), raw))


def one_nan(raw):
    """Returns the bits of floats. An infinite scale times 0 is NaN. No standard fixes its bits, so it is 0x7fc00000."""
    return [w if w & 0x7FFFFFFF <= 0x7F800000 else 0x7FC00000 for w in words(raw)]


def type_table(lib):
    rows = []
    for i in range(64):
        if i >= 43:   # from GGML_TYPE_COUNT (43 in this release) on, ggml would read past its table
            break
        size = lib.ggml_type_size(i)
        if size:
            rows.append('    { %d, "%s", %d, %d },' % (
                i, lib.ggml_type_name(i).decode(), lib.ggml_blck_size(i), size))
    return 'static const struct { int id; const char *name; uint32_t items, bytes; } ggml_types[] = {\n' \
        + '\n'.join(rows) + '\n};\n'


def hashes(lib):
    halves = b''.join(struct.pack('<f', lib.ggml_fp16_to_fp32(h)) for h in range(65536) if h & 0x7FFF <= 0x7C00)
    r, floats = splitmix(42), []
    while len(floats) < 100000:
        u = next(r) >> 32
        if u & 0x7FFFFFFF <= 0x7F800000:
            floats.append(u)
    to_half = b''.join(struct.pack('<H', lib.ggml_fp32_to_fp16(float_of(u))) for u in floats)
    to_bf16 = quantise(lib, 'BF16', [float_of(u) for u in floats])
    return [fnv(halves), fnv(to_half), fnv(to_bf16)]


def main():
    lib = load(sys.argv[1])
    real, tricky = real_blocks(), tricky_floats()
    parts = ['/* Made by tools/vectors/quant.py from ggml; see quant-ggml.md. Do not edit. */\n', type_table(lib)]
    parts.append(array('uint32_t', 'ggml_input', words(struct.pack('<%df' % len(real), *real)), '0x%08x', 8))
    for kind, size in (('Q4_0', 18), ('Q8_0', 34)):
        low = kind.lower()
        parts.append(array('uint8_t', 'ggml_%s' % low, list(quantise(lib, kind, real)), '%d', 24))
        parts.append(array('uint32_t', 'ggml_%s_back' % low,
                           words(dequantise(lib, kind, quantise(lib, kind, real), len(real))), '0x%08x', 8))
        raw = raw_blocks(kind, size, 12)
        parts.append(array('uint8_t', 'ggml_%s_raw' % low, list(raw), '%d', 24))
        back = one_nan(dequantise(lib, kind, raw, 12 * 32))
        parts.append(array('uint32_t', 'ggml_%s_raw_back' % low, back, '0x%08x', 8))
    floats = [float_of(u) for u in tricky]
    parts.append(array('uint32_t', 'ggml_tricky', tricky, '0x%08x', 8))
    parts.append(array('uint16_t', 'ggml_tricky_f16', [lib.ggml_fp32_to_fp16(f) for f in floats], '0x%04x', 12))
    bf16 = quantise(lib, 'BF16', floats)
    parts.append(array('uint16_t', 'ggml_tricky_bf16', list(struct.unpack('<%dH' % len(floats), bf16)), '0x%04x', 12))
    parts.append(array('uint64_t', 'ggml_hashes', hashes(lib), '0x%016xu', 3))
    (HERE / 'quant-ggml.inc').write_text('\n'.join(parts))
    version = hashlib.sha256(Path(sys.argv[1]).read_bytes()).hexdigest()
    (HERE / 'quant-ggml.md').write_text(PROVENANCE % version)


PROVENANCE = '''# quant-ggml.inc: provenance

Contents: ggml's table of types (name, weights per block, bytes per block), and results of ggml's functions
`ggml_quantize_chunk` (F16, BF16, Q4_0, Q8_0), `dequantize_row_*`, `ggml_fp16_to_fp32` and `ggml_fp32_to_fp16`. Their
inputs are blocks like those of weights, edge cases (zeros, ties, denormal scales), blocks of random bytes, and bit
patterns around every limit of f16 and bf16. For all f16 values and for 100,000 pseudo-random floats, the file has only
a hash of the results.

Source: `libggml-base.so` of npm `@node-llama-cpp/linux-x64` 3.22.1 (llama.cpp, MIT), called through its C interface. The SHA-256 digest
of that library is %s.

Made by: `python3 tools/vectors/quant.py PATH-TO/libggml-base.so`. The comment at the head of `quant.py` says how to get
the library. The file contains no data of a model. Results that are NaN are omitted, because no standard defines their
bits.
'''

if __name__ == '__main__':
    main()
