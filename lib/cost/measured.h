/* Figures of a cluster from measurements, in place of its file's (`plan --measured`). Three kinds of files are read:
 *
 *   nccl-tests     what all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or sendrecv_perf prints:
 *                  its lines "# Rank ..." give the hosts, and so the level; its table gives times by size
 *   products       lines m n k TFLOP/s, with blanks or commas between, after a header that names the dtype
 *   a trace        of `trivium train --trace`: the time of each row, with its flops and bytes
 *
 * The times of a level's files are fitted together by least squares of relative errors: t = known[0] / speed +
 * known[1] alpha + fixed, with the terms of wire_time.h. NCCL sends within and between hosts at once, and the model one
 * after the other. So of times over several hosts the whole bandwidth term is the network's: a rank's share of S bytes
 * in a group with i ranks per host is S/i, as in a ring over all ranks. What the straight line misses is the level's
 * curve by size. Source: NVIDIA, nccl-tests, doc/PERFORMANCE.md (bus bandwidth). */
#pragma once

#include "lib/comm/comm.h"
#include "lib/cost/cluster.h"
#include <jansson.h>
#include <stdio.h>

enum { MAX_FIGURES = 64, MAX_FROM = 256 };
/* what: "node", "products in bf16". from: the files. was: the cluster file's value. */
struct figure { char what[48], unit[12], from[MAX_FROM]; double is, was; };
struct measured { int n; struct figure figure[MAX_FIGURES]; char cluster[MAX_FROM]; };

/** Replace figures of *c by those of `files`, a list of paths with commas between ("": none).
 *  @param cluster the name or path that *c was read from  @param out the replaced figures, in order
 *  @errors E_DATA: no such file; E_FORMAT: not of these kinds, or damaged; E_CONFIG: it cannot be of this cluster, or
 *  measures too little; E_USAGE: two files of rows  @collective{none} */
enum status cluster_measure(const char *files, const char *cluster, struct cluster *c, struct measured *out);

/** A line a figure: "node 243 GB/s, measured: all_reduce.txt (was 235, configs/clusters/dgx-h100.ini)". */
void measured_print(const struct measured *, FILE *);
/** [{"figure", "value", "unit", "file", "was", "cluster"}, ...]. NULL: no memory */
json_t *measured_json(const struct measured *);

/* ---- between the measured*.c files ---- */
/* One time. Of `group` ranks `inside` lie in each of `units` units of the level below: group = inside x units. Within
 * one host or NVLink domain units is 1. bytes: of the whole tensor, as for wire_seconds. */
struct wire_point { enum comm_op op; double group, inside, units, bytes, seconds; };
/* All times of one level. is_share: as many ranks of each host ran as a node has. */
struct wire_points { int n; struct wire_point *at; char from[MAX_FROM]; bool is_share; };

/** Read one output of nccl-tests, and add its times to those of its level. @param points (MAX_LEVELS); the caller frees
 *  each `at`, after an error too  @errors as cluster_measure */
enum status measured_nccl(const char *path, const struct cluster *, struct wire_points *points);
/** Read a table of products, or a trace, and replace the cluster's rates. @errors as cluster_measure */
enum status measured_products(const char *path, struct cluster *, struct measured *);
/** @errors as cluster_measure */
enum status measured_trace(const char *path, struct cluster *, struct measured *);
/** Add a figure. `name` is the file's path: only what follows its last '/' is kept if the path is long. */
void measured_add(struct measured *, const char *what, const char *unit, const char *name, double is, double was);

enum { MEASURED_LINE = 1 << 16 };
/** Cut `text` at blanks, commas and semicolons into at most `most` words in place. @return their number */
int measured_words(char *text, char **word, int most);
