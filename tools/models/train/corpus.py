"""Reads the documents of the corpus folder, and decides which of them are held out of training.

The folder has `corpus-NAME.txt.xz` files and `index.tsv.xz` (one row per document, in file order).
"""
import csv
import hashlib
import lzma
from dataclasses import dataclass
from pathlib import Path

MARK = "<|doc|>"


@dataclass
class Document:
    key: str      # FILE/NUMBER of the document, stable as long as the corpus does not change
    group: str    # "tinystories" or "simple"
    source: str
    licence: str
    text: str
    held_out: bool


def _texts(path):
    """Returns the documents of one file without their title lines."""
    whole = lzma.open(path, "rt", encoding="utf-8").read()
    for part in whole.split(f"\n{MARK}\n"):
        lines = part.strip("\n").split("\n")
        if lines and lines[0].startswith("TITLE: "):
            lines = lines[1:]
        yield "\n".join(lines).strip("\n")


def _held_out(work):
    """Returns whether a work is held out: one in a hundred, by a hash of its name."""
    return int.from_bytes(hashlib.sha256(work.encode()).digest()[:4], "big") % 100 == 0


def _usable(row, grade_below):
    if row["file"] == "tinystories":
        return True
    return row["file"] == "simple" and row["fk_grade"] and float(row["fk_grade"]) < grade_below


def read_index(folder):
    """Returns a row for each document of the corpus."""
    with lzma.open(Path(folder) / "index.tsv.xz", "rt", encoding="utf-8") as table:
        return list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_corpus(folder, grade_below):
    """Returns the usable documents: TinyStories, and other texts below a Flesch-Kincaid grade. Some are held out."""
    folder, rows = Path(folder), read_index(folder)
    texts = {}
    for name in ("tinystories", "simple"):
        texts[name] = list(_texts(folder / f"corpus-{name}.txt.xz"))
        listed = sum(row["file"] == name for row in rows)
        if listed != len(texts[name]):
            raise ValueError(f"{name}: the index lists {listed} documents, but the file has {len(texts[name])}")
    documents = []
    for row in rows:
        if not _usable(row, grade_below):
            continue
        key = f"{row['file']}/{row['n']}"
        work = row["book"] or key   # all tales of a book are either trained on or held out
        documents.append(Document(key, row["file"], row["group"], row["licence"],
                                  texts[row["file"]][int(row["n"])], _held_out(work)))
    return documents
