"""Trains and uses the storyteller's vocabulary: SentencePiece BPE with byte fallback, without normalisation.

As in Gemma, `<pad>` is 0, `<eos>` 1, `<bos>` 2, `<unk>` 3, the turn tokens are control pieces, runs of newlines are
user-defined pieces, and no space is added before a text.
"""
from pathlib import Path

import sentencepiece as spm

TURN, END = "<start_of_turn>", "<end_of_turn>"


def train_tokenizer(texts, path, vocab_size, newline_runs, seed):
    """Trains on the lines of the texts and writes `path` (a .model file)."""
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
    """Converts text to ids and back. Its attributes are the ids of special pieces."""

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
        """Returns the ids of one turn in the form of Gemma's chat template."""
        return [self.turn, *self.encode(f"{role}\n{text.strip()}"), self.end, *self.encode("\n")]
