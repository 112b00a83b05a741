#!/bin/bash
# tests/more/own.sh with every script test that starts ranks.
ON_OWN=all exec bash "$(dirname "$0")/../more/own.sh"
