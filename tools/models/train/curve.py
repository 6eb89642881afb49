"""Draws the loss curve from train.py's log."""
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def draw(rows, path):
    """Draws the rows of the log. Writes a PNG file."""
    figure, axes = plt.subplots(figsize=(6, 3.2), dpi=80)
    for key, label, style in (("loss", "training mixture", "-"), ("held_out", "held-out text", "o-")):
        points = [(r["tokens"] / 1e6, r[key]) for r in rows if key in r]
        axes.plot(*zip(*points), style, label=label, linewidth=1, markersize=3)
    axes.set(xlabel="million tokens", ylabel="nats a token")
    axes.set_ylim(top=min(axes.get_ylim()[1], 6))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
