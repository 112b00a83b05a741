/* The commands whose whole interface is a main, which returns the exit code. trivium.c has the list of all commands. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>

struct data_file;

/** "0.2.0"; set by main. */
extern const char *trivium_version;

/** Run one rank of `trivium train [options]`; starts and leaves MPI. @collective{job} */
int train_main(int argc, char **argv);

/** Run one rank of `trivium compare [options] --strategies "a | b | ..."`: train strategies one after the other, and
 *  compare them. Starts and leaves MPI. @collective{job} */
int compare_main(int argc, char **argv);

/** Run one rank of `trivium generate --checkpoint DIR --prompt TEXT [options]`: text from a checkpoint and a prompt.
 *  Starts and leaves MPI. @collective{job} */
int generate_main(int argc, char **argv);

/** `trivium score`: a trained model's probability of a click for each sample of a file; one process.
 *  @collective{world} */
int score_main(int argc, char **argv);

/** `trivium oracle record|check|show`: write the numbers of a training run to files, and find the first that differs
 *  from a reference's by more than rounding (oracle/). @collective{job, record; none, others} */
int oracle_main(int argc, char **argv);
/** `trivium oracle check RUN REFERENCE [--out DIR]`: compare a recording with a reference. @return 0 no difference, 1 a
 *  difference, otherwise as status_exit_code  @collective{none} */
int oracle_check_main(int argc, char **argv);
/** `trivium oracle show DIR [STEP [NAME]]`: the tensors of a recording, or one of them. @collective{none} */
int oracle_show_main(int argc, char **argv);

/** `trivium plan --cluster NAME [--gpus N] [options of train] [--json]`: print the time and memory of a step of the
 *  given layout on a described cluster; with --gpus, of the best layout of N ranks. @collective{none} */
int plan_main(int argc, char **argv);
/** `trivium budget --model M --cluster NAME --gpus N --tokens D [--mfu X] [--scale N:M [--weak]] [--json]`: print days,
 *  GPU hours, money and energy of a training run with failures; with --scale, for the best layout at each number of
 *  ranks. @collective{none} */
int budget_main(int argc, char **argv);

/** `trivium show program|types|memory|mesh|comm|options [options] [--json] [--rank R]`: print tables of a run's
 *  program, memory and messages; no device, no peers. @collective{none} */
int show_main(int argc, char **argv);

/** `trivium checkpoint`: inspect a checkpoint and check that it is complete; export its weights to other projects'
 *  formats; import files of those formats. No device, no peers. */
int checkpoint_main(int argc, char **argv);
/** `trivium data tokenize INPUT... --to OUT`: convert text to a file of tokens. `trivium data inspect FILE`: print a
 *  file's contents. No device, no peers. */
int data_main(int argc, char **argv);
/* trivium data synth-clicks and data criteo: files of clicks (data_clicks.c). */
/** Is this word one of the two commands? */
bool data_clicks_is(const char *word);
/** Run the command argv[0]. @errors E_USAGE, E_DATA, E_FORMAT, E_IO, E_MEMORY */
enum status data_clicks(int argc, char **argv);
/** Print what `data inspect` shows of a file of clicks. */
void data_clicks_print(const struct data_file *);
