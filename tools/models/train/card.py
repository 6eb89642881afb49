"""Writes the model card: card.md with every figure filled in from the results of training and evaluation.

Also writes the files beside it: LICENSE, NOTICE, ATTRIBUTION.tsv, loss.png. Run it last.
"""
import argparse
import json
import math
import shutil
import subprocess
from pathlib import Path

from corpus import read_corpus, read_index
from curve import draw

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def held_out_rows(figures):
    names = {"tinystories": "TinyStories", "simple": "simple tales", "all": "both"}
    for key, name in names.items():
        f = figures["held_out"][key]
        yield (f"| {name} | {f['documents']} | {f['words']:,} | {f['model']['perplexity_per_word']:.1f} "
               f"| {f['fivegram']['perplexity_per_word']:.1f} |")


def node(*arguments):
    """Runs a Node program that prints JSON."""
    return json.loads(subprocess.run(["node", *arguments], check=True, capture_output=True, text=True).stdout)


def engine_rows():
    """Yields rows of perplexities on the texts of the test vectors: of transformers, llama.cpp and this package."""
    vectors = ROOT / "tests" / "vectors"
    reference = json.loads((vectors / "storyteller.json").read_text())
    llama = json.loads((vectors / "storyteller-llama.json").read_text())
    counts = [len(t["ids"]) - 1 for t in reference["texts"]]
    def perplexity(nlls):
        return math.exp(sum(n * c for n, c in zip(nlls, counts)) / sum(counts))
    ours = node(HERE / "perplexity.js")
    exact = perplexity([t["nll"] for t in reference["texts"]])
    for kind in ("F32", "Q8_0", "Q4_0"):
        theirs = f"{perplexity(llama['nll'][kind]):.3f}" if kind in llama["nll"] else "-"
        yield f"| {kind} | {f'{exact:.3f}' if kind == 'F32' else '-'} | {theirs} | {perplexity(ours[kind]):.3f} |"


def stories_text(told):
    for s in told["stories"]:
        cut = " *(cut at the limit)*" if s["finishReason"] == "length" else ""
        quoted = "\n".join(f"> {line}".rstrip() for line in s["text"].strip().split("\n"))
        yield f"**{s['seed']}. {s['prompt']}**\n\n{quoted}{cut}"


def attribution(corpus, config, path):
    """Writes a table of the CC-BY works among the training documents."""
    grade = config["data"]["grade_below"]
    used = {d.key for d in read_corpus(corpus, grade) if not d.held_out and d.licence.startswith("CC-BY")}
    rows = [r for r in read_index(corpus) if f"{r['file']}/{r['n']}" in used]
    columns = ("title", "author", "licence", "url", "group")
    lines = ["\t".join(columns), *("\t".join(r[c] for c in columns) for r in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--from", dest="folder", type=Path, default=Path("build/train"))
    parser.add_argument("--out", type=Path, default=Path("models/storyteller"))
    args = parser.parse_args()
    config = json.loads((HERE / "config.json").read_text())
    figures = json.loads((args.folder / "figures.json").read_text())
    log = [json.loads(line) for line in (args.folder / "log.jsonl").read_text().splitlines()]
    model = args.out / "storyteller.gguf"
    told = node(HERE / "stories.js", model)
    m, o, last = config["model"], told["options"], [r for r in log if "held_out" in r][-1]
    vectors = json.loads((ROOT / "tests" / "vectors" / "storyteller.json").read_text())
    values = {
        "parameters": f"{figures['parameters']:,}", "file_size": f"{model.stat().st_size:,}",
        "layers": m["num_hidden_layers"], "global_layers": m["num_hidden_layers"] // 6,
        "width": m["hidden_size"], "ffn": m["intermediate_size"], "heads": m["num_attention_heads"],
        "head_dim": m["head_dim"], "window": m["sliding_window"], "vocabulary": config["tokenizer"]["vocab_size"],
        "tokens": f"{last['tokens']:,}", "length": config["train"]["length"], "seed": config["seed"],
        "training_documents": f"{figures['training_documents']:,}",
        "training_characters": f"{figures['training_characters']:,}",
        "minutes": round(last["seconds"] / 60), "final_held_out": f"{last['held_out']:.3f}",
        "vector_texts": len(vectors["texts"]),
        "held_out_rows": "\n".join(held_out_rows(figures)), "engine_rows": "\n".join(engine_rows()),
        "sampling": f"temperature {o['temperature']}, top-k {o['topK']}, top-p {o['topP']}",
        "max_tokens": o["maxTokens"], "stories": "\n\n".join(stories_text(told)),
    }
    (args.out / "README.md").write_text((HERE / "card.md").read_text().format(**values), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", args.out / "LICENSE")
    shutil.copy(HERE / "NOTICE", args.out / "NOTICE")
    attribution(args.corpus, config, args.out / "ATTRIBUTION.tsv")
    draw(log, args.out / "loss.png")


if __name__ == "__main__":
    main()
