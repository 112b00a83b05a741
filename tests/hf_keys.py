"""Are the tables of config.json's keys whole? For tests/hf_variants.sh.

    hf_keys.py

Every key that transformers reads of a model is in the tables that import reads config.json by (tests/hf_tables.py):
those that its modeling file and the code that all models share ask a config for, the fields of its configuration class,
and their other names."""
import os
import re

import hf_tables
import transformers

# What the shared code reads that is no key of config.json: attributes that a config has for itself, or of other kinds
# of configs
OF_THE_CLASS = {"json", "sub_configs", "rope_type", "is_heterogeneous", "default_theta", "default_rope_type",
                "attribute_map", "base_model_fsdp_plan",
                "has_no_defaults_at_init", "keys_to_ignore_at_inference", "base_config_key", "extra_files",
                "is_composition", "ignore_keys_at_rope_validation"}
SHARED = ["masking_utils.py", "modeling_rope_utils.py", "cache_utils.py", "modeling_utils.py", "configuration_utils.py"]
# Only these have positions that a config can scale
ROTARY = hf_tables.families()
READS = [r"(?<![\w.])(?:self\.|model\.|decoder_|text_)?config\.(\w+)",
         r"(?:get|has)attr\((?:self\.)?config, ?\"(\w+)\"",
         r"kwargs\.(?:pop|get)\(\"(\w+)\""]
# Only code that no text model of these families comes to asks for them
OF_OTHERS = {"alibi", "use_alibi", "vision_config", "device_mesh", "base_model_tp_plan", "base_model_pp_plan",
             "base_model_ep_plan", "quant_method"}


def asked_for(path):
    with open(os.path.join(os.path.dirname(transformers.__file__), path)) as f:
        text = f.read()
    if "configuration_utils" in path:  # of what it is given, only what makes a config of a file
        text = "".join(re.findall(r"    def (?:__init__|__post_init__)\(.*?(?=\n    def |\n    @)", text, re.S))
    patterns = READS if "configuration" in path or "rope" in path else READS[:2]
    return {name for pattern in patterns for name in re.findall(pattern, text)}


def class_of(family):
    return transformers.CONFIG_MAPPING[family]


def is_data(config, name):
    return not callable(getattr(config, name, None)) and name not in OF_THE_CLASS | OF_OTHERS \
           and not name.startswith("__")


def wanted(family):
    config = class_of(family)
    names = asked_for(f"models/{family}/modeling_{family}.py") | set(config().to_dict()) | set(config.attribute_map)
    shared = [path for path in SHARED if "rope" not in path or family in ROTARY]
    for path in shared + [f"models/{family}/configuration_{family}.py"]:
        names |= asked_for(path)
    return {name for name in names if is_data(config, name) and (family in ROTARY or "rope_" not in name)}


def main():
    for family in hf_tables.FILES:
        table = hf_tables.read(family)
        missing = sorted(wanted(family) - table.names())
        aliases = {**class_of(family).attribute_map}
        apart = [f"{a} and {b}" for a, b in aliases.items() if not any({a, b} <= set(key.names) for key in table.rows)]
        wrong = (f"transformers {transformers.__version__} reads {', '.join(missing)}; " if missing else "") + \
            (f"one key in transformers: {', '.join(apart)}" if apart else "")
        print(f"not ok {family}_table_has_every_key {wrong}" if wrong else f"ok {family}_table_has_every_key")


if __name__ == "__main__":
    main()
