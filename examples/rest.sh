#!/usr/bin/env bash
# A collection over HTTP, from nothing to a corrected answer. Start a server first: dehub serve
set -euo pipefail
url=${1:-http://127.0.0.1:6363}
send() { curl -sS --fail-with-body -X "$1" "$url$2" -H 'content-type: application/json' -d "$3"; echo; }

send PUT /collections/colours '{"vectors": {"size": 3, "distance": "Cosine"}}'
send PUT /collections/colours/points '{"points": [
  {"id": "red",   "vector": [1, 0, 0], "payload": {"warm": true}},
  {"id": "green", "vector": [0, 1, 0], "payload": {"warm": false}},
  {"id": "grey",  "vector": [1, 1, 1], "payload": {"warm": false}}]}'

# Grey is near to everything: a hub. The bank is what users ask for.
send PUT /collections/colours/banks/asked '{"kind": "query",
  "vectors": [[0.9, 0.5, 0.4], [0.5, 0.9, 0.4], [0.6, 0.6, 0.5], [0.4, 0.5, 0.9]]}'
send PUT /collections/colours/corrections/is '{"method": "IS", "parameters": {"beta": 10}, "query_bank": "asked"}'

send POST /collections/colours/points/query '{"query": [0.8, 0.5, 0.4], "limit": 3}'
send POST /collections/colours/points/query '{"query": [0.8, 0.5, 0.4], "limit": 3,
  "hubness": {"correction": "is", "explain": true}}'
send GET  '/collections/colours/hubness?bank=asked&k=1' ''
send DELETE /collections/colours ''
