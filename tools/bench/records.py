"""Records of measurements, as files that can be read: a line for each thing that fits into one."""
import json


def dump(value, file, width=1000, indent=0):
    """Writes value as JSON; what has more than `width` characters has a line for each of its parts."""
    short = json.dumps(value)
    if len(short) <= width or not isinstance(value, (dict, list)):
        file.write(short)
        return
    items = value.items() if isinstance(value, dict) else [(None, v) for v in value]
    brackets = "{}" if isinstance(value, dict) else "[]"
    for i, (key, part) in enumerate(items):
        file.write((brackets[0] if i == 0 else ",") + "\n" + " " * (indent + 1))
        file.write("" if key is None else json.dumps(key) + ": ")
        dump(part, file, width, indent + 1)
    file.write("\n" + " " * indent + brackets[1])
