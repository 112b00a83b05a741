# Sourced. On a terminal, how far a run of the tests is: what runs now, and about how long all that follows will take.
#
#   progress_plan   reads the names of all that will run, in order, a line each
#   progress NAME   it begins now. Without a plan, or away from a terminal, nothing is said.
#
# tests/seconds.txt has what each takes on two quiet cores; what is not in it counts as 2 s. The plan reaches child processes as $PROGRESS, a file.

progress_plan() {
    [ -t 2 ] || return 0
    PROGRESS=$(mktemp)
    export PROGRESS
    { echo "begun $(date +%s)"; awk 'NR == FNR { s[$1] = $2; next } { print $1, $1 in s ? s[$1] : 2 }' tests/seconds.txt -; } >"$PROGRESS"
}

progress() {
    [ -t 2 ] && [ -n "${PROGRESS-}" ] || return 0
    awk -v name="$1" -v now="$(date +%s)" '
        $1 == "begun" { begun = $2; next }
        $1 == name && !found { found = 1; before = total }
        { total += $2 }
        END { if (!found) exit
              slower = before > 20 ? (now - begun) / before : 1
              printf "\r\033[K[%d%%, about %d min left] %s\r", 100 * before / total, (total - before) * slower / 60 + 0.9, name }' "$PROGRESS" >&2
}
