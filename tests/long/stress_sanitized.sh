#!/bin/bash
# tests/more/stress_sanitized.sh, a minute for each sanitizer.
STRESS_SECONDS=60 exec bash "$(dirname "$0")/../more/stress_sanitized.sh"
