/* The agent of one of several hosts (`trivium agent --meet HOST:PORT`): it starts this host's ranks as the lighthouse
 * tells it, and carries what is written in this host's memory to the others (host_link.h). It decides nothing. */
#ifndef TRIVIUM_LAUNCH_HOST_H
#define TRIVIUM_LAUNCH_HOST_H

/** @return the exit code: what the lighthouse says; 1 without it, 2 after a bad request */
int host_main(int argc, char **argv);

#endif
