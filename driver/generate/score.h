/* trivium score: a trained model's probability of a click for each sample of a file. See score.c. */
#ifndef TRIVIUM_DRIVER_SCORE_H
#define TRIVIUM_DRIVER_SCORE_H

/** One process. @return its exit code  @collective{world} */
int score_main(int argc, char **argv);

#endif
