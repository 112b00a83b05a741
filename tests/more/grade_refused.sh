#!/bin/bash
# What tools/grade refuses of a submission, by lesson 02's exercise "cost": what would run outside of the tests, what
# reaches for the runner, and what could take the place of a function of the project or of the C library. No tool for
# ELF is needed to see it. Run from the project's root, with BUILD (default: build) built.
set -u -o pipefail
# shellcheck source=tests/grade.bash
. tests/grade.bash

cat "$reference" - >"$work/cost.c" \
    <<<'static volatile int link_early; __attribute__((constructor)) static void early(void) { link_early = 1; }'
grade "$work/cost.c"; [ $? = 1 ] && says 'a constructor or destructor'
report $? "a constructor is refused"
{ cat "$reference"; echo 'int main(void); int main(void) { return 0; }'; } >"$work/cost.c"
grade "$work/cost.c"; [ $? = 1 ] && says 'it defines main'
report $? "main is refused"
{ cat "$reference"
    echo 'extern void *test_suites; __attribute__((used)) static void *mine(void) { return test_suites; }'; } \
    >"$work/cost.c"
grade "$work/cost.c"; [ $? = 1 ] && says 'test_suites, which belongs to the test runner'
report $? "what reaches for the runner is refused"
refused() { { cat "$reference"; echo "$1"; } >"$work/cost.c"; ! grade "$work/cost.c" && says refused: && says "$2"; }
refused 'int add(int a, int b);
int add(int a, int b) { return a + b; }' \
    "cost.c:$(($(wc -l <"$reference") + 1)): add() is seen by other files, and the starter has no "\
"such function: write static before it"
report $? "a helper that others see is refused: its line, and the remedy"
sed 's/int add/static int add/' "$work/cost.c" >"$work/my.c"
grade --exercise cost "$work/my.c" && says 'score 100 of 100'
report $? "with static it is taken"
sed 's/cost_crossover\b/cost_cross_over/' "$reference" >"$work/cost.c"
grade "$work/cost.c"; [ $? = 1 ] && says 'is it to be cost_crossover, which is missing?'
report $? "of a misspelt name the right one is said"
mine='__attribute__((used)) static int mine(void) { return 0; }'
while IFS='|' read -r seen code; do
    refused "$code" "$seen is seen by other files, and the starter has no such"
    report $? "refused, for nothing is replaced by a submission: $code"
done <<EOF
malloc()|void *malloc(unsigned long n); void *malloc(unsigned long n) { return (void *)n; }
exit()|void exit(int code) { for (;; code++) {} }
memcpy()|void *memcpy(void *to, const void *from, unsigned long n) { return from == to && n ? 0 : to; }
comm_finish()|void comm_finish(void) {}
agree_all()|int agree_all(int mine); int agree_all(int mine) { return mine || 1; }
strcmp()|__attribute__((weak)) int strcmp(const char *a, const char *b) { return a != b; }
write()|$mine extern __typeof(mine) write __attribute__((alias("mine")));
write()|$mine __asm__(".globl write\n.set write, mine");
read()|$mine extern __typeof(mine) renamed __asm__("read"); int renamed(void) { return 1; }
write@GLIBC_2.2.5|__asm__(".globl other\n.hidden other\nother: ret\n.symver other, write@GLIBC_2.2.5, remove");
environ|__asm__(".comm environ, 8, 8");
exit|__asm__(".globl exit\nexit = 0x1000");
add()|__attribute__((weak)) int add(void) __asm__("_Z3addv"); int add(void) { return 1; }
EOF
refused \
    'static void *which(void) { return 0; } void *memset(void *, int, unsigned long) __attribute__((ifunc("which")));' \
    'memset is chosen when the program is loaded'
report $? "a function that is chosen when the program is loaded is refused"
python3 tests/data/grade/instances.py "$work" >"$work/said" 2>&1
report $? "C++ (.cu): instances of templates are taken, and replace nothing; no start of a file runs"

# ---- without objcopy, and other tools that know ELF ----
mkdir "$work/bin"
for folder in $(tr : "\n" <<<"$PATH" | grep -v ccache); do ln -s "$folder"/* "$work/bin"; done 2>/dev/null
for tool in objcopy objdump readelf elfedit strip nm addr2line size; do
    rm -f "$work/bin/$tool" "$work/bin/"*-"$tool"
done
bare() { PATH=$work/bin grade "$@"; }
rm -rf "$BUILD/grade/02-cost"                                 # all of it is linked again
bare --exercise cost "$reference" && says 'score 100 of 100' && ! PATH=$work/bin command -v objcopy
report $? "a grade needs no objcopy"
{ cat "$reference"; echo 'int add(int a); int add(int a) { return a; }'; } >"$work/cost.c"
bare "$work/cost.c"; [ $? = 1 ] && says 'add() is seen by other files'
report $? "and no other such tool to see names"
