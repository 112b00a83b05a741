"""nvcc's PTX, parsed: a module's kernels as lists of instructions.

Only what nvcc makes of this project's kernels is understood; anything else is refused by name, here or when it would
run.
"""
import re

# Bytes of a register or a parameter, by the last part of its type
SIZES = {'8': 1, '16': 2, '32': 4, '64': 8}


class Instruction:
    """@!p op.part.part a, {b, c}, [d+4];   with the source line that it was compiled from"""

    def __init__(self, text, source):
        self.text, self.source = text, source
        self.predicate, self.negated = None, False
        if text[0] == '@':
            predicate, text = text[1:].split(None, 1)
            self.negated = predicate[0] == '!'
            self.predicate = predicate.lstrip('!')
        op, _, operands = text.replace('\t', ' ').partition(' ')
        self.parts = op.split('.')
        self.name, self.type = self.parts[0], self.parts[-1]
        self.operands = [operand(o) for o in re.findall(r'\s*(\{[^}]*\}|\[[^\]]*\]|[^,\s{\[][^,]*)', operands)]

    def ends_block(self):
        return self.name in ('bra', 'ret', 'exit', 'bar', 'barrier')

    def is_barrier(self):
        return self.name in ('bar', 'barrier') and 'warp' not in self.parts

    def is_meeting(self):
        return self.name == 'bar' and 'warp' in self.parts


def operand(text):
    """A register or constant is a string, {a, b} a list of them, [a+4] a pair (base, offset)."""
    text = text.strip()
    if text[0] == '{':
        return [part.strip() for part in text[1:-1].split(',')]
    if text[0] == '[':
        base, offset = re.fullmatch(r'\[([^+\]]+)(?:\+(-?\w+))?\]', text).groups()
        return (base, int(offset or '0', 0))
    return text


class Kernel:
    """code: instructions; labels: name -> index; params: name -> (offset, bytes); registers: declared ones, name or
    prefix -> type; shared: array -> offset; constants: the module's array -> bytes. `block_end[i]`: the instruction
    after the basic block that begins at i."""

    def __init__(self, name, parameters, body, dynamic, files, constants):
        self.constants = constants
        self.name, self.code, self.labels, self.registers, self.shared = name, [], {}, {}, {}
        self.params, self.param_bytes = self.lay_out(parameters)
        self.shared_bytes, source = 0, ''
        for line in statements(body):
            if line.startswith('.loc'):
                number, row = line.split()[1:3]
                source = f'{files.get(number, "?")}:{row}'
            elif line.startswith('.reg'):
                kind, names = re.match(r'\.reg \.(\w+) (.*)', line).groups()
                for n in names.split(','):
                    self.registers[n.strip().split('<')[0]] = kind
            elif line.startswith('.shared'):
                align, kind, array, n = re.search(r'\.align (\d+) \.[bufs](\d+) (\w+)(?:\[(\d+)\])?', line).groups()
                self.shared_bytes = round_up(self.shared_bytes, int(align))
                self.shared[array] = self.shared_bytes
                self.shared_bytes += SIZES[kind] * int(n or 1)
            elif line.startswith(('.pragma', '.param')):     # the latter of a call, which is refused when it would run
                pass
            elif line.startswith('.'):
                raise ValueError(f'{name}: not understood: {line}')
            elif re.fullmatch(r'\$?\w+:', line):
                self.labels[line[:-1]] = len(self.code)
            else:
                self.code.append(Instruction(line, source))
        self.shared_bytes = round_up(self.shared_bytes, 128)
        for array in dynamic:                       # dynamic shared memory begins where the static one ends
            self.shared[array] = self.shared_bytes
        self.find_blocks()

    @staticmethod
    def lay_out(parameters):
        at, params = 0, {}
        for p in parameters.split(','):
            if not p.strip():
                continue
            array = re.search(r'\.align (\d+) \.b8 (\w+)\[(\d+)\]', p)
            if array:
                align, name, size = int(array.group(1)), array.group(2), int(array.group(3))
            else:
                kind, name = re.search(r'\.param \.(\w+)(?: \.ptr[^_]*?)? (\w+)$', p.strip()).groups()
                align = size = SIZES[kind[1:]]
            at = round_up(at, align)
            params[name] = (at, size)
            at += size
        return params, at

    def is_of(self, file):
        """Not of a header: that is compiled into files that have no use for it."""
        return any(f'/{c.source}:'.rpartition('/')[2].startswith(file.rpartition('/')[2] + ':') for c in self.code)

    def find_blocks(self):
        starts = set(self.labels.values()) | {i + 1 for i, c in enumerate(self.code) if c.ends_block()}
        self.block_end, end = [0] * len(self.code), len(self.code)
        for i in reversed(range(len(self.code))):
            self.block_end[i] = end
            if i in starts:
                end = i


def round_up(n, to):
    return -(-n // to) * to


def statements(body):
    """One at a time, without comments, and without the braces of inline assembly's own scopes."""
    body = re.sub(r'//[^\n]*', '', body)
    for line in re.sub(r';', ';\n', body).split('\n'):
        line = line.strip()
        while line[:1] in ('{', '}') and line:
            line = line[1:].strip()
        line = line.rstrip(';').strip()
        if not line:
            continue
        yield line


def parse(text):
    """Kernels by name, of a module's text."""
    files = {n: '/'.join(path.split('/')[-3:]) for n, path in re.findall(r'^\s*\.file\s+(\d+) "([^"]+)"', text, re.M)}
    dynamic = re.findall(r'\.extern \.shared \.align \d+ \.b8 (\w+)\[\]', text)
    constants = {name: bytes(int(n) for n in values.split(',')) for name, values in
                 re.findall(r'^\.(?:global|const) \.align \d+ \.b8 (\w+)\[\d+\] = \{([^}]*)\};', text, re.M)}
    kernels = {}
    for entry in re.finditer(r'\.entry (\w+)\((.*?)\)(.*?)\n\{', text, re.S):
        body = text[entry.end():closing_brace(text, entry.end())]
        kernels[entry.group(1)] = Kernel(entry.group(1), entry.group(2), body, dynamic, files, constants)
    return kernels


def closing_brace(text, at):
    """Find the end of the brace that was opened before `at`."""
    depth = 1
    for brace in re.finditer(r'[{}]', text[at:]):
        depth += 1 if brace.group() == '{' else -1
        if depth == 0:
            return at + brace.start()
    raise ValueError('a kernel without an end')



def readable(mangled):
    """A kernel's name in its source."""
    match = re.match(r'_ZN?(\d+)', mangled)
    return mangled[match.end():match.end() + int(match.group(1))] if match else mangled


def of_object(path):
    """The PTX in an object that nvcc made with --no-compress."""
    content = open(path, 'rb').read()
    start = content.index(b'.version')
    return content[start:content.index(b'\0', start)].decode()
