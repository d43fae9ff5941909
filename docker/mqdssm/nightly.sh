#!/bin/sh
# A nightly validation: exports the directory, validates the export with what earlier nights have left, keeps some exports.
# The exit code is that of the validation: 0 nothing new that is bad, 1 new findings, else something is wrong.
#
# The connection is that of mqdssm: MQDSSM_URL, MQDSSM_USER, MQDSSM_PASSWORD_FILE, MQDSSM_CA_FILE, ….
#   NIGHTLY_DIR       folder of all that is kept                                     /data
#   NIGHTLY_BASELINE  baseline, which has to be there if it is named here            DIR/known.jsonl
#   NIGHTLY_RULES     file of rules, with suppressions and thresholds                DIR/rules.toml, if it is there
#   NIGHTLY_METRICS   file of metrics; for node_exporter in its textfile folder      DIR/mqdssm.prom
#   NIGHTLY_KEEP      exports that are kept                                          7
# DIR/known.jsonl, the baseline, is written by the first night. To accept all that is found, remove it.
set -eu
umask 077

DIR=${NIGHTLY_DIR:-/data}
RULES=${NIGHTLY_RULES:-$DIR/rules.toml}
METRICS=${NIGHTLY_METRICS:-$DIR/mqdssm.prom}
KEEP=${NIGHTLY_KEEP:-7}
BASELINE=${NIGHTLY_BASELINE:-$DIR/known.jsonl}

if [ -n "${NIGHTLY_BASELINE:-}" ] && [ ! -r "$BASELINE" ]; then
    echo "error: the baseline $BASELINE cannot be read: make it with mqdssm validate --write-baseline" >&2
    exit 2
fi
mkdir -p "$DIR/exports"
export=$DIR/exports/$(date -u +%Y-%m-%dT%H%M%SZ)
mqdssm export --to "$export"

if [ -e "$BASELINE" ]; then
    set -- --baseline "$BASELINE"
else
    set -- --write-baseline "$BASELINE"
fi
if [ -e "$RULES" ]; then set -- "$@" --rules "$RULES"; fi
status=0
mqdssm validate "$export" "$@" --history "$DIR/history" --metrics "$METRICS" --report "$DIR/report.html" || status=$?

# names are times: the oldest come first
count=$(find "$DIR/exports" -mindepth 1 -maxdepth 1 -type d | wc -l)
find "$DIR/exports" -mindepth 1 -maxdepth 1 -type d | sort | head -n "$((count > KEEP ? count - KEEP : 0))" \
    | while read -r old; do rm -rf "$old"; done
exit $status
