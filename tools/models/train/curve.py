"""Draws the loss curve from train.py's log."""
import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, default=Path("build/train"))
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = [json.loads(line) for line in (args.folder / "log.jsonl").read_text().splitlines()]
    figure, axes = plt.subplots(figsize=(6, 3.2), dpi=80)
    for key, label, style in (("loss", "training mixture", "-"), ("held_out", "held-out text", "o-")):
        points = [(r["tokens"] / 1e6, r[key]) for r in rows if key in r]
        axes.plot(*zip(*points), style, label=label, linewidth=1, markersize=3)
    axes.set(xlabel="million tokens", ylabel="nats a token")
    axes.set_ylim(top=min(axes.get_ylim()[1], 6))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(args.out)


if __name__ == "__main__":
    main()
