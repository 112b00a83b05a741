#!/bin/bash
# The lessons' exercises: references get full marks, starters none, and every planted mistake is rejected by its claim.
# Run from the project's root, with BUILD (default: build) built.
tools/check-exercises --built | grep -v '^[0-9]* passed, '
