#!/bin/sh
# Corpus to model card, in order. $1: the corpus; further arguments go to train.py.
set -eu
cd "$(dirname "$0")/../../.."
corpus=$1
shift
PYTHON=${PYTHON:-python3}
"$PYTHON" tools/models/train/train.py --corpus "$corpus" "$@"
"$PYTHON" tools/models/train/export.py --ship models/storyteller/storyteller.gguf
"$PYTHON" tools/models/train/evaluate.py --corpus "$corpus"
"$PYTHON" tools/vectors/storyteller.py --corpus "$corpus" --tokenizer build/train/tokenizer.model
node tools/vectors/storyteller.js
"$PYTHON" tools/models/train/card.py --corpus "$corpus"
