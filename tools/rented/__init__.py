"""The parts of tools/gpu-rented: prepare.py, then there.py and rows.py on the machine with the GPU, then land.py."""
