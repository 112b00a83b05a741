#!/bin/bash
# tests/elastic.sh with the cases that take long: hosts that are lost, connections that are cut, slow ranks, deaths in
# the last steps.
ALL=1 exec bash tests/elastic.sh
