/* Included before each source: declarations that clang or wasi-libc lacks. The page's commands call none of them. */
#pragma once
/* a builtin of gcc, for packed products (lib/ops/gemm/transpose.h) */
#define __builtin_shuffle(a, b, order) (__builtin_trap(), (void)(b), (void)(order), (a))
/* plan --run replaces the process with it; the page does not use --run */
int execl(const char *path, const char *word, ...);
/* for folders (lib/base/durable.c); the page has none */
int syncfs(int fd);
