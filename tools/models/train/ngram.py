"""A 5-gram model of tokens as a baseline for the storyteller: interpolated, with modified Kneser-Ney smoothing
(Chen and Goodman 1999). N-grams are packed into 64-bit integers, so tokens must be below 4096."""
import numpy as np

BITS = 12


def _packed(ids, order):
    """Returns all n-grams of a sequence as integers. The last token is in the lowest bits."""
    key = np.zeros(len(ids) - order + 1, dtype=np.uint64)
    for k in range(order):
        key = key << np.uint64(BITS) | ids[k:len(ids) - order + 1 + k].astype(np.uint64)
    return key


def _lookup(keys, values, wanted):
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


class _Level:
    """The n-grams of one order with their counts, the discounts, and each context's total count and discounted mass."""

    def __init__(self, keys, counts):
        self.keys, self.counts = keys, counts
        n = [int((counts == k).sum()) for k in (1, 2, 3, 4)]
        y = n[0] / (n[0] + 2 * n[1])
        self.discounts = np.array([0.0] + [k - (k + 1) * y * n[k] / max(n[k - 1], 1) for k in (1, 2, 3)])
        kind = np.minimum(counts, 3)
        self.contexts, first = np.unique(keys >> np.uint64(BITS), return_index=True)
        self.sums = np.add.reduceat(counts, first)
        self.left = np.add.reduceat(self.discounts[kind], first)   # discounted mass per context

    def probability(self, keys, below):
        counts = _lookup(self.keys, self.counts, keys)
        context = keys >> np.uint64(BITS)
        sums = _lookup(self.contexts, self.sums, context)
        seen = sums > 0
        sums = np.where(seen, sums, 1)
        own = np.maximum(counts - self.discounts[np.minimum(counts, 3)], 0) / sums
        return np.where(seen, own + _lookup(self.contexts, self.left, context) / sums * below, below)


class KneserNey:
    def __init__(self, ids, order=5, vocabulary=4096):
        ids = np.asarray(ids)
        if ids.max() >= 1 << BITS or order * BITS > 64:
            raise ValueError(f"The order must be at most 5 (got {order}), tokens below {1 << BITS} (got {ids.max()}).")
        self.order, self.vocabulary = order, vocabulary
        top = np.unique(_packed(ids, order), return_counts=True)
        self.levels = [_Level(*top)]
        keys = top[0]
        for n in range(order - 1, 0, -1):   # an n-gram of a lower order counts how many different tokens precede it
            keys, counts = np.unique(keys & np.uint64((1 << BITS * n) - 1), return_counts=True)
            self.levels.insert(0, _Level(keys, counts))

    def nats(self, ids):
        """Returns -ln p of each of ids[1:], given up to order - 1 previous tokens."""
        ids = np.asarray(ids)
        p = np.full(len(ids), 1 / self.vocabulary)
        for n, level in enumerate(self.levels, 1):
            p[n - 1:] = level.probability(_packed(ids, n), p[n - 1:])
        return -np.log(p[1:])
