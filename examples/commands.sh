#!/usr/bin/env bash
# The command line, step by step, on the bundled files. Give another data directory as $1.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:-$(mktemp -d)}
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/dehub/target}
dehub() { "$target/release/dehub" --data-dir "$data" "$@"; }
wordnet=testdata/wordnet

dehub create words --dim 128 --metric cosine
dehub import words $wordnet/gallery.npy --meta $wordnet/gallery.jsonl
dehub bank words glosses $wordnet/queries_bank.npy

# Several methods in one pass over the bank. None of them is on until a query asks for it.
dehub fit words -m 'IS(beta=20)' -m 'CSLS(k=10)' -m 'NNN(alpha=0.75,k=16)'

# A row of a file, raw beside corrected; then a stored point, as JSON.
dehub search words --queries $wordnet/queries_test.npy --row 55 -k 5 --correction 'NNN(alpha=0.75,k=16)' --explain
dehub search words --id n12960211 -k 3 --correction 'CSLS(k=10)' --json

dehub hubs words --queries $wordnet/queries_test.npy --correction 'CSLS(k=10)' --top 5
dehub eval words --queries $wordnet/queries_test.npy --meta $wordnet/queries_test.jsonl --qrels $wordnet/qrels.txt
dehub info words
