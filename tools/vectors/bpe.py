"""bpe: writes tests/vectors/bpe.inc: texts, the words into which PyPI `tokenizers` splits them for each pre-tokenizer,
and llama.cpp's ids for two real vocabularies, reduced to the merges that the texts can reach.

    pip install tokenizers==0.23.3 gguf
    python3 tools/vectors/bpe.py FOLDER    # with models/ggml-vocab-{gpt-2,qwen2}.gguf{,.inp,.out} of llama.cpp
"""
import sys
from pathlib import Path

from gguf import GGUFReader
from tokenizers import Regex, pre_tokenizers as pre

OUT = Path(__file__).parents[2] / 'tests/vectors/bpe.inc'
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION +
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre.Split(Regex(pattern), 'isolated')


# Pre-tokenizers in the order of the C enum gw_split. The ByteLevel step after each split is omitted: it does not change
# the words.
KINDS = {
    'gpt-2': split(GPT2),
    'smollm': pre.Sequence([pre.Digits(individual_digits=True), split(GPT2)]),
    'llama-bpe': split(LLAMA3),
    'qwen2': split(LLAMA3.replace('{1,3}', '')),
    'gpt-4o': split(GPT4O),
}
# Texts that llama.cpp's test texts lack: ends of runs, line breaks among spaces, upper and lower case, characters that
# only some definitions of white space include, combining marks.
MORE = ["a  b", "a  ", "  a", "a \n b", "a\n\n b", "a\r\n\r\n  b", " \n \n x", "\t\tif", "x\u00a0y", "x\u3000 y", "x\u0085y",
        "x\ufeffy", "x\u200by", "x\u180ey", "x\u1680 y", "\u2028a", "1a", "a1", "1 2  3", " 12345", "\u0663\u0664\u0665\u0666",
        "\u2167\u00bd\u00b2x", "it's IT'S it'S 's 'S", "'ll'LL'lL", "'rex'RE", "''s", " 's", "it'\u017fa'\u017f", "e\u0301a", "\u0301",
        " \u0301a", "\u0915\u094d\u0937", "\u65e5\u672c\u8a9e", "!!\n\n", " !\r\n\r\nx", "?!  \n", "#a", " #a", "_a", "\u00aaa",
        "\u01c5\u02b0", "a\u20e3", "\U0001f1e9\U0001f1ea", "\x00a", "\x1c\x1fa", "\x7fa", " ", "\n", "  \n", "\n  ", "a\n", "...",
        "HTTPServer", "getURLs", "iPhone's IT'S It'Ll", "ABC", "ABC\u65e5DEF", "ABC\u65e5DEFg", "\u0301ABC", "\u0301AB\u0301C",
        " \u0301ABC", "!\u0301\u0301", "!!\u0301a", "\u01c5A\u01c5a", "\u00c9COLE \u00e9cole \u00c9cole", "\u041f\u0420\u0418\u0432\u0435\u0442", "\u02b0A\u02b0",
        "a/b", "//\n/x", " /\r\n/", "x='/", "\U00010400\U00010428", "\U0001d400\U0001d41a", "'S'sS", "\u1e9e\u00df", "\ua680\ua681\ua682"]


def quoted(data):
    """Returns a C string literal. Escapes are octal, because a hexadecimal one would swallow the digits after it."""
    return '"' + ''.join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f'\\{b:03o}' for b in data) + '"'


def words(kind, text):
    cut = [text[a:b] for _, (a, b) in KINDS[kind].pre_tokenize_str(text)]
    assert ''.join(cut) == text, (kind, text, cut)
    return ' '.join(str(len(word.encode())) for word in cut)


def strings(reader, key):
    field = reader.fields[key]
    return [bytes(field.parts[i]).decode() for i in field.data]


def alphabet():
    seen = [b for b in range(256) if 33 <= b <= 126 or b >= 161 and b != 173]
    hidden = [b for b in range(256) if b not in seen]
    return {b: chr(b if b in seen else 256 + hidden.index(b)) for b in range(256)}


def vocabulary(folder, name, label):
    reader = GGUFReader(folder / f'ggml-vocab-{name}.gguf')
    ids = {piece: i for i, piece in enumerate(strings(reader, 'tokenizer.ggml.tokens'))}
    texts = (folder / f'ggml-vocab-{name}.gguf.inp').read_bytes().decode().split('\n__ggml_vocab_test__\n')
    expected = (folder / f'ggml-vocab-{name}.gguf.out').read_text().split('\n')
    letters = alphabet()
    written = '\n'.join(''.join(letters[b] for b in text.encode()) for text in texts)
    reached = [m for m in strings(reader, 'tokenizer.ggml.merges') if m.replace(' ', '') in written]
    lines = [f'static const int32_t {label}_bytes[256] = {{']
    row = [str(ids[letters[b]]) for b in range(256)]
    lines += ['    ' + ', '.join(row[i:i + 16]) + ',' for i in range(0, 256, 16)]
    lines += ['};', f'static const struct bpe_merge {label}_merges[] = {{']
    items = [f'{{ {quoted(m.encode())}, {ids[m.replace(" ", "")]} }},' for m in reached]
    lines += ['    ' + ' '.join(items[i:i + 3]) for i in range(0, len(items), 3)]
    lines += ['};', f'static const char *const {label}_ids[] = {{']
    lines += [f'    "{" ".join(expected[i].split())}",' for i in range(len(texts))]
    return texts, lines + ['};']


def main():
    folder = Path(sys.argv[1])
    texts, gpt2 = vocabulary(folder, 'gpt-2', 'gpt2')
    again, qwen2 = vocabulary(folder, 'qwen2', 'qwen2')
    assert texts == again
    lines = ['/* Written by tools/vectors/bpe.py; see bpe.md. */', f'enum {{ BPE_WITH_IDS = {len(texts)} }};',
             'static const struct bpe_case bpe_cases[] = {']
    for text in texts + MORE:
        cut = ', '.join(f'"{words(kind, text)}"' for kind in KINDS)
        lines.append(f'    {{ {quoted(text.encode())}, {len(text.encode())}, {{ {cut} }} }},')
    OUT.write_text('\n'.join(lines + ['};'] + gpt2 + qwen2) + '\n')


if __name__ == '__main__':
    main()
