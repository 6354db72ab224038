#!/usr/bin/env bash
# Makes the matrix of compat/README.md from the results of a run: compat/matrix.sh RESULTS.TSV
set -euo pipefail
echo "| Client | Version | Passed | Known differences | Failed | Verdict |"
echo "|---|---|---:|---:|---:|---|"
awk -F '\t' '
    { id = $1 FS $2; if (!(id in seen)) { seen[id] = 1; order[++n] = id } count[id, $3]++; what[id] = $4 }
    END {
        for (i = 1; i <= n; i++) {
            id = order[i]; split(id, part, FS)
            ok = count[id, "ok"] + 0; known = count[id, "known"] + 0; failed = count[id, "fail"] + 0
            verdict = failed ? "fails" : ok + known ? "works" : "untested: " what[id]
            printf "| %s | %s | %d | %d | %d | %s |\n", part[1], part[2], ok, known, failed, verdict
        }
    }' "$1"
