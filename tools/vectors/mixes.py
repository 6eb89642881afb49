"""Measures the errors of this engine and of llama.cpp with every file type of llama.cpp's quantiser, relative to
float64 arithmetic on the dequantised weights.

llama_model_quantize (libllama's C interface) quantises a random model of make-model.js. It is 1152 wide, not a multiple
of 256, so the quantiser mixes types as in a real 1B model. numpy (parity.py), llama.cpp (llama.js) and js/cli.js run
the files. Writes tests/vectors/mixes.md. Needs the packages of parity.py and llama.js, and a built package.

  NODE_LLAMA_CPP=FOLDER venv/bin/python tools/vectors/mixes.py [FILETYPE …]     FOLDER: build/peers (see llama.js)
"""
import ctypes
import os
import pathlib
import sys
import tempfile
from collections import Counter

from gguf import GGUFReader

from parity import File, ROOT, errors, forward64, llama_rows, node, our_rows

FILE_TYPES = {'Q4_0': 2, 'Q4_1': 3, 'Q8_0': 7, 'Q5_0': 8, 'Q5_1': 9, 'Q2_K': 10, 'Q3_K_S': 11, 'Q3_K_M': 12, 'Q3_K_L': 13,
              'Q4_K_S': 14, 'Q4_K_M': 15, 'Q5_K_S': 16, 'Q5_K_M': 17, 'Q6_K': 18, 'IQ4_NL': 25, 'IQ4_XS': 30}
SHAPE = ['--layers', '6', '--d-model', '1152', '--ffn', '2304', '--heads', '4', '--kv-heads', '1', '--head-dim', '256',
         '--window', '32', '--context', '256', '--vocab', '512', '--seed', '31']
IDS = [(7 * i * i + 31 * i + 300) % 512 for i in range(40)]


class Parameters(ctypes.Structure):
    """Beginning of struct llama_model_quantize_params (llama.h). `rest`: members that keep their defaults."""
    _fields_ = [('nthread', ctypes.c_int32), ('ftype', ctypes.c_int32), ('output', ctypes.c_int32),
                ('embedding', ctypes.c_int32), ('rest', ctypes.c_uint8 * 240)]


def quantiser(folder):
    libraries = pathlib.Path(folder) / 'node_modules' / '@node-llama-cpp' / 'linux-x64' / 'bins' / 'linux-x64'
    for name in ('libggml-base', 'libggml-cpu', 'libggml', 'libllama'):
        found = [p for p in sorted(libraries.glob(name + '*')) if '.so' in p.name and 'common' not in p.name]
        if found:
            library = ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
    library.llama_model_quantize_default_params.restype = Parameters
    library.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Parameters)]
    library.llama_model_quantize.restype = ctypes.c_uint32

    def quantise(source, target, file_type, embedding=None):
        parameters = library.llama_model_quantize_default_params()
        parameters.nthread, parameters.ftype = 2, file_type
        if embedding is not None:
            parameters.embedding = embedding
        assert library.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)) == 0
    return quantise


def types_of(path):
    """Counts the types of the matrices by group, such as attn_q."""
    groups = {}
    for t in GGUFReader(path).tensors:
        if len(t.shape) == 2:
            groups.setdefault(t.name.split('.')[-2], Counter())[t.tensor_type.name] += 1
    return groups


def main():
    quantise = quantiser(os.environ['NODE_LLAMA_CPP'])
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, 'f32.gguf'), os.path.join(folder, 'quantised.gguf')
        node('tools/models/make-model.js', source, '--type', 'F32', *SHAPE)
        for name in sys.argv[1:] or FILE_TYPES:
            quantise(source, target, FILE_TYPES[name])
            exact = forward64(File(target), IDS)
            theirs, ours = (errors(rows(target, IDS), exact).mean() for rows in (llama_rows, our_rows))
            groups = types_of(target)
            kinds = [', '.join(groups[g]) for g in ('token_embd', 'attn_q', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_down')]
            lines.append(f'| {name} | {" | ".join(kinds)} | {ours:.2e} | {theirs:.2e} | {ours / theirs:.2f} |')
            print(lines[-1], flush=True)
            os.remove(target)
    if not sys.argv[1:]:
        (ROOT / 'tests' / 'vectors' / 'mixes.md').write_text(RECORD % (' '.join(SHAPE), '\n'.join(lines)))


RECORD = '''# Files of llama.cpp's own quantiser

Made by `tools/vectors/mixes.py` with npm `node-llama-cpp` 3.22.1 (llama.cpp, MIT). llama.cpp's `llama_model_quantize` converts a model with random
weights (`make-model.js --type F32
%s`)
to each of its file types. The columns `token_embd` to `ffn_down` show which types it chooses for the matrices. The last columns show the error of this
package ("ours"; Node, simd128), that of llama.cpp with the same file, and their ratio. The error is the NMSE ([parity.md](parity.md#reference)) of the
logits against float64 arithmetic on the dequantised weights, averaged over the 40 positions of one prompt.

| file type | token_embd | attn_q | attn_v | attn_output | ffn_gate | ffn_down | ours | llama.cpp | ratio |
|---|---|---|---|---|---|---|---|---|---|
%s
'''

if __name__ == '__main__':
    main()
