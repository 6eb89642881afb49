"""Measures how well the model predicts held-out text, beside a 5-gram model: nats per token, perplexity per word.

Both predict every token of the text and the final <eos> from the previous tokens of the document (long documents are
split into runs, see data.chunks). The perplexity per word is exp(all nats / all words); words are separated by white
space. Writes figures.json, from which card.py takes its numbers.
"""
import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import Gemma3ForCausalLM

from corpus import read_corpus
from data import chunks
from ngram import KneserNey
from tokenizer import Tokenizer


@torch.no_grad()
def model_nats(model, ids):
    logits = model(input_ids=torch.tensor([ids[:-1]]), use_cache=False).logits[0]
    return torch.nn.functional.cross_entropy(logits.double(), torch.tensor(ids[1:]), reduction="none").numpy()


def figures(model, ngram, tokenizer, documents, run):
    """Returns the counts and both models' perplexities for some documents."""
    ours, theirs = [], []
    for document in documents:
        for ids in chunks(tokenizer, document.text, run):
            ours.append(model_nats(model, ids))
            theirs.append(ngram.nats(ids))
    words = sum(len(d.text.split()) for d in documents)
    row = {"documents": len(documents), "words": words, "tokens": int(sum(map(len, ours)))}
    for name, nats in (("model", ours), ("fivegram", theirs)):
        total = float(sum(n.sum() for n in nats))
        row[name] = {"nats_per_token": total / row["tokens"], "perplexity_per_word": float(np.exp(total / words))}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--from", dest="folder", type=Path, default=Path("build/train"), help="train.py's --out")
    parser.add_argument("--config", default=Path(__file__).with_name("config.json"), type=Path)
    args = parser.parse_args()
    config = json.loads(args.config.read_text())
    run = config["data"]["chunk"]
    tokenizer = Tokenizer(args.folder / "tokenizer.model")
    documents = read_corpus(args.corpus, config["data"]["grade_below"])
    train, held = ([d for d in documents if d.held_out == h] for h in (False, True))
    ngram = KneserNey([i for d in train for ids in chunks(tokenizer, d.text, run) for i in ids])
    model = Gemma3ForCausalLM.from_pretrained(args.folder / "hf", dtype=torch.float32).eval()
    result = {
        "training_documents": len(train), "training_characters": sum(len(d.text) for d in train),
        "parameters": sum(p.numel() for p in model.parameters()),
        "held_out": {g: figures(model, ngram, tokenizer, [d for d in held if d.group == g], run)
                     for g in ("tinystories", "simple")},
    }
    result["held_out"]["all"] = figures(model, ngram, tokenizer, held, run)
    json.dump(result, sys.stdout, indent=2)
    (args.folder / "figures.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
