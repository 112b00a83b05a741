/* The input of a host's agent (--meet): its host's name, the lighthouse's address, and the secret. */
#pragma once

#include "launch/host_door.h"
#include "launch/host_link.h"

struct host_request {
    char name[HOST_MOST_NAME + 1];
    struct network_address meet;
    unsigned char secret[GREETING_SECRET];
};

extern const char host_help[];
/** Do these words start a host's agent (--meet)? Launch's words for an agent or a lighthouse contain -n. Pure. */
bool host_is_meant(int argc, char **argv);
/** Read the words after `agent`, with defaults from the environment. The secret is removed from the environment.
 *  @errors E_USAGE: an unknown word, no --meet or no secret; E_CONFIG: an invalid address */
enum status host_request_read(int argc, char **argv, struct host_request *out);
