"""The tables of config.json's keys, read from the C files that have them (lib/checkpoint/hf_keys.h); for
tests/hf_keys.py and tests/hf_variants.py."""
import re

SHARED = "lib/checkpoint/hf_keys_shared.c"
FILES = {"gpt2": ("models/gpt/gpt_hf_config.c", None), "bert": ("models/bert/bert_hf_config.c", None),
         "t5": ("models/t5/t5_hf_config.c", None),
         "llama": ("lib/checkpoint/hf_llama.c", ("BOTH", "LLAMA")),
         **{family: ("lib/checkpoint/hf_llama.c", ("BOTH", family.upper()))
            for family in ("mixtral", "mistral", "qwen2", "qwen3", "olmo2")}}

ROW = re.compile(r'\{"([^"]+)", (HF_\w+), (NULL|"[^"]*"), (NULL|"[^"]*"), ')


class Key:
    def __init__(self, names, use, missing, wanted):
        self.names, self.use = names.split("|"), use
        self.missing, self.wanted = (None if x == "NULL" else x.strip('"') for x in (missing, wanted))


class Table:
    """rows: of struct hf_key; none, free: words."""

    def __init__(self, rows=(), none=(), free=()):
        self.rows, self.none, self.free = list(rows), list(none), list(free)

    def names(self):
        return {name for key in self.rows for name in key.names} | set(self.none) | set(self.free)


def words(text):
    return " ".join(re.findall(r'"([^"]*)"', text)).split()


def table_of(text, name):
    """The struct hf_keys of that name, and what it points to."""
    keys, none, free = re.search(r"struct hf_keys %s = \{(\w+), (.*?), (.*?)\};" % name, text, re.S).groups()
    rows = re.search(r"struct hf_key %s\[\] = \{\n(.*?)\n\};" % keys, text, re.S).group(1)

    def words_of(what):
        named = re.search(r"static const char %s\[\] =(.*?);" % what, text, re.S)
        return words(named.group(1) if named else what)
    return Table([Key(*row) for row in ROW.findall(rows)], words_of(none), words_of(free))


def read(family):
    """All tables of a family as one."""
    path, names = FILES[family]
    with open(path) as f, open(SHARED) as g:
        text, shared = f.read(), g.read()
    names = names or [re.search(r"struct hf_keys (\w+) = ", text).group(1)]
    all_of = Table()
    for table in [table_of(text, name) for name in names] + [table_of(shared, "hf_keys_shared")]:
        all_of.rows += table.rows
        all_of.none += [name for name in table.none if name not in all_of.names()]
        all_of.free += table.free
    return all_of
