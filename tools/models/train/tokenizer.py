"""The vocabulary: SentencePiece BPE with Gemma's special pieces, byte fallback, nothing normalised.

`<pad>` 0, `<eos>` 1, `<bos>` 2, `<unk>` 3 as in Gemma; the turn marks are control pieces, runs of
newlines user-defined ones. No dummy prefix: a text begins with its first letter.
"""
from pathlib import Path

import sentencepiece as spm

TURN, END = "<start_of_turn>", "<end_of_turn>"


def train_tokenizer(texts, path, vocab_size, newline_runs, seed):
    """Trains on whole documents' lines and writes path (a .model file)."""
    path = Path(path)
    lines = (line for text in texts for line in text.split("\n") if line)
    spm.set_random_generator_seed(seed)
    with open(path, "wb") as out:
        spm.SentencePieceTrainer.train(
            sentence_iterator=lines, model_writer=out, model_type="bpe", vocab_size=vocab_size,
            byte_fallback=True, character_coverage=1.0, normalization_rule_name="identity",
            add_dummy_prefix=False, remove_extra_whitespaces=False, split_digits=True,
            pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", eos_piece="<eos>",
            bos_piece="<bos>", unk_piece="<unk>", control_symbols=[TURN, END],
            user_defined_symbols=["\n" * n for n in range(1, newline_runs + 1)],
            max_sentence_length=100000, num_threads=2, minloglevel=1)


class Tokenizer:
    """Text to ids and back; the ids of special pieces by name."""

    def __init__(self, path):
        self.model = spm.SentencePieceProcessor(model_file=str(path))
        self.eos, self.bos = self.model.eos_id(), self.model.bos_id()
        self.turn, self.end = (self.model.piece_to_id(piece) for piece in (TURN, END))
        self.size = self.model.get_piece_size()

    def encode(self, text):
        return self.model.encode(text)

    def decode(self, ids):
        return self.model.decode(ids)

    def say(self, role, text):
        """One closed turn, as Gemma's chat template writes it."""
        return [self.turn, *self.encode(f"{role}\n{text.strip()}"), self.end, *self.encode("\n")]
