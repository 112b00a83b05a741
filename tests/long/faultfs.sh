#!/bin/bash
# Every file call of all kinds of saves and resumes fails, or the process dies at it: half an hour.
LONG=1 exec bash tests/more/faultfs.sh
