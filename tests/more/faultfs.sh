#!/bin/bash
# Each file call of a save and a resume fails, or the process dies at it (tests/faultfs/sweep.py says what has to hold):
# here every 20th call of a few kinds; LONG=1: every call of all kinds (tests/again).
#
# Run from the project's root. BUILD: where the program is (default: build).
set -u -o pipefail
trivium=$(cd "${BUILD:-build}" && pwd)/trivium || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! ${CC:-gcc} -O1 -Wall -Werror -shared -fPIC -o "$work/faultfs.so" tests/faultfs/faultfs.c -ldl; then
    echo "not ok faultfs: it does not compile"
    exit 1
fi
every=20
modes=(save:kill save:sticky-enospc save:short async:edquot resume:eio noexchange:kill two:kill elastic:eio)
if [ -n "${LONG-}" ]; then
    every=1 modes=(save:enospc save:edquot)
    for kind in save async resume noexchange two elastic; do
        modes+=("$kind:kill" "$kind:eio" "$kind:short" "$kind:sticky-enospc")
    done
fi
python3 tests/faultfs/sweep.py "$trivium" "$PWD/configs/demo.txt" "$work/faultfs.so" "$work" $every "${modes[@]}"
