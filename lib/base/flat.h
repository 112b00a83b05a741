/* A file of another program as a list of keys and values, whatever its syntax. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stdbool.h>

enum { FLAT_KEY = 160, FLAT_VALUE = 256 };
/* key: "section.key" for a value within objects; value: a text without quotes, true and false, "null", or the JSON of a
 * list. A value with a $ is a running shell's. */
struct flat_pair { char key[FLAT_KEY], value[FLAT_VALUE]; };
struct flat { int n, room; struct flat_pair *at; };

/** @return the value; NULL: the key is not there */
const char *flat_value(const struct flat *, const char *key);
void flat_fini(struct flat *);

/** Add a value; its key is section.key. flat_join: that key. @errors E_FORMAT: a key of too many bytes; E_MEMORY */
enum status flat_add(struct flat *, const char *section, const char *key, const char *value);
enum status flat_join(char out[FLAT_KEY], const char *section, const char *key);

/** @param out filled; call flat_fini also after an error  @errors E_MEMORY */
enum status flat_json(const json_t *, struct flat *out);
/** Sections, keys, and values in one line, or lists over lines. @errors E_FORMAT naming the line; E_MEMORY */
enum status flat_toml(const char *path, const char *text, struct flat *out);
/** By libyaml. @errors E_FORMAT naming the line; E_MEMORY */
enum status flat_yaml(const char *path, const char *text, struct flat *out);
/** The options of the program that a shell script starts: those of the one command with --num-layers or
 *  --micro-batch-size. Variables are followed as a shell does, but for what is conditional, and for other programs'
 *  output: such words keep their $. @errors E_FORMAT: no such command, or several; E_MEMORY */
enum status flat_shell(const char *path, const char *text, struct flat *out);
