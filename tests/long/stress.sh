#!/bin/bash
# tests/stress.sh with a million collectives.
N=1000000 exec bash "$(dirname "$0")/../stress.sh"
