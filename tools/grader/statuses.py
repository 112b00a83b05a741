"""A call whose status is dropped: the compiler's warnings, and gcc's own view of what becomes of each value
(-fdump-tree-ssa).

In that view every assignment has a name of its own, s_3, and a PHI joins those of several ways: s_5 = PHI <s_3, s_4>. A
status is looked at where it, or what is computed from it, decides, is given to a call, is stored or is returned. What
only overwrites it, or asks and then does nothing, looks at nothing."""
import collections
import graphlib
import os
import re

from . import ROOT, Trouble

STATUS_H = "lib/base/status.h"
# a folder of the place: a copy of that header, by which the compiler warns of a call whose status is dropped
LOOKED_AT = "looked-at"
MOST_SHOWN = 100             # letters of the line
MOST_STATEMENTS = 4000       # of a function, within which a status that is overwritten is looked for

STATUS = r"(?:enum )?status(?:D\.\d+)?"
PLACE = r"(?:\[[^\]\n]{1,4096}\] ?)*"


# ---- the compiler's words ----

def with_statuses_looked_at(place):
    """The compiler's words for that copy."""
    copy = os.path.join(place.host_work, LOOKED_AT, STATUS_H)
    with open(os.path.join(ROOT, STATUS_H), encoding="utf-8") as f:
        before = f.read()
    after = before.replace("enum status {", "enum [[nodiscard]] status {")
    if after == before:
        raise Trouble(f"{STATUS_H} has no \"enum status {{\"")
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    with open(copy, "w", encoding="utf-8") as f:
        f.write(after)
    return [f"-iquote{place.work}/{LOOKED_AT}"]


def values_of(path):
    """The compiler's words for its view of a file's values, in a file."""
    return f"-fdump-tree-ssa-lineno-uid-blocks={path}"


def warned(source, words, name):
    """The number of the first line, by the compiler's warnings, that calls what can fail and drops its status; None:
    there is none."""
    lines = source.split("\n")
    for number, what in re.findall(rf"^{re.escape(name)}:(\d{{1,7}}):\d{{1,7}}: warning: (.{{1,200}})", words, re.M):
        line = lines[int(number) - 1] if int(number) <= len(lines) else ""
        unread = re.match(r"(?P<never>unused )?variable .(?P<name>\w{1,100}).(?(never)| set but not used)", what)
        call = r"\s*=\s*[\w.>-]{1,100}\(" if unread and unread["never"] else ""
        if re.match(r"ignoring return(ed)? value of type .(enum )?status\b", what) or \
                unread and re.search(rf"\benum status\b[^;]{{0,200}}\b{unread['name']}\b{call}", line[:1000]):
            return int(number)
    return None


# ---- values ----

class Statement:
    """to: the name that it gives a value, or None; names: those in it; where: its line of the submission, or 0; after:
    what may follow."""

    def __init__(self, text, name):
        said = re.match(rf"\s*({PLACE})(# )?(?:([\w.]*_\d+) = )?(.*)", text)
        self.to, value, self.is_phi = said[3], said[4], bool(said[2])
        self.names = set(re.findall(r"(?<![\w.])[\w.]*_\d+(?![\w.])", value))
        self.is_call = bool(re.search(r"[\w>] \(", value)) and not self.is_phi
        self.is_failure = self.is_call and value.startswith("status_fail")
        self.may_fail = self.is_call and bool(self.to) and not self.is_failure
        line = re.search(rf"(?:^|[\[/]){re.escape(name)}:(\d{{1,7}}):", said[1])
        self.where, self.after = int(line[1]) if line else 0, []


class Function:
    """What the view says of one: its statements, the names that are a status, and its variables of that type."""

    def __init__(self, text, name):
        head, *blocks = re.split(r"^;;   basic block ", text, flags=re.M)
        declared = re.findall(rf"\b{STATUS} ([\w.]+?)(D\.\d+)?[;,)]", head)
        self.temporary = {n for n, of_variable in declared if not of_variable}
        self.variables = collections.Counter(n for n, of_variable in declared if of_variable)
        self.statements, first, last, to = [], {}, {}, {}
        for block in blocks:
            number, own = block.split(",", 1)[0], [Statement("", name)]
            lines, _, following = block.partition(";;    succ:")
            own += [Statement(line, name) for line in lines.split("\n")[1:]
                    if line.strip() and not line.startswith(";;")]
            for one, other in zip(own, own[1:]):
                one.after = [other]
            self.statements += own
            first[number], last[number], to[number] = own[0], own[-1], re.findall(r"\b\d+\b", following)
        for number, statement in last.items():
            statement.after = [first[n] for n in to[number] if n in first]

    def dropped(self):
        """Calls whose status nothing looks at, or that is overwritten before."""
        live = self.looked_at()
        calls = [s for s in self.statements if s.may_fail and s.where
                 and (s.to in self.temporary or variable_of(s.to) in self.variables)]
        found = [s for s in calls if s.to not in live]
        if len(self.statements) <= MOST_STATEMENTS:
            reads, writes = self.by_variable()
            # two of one name have one name here
            found += [s for s in calls if self.variables[variable_of(s.to)] == 1 and
                      self.is_overwritten(s, reads[variable_of(s.to)], writes[variable_of(s.to)])]
        return found

    def looked_at(self):
        """Names that decide or leave the function, or that such a one is computed from."""
        made_of = {s.to: s.names for s in self.statements if s.to and not s.is_call}
        new = [n for s in self.statements if not s.to or s.is_call for n in s.names]
        found = set(new)
        while new:
            more = made_of.get(new.pop(), set()) - found
            found |= more
            new += more
        return found

    def by_variable(self):
        """The statements that read each, and that write it."""
        reads, writes = collections.defaultdict(set), collections.defaultdict(set)
        for s in self.statements:
            if not s.is_phi:
                for n in s.names:
                    reads[variable_of(n)].add(s)
                if s.to:
                    writes[variable_of(s.to)].add(s)
        return reads, writes

    def is_overwritten(self, call, reads, writes):
        """By an assignment that runs after the call only, and that no look at the status comes before; or by the call
        itself, in a loop that it is in each time. A failure in its place is one, too: the caller gets that."""
        seen = reached(call.after, reads | writes)
        after_a_look = reached([n for s in seen & reads for n in s.after], writes)
        others = {s for s in (seen & writes) - after_a_look - reads if not s.is_failure}
        if call in others and not has_a_loop(seen - {call}):
            return True
        return bool((others - {call}) - reached(self.statements[:1], {call}))


def variable_of(name):
    """s_3: s; of a value without a variable, _3: "" """
    return re.sub(r"_\d+$", "", name)


def reached(first, ends):
    """The statements that run after these, up to and with those of `ends`."""
    found, new = set(first), [s for s in first if s not in ends]
    while new:
        for s in new.pop().after:
            if s not in found:
                found.add(s)
                if s not in ends:
                    new.append(s)
    return found


def has_a_loop(statements):
    try:
        graphlib.TopologicalSorter({s: [n for n in s.after if n in statements] for s in statements}).prepare()
    except graphlib.CycleError:
        return True
    return False


def unread(view, name):
    """The number of the first line whose call's status is dropped, by the compiler's view; None: there is none."""
    functions = re.split(r"^;; Function ", view, flags=re.M)[1:]
    return min((s.where for f in functions for s in Function(f, name).dropped()), default=None)


# ---- both ----

def statuses(place, name, words, view, compile_copy):
    """What to say of a call whose status is dropped, also by (void), but for that of FAIL: the compiler sees it in a
    copy without this word. words: its warnings; view: its file of values_of; compile_copy(path): its warnings on the
    copy. None: there is none."""
    with open(os.path.join(place.host_work, name), encoding="utf-8", errors="replace") as f:
        source = f.read()
    bare = re.sub(r"\(void\)(?=\s*(?!FAIL\b)\w[\w.>-]{0,100}\()", "      ", source)
    number = warned(source, words, name)
    if not number and bare != source:
        with open(os.path.join(place.host_work, LOOKED_AT, name), "w", encoding="utf-8", errors="replace") as f:
            f.write(bare)
        number = warned(source, compile_copy(f"{LOOKED_AT}/{name}"), name)
    if not number:
        with open(os.path.join(place.host_work, view), encoding="utf-8", errors="replace") as f:
            number = unread(f.read(), name)
    if not number:
        return None
    line = source.split("\n")[number - 1].strip()[:MOST_SHOWN]
    return f"{name}:{number}: the status of a call is dropped: {line}\n" \
           "help: a call says by its status that it has failed; TRY(call) returns that to your caller"
