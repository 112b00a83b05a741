/* Included before each source: names that clang or wasi-libc has not. None of it runs in a browser. */
#pragma once

/* gcc's, in packed products (lib/ops/gemm/transpose.h) */
#define __builtin_shuffle(a, b, order) (__builtin_trap(), (void)(b), (void)(order), (a))
/* plan --run would become another program with it; the page has no such button */
int execl(const char *path, const char *word, ...);
/* of folders in which nothing can be opened (lib/base/durable.c); the page has no folders */
int syncfs(int fd);
