"""Trains the storyteller on the corpus. Writes a folder with the vocabulary, checkpoints and the log.

Runs one process per core, each with its share of every batch. Gradients are summed once per step, so that the processes
rarely wait for each other. Muon (Jordan 2024, torch's implementation) trains the matrices of the layers, AdamW the
embedding and the norms. Learning rate: warm-up, plateau, decay to zero (WSD) over a budget of tokens or minutes.
Training can resume at any checkpoint; the seed and the number of tokens determine the order of the data.
"""
import argparse
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path

# glibc reuses heap memory for large tensors instead of mapping new pages each time. Waiting OpenMP threads don't spin.
_ENV = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=8589934592:"
                          "glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=268435456",
        "OMP_WAIT_POLICY": "passive"}
if __name__ == "__main__" and any(os.environ.get(k) != v for k, v in _ENV.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **_ENV})

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from corpus import read_corpus  # noqa: E402
from data import Mixture, batches, chunks  # noqa: E402
from model import hidden_matrices, make_config, make_model  # noqa: E402
from tokenizer import Tokenizer, train_tokenizer  # noqa: E402


def learning_rate(step, progress, options):
    """Returns the learning rate as a share of the maximum. `progress`: used share of the budget."""
    warm = (step + 1) / options["warmup_steps"]
    left = (1 - progress) / options["decay"]
    return min(1.0, warm, max(0.0, left))


class Trainer:
    def __init__(self, args, config, rank, world):
        self.args, self.rank, self.world = args, rank, world
        self.options = config["train"]
        self.out = Path(args.out)
        self.tokenizer = Tokenizer(self.out / "tokenizer.model")
        documents = read_corpus(args.corpus, config["data"]["grade_below"])
        train = [d for d in documents if not d.held_out]
        held = [d for d in documents if d.held_out]
        rows, length = self.options["rows"], self.options["length"]
        self.batches = batches(Mixture(self.tokenizer, train, config["data"], config["seed"]), rows, length)
        self.held_out = self._rows(held, length)
        self.model = make_model(make_config(config["model"], self.tokenizer), config["seed"])
        inner, outer = hidden_matrices(self.model)
        o = self.options
        self.optimizers = [
            torch.optim.Muon(inner, lr=o["muon_lr"], momentum=o["momentum"], weight_decay=o["weight_decay"]),
            torch.optim.AdamW(outer, lr=o["adam_lr"], betas=(0.9, 0.95), weight_decay=0.0)]
        self.rates = [o["muon_lr"], o["adam_lr"]]
        self.parameters = inner + outer
        self.step, self.seconds, self.kept_plateau = 0, 0.0, False
        self.forward = torch.compile(self._loss) if o["compile"] else self._loss

    def _rows(self, documents, length):
        ids = [i for d in documents for run in chunks(self.tokenizer, d.text, 450) for i in run]
        n = min(len(ids) // (length + 1), 64)
        return torch.tensor(ids[:n * (length + 1)]).view(n, length + 1)

    def _loss(self, rows):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options["bf16"]):
            logits = self.model(input_ids=rows[:, :-1], use_cache=False).logits
        return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())

    # --- checkpoints ---------------------------------------------------------------------------

    def save(self, name):
        if self.rank:
            return
        state = {"model": self.model.state_dict(), "step": self.step, "seconds": self.seconds,
                 "optimizers": [o.state_dict() for o in self.optimizers]}
        part = self.out / f"{name}.part"
        torch.save(state, part)
        os.replace(part, self.out / f"{name}.pt")

    def resume(self, name):
        state = torch.load(self.out / f"{name}.pt")
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.step, self.seconds = state["step"], state["seconds"]
        for _ in range(self.step):   # skips the data of the steps before the checkpoint
            next(self.batches)
        if self.rank == 0:   # drops log lines that are newer than the checkpoint
            log = self.out / "log.jsonl"
            lines = log.read_text().splitlines(True) if log.exists() else []
            log.write_text("".join(line for line in lines if json.loads(line)["step"] <= self.step))

    # --- training ------------------------------------------------------------------------------

    @property
    def tokens(self):
        return self.step * self.options["rows"] * self.options["length"]

    def progress(self):
        """Returns the used share of the budget, the same in all processes: rank 0's clock counts."""
        part = self.tokens / self.args.tokens
        if self.args.minutes:
            part = self.seconds / 60 / self.args.minutes
        agreed = torch.tensor([part], dtype=torch.float64)
        dist.broadcast(agreed, 0)
        return agreed.item()

    def one_step(self, progress):
        rows = torch.from_numpy(next(self.batches))[self.rank::self.world]
        micro, loss = self.options["micro"], 0.0
        for part in rows.split(micro):
            one = self.forward(part) * (len(part) / self.options["rows"])
            one.backward()
            loss += one.item()
        flat = torch.cat([p.grad.flatten() for p in self.parameters] + [torch.tensor([loss])])
        dist.all_reduce(flat)
        loss = flat[-1].item()
        at = 0
        for p in self.parameters:
            p.grad.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()
        torch.nn.utils.clip_grad_norm_(self.parameters, self.options["clip"])
        share = learning_rate(self.step, progress, self.options)
        for optimizer, rate in zip(self.optimizers, self.rates):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return loss

    @torch.no_grad()
    def evaluate(self):
        """Returns the nats per token on the held-out documents. Each process evaluates its share of the rows."""
        self.model.eval()
        rows = self.held_out[self.rank::self.world]
        total = torch.tensor([sum(self._loss(r).item() * len(r) for r in rows.split(4)), len(rows)])
        dist.all_reduce(total)
        self.model.train()
        return (total[0] / total[1]).item()

    def log(self, **row):
        if self.rank:
            return
        row = {"step": self.step, "tokens": self.tokens, "seconds": round(self.seconds), **row}
        with open(self.out / "log.jsonl", "a") as out:
            print(json.dumps(row), file=out)
        print(json.dumps(row), flush=True)

    def warm_up(self):
        """Compiles the model in one process after the other, so that later ones use the compiler's cache."""
        rows = torch.zeros(self.options["micro"], self.options["length"] + 1, dtype=torch.long)
        for rank in range(self.world):
            if rank == self.rank:
                self.forward(rows).backward()
                self.model.zero_grad()
            dist.barrier()

    def run(self):
        """Trains until the budget is used up. Writes `last.pt`, and, before the learning rate decays, `plateau.pt`,
        from which a longer run can continue."""
        o, losses = self.options, []
        self.model.train()
        if o["compile"]:
            self.warm_up()
        self.kept_plateau = self.progress() > 1 - o["decay"]   # true if training resumes while the learning rate decays
        started = time.time() - self.seconds
        saved = evaluated = self.seconds
        while (progress := self.progress()) < 1:
            if not self.kept_plateau and progress > 1 - o["decay"]:
                self.save("plateau")
                self.kept_plateau = True
            losses.append(self.one_step(progress))
            self.seconds = time.time() - started
            if self.step % 20 == 0:
                self.log(loss=round(float(np.mean(losses)), 4), rate=round(learning_rate(self.step, progress, o), 4))
                losses = []
            due = torch.tensor([self.seconds - saved > 60 * o["save_minutes"],
                                self.seconds - evaluated > 60 * o["eval_minutes"]])
            dist.broadcast(due, 0)
            if due[0]:
                self.save("last")
                saved = self.seconds
            if due[1]:
                self.log(held_out=round(self.evaluate(), 4))
                evaluated = self.seconds
        self.log(held_out=round(self.evaluate(), 4))
        self.save("last")


def work(rank, args, config, meeting):
    """Trains in one of the processes."""
    torch.set_num_threads(1)
    world = config["train"]["processes"]
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    trainer = Trainer(args, config, rank, world)
    if args.resume:
        trainer.resume(args.resume)
    trainer.run()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True, help="folder with corpus-*.txt.xz and index.tsv.xz")
    parser.add_argument("--out", default="build/train", help="vocabulary, checkpoints, log")
    parser.add_argument("--config", default=Path(__file__).with_name("config.json"))
    parser.add_argument("--tokens", type=float, help="budget; default: the configuration's")
    parser.add_argument("--minutes", type=float, help="budget by the clock instead")
    parser.add_argument("--resume", nargs="?", const="last", help="checkpoint's name, last if none given")
    args = parser.parse_args()
    config = json.loads(Path(args.config).read_text())
    args.tokens = args.tokens or config["train"]["tokens"]
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    vocabulary = out / "tokenizer.model"
    if not vocabulary.exists():
        t = config["tokenizer"]
        texts = [d.text for d in read_corpus(args.corpus, config["data"]["grade_below"]) if not d.held_out]
        train_tokenizer(texts, vocabulary, t["vocab_size"], t["newline_runs"], config["seed"])
    if not args.resume:
        (out / "log.jsonl").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (args, config, f"{folder}/meeting"), config["train"]["processes"])


if __name__ == "__main__":
    main()
