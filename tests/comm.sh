#!/bin/bash
# show comm: the bytes that formulas say, refusals, JSON, a picture; and that emulated seconds are marked as such.
set -u -o pipefail
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "not ok $1"; sed 's/^/#   /' "$work/out" | head -20; fi; }
says() { grep -qE -- "$1" "$work/out"; }
refused() { # NAME, words that its line has, arguments of show comm
    local name=$1 words=$2
    shift 2
    "$B/trivium" show comm "$@" >"$work/out" 2>&1
    [ $? = 2 ] && says "$words"
    report "comm_refuses_$name" $?
}

# 8 MiB on 8 ranks, nodes of 4: 2 S (n-1)/n = 14680064 bytes by a ring; hierarchical: 2 S (L-1)/L inside, 2 (S/L)
# (N-1)/N between
"$B/trivium" show comm --mib 8 --ranks 8 --ranks-per-node 4 >"$work/out" 2>&1 &&
    says '^ring +56 +56 +14680064 +14680064 +29360128 ' && says '^hierarchical +48 +8 +12582912 +2097152 +16777216 ' &&
    says '^pairwise +[0-9]+ +[0-9]+ +6291456 +8388608 +67108864 '
report comm_bytes_are_the_formulas $?

# placement is a factor of four where links between nodes are slow: which algorithm wins depends on it
"$B/trivium" show comm --mib 8 --ranks 8 --ranks-per-node 4 --link-inside 200us,1GB/s --link-between 2ms,50MB/s,node \
    --json >"$work/block" 2>"$work/out" &&
    "$B/trivium" show comm --mib 8 --ranks 8 --ranks-per-node 4 --link-inside 200us,1GB/s \
    --link-between 2ms,50MB/s,node --placement cyclic \
        --json >"$work/cyclic" 2>>"$work/out" && python3 - "$work" <<'P' >>"$work/out" 2>&1
import json, sys
block, cyclic = ({x["algorithm"]: x["seconds"] for x in json.load(open(f"{sys.argv[1]}/{name}"))}
                 for name in ("block", "cyclic"))
assert cyclic["ring"] > 3 * block["ring"], (block, cyclic)
assert block["halving"] > 3 * cyclic["halving"] and cyclic["halving-near"] > 3 * block["halving-near"], (block, cyclic)
P
report comm_placement_is_a_factor_of_four $?

"$B/trivium" show comm --mib 1 --ranks 4 --comm-algorithm ring --rank 2 --out "$work" >"$work/out" 2>&1 &&
    says '^rank 2:' && says 'add from +1 +result' && python3 - "$work/comm.json" <<'P' >>"$work/out" 2>&1
import json, sys
page = json.load(open(sys.argv[1]))
kinds = [kind for kind, *_ in page["events"]]
assert page["nodes"] == [0] * 4 and max(e[4] for e in page["events"]) <= page["ms"] * (1 + 1e-9), page
assert kinds.count("send") == kinds.count("add") + kinds.count("receive") == 4 * 2 * 3, kinds
P
report comm_shows_rows_and_draws_them $?

"$B/trivium" show comm --dp 2 --tp 2 --pp 2 --ranks-per-node 4 >"$work/out" 2>&1 &&
    says '^dp +2  all_reduce +[0-9]+ fp32 +1  pairwise +3 +0 ' &&
    says '^tp .* library +the library does not say' && says '^pp .* message +0 +4 '
report comm_of_a_step $?

# Four replicas, two of them servers too: S (n-1)/P and S (P-1)/P leave a server, S a worker; S is 497759232 bytes.
for rank in 0 1 2 3; do
    "$B/trivium" show comm --model gpt2-124m --dp 4 --servers 2 --rank $rank --json >"$work/json" 2>>"$work/out" ||
        break
    python3 -c 'import json, sys; print(sum(sum(row["bytes"]) for row in json.load(sys.stdin)))' <"$work/json"
done >"$work/sent"
cat "$work/sent" >>"$work/out"
[ "$(tr '\n' ' ' <"$work/sent")" = "995518464 995518464 497759232 497759232 " ]
report comm_of_a_step_with_several_roots $?

# links that are given: auto is the fastest algorithm on them, for each size
"$B/trivium" show comm --dp 6 --global-batch 6 --ranks-per-node 3 --link-inside 10us,10GB/s --link-between 1ms,10MB/s \
    >"$work/out" 2>&1 &&
    says '^dp +6 +all_reduce .* hierarchical '
report comm_auto_is_the_fastest_on_known_links $?

# One rank a node, one segment: doubling takes 2 (a + S b + S g), a ring 6 a + 1.5 S b + 0.75 S g; equal at b = (4 a -
# 1.25 S g) / (S/2), some 33 MB/s. bf16 is two exchanges of 3 of 4 parts of half the bytes, and 3 S g in addition.
"$B/trivium" show comm --crossings --mib 0.25 --ranks 4 --ranks-per-node 1 --link-between 1ms,1GB/s >"$work/out" 2>&1 &&
    says '^doubling .* above 3[234] MB/s$' &&
    says '^ring .* is what others are compared with' && says '^hierarchical .* do not use it here' &&
    "$B/trivium" show comm --crossings --mib 64 --ranks 4 --ranks-per-node 1 --link-between 1ms,1GB/s \
    --json >"$work/json" 2>>"$work/out" &&
    python3 - "$work/json" <<'P' >>"$work/out" 2>&1
import json, sys
rows = {x["name"]: x for x in json.load(open(sys.argv[1]))}
wire = [2e-3 + 2 * 3 * (64 << 20) / 8 / speed for speed in (1.25e8, 1.25e9, 1.25e10)]
work = [seconds - least for seconds, least in zip(rows["bf16"]["seconds"], wire)]
assert 0 < work[0] < 3 * 3 * (64 << 20) / 5e9 and max(work) - min(work) < 1e-9, work
ring = rows["ring"]["seconds"]
# nodes of one rank: what goes within a node is nothing; the rest is a ring, a ring in two halves (which do not
# overlap), or one more gather
halves, whole = rows["zero 3, zero-secondary node"]["seconds"], rows["zero 3"]["seconds"]
gather = [3 * (64 << 20) / 4 / speed for speed in (1.25e8, 1.25e9, 1.25e10)]
assert all(abs(x - r) < 1e-9 for x, r in zip(rows["zero 2, shard node"]["seconds"],
                                             ring)), (rows["zero 2, shard node"], ring)
assert all(abs(x - r / 10) < 1e-9 for x, r in zip(rows["local-steps 10"]["seconds"],
                                                  ring)), (rows["local-steps 10"], ring)
assert all(0 < h - r < 2e-3 for h, r in zip(halves, ring)), (halves, ring)
assert all(0 < w - h - g <= 3.001e-3 for w, h, g in zip(whole, halves, gather)), (whole, halves, gather)
# two gathers of 65/64 bytes for 4, and of each a pass of 5/4, where bf16 has 3 passes
coded = [two - one for two, one in zip(rows["zero 3, weight-codec int8"]["seconds"],
                                       [2 * h - w for h, w in zip(halves, whole)])]
spent = [c - 2 * g * 65 / 256 - 2 * 5 / 4 / 3 * w for c, g, w in zip(coded, gather, work)]
assert all(-1e-4 < x < 7e-3 for x in spent), (coded, gather, work, spent)
assert rows["bf16"]["faster_than_ring"][0][0] is None and rows["main"]["faster_than_ring"] == [], rows
P
report comm_crossings_are_the_formulas $?
refused crossings_within_a_node 'E_CONFIG.*ranks=4.*--ranks-per-node 2' --crossings --mib 1 --ranks 4
refused crossings_of_nothing 'E_USAGE.*mib=0.*--mib 25' --crossings

refused an_unknown_algorithm 'E_CONFIG.*"rings".*halving-near' --mib 1 --comm-algorithm rings
refused an_unknown_link 'E_CONFIG.*link-between=fast.*2ms,50MB/s' --mib 1 --link-between fast
refused cyclic_without_nodes 'E_CONFIG.*placement=cyclic.*--ranks-per-node' --mib 1 --placement cyclic
refused the_library_on_slow_links 'E_CONFIG.*library.*cannot be slowed' --mib 1 --comm-algorithm library \
    --link-between 2ms,50MB/s
refused unequal_nodes 'E_CONFIG.*hierarchical cannot do.*equally many' --mib 1 --ranks 6 --ranks-per-node 4 \
    --comm-algorithm hierarchical
refused a_rank_that_is_not_there 'E_CONFIG.*rank=9.*0 to 7' --mib 1 --rank 9 --comm-algorithm ring

train=(--steps 2 --log quiet --layers 1 --hidden 32 --heads 2 --seq 16 --dp 2 --ranks-per-node 1)
"$B/trivium" launch -n 2 train "${train[@]}" --link-between 2ms,50MB/s --metrics "$work/slow" >"$work/out" 2>&1 &&
    [ "$(grep -c '"emulated_links":true' "$work/slow")" = 2 ] &&
    "$B/trivium" launch -n 2 train "${train[@]}" --ranks-per-node 0 --metrics "$work/real" >>"$work/out" 2>&1 &&
    ! grep -q emulated "$work/real" &&
    [ "$(grep -o '"loss":[^,]*' "$work/slow")" = "$(grep -o '"loss":[^,]*' "$work/real")" ]
report comm_emulated_seconds_are_marked $?
