#!/bin/bash
# tests/signals.sh with every signal at every moment.
ALL=1 exec bash "$(dirname "$0")/../signals.sh"
