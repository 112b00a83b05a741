"""The other end of launch.cpp's socket: runs the launches of one test program. Its messages are described there."""
import struct

import listing
from machine import Fault, Machine, Memory, places_of
from operations import OPERATIONS


class Server:
    """launched: (module, kernel) of every launch that went well."""

    def __init__(self, connection):
        self.stream, self.modules, self.launched, self.faults = connection.makefile('rwb'), {}, set(), []

    def serve(self):
        """Until the program ends, or is ended."""
        try:
            while line := self.stream.readline().decode().split():
                getattr(self, line[0])(*line[1:])
        except (BrokenPipeError, ConnectionResetError, struct.error):
            pass

    def answer(self, line, *more):
        self.stream.write(line.encode() + b'\n' + b''.join(more))
        self.stream.flush()

    def module(self, number, size):
        self.modules[number] = listing.parse(self.stream.read(int(size)).decode())

    def sizes(self, number, name):
        params = self.modules[number][name].params
        self.answer(' '.join(str(size) for _, size in params.values()))

    def launch(self, number, name, *numbers):
        n = [int(x) for x in numbers]
        grid, block, (dynamic, n_bytes, n_blocks) = n[0:3], n[3:6], n[6:9]
        kernel, packed = self.modules[number][name], self.stream.read(n_bytes)
        places = [struct.unpack('<QQ', self.stream.read(16)) for _ in range(n_blocks)]
        blocks = [(address, self.stream.read(size)) for address, size in places]
        blocks += [(address, kernel.constants[array]) for array, address in places_of(kernel.constants)]
        memory = Memory(blocks)
        arguments, at = bytearray(kernel.param_bytes), 0
        for offset, size in kernel.params.values():
            arguments[offset:offset + size] = packed[at:at + size]
            at += size
        try:
            Machine(kernel, memory, bytes(arguments), grid, block, dynamic, OPERATIONS).launch()
        except Fault as fault:
            self.faults.append(str(fault))
            return self.answer(str(fault).replace('\n', ' '))
        self.launched.add((int(number), name))
        self.answer('ok', *(memory.block(i) for i in range(n_blocks)))
