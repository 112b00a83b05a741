#!/bin/bash
# README's commands print what stands under them.
set -u -o pipefail
cd "$(dirname "$0")/../.." || exit 1
if said=$(tools/check-lessons README.md 2>&1); then echo "ok front_door_commands_print_what_stands_under_them"
else echo "not ok front_door_commands_print_what_stands_under_them" && sed 's/^/# /' <<<"$said"; fi
