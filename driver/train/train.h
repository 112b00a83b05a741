/* `trivium train`: the training job of one rank. */
#pragma once

/** Run one rank of `trivium train [options]`; starts and leaves MPI. Returns the exit code. @collective{job} */
int train_main(int argc, char **argv);
