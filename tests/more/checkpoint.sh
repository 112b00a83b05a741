#!/bin/bash
# Of tests/checkpoint.sh, what make check has with saves that training waits for: full disks and two jobs, with
# --save-async; and replicas that train apart until their next average.
ASYNC=1 exec bash tests/checkpoint.sh
