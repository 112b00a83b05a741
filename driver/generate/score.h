/* trivium score: a trained model's probability of a click for each sample of a file. See score.c. */
#pragma once

/** One process. @return its exit code  @collective{world} */
int score_main(int argc, char **argv);
