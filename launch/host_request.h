/* What the agent of one of several hosts is told: which host it is, where to meet the lighthouse, and the secret. */
#ifndef TRIVIUM_LAUNCH_HOST_REQUEST_H
#define TRIVIUM_LAUNCH_HOST_REQUEST_H

#include "launch/host_door.h"
#include "launch/host_link.h"

struct host_request {
    char name[HOST_MOST_NAME + 1];
    struct network_address meet;
    unsigned char secret[GREETING_SECRET];
};

extern const char host_help[];
/** Are these the words of such an agent, and not launch's? Pure. */
bool host_is_meant(int argc, char **argv);
/** From the words after `agent`, and for what they leave out from the environment; the secret is taken out of that.
 *  @errors E_USAGE: an unknown word, no place to meet or no secret; E_CONFIG: an address that is none */
enum status host_request_read(int argc, char **argv, struct host_request *out);

#endif
