/* The agent of one of several hosts (`trivium agent --meet HOST:PORT`): it starts this host's ranks at the lighthouse's
 * request, and sends changes of this host's memory to the other hosts (host_link.h). It decides nothing. */
#pragma once

/** @return the exit code that the lighthouse sends; 1: the connection to the lighthouse failed; 2: a bad request */
int host_main(int argc, char **argv);
