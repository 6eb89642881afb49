"""Generates rows of tokens to train on: an endless, seeded mixture of stories, conversations and tales."""
import random
import re

import numpy as np

from chats import conversation


def chunks(tokenizer, text, limit):
    """Splits a document into runs of whole paragraphs of at most `limit` tokens; a longer paragraph stays whole. Each
    run begins with <bos>, and the last one ends with <eos>."""
    runs, run = [], [tokenizer.bos]
    for paragraph in re.split(r"\n\n+", text):
        ids = tokenizer.encode(paragraph if len(run) == 1 else "\n\n" + paragraph)
        if len(run) > 1 and len(run) + len(ids) > limit:
            runs.append(run)
            run = [tokenizer.bos]
            ids = tokenizer.encode(paragraph)
        run += ids
    runs.append(run + [tokenizer.eos])
    return runs


def cycle(rng, items):
    """Endlessly yields all items, each time in a new random order."""
    order = list(range(len(items)))
    while True:
        rng.shuffle(order)
        for i in order:
            yield items[i]


class Mixture:
    """Draws documents from several sources so that each source keeps its share of the tokens."""

    def __init__(self, tokenizer, documents, options, seed):
        self.tokenizer = tokenizer
        rng = random.Random(seed)
        stories = [d.text for d in documents if d.group == "tinystories"]
        runs = {s: chunks(tokenizer, s, 10 ** 9)[0] for s in stories}
        simple = [c for d in documents if d.group == "simple"
                  for c in chunks(tokenizer, d.text, options["chunk"])]
        told = cycle(random.Random(seed + 1), [s for s in stories if len(runs[s]) < options["chunk"]])
        self.sources = {
            "stories": map(runs.get, cycle(random.Random(seed + 2), stories)),
            "chats": (self._chat(conversation(rng, lambda: next(told))) for _ in iter(int, 1)),
            "simple": cycle(random.Random(seed + 3), simple),
        }
        self.weights = options["weights"]
        self.given = dict.fromkeys(self.weights, 0)
        self.sizes = {"stories": sum(map(len, runs.values())), "simple": sum(map(len, simple))}

    def _chat(self, turns):
        ids = [self.tokenizer.bos]
        for role, text in turns:
            ids += self.tokenizer.say(role, text)
        return ids

    def __iter__(self):
        while True:
            name = min(self.weights, key=lambda n: self.given[n] / self.weights[n])
            ids = next(self.sources[name])
            self.given[name] += len(ids)
            yield ids


def batches(mixture, rows, length):
    """Yields arrays [rows, length + 1] of concatenated documents. Inputs and targets are shifted by one."""
    need, buffer = rows * (length + 1), []
    for ids in mixture:
        buffer += ids
        if len(buffer) >= need:
            yield np.array(buffer[:need], dtype=np.int64).reshape(rows, length + 1)
            buffer = buffer[need:]
