/* `trivium train`: the training job of one rank. */
#pragma once

/** `trivium train [options]`, one rank of it; starts and leaves MPI. Returns the exit code. @collective{job} */
int train_main(int argc, char **argv);
