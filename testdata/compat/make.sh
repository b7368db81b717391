#!/usr/bin/env bash
# Makes the fixture of one storage format: testdata/compat/make.sh DEHUB FORMAT
#
# DEHUB is a `dehub` that writes the format. format-2 was made with commit 034e3e7, the last that wrote format 2, and
# format-3, format-4 and format-5 with the commits that added them. A fixture is made when its format is, and never
# again once there is a later one.
#
# What comes out, in format-FORMAT beside this script:
#   data           the data directory with the collection `kept`, closed
#   backup         a repository with one backup of it
#   expected.json  the points and bank entries as they were given, and what commands answered
#
# Nothing but `dehub` writes to the collection; expected.json is put together by jq from the files imported here and
# from the answers of this same `dehub`.
set -euo pipefail

dehub=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
fixture=$here/format-$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$fixture"
cd "$work"

run() { "$dehub" --quiet --data-dir "$fixture/data" "$@"; }
do_it() { run "$@" >/dev/null; }

# SEED COUNT FIRST: rows with ids from FIRST on, every third a text, off the centre so that there are hubs.
rows() {
    awk -v x="$1" -v count="$2" -v first="$3" '
        function next_number() { x = (x * 16807) % 2147483647; return 2 * x / 2147483647 - 0.75 }
        BEGIN {
            for (row = first; row < first + count; row++) {
                id = row % 3 ? row : "\"p" row "\""
                line = sprintf("{\"id\": %s, \"vector\": [%.3f", id, next_number())
                for (i = 1; i < 8; i++) line = line sprintf(", %.3f", next_number())
                line = line "]"
                if ((row + 1) % 4) line = line sprintf(", \"text\": \"text %d é\"", row)
                if (row % 5) line = line sprintf(", \"shelf\": %d, \"tags\": [\"a\", null, {\"b\": 0.5}]", row % 7)
                print line "}"
            }
        }'
}

rows 1 26 0 >first.jsonl
rows 2 8 22 >second.jsonl
rows 3 4 30 >third.jsonl
echo '{"id": "hub", "vector": [9, 9, 9, 9, 9, 9, 9, 9], "text": "near to all", "shelf": 1}' >hub.jsonl
rows 4 12 100 | jq -c '{id, vector, weight: (if .id == 101 then 2.5 else 1 end)}' >queries.jsonl
rows 5 3 112 | jq -c '{id, vector}' >deferred.jsonl
rows 6 5 200 | jq -c '{vector}' >others.jsonl
rows 7 120 300 | jq -c '{vector}' >judging.jsonl

do_it create kept --dim 8 --metric dot --m 4 --ef-construction 20 --full-scan-threshold 0 --quantization bf16
do_it import kept first.jsonl
do_it import kept second.jsonl
do_it bank kept asked queries.jsonl --weight-field weight
do_it bank kept others others.jsonl
do_it bank kept points --from-gallery
do_it fit kept --bank asked --gallery-bank points \
    -m 'IS(beta=2)' -m 'DIS(beta=2,k=1)' -m 'CSLS(k=3)' -m 'NNN(alpha=1.0,k=3)' -m 'DualIS(b1=b2=2)' \
    -m 'SN(tau=0.5,n=20)' -m 'DBSN(tau=0.5,n=20)' -m 'IS(beta=5,floor=0.1)' -m 'ZScore' -m 'GC'
do_it fit kept --bank others --name by-others -m 'IS(beta=3,shrink=0.2)'
do_it bank kept asked --remove 103
do_it bank kept others --decay 0.5
do_it freeze kept
do_it quarantine kept on 'IS(beta=2)' --rate 0.05
do_it import kept hub.jsonl
do_it quarantine kept off
do_it import kept third.jsonl
do_it quarantine kept on 'IS(beta=2)' --rate 0.05
do_it default kept 'DIS(beta=2,k=1)' --queries judging.jsonl --force
do_it live kept --bank lived --rate 0.25 --capacity 50 --retention 1d --per-client 5
do_it delete kept --id 4 --id p9 --id 31
do_it text kept --field text=english --field tags=raw,k1=0.9,b=0.4
do_it bank kept asked deferred.jsonl --defer

do_it verify kept
do_it backup kept "$fixture/backup"

# ARGUMENTS...: what a command answers, less what is measured, what another version changes and what the points tell.
answer() {
    run "$@" --json | jq -c --argjson arguments "$(printf '%s\n' "$@" | jq -R . | jq -s -c .)" '
        del(.bytes_on_disk, .calibration, .writer, .format, .plan, .graph.segments[]?.bytes) |
        if (.points | type) == "array" then del(.points[].payload, .points[].text) else . end |
        {arguments: $arguments, output: .}'
}
{
    answer info kept
    answer quarantine kept list
    answer live kept
    answer default kept
    run info kept --json | jq -r '"raw", .corrections[].name' >names
    while IFS= read -r name; do
        answer search kept -k 31 --exact --correction "$name" --vector '[0.5,0.3,-0.1,0.7,0.2,0.9,-0.4,0.1]'
        answer search kept -k 5 --exact --correction "$name" --vector '[-0.2,0.8,0.6,-0.5,0.3,0.1,0.4,0.9]'
        answer search kept -k 5 --ef 64 --correction "$name" --id 7
    done <names
    answer search kept -k 5 --vector '[1,1,1,1,1,1,1,1]'
    answer text kept
    answer search kept -k 5 --text 'text 5 é'
    answer search kept -k 31 --text 'a' --field tags=2
} >answers.jsonl

# The points that are served: the last of each id, less the deleted ones.
given='[inputs] | reverse | unique_by(.id | tostring)'
jq -n "$given | map(select(.id | IN(4, \"p9\", 31) | not))" first.jsonl second.jsonl third.jsonl >points.json
jq -n '[inputs | select(.id != 103)]' queries.jsonl deferred.jsonl >asked.json
jq -n '[inputs | .weight = 0.5]' others.jsonl >others.json
jq -n "$given"' | map({id, vector})' first.jsonl second.jsonl >gallery.json
jq -n -r --slurpfile points points.json --slurpfile asked asked.json --slurpfile others others.json \
    --slurpfile gallery gallery.json --slurpfile answers answers.jsonl --slurpfile held hub.jsonl '
        def lines: "[\n" + (map(tojson) | join(",\n")) + "\n]";
        "{\"points\": \($points[0] | lines),\n\"held\": \($held | lines),\n\"banks\": {\n" +
        "\"asked\": \($asked[0] | lines),\n\"others\": \($others[0] | lines),\n" +
        "\"points\": \($gallery[0] | lines),\n\"lived\": []\n},\n\"answers\": \($answers | lines)}"
    ' >"$fixture/expected.json"

# Logs of what the program did, options and locks are no data; the index of texts is made again.
find "$fixture" -type d -name 'text-*' -path '*/data/*' -prune -exec rm -r {} +
find "$fixture" -type f \( -name 'LOG*' -o -name 'OPTIONS-*' -o -name LOCK -o -name IDENTITY \) -path '*/data/*' -delete
