"""What an object file contains: sections and symbols, read from the file itself. It may come from anybody, so every
size is checked."""
import collections
import os
import struct

from . import Trouble

Symbol = collections.namedtuple("Symbol", "name bind type defined")     # defined: in which section; 0: it is not
Section = collections.namedtuple("Section", "name flags")
CODE = 4                                             # of a section's flags
LOCAL, GLOBAL, WEAK, UNIQUE = 0, 1, 2, 10            # bind
OBJECT, FUNC, IFUNC = 1, 2, 10                       # type
PROGBITS, SYMTAB = 1, 2                              # of a section
NAMES_MAX = 16 << 20                                 # letters of all names together: in a file they may share theirs


def piece(data, start, size):
    if start < 0 or size < 0 or start + size > len(data):
        raise Trouble("the object file is damaged")
    return data[start:start + size]


class Sections:
    """The headers of a 64-bit little-endian object, at `offset` in `data`; their names."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if piece(self.data, 0, 6) != b"\x7fELF\x02\x01":
            raise Trouble("the compiler has not made a 64-bit ELF object")
        self.offset, = struct.unpack("<Q", piece(self.data, 0x28, 8))
        entry, count, names = struct.unpack("<HHH", piece(self.data, 0x3A, 6))
        if entry != 64 or names >= count:
            raise Trouble("the object file is damaged")
        self.letters = 0
        self.headers = [struct.unpack("<IIQQQQIIQQ", piece(self.data, self.offset + 64 * i, 64)) for i in range(count)]
        self.names = [self.text_at(self.content(names), h[0]) for h in self.headers]

    def text_at(self, strings, start):
        end = strings.find(b"\0", start)
        if start > len(strings) or end < 0:
            raise Trouble("the object file is damaged")
        self.letters += end - start
        if self.letters > NAMES_MAX:
            raise Trouble(f"the object file has names of more than {NAMES_MAX >> 20} MiB")
        return strings[start:end].decode("latin-1")

    def content(self, i):
        if i >= len(self.headers):
            raise Trouble("the object file is damaged")
        return piece(self.data, self.headers[i][4], self.headers[i][5])


def read(path):
    """(sections, symbols)"""
    sections, symbols = Sections(path), []
    for i, h in enumerate(sections.headers):
        if h[1] != SYMTAB:
            continue
        table, strings = sections.content(i), sections.content(h[6])
        for at in range(24, len(table) - 23, 24):
            name, info, _, section, _, _ = struct.unpack("<IBBHQQ", table[at:at + 24])
            symbols.append(Symbol(sections.text_at(strings, name), info >> 4, info & 15, section))
    return [Section(name, h[2]) for name, h in zip(sections.names, sections.headers)], symbols


def unlist(path, name):
    """Make a table of one function that runs early plain data, without a name by which a linker would know it."""
    s = Sections(path)
    data = bytearray(s.data)
    for i, h in enumerate(s.headers):
        if s.names[i] == name and h[5] == 8:
            struct.pack_into("<II", data, s.offset + 64 * i, 0, PROGBITS)
    os.remove(path)                                  # not in place: a compiler's cache may have the same file
    with open(path, "wb") as f:
        f.write(data)


def capitalize(path, out, names):
    """A copy in which what the object uses of these names begins with a capital letter: malloc is Malloc."""
    s = Sections(path)
    data = bytearray(s.data)
    for i, h in enumerate(s.headers):
        table = s.content(i) if h[1] == SYMTAB else b""
        for at in range(24, len(table) - 23, 24):
            name, _, _, section, _, _ = struct.unpack("<IBBHQQ", table[at:at + 24])
            if not section and s.text_at(s.content(h[6]), name) in names:
                first = s.headers[h[6]][4] + name
                data[first:first + 1] = data[first:first + 1].upper()
    with open(out, "wb") as f:
        f.write(data)


def globals_of(path):
    """Names that this object gives to others."""
    return {s.name for s in read(path)[1] if s.defined and s.bind != LOCAL}


def strong_of(path):
    """The ones that only one object may have: no inline functions."""
    return {s.name for s in read(path)[1] if s.defined and s.bind == GLOBAL}
