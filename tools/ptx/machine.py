"""One launch of a kernel: blocks of threads as lanes of numpy arrays.

Several blocks run together, one lane a thread, warps whole. Every lane has a place in the code (pc); what runs next is
the basic block at the smallest pc, for the lanes that are there, so branches meet again where the compiler laid their
paths together. A lane at a barrier waits until no lane of its block can run; at bar.warp.sync until the lanes that its
mask names have come, by whatever way.

What a GPU leaves undefined is an error here: an address outside of every allocation, or not a multiple of what is
moved; a warp's operation (shuffle, vote, wmma) without one of the lanes that its mask names; a barrier that a block's
threads reach in two places; a register read before it was written. Shared memory begins full of NaN.
"""
import numpy as np

from listing import readable, round_up

LANES = 4096                    # as many blocks at a time as fit
CONSTANTS = 1 << 55             # where a module's arrays lie, after all that the program has allocated
SHARED_WINDOW = 1 << 56         # where shared memory lies among generic addresses
TYPES = {kind + str(8 * size): np.dtype(letter + str(size))
         for kind, letter in (('u', 'u'), ('b', 'u'), ('s', 'i'), ('f', 'f'))
         for size in (1, 2, 4, 8) if kind != 'f' or size > 1}
TYPES['pred'] = np.dtype(bool)
TYPES['bf16'] = TYPES['b16']    # bits; numpy has no bf16
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


class Fault(Exception):
    """What the kernel did wrong."""


def places_of(constants):
    """(name, address) of each array of a module."""
    at = CONSTANTS
    for name, content in constants.items():
        yield name, at
        at += round_up(len(content), 256)


class Memory:
    """Device memory: allocations at the program's addresses, one after the other in `bytes`."""

    def __init__(self, blocks):
        """blocks: (address, bytes), by address."""
        self.starts = np.array([address for address, _ in blocks], np.int64)
        self.sizes = np.array([len(content) for _, content in blocks], np.int64)
        at = np.concatenate([[0], np.cumsum([round_up(n, 256) for n in self.sizes])])
        self.places = at[:-1].astype(np.int64)
        self.bytes = np.zeros(int(at[-1]) + 16, np.uint8)[:int(at[-1])]
        for place, (_, content) in zip(self.places, blocks):
            self.bytes[place:place + len(content)] = np.frombuffer(content, np.uint8)

    def find(self, address, size):
        """Index into `bytes` of each address."""
        i = np.searchsorted(self.starts, address, 'right') - 1
        offset = address - self.starts[i] if len(self.starts) else address
        outside = (i < 0) | (offset + size > self.sizes[i]) if len(self.starts) else np.ones(len(address), bool)
        if outside.any():
            raise Fault(f'address {address[outside][0]:#x} of {size} bytes is in no allocation ({outside.sum()} '
                        'threads)')
        return self.places[i] + offset

    def block(self, i):
        return self.bytes[self.places[i]:self.places[i] + self.sizes[i]].tobytes()


class Machine:
    """launch() runs all blocks. The instructions are in operations.py."""

    def __init__(self, kernel, memory, arguments, grid, block, dynamic_bytes, operations):
        self.kernel, self.memory, self.grid, self.block = kernel, memory, grid, block
        self.arguments = np.frombuffer(arguments.ljust(round_up(kernel.param_bytes, 16), b'\0'), np.uint8)
        self.shared_bytes = round_up(kernel.shared_bytes + dynamic_bytes, 128)
        self.operations = operations
        self.constants = {}

    def launch(self):
        n_blocks = self.grid[0] * self.grid[1] * self.grid[2]
        threads = self.block[0] * self.block[1] * self.block[2]
        together = max(1, LANES // round_up(threads, 32))
        for first in range(0, n_blocks, together):
            self.start(first, min(together, n_blocks - first), threads)
            with np.errstate(all='ignore'):
                self.run()

    def start(self, first, n, threads):
        """Lanes of blocks first .. first + n-1, each filled up to whole warps by lanes that have ended."""
        width = round_up(threads, 32)
        self.n_lanes, self.width = n * width, width
        thread, block = np.tile(np.arange(width), n), first + np.repeat(np.arange(n), width)
        (bx, by, bz), (gx, gy, gz) = self.block, self.grid
        self.special = {'%tid.x': thread % bx, '%tid.y': thread // bx % by, '%tid.z': thread // (bx * by),
                        '%ctaid.x': block % gx, '%ctaid.y': block // gx % gy, '%ctaid.z': block // (gx * gy),
                        '%laneid': thread % 32}
        for name, sizes in (('%ntid', self.block), ('%nctaid', self.grid)):
            for axis, size in zip('xyz', sizes):
                self.special[f'{name}.{axis}'] = np.full(self.n_lanes, size)
        self.shared = np.full(n * self.shared_bytes, 0xff, np.uint8)
        self.shared_base = np.repeat(np.arange(n) * self.shared_bytes, width)
        self.registers, self.end = {}, len(self.kernel.code)
        self.pc = np.where(thread < threads, 0, self.end)
        self.waiting = np.zeros(self.n_lanes, bool)
        self.named = np.zeros(self.n_lanes, np.int64)       # at bar.warp.sync: the lanes that it names; 0: elsewhere

    # ---- the order ----

    def run(self):
        code = self.kernel.code
        while True:
            running = ~self.waiting & (self.named == 0) & (self.pc < self.end)
            if not running.any():
                if self.named.any():
                    raise Fault(f'{readable(self.kernel.name)}, {self.met_at.source}, "{self.met_at.text}": lanes that '
                                'its mask names never come')
                if not self.waiting.any():
                    return
                self.release()
                continue
            at = int(self.pc[running].min())
            lanes, end = running & (self.pc == at), self.kernel.block_end[at]
            for i in range(at, end):
                try:
                    following = self.step(code[i], lanes)
                except (Fault, KeyError, ValueError, IndexError) as fault:
                    raise Fault(f'{readable(self.kernel.name)}, {code[i].source}, "{code[i].text}": {fault}') from None
            self.pc[lanes] = end
            if following is not None:
                self.pc[following[0]] = following[1]
            if self.named.any():
                self.let_go()

    def step(self, c, lanes):
        """Run one instruction; (lanes, where to) of those that do not go on behind it."""
        if c.predicate is not None:
            p = self.read(c.predicate, TYPES['pred'])
            lanes = lanes & (~p if c.negated else p)
        if c.name == 'bra':
            return lanes, self.kernel.labels[c.operands[0]]
        if c.name in ('ret', 'exit'):
            return lanes, self.end
        if c.is_barrier():
            self.waiting |= lanes
        elif c.is_meeting():
            self.met_at, mask = c, self.read(c.operands[0], TYPES['u32']).astype(np.int64)
            self.named = np.where(lanes, mask, self.named)
        elif lanes.any():
            operation = self.operations.get(c.name)
            if operation is None:
                raise Fault(f'no instruction is called {c.name} here (tools/ptx/operations.py)')
            operation(self, c, lanes)
        return None

    def release(self):
        """No thread can run: all threads that are left of every block are at its barrier."""
        waiting, pc = self.waiting.reshape(-1, self.width), self.pc.reshape(-1, self.width)
        highest, lowest = np.where(waiting, pc, -1).max(1), np.where(waiting, pc, self.end + 1).min(1)
        if (waiting.any(1) & (highest != lowest)).any():
            raise Fault(f'{readable(self.kernel.name)}: threads of a block wait at different barriers')
        self.waiting[:] = False

    def let_go(self):
        """Warps of which all named lanes are at a bar.warp.sync go on."""
        named = self.named.reshape(-1, 32)
        here, wanted = (named != 0) @ (1 << np.arange(32, dtype=np.int64)), np.bitwise_or.reduce(named, 1)
        named[(here & wanted) == wanted] = 0

    def check_members(self, mask, lanes):
        """The lanes that a warp's operation names have all come."""
        here = lanes.reshape(-1, 32)
        here_bits = here @ (1 << np.arange(32, dtype=np.int64))
        named = np.broadcast_to(mask, lanes.shape).reshape(-1, 32)[np.arange(len(here)),
                                                                   here.argmax(1)].astype(np.int64)
        if ((here_bits != 0) & ((here_bits & named) != named)).any():
            raise Fault('lanes that its mask names are not there')

    # ---- registers: unsigned integers of their declared width, or truth ----

    def kind(self, register):
        known = self.kernel.registers
        return TYPES[known.get(register) or known[register.rstrip('0123456789')]]

    def read(self, operand, dtype):
        """A register's lanes, or a constant, as dtype."""
        value = self.registers.get(operand)
        if value is None:
            return self.read_other(operand, dtype)
        if value.dtype == dtype:
            return value
        if value.dtype.itemsize != dtype.itemsize:
            value = value.astype(UNSIGNED[dtype.itemsize])
        return value.view(dtype)

    def read_other(self, operand, dtype):
        if operand in self.special:
            return self.special[operand].astype(dtype)
        key = operand, dtype
        if key not in self.constants:
            self.constants[key] = self.constant(operand, dtype)
        return self.constants[key]

    def constant(self, text, dtype):
        if text in self.kernel.constants:
            return dtype.type(dict(places_of(self.kernel.constants))[text])
        if text in self.kernel.shared:
            return dtype.type(self.kernel.shared[text])
        if text in self.kernel.params:
            return dtype.type(self.kernel.params[text][0])
        if text[:2].lower() == '0f':
            return np.uint32(int(text[2:], 16)).view(np.float32)
        if text[:2].lower() == '0d':
            return np.uint64(int(text[2:], 16)).view(np.float64)
        if text[0] == '%':
            raise Fault(f'{text} is read before it was written')
        if dtype == bool:
            return np.bool_(int(text))
        bits = int(text.rstrip('U'), 0) & (1 << 8 * dtype.itemsize) - 1
        return UNSIGNED[dtype.itemsize](bits).view(dtype)

    def write(self, register, value, lanes):
        """value's lanes; a narrower one is extended as its sign says."""
        if register == '_':
            return
        kind, value = self.kind(register), np.asarray(value)
        if kind == bool:
            store = np.dtype(bool)
        else:
            store = np.dtype(UNSIGNED[kind.itemsize])
            if value.dtype.itemsize != kind.itemsize:
                value = value.astype(SIGNED[kind.itemsize] if value.dtype.kind == 'i' else store)
            value = value.view(store)
        if register not in self.registers:
            self.registers[register] = np.zeros(self.n_lanes, store)
        np.copyto(self.registers[register], value, where=lanes)

    # ---- memory ----

    def address(self, operand):
        base, offset = operand
        if base in self.kernel.params:
            return np.full(self.n_lanes, self.kernel.params[base][0] + offset)
        return np.broadcast_to(self.read(base, TYPES['s64'] if self.is_wide(base) else TYPES['u32']), (self.n_lanes,
                               )).astype(np.int64) + offset

    def is_wide(self, base):
        return base in self.registers and self.registers[base].itemsize == 8

    def locate(self, parts, operand, lanes, size, align):
        """Resolve an instruction's address: the memory that it is in, and the index of each lane in `lanes` there."""
        address = self.address(operand)[lanes]
        if (address % align).any():
            raise Fault(f'address {address[address % align != 0][0]:#x} is no multiple of {align}')
        if 'param' in parts:
            return self.arguments, self.within(address, size, len(self.arguments), 'arguments')
        is_shared = 'shared' in parts
        if not is_shared and 'global' not in parts:
            is_shared = bool((address >= SHARED_WINDOW).all())
            address = address - SHARED_WINDOW if is_shared else address
        if is_shared:
            return self.shared, self.within(address, size, self.shared_bytes, 'shared memory') + self.shared_base[lanes]
        return self.memory.bytes, self.memory.find(address, size)

    @staticmethod
    def within(address, size, limit, what):
        outside = (address < 0) | (address + size > limit)
        if outside.any():
            raise Fault(f'byte {address[outside][0]} of {size}, and there are {limit} of {what}')
        return address
