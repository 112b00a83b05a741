"""What each instruction does, for the lanes that run it: OPERATIONS[name](machine, instruction, lanes).

Arithmetic is IEEE's, rounded once, as the instructions say. The approximations (ex2, rcp, rsqrt ... .approx) are
rounded from fp64, which is nearer than the GPU comes (2 ulp): their error on a GPU is not seen here.
"""
import numpy as np

from machine import Fault, SHARED_WINDOW, TYPES

F32, F64, U16, U32, U64, S64 = (TYPES[t] for t in ('f32', 'f64', 'u16', 'u32', 'u64', 's64'))
PRED = TYPES['pred']


def operands(m, c, dtype):
    return [m.read(o, dtype) for o in c.operands[1:]]


# ---- bf16, which numpy does not have ----

def bf16_to_f32(bits):
    return (bits.astype(U32) << U32.type(16)).view(F32)


def f32_to_bf16(value):
    """To nearest, ties to even; NaN is 0x7fff, as on the GPU."""
    bits = value.view(U32)
    rounded = (bits + U32.type(0x7fff) + (bits >> U32.type(16) & U32.type(1))) >> U32.type(16)
    return np.where(np.isnan(value), U16.type(0x7fff), rounded.astype(U16))


# ---- memory ----

def registers_of(operand):
    return operand if isinstance(operand, list) else [operand]


def load(m, c, lanes):
    registers, dtype = registers_of(c.operands[0]), TYPES[c.type]
    n = dtype.itemsize
    memory, at = m.locate(c.parts, c.operands[1], lanes, n * len(registers), n * len(registers))
    words = memory[:len(memory) // n * n].view(dtype)
    for i, register in enumerate(registers):
        value = np.zeros(m.n_lanes, dtype)
        value[lanes] = words[at // n + i]
        m.write(register, value, lanes)


def store(m, c, lanes):
    registers, dtype = registers_of(c.operands[1]), TYPES[c.type]
    n = dtype.itemsize
    memory, at = m.locate(c.parts, c.operands[0], lanes, n * len(registers), n * len(registers))
    words = memory[:len(memory) // n * n].view(dtype)
    for i, register in enumerate(registers):
        words[at // n + i] = np.broadcast_to(m.read(register, dtype), lanes.shape)[lanes]


def atomic(m, c, lanes):
    """Lane after lane. The order is not the GPU's, which has none."""
    together = np.add if 'add' in c.parts else np.maximum if 'max' in c.parts else None
    if together is None:
        raise Fault('of atomics only add and max are here')
    dtype = TYPES[c.type]
    memory, at = m.locate(c.parts, c.operands[1], lanes, dtype.itemsize, dtype.itemsize)
    words, value = memory.view(dtype), np.broadcast_to(m.read(c.operands[2], dtype), lanes.shape)
    before = np.zeros(m.n_lanes, dtype)
    for lane, i in zip(np.flatnonzero(lanes), at // dtype.itemsize):
        before[lane] = words[i]
        words[i] = together(words[i], value[lane])
    m.write(c.operands[0], before, lanes)


def to_generic(m, c, lanes):
    """cvta.shared: into the window; cvta.to.global: the same."""
    value = m.read(c.operands[1], U64)
    m.write(c.operands[0], value + U64.type(SHARED_WINDOW) if c.parts[1] == 'shared' else value, lanes)


# ---- moving and converting ----

def move(m, c, lanes):
    to, source = c.operands
    bits = 8 * TYPES[c.type].itemsize
    if isinstance(to, list):
        value, part = np.broadcast_to(m.read(source, TYPES[c.type]), lanes.shape).astype(U64), bits // len(to)
        for i, register in enumerate(to):
            m.write(register, (value >> U64.type(i * part)).astype(TYPES[f'b{part}']), lanes)
    elif isinstance(source, list):
        part = bits // len(source)
        parts = [np.asarray(m.read(r, TYPES[f'b{part}'])).astype(U64) << U64.type(i * part)
                 for i, r in enumerate(source)]
        m.write(to, sum(parts[1:], parts[0]).astype(TYPES[f'b{bits}']), lanes)
    else:
        m.write(to, m.read(source, TYPES[c.type]), lanes)


def convert(m, c, lanes):
    to, source = c.parts[-2:]
    value = m.read(c.operands[1], TYPES[source])
    if source == 'bf16':
        value = bf16_to_f32(value)
    if to == 'bf16':
        result = f32_to_bf16(value.astype(F32))
    elif to[0] in 'us' and value.dtype.kind == 'f' or {'rzi', 'rni'} & {*c.parts}:     # whole, maybe still a float
        result = (np.trunc(value) if 'rzi' in c.parts else np.rint(value)).astype(TYPES[to])
    else:
        result = value.astype(TYPES[to])
    if 'sat' in c.parts:
        result = np.where(np.isnan(result), 0, np.clip(result, 0, 1)).astype(result.dtype)
    m.write(c.operands[0], result, lanes)


def select(m, c, lanes):
    dtype = TYPES[c.type]
    m.write(c.operands[0],
            np.where(m.read(c.operands[3], PRED), m.read(c.operands[1], dtype), m.read(c.operands[2], dtype)), lanes)


COMPARE = {'lt': np.less, 'le': np.less_equal, 'gt': np.greater, 'ge': np.greater_equal, 'eq': np.equal,
           'ne': np.not_equal}


def compare(m, c, lanes):
    """Ordered; with u behind it: or one of the two is NaN. ne is ordered too."""
    if len(c.parts) != 3:
        raise Fault('comparisons joined with a predicate are not here')
    x, y = operands(m, c, TYPES[c.type])
    how, nan = c.parts[1], (x != x) | (y != y)
    if how in ('nan', 'num'):
        result = nan if how == 'nan' else ~nan
    elif how not in COMPARE:
        result = COMPARE[how[:-1]](x, y) | nan
    else:
        result = COMPARE[how](x, y) & ~nan
    m.write(c.operands[0], result, lanes)


# ---- a warp together ----

def shuffle(m, c, lanes):
    """Segments of a warp are not here: the fourth operand is that of the whole (31)."""
    result, value, other, clamp, mask = c.operands
    m.check_members(m.read(mask, U32), lanes)
    if (np.broadcast_to(m.read(clamp, U32), lanes.shape)[lanes] != 31).any():
        raise Fault('shuffles of segments are not here')
    lane, by = m.special['%laneid'], np.asarray(m.read(other, U32)).astype(S64)
    source = {'bfly': lane ^ by, 'down': lane + by, 'up': lane - by, 'idx': by + 0 * lane}[c.parts[2]]
    source = np.where((source < 0) | (source > 31), lane, source)
    moved = np.broadcast_to(m.read(value, U32), lanes.shape)[np.arange(m.n_lanes) - lane + source]
    m.write(result.split('|')[0], moved, lanes)


def vote(m, c, lanes):
    result, value, mask = c.operands
    m.check_members(m.read(mask, U32), lanes)
    said = (np.broadcast_to(m.read(value, PRED), lanes.shape) & lanes).reshape(-1, 32)
    if 'ballot' not in c.parts:
        raise Fault('of votes only ballot is here')
    m.write(result, np.repeat((said @ (1 << np.arange(32, dtype=np.int64))).astype(U32), 32), lanes)


# ---- tensor cores: lane l holds elements 8 l .. 8 l + 7 of a 16 x 16 matrix, row by row. CUDA promises no layout: any
# will do ----

def warps_and_places(m, c, lanes, address, leading, size):
    """For each running warp: its number, and the index of its 256 elements in memory."""
    m.check_members(U32.type(0xffffffff), lanes)
    firsts = np.zeros(m.n_lanes, bool)
    firsts[::32] = lanes[::32]
    memory, at = m.locate(c.parts, address, firsts, size, 32)
    ld = np.broadcast_to(m.read(leading, U32), lanes.shape)[firsts].astype(np.int64)
    if (ld * size % 16).any():
        raise Fault('the leading dimension is no multiple of 16 bytes')
    i, j = np.divmod(np.arange(256), 16)
    if c.parts[5 if 'aligned' in c.parts else 4] == 'col' or 'col' in c.parts[:6]:
        i, j = j, i
    places = at[:, None] // size + i * ld[:, None] + j
    limit = len(memory) // size
    if (places >= limit).any():
        raise Fault('a fragment reaches beyond memory')
    return firsts[::32], memory[:limit * size], places


def wmma(m, c, lanes):
    if c.parts[1] == 'mma':
        return wmma_multiply(m, c, lanes)
    dtype = U16 if c.type in ('bf16', 'f16') else TYPES[c.type]
    if c.parts[1] == 'load':
        registers, address, leading = c.operands
        warps, memory, places = warps_and_places(m, c, lanes, address, leading, dtype.itemsize)
        values = np.ascontiguousarray(memory.view(dtype)[places]).reshape(-1, 8)
        values = values.view(U32) if dtype == U16 else values
        for i, register in enumerate(registers):
            spread = np.zeros(m.n_lanes, values.dtype)
            spread[np.repeat(warps, 32)] = values[:, i % values.shape[1]]
            m.write(register, spread, lanes)
    else:
        address, registers, leading = c.operands
        warps, memory, places = warps_and_places(m, c, lanes, address, leading, dtype.itemsize)
        values = np.stack([m.read(r, dtype) for r in registers], 1).reshape(-1, 256)
        memory.view(dtype)[places] = values[warps]


def wmma_multiply(m, c, lanes):
    """d = a b + c in fp64, rounded once; the GPU's own sums are of about fp32's precision."""
    m.check_members(U32.type(0xffffffff), lanes)
    d, a, b, accumulator = c.operands

    def halves(registers):                          # fp16 has twice the registers, and each element twice
        words = np.ascontiguousarray(np.stack([m.read(r, U32) for r in registers[:4]], 1))
        values = bf16_to_f32(words.view(U16)) if 'bf16' in c.parts else words.view(TYPES['f16'])
        return values.reshape(-1, 16, 16).astype(F64)
    added = np.stack([m.read(r, F32) for r in accumulator], 1).reshape(-1, 16, 16)
    result = (halves(a) @ halves(b) + added).astype(F32).reshape(-1, 8)
    for i, register in enumerate(d):
        m.write(register, np.ascontiguousarray(result[:, i]), lanes)


# ---- arithmetic ----

def fused_multiply_add(a, b, c):
    """fp32, in fp64, to be rounded once. The product is exact in fp64; where the sum is not, the fp64 sum is made odd,
    which no later rounding to fp32 mistakes for a tie."""
    product, c = a.astype(F64) * b.astype(F64), c.astype(F64)
    total = np.atleast_1d(product + c)
    rest = total - product
    error = np.atleast_1d((product - (total - rest)) + (c - rest))
    bits = total.view(S64)
    odd = (error != 0) & (bits & 1 == 0) & np.isfinite(error)
    if odd.any():
        bits[odd] += np.where((error > 0) == (total > 0), 1, -1)[odd]
    return total


def fused_multiply_add_fp64(a, b, c):
    """The product as a sum of two numbers (Dekker 1971), and the sum's error: the last bit may be off where three of
    them meet."""
    def halves(x):
        high = np.float64(2 ** 27 + 1) * x
        high = high - (high - x)
        return high, x - high
    (a1, a2), (b1, b2), product = halves(a), halves(b), a * b
    low = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    total = product + c
    rest = total - product
    error = (product - (total - rest)) + (c - rest)
    exact = total + (error + low)
    return np.where(np.isfinite(exact), exact, total)


def fma(m, c, lanes):
    if c.type == 'f64':
        return m.write(c.operands[0], fused_multiply_add_fp64(*operands(m, c, F64)), lanes)
    exact = fused_multiply_add(*operands(m, c, F32))
    result = exact.astype(F32)
    if 'rm' in c.parts:                             # down
        result = np.where(result > exact, np.nextafter(result, F32.type(-np.inf)), result)
    m.write(c.operands[0], flushed(c, result), lanes)


def flushed(c, value):
    """.ftz: a number below the smallest normal one is zero."""
    if 'ftz' not in c.parts:
        return value
    return np.where(np.abs(value) < F32.type(2.0 ** -126), np.copysign(F32.type(0), value), value)


def towards_zero(x, y):
    if x.dtype.kind == 'u':
        return x // np.where(y == 0, 1, y).astype(x.dtype)
    safe = np.where(y == 0, 1, y)
    return (np.sign(x) * np.sign(safe) * (np.abs(x) // np.abs(safe))).astype(x.dtype)


def from_f64(function):
    return lambda x: function(x.astype(F64)).astype(x.dtype)


PLAIN = {'add': np.add, 'sub': np.subtract, 'and': np.bitwise_and, 'or': np.bitwise_or, 'xor': np.bitwise_xor,
         'not': np.invert,
         'neg': np.negative, 'abs': np.abs, 'min': np.fmin, 'max': np.fmax, 'sqrt': np.sqrt,
         'rcp': from_f64(lambda x: 1 / x), 'rsqrt': from_f64(lambda x: 1 / np.sqrt(x)), 'ex2': from_f64(np.exp2),
         'lg2': from_f64(np.log2),
         'copysign': lambda sign, size: np.copysign(size, sign)}


def plain(m, c, lanes):
    values = operands(m, c, TYPES[c.type])
    if 'ftz' in c.parts:
        values = [flushed(c, v) for v in values]
    m.write(c.operands[0], flushed(c, PLAIN[c.name](*values)), lanes)


def upper_half(x, y):
    """Products of 128 bits, in Python's own integers."""
    x, y = np.broadcast_arrays(x, y)
    return np.array([int(a) * int(b) >> 64 for a, b in zip(x, y)], x.dtype)


def multiply(m, c, lanes):
    """mul and mad: .lo keeps the width, .hi is the upper half, .wide twice the width. mad of integers adds its last
    operand."""
    dtype = TYPES[c.type]
    x, y = m.read(c.operands[1], dtype), m.read(c.operands[2], dtype)
    if dtype.kind != 'f' and ('wide' in c.parts or 'hi' in c.parts):
        if dtype.itemsize == 8:
            return m.write(c.operands[0], upper_half(x, y), lanes)
        bits = 8 * dtype.itemsize
        double = TYPES[c.type[0] + str(2 * bits)]
        result = np.asarray(x).astype(double) * np.asarray(y).astype(double)
        if 'hi' in c.parts:
            result = (result >> double.type(bits)).astype(dtype)
    else:
        result = x * y
    if c.name == 'mad':
        result = result + m.read(c.operands[3], result.dtype)
    m.write(c.operands[0], flushed(c, result), lanes)


def divide(m, c, lanes):
    x, y = operands(m, c, TYPES[c.type])
    quotient = x / y if c.type[0] == 'f' else towards_zero(np.asarray(x), np.asarray(y))
    m.write(c.operands[0], quotient if c.name == 'div' else x - quotient * y, lanes)


def shift(m, c, lanes):
    """By more than the width: nothing is left, or the sign alone."""
    dtype = TYPES[c.type]
    value, by = m.read(c.operands[1], dtype), np.asarray(m.read(c.operands[2], U32))
    width, inside = 8 * dtype.itemsize, np.minimum(by, 8 * dtype.itemsize - 1).astype(dtype)
    result = value << inside if c.name == 'shl' else value >> inside
    if c.name == 'shl' or dtype.kind == 'u':
        result = np.where(by >= width, 0, result).astype(dtype)
    m.write(c.operands[0], result, lanes)


# ---- bits ----

def insert_bits(m, c, lanes):
    source, target, first, n = (np.asarray(m.read(o, U32)).astype(U64) for o in c.operands[1:])
    mask = ((U64.type(1) << n) - U64.type(1)) << first & U64.type(0xffffffff)
    m.write(c.operands[0], (target & ~mask | source << first & mask).astype(U32), lanes)


def highest_bit(m, c, lanes):
    """bfind: its number; .shiftamt: how far it is from the top. 0: all ones."""
    value = m.read(c.operands[1], U32)
    number = np.frexp(value.astype(F64))[1] - 1
    number = np.where(value == 0, -1, 31 - number if 'shiftamt' in c.parts else number)
    m.write(c.operands[0], number.astype(np.int32), lanes)


def count_bits(m, c, lanes):
    value = m.read(c.operands[1], U32)
    m.write(c.operands[0], sum(value >> U32.type(bit) & U32.type(1) for bit in range(32)).astype(U32), lanes)


def reverse_bits(m, c, lanes):
    value, result = m.read(c.operands[1], U32), U32.type(0)
    for i in range(32):
        result = result | (value >> U32.type(i) & U32.type(1)) << U32.type(31 - i)
    m.write(c.operands[0], result, lanes)


def permute_bytes(m, c, lanes):
    """Byte i of the result is the one of the eight of {b, a} that hex digit i of the selector names; 8 more: its
    sign."""
    a, b, selector = (np.asarray(m.read(o, U32)).astype(U64) for o in c.operands[1:])
    both, result = b << U64.type(32) | a, np.zeros(m.n_lanes, U64)
    for i in range(4):
        digit = selector >> U64.type(4 * i) & U64.type(15)
        byte = both >> (digit & U64.type(7)) * U64.type(8) & U64.type(255)
        byte = np.where(digit & U64.type(8), np.where(byte & U64.type(128), U64.type(255), U64.type(0)), byte)
        result |= byte << U64.type(8 * i)
    m.write(c.operands[0], result.astype(U32), lanes)


OPERATIONS = {'ld': load, 'st': store, 'atom': atomic, 'cvta': to_generic, 'mov': move, 'cvt': convert, 'selp': select,
              'setp': compare,
              'shfl': shuffle, 'vote': vote, 'wmma': wmma, 'fma': fma, 'mul': multiply, 'mad': multiply, 'div': divide,
              'rem': divide, 'shl': shift, 'shr': shift, 'bfi': insert_bits, 'bfind': highest_bit, 'brev': reverse_bits,
              'popc': count_bits,
              'prmt': permute_bytes, **{name: plain for name in PLAIN}}
