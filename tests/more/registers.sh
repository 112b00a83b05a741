#!/bin/bash
# No kernel needs more registers, stack or spills than the checked-in table says (tests/registers.txt): more of any is
# less speed on a GPU, which no test here would notice. A kernel that is not in the table fails too. Of the
# architectures that the build has: make check-more compiles for sm_90, make check-all for sm_80, too.
cd "$(dirname "$0")/../.." || exit 1
build=${CUDA_BUILD:-${BUILD:-build}}
have=$(nvcc --version 2>/dev/null || /usr/local/cuda/bin/nvcc --version 2>/dev/null)
have=$(sed -n 's/.*release \([0-9.]*\),.*/\1/p' <<<"$have")
wanted=$(sed -n '1s/# nvcc \([0-9.]*\):.*/\1/p' tests/registers.txt)

if ! find "$build/kernels" -name '*.ptxas' 2>/dev/null | grep -q .; then
    echo "skip registers: $build has no kernels built by nvcc"
    exit 0
fi
if [ "$have" != "$wanted" ]; then
    echo "skip registers: nvcc $have, and the table is of nvcc $wanted (tools/registers --save makes one)"
    exit 0
fi
BUILD=$build tools/registers | awk '
    BEGIN { bad = 0 }
    FILENAME != "-" { if ($1 != "#") table[$1 " " $2 " " $3] = $4 " " $5 " " $6; next }
    { key = $1 " " $2 " " $3; n++
      if (!(key in table)) {
           print "not ok registers of " key ": not in tests/registers.txt; look at it, then tools/registers --save"
           bad = 1; next }
      split(table[key], was, " ")
      if ($4 > was[1] || $5 > was[2] || $6 > was[3]) {
          print "not ok registers of " key ": " $4 " registers, " $5 " stack, " $6 \
               " spilled; the table has " table[key]; bad = 1 } }
    END { if (!n) { print "not ok registers: ptxas said nothing"; bad = 1 }
          if (!bad) print "ok registers of " n " kernels are within the table"
          exit bad }' tests/registers.txt -
