"""The tables of config.json's keys, read from the C files that have them (lib/checkpoint/hf_keys.h); for
tests/hf_keys.py and tests/hf_variants.py."""
import re

SHARED = "lib/checkpoint/hf_keys_shared.c"
OF_EXPERTS = {"gpt_oss": "../moe/"}
FAMILIES = "models/llama/families"                  # a file for each, and family.c with the keys of all


def families():
    """The names in the lists of family.h."""
    with open(f"{FAMILIES}/family.h") as f:
        lists = re.findall(r"#define FAMILIES_OF_\w+\(X\)((?:.*\\\n)+.*)", f.read())
    return [name for text in lists for name in re.findall(r"X\((\w+)\)", text)]


# The files of each model with tables of its own; the sizes and the keys that all models share are in SHARED
FILES = {"gpt2": ["models/gpt/gpt_hf_config.c"], "bert": ["models/bert/bert_hf_config.c"],
         "t5": ["models/t5/t5_hf_config.c"],
         **{family: [f"{FAMILIES}/family.c", f"{FAMILIES}/{OF_EXPERTS.get(family, '')}{family}.c"]
            for family in families()}}

ROW = re.compile(r'\{"([^"]+)", (HF_\w+), (NULL|"[^"]*"), (NULL|"[^"]*"), ')


class Key:
    def __init__(self, names, use, missing, wanted):
        self.names, self.use = names.split("|"), use
        self.missing, self.wanted = (None if x == "NULL" else x.strip('"') for x in (missing, wanted))


class Table:
    """rows: of struct hf_key; none, free: words; sizes: it is hf_keys_sizes."""

    def __init__(self, rows=(), none=(), free=(), sizes=False):
        self.rows, self.none, self.free, self.sizes = list(rows), list(none), list(free), sizes

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
    return Table([Key(*row) for row in ROW.findall(rows)], words_of(none), words_of(free), name == "hf_keys_sizes")


def tables_of(path):
    with open(path) as f:
        text = f.read()
    return [table_of(text, name) for name in re.findall(r"const struct hf_keys (\w+) = ", text)]


def read(family):
    """All tables of a family as one."""
    all_of = Table()
    for table in [table for path in FILES[family] + [SHARED] for table in tables_of(path)]:
        if table.sizes and family in ("gpt2", "t5"):        # which have names of their own
            continue
        all_of.rows += table.rows
        all_of.none += [name for name in table.none if name not in all_of.names()]
        all_of.free += table.free
    return all_of
