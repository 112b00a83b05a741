/* trivium launch -n R calibrate: the speed of this machine's cores, or of a GPU, in computing, copying and exchanging,
 * as a cluster file that plan, compare --cluster and auto read. On cores:
 *
 *   peak       a loop of multiply-adds (lib/ops/gemm/peak.h)
 *   rows       Each rank trains small models of many widths and batches, all ranks at the same time, so that they
 *              share the memory as a run's ranks do. A row is one op, forward or backward. Its median time over steps
 *              is fitted (lib/cost/fit.h): four constants of products and the launch, a speed of each op that only
 *              moves bytes, and the fraction of the peak that attention reaches
 *   switch,    A model is cut by tp, and all ranks share one core. switch: time per call that is neither work nor
 *   cold       exchange. cold: additional time of work per call, compared with one core for each rank
 *   exchanges  all_reduce, all_gather and messages of 1 KiB to 16 MiB among all ranks: one latency and one speed
 *
 * On a GPU, timed by events of its compute stream:
 *
 *   rows       as on cores, of models of two layers in 16 bits, and of two layers of --model NAME; in fp32 products
 *              only. The peak is the data sheet's, or the fastest product's
 *   copies     in the GPU's memory, and between pinned memory and the GPU; also the time per empty kernel of a full
 *              queue
 *   exchanges  as on cores, with several ranks: one rank per GPU, or ranks that share a GPU through the host
 *
 * The command takes about a minute, with as many ranks as cores. It never measures runs of more ranks:
 * compare --cluster checks predictions against such runs. */
#pragma once

/** argv: words after `calibrate`. @return the exit code: 0; 1 a file cannot be written; 2 bad request
 *  @collective{every process of the job} */
int calibrate_main(int argc, char **argv);
