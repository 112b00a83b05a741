#!/bin/bash
# tests/run on a GPU: a process for every test file, so that one which ends badly takes no other with it; played by a
# stand-in for the runner. Run from the project's root.
set -u -o pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$1" = 0 ]; then echo "ok run: $2"; else echo "not ok run: $2"; sed 's/^/    /' "$work/said"; fi; }
run() {
    env -u TEST_NOT -u LONG BUILD="$work" TEST_RANKS=1 TEST_FILE_LIMIT=2 "$@" tests/run lib/ops/test_ >"$work/said" 2>&1
}

cat >"$work/trivium-tests" <<'END'
#!/bin/bash
case ${TEST_FILES-all} in
    *test_gelu.c) exit 134 ;;
    *test_linear.c) sleep 20 ;;
esac
echo "1 passed, 0 failed, 0 skipped"
END
chmod +x "$work/trivium-tests"
run DEVICE=cuda
[ $? = 1 ] && grep -q '^FAILED lib/ops/test_gelu.c on 1 rank(s): the run ended with code 134' "$work/said" &&
    grep -q '^FAILED lib/ops/test_linear.c on 1 rank(s): the run did not end within 2 s' "$work/said" &&
    grep -qE '^[1-9][0-9]+ passed, 2 failed$' "$work/said"
report $? "DEVICE=cuda runs each file by itself, within its limit; the others' tests still count"
run DEVICE=simt; grep -q '^1 passed, 0 failed$' "$work/said"
report $? "elsewhere all files share a process"
