#!/bin/bash
# nvcc's real PTX of every kernel against its CPU sibling: what tests/simt cannot see (tools/ptx/run; docs/simt.md).
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
errors=$(mktemp)
tools/ptx/run "$@" 2>"$errors" && code=0 || code=$?
said=$(cat "$errors")
rm -f "$errors"
if [ $code = 2 ]; then echo "skip ptx: ${said#tools/ptx/run: }" && exit 0; fi
echo "$said"
exit $code
