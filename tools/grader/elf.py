"""What an object file contains: sections and symbols, read from the file itself. It may come from anybody, so every size is checked."""
import collections
import struct

from . import Trouble

Symbol = collections.namedtuple("Symbol", "name bind type defined")
LOCAL, GLOBAL, WEAK, IFUNC = 0, 1, 2, 10
SYMTAB = 2


def piece(data, start, size):
    if start < 0 or size < 0 or start + size > len(data):
        raise Trouble("the object file is damaged")
    return data[start:start + size]


def text_at(strings, start):
    end = strings.find(b"\0", start)
    if start > len(strings) or end < 0:
        raise Trouble("the object file is damaged")
    return strings[start:end].decode("latin-1")


def read(path):
    """Names of the sections, and the symbols, of a 64-bit little-endian object."""
    with open(path, "rb") as f:
        data = f.read()
    if piece(data, 0, 6) != b"\x7fELF\x02\x01":
        raise Trouble("the compiler has not made a 64-bit ELF object")
    offset, = struct.unpack("<Q", piece(data, 0x28, 8))
    entry, count, names = struct.unpack("<HHH", piece(data, 0x3A, 6))
    if entry != 64 or names >= count:
        raise Trouble("the object file is damaged")
    headers = [struct.unpack("<IIQQQQIIQQ", piece(data, offset + 64 * i, 64)) for i in range(count)]

    def content(i):
        if i >= count:
            raise Trouble("the object file is damaged")
        return piece(data, headers[i][4], headers[i][5])

    all_names = content(names)
    section_names = [text_at(all_names, h[0]) for h in headers]
    symbols = []
    for i, h in enumerate(headers):
        if h[1] != SYMTAB:
            continue
        table, strings = content(i), content(h[6])
        for at in range(24, len(table) - 23, 24):
            name, info, _, section, _, _ = struct.unpack("<IBBHQQ", table[at:at + 24])
            symbols.append(Symbol(text_at(strings, name), info >> 4, info & 15, section != 0))
    return section_names, symbols


def globals_of(path):
    """Names that this object gives to others."""
    return {s.name for s in read(path)[1] if s.defined and s.bind != LOCAL}


def wanted_by(path):
    """Names that it wants from others."""
    return {s.name for s in read(path)[1] if not s.defined and s.name}
