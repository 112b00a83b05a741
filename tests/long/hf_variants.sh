#!/bin/bash
# tests/hf_variants.sh with all variants. MODELS, BUILD, PYTHON: as there.
EVERY=1 exec bash tests/hf_variants.sh
