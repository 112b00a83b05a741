/* trivium launch -n R calibrate: the speed of this machine's cores, or of a GPU, in computing, copying and exchanging,
 * as a cluster file that plan, compare --cluster and auto read. On cores:
 *
 *   peak       a loop of multiply-adds (lib/run/peak.h)
 *   rows       small models of many widths and batches are trained, each rank its own, all at the same time, so that
 *              they share the memory as ranks of a run do. The median over steps of each row's time is fitted
 *              (lib/cost/fit.h): four constants of products and the launch, a speed for each op that only moves, and
 *              the parts of the peak that attention reaches
 *   switch,    a model is cut by tp, and all ranks share one core: time that is neither work nor exchange is waiting
 *   cold       for the core; and work takes longer than on a core for each rank
 *   exchanges  all_reduce, all_gather and messages of 1 KiB to 16 MiB among all ranks: one latency and one speed
 *
 * On a GPU, all by events of its compute stream:
 *
 *   rows       the same of models of two layers, in 16 bits, and of two layers of a model that is named; in fp32 the
 *              products alone. The peak is the data sheet's, or the fastest product's
 *   copies     in its memory, and from pinned memory and back; and the time from one empty kernel of a full queue to
 *   the
 *              next
 *   exchanges  as above, with several ranks: one each GPU, or sharing one through the host
 *
 * It takes about a minute, with as many ranks as cores. Products of more ranks are never measured: compare --cluster
 * checks predictions against whole runs of many ranks. */
#pragma once

/** argv: words after `calibrate`. @return the exit code: 0; 1 a file cannot be written; 2 bad request
 *  @collective{every process of the job} */
int calibrate_main(int argc, char **argv);
