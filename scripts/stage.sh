#!/usr/bin/env bash
# Runs one named stage and says how long it took.
#
#   stage.sh NAME [--needs "CARGO COMMAND"] COMMAND...
#
# With --needs the stage is skipped, and says so, when that command is not installed.
# When DEHUB_TIMINGS names a file, one line per stage is appended to it.
set -euo pipefail

name=$1
shift

record() {
    printf '== %s: %s\n' "$name" "$1"
    if [[ -n ${DEHUB_TIMINGS:-} ]]; then
        printf '%-12s %s\n' "$name" "$1" >>"$DEHUB_TIMINGS"
    fi
}

if [[ ${1:-} == --needs ]]; then
    read -r -a needed <<<"$2"
    shift 2
    if ! "${needed[@]}" --version >/dev/null 2>&1; then
        record "SKIPPED, because \`${needed[*]}\` is not installed"
        exit 0
    fi
fi

printf '== %s: %s\n' "$name" "$*"
started=$SECONDS
status=0
"$@" || status=$?
elapsed=$((SECONDS - started))
if ((status == 0)); then
    record "ok in $elapsed s"
else
    record "FAILED after $elapsed s (exit $status)"
fi
exit "$status"
