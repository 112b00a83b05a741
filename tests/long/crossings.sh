#!/bin/bash
# The table "When it wins" of docs/communication.md is what tools/docs/crossings makes. A minute.
set -u
if tools/docs/crossings --check; then
    echo "ok crossings_are_those_of_the_page"
else
    echo "not ok crossings_are_those_of_the_page"
fi
