/* A stack: the program that trains, where it is not this one. The same layout of the same model takes other times and
 * other memory in it. A section of configs/stacks.ini says in what, and a comment names the source of each figure.
 *
 *   options     of the plan, such as grad-fp32: fp32 gradients, which sums over replicas send, too
 *   replay      this program replays what backward reads (recompute/recompute.c); Megatron runs whole layers again
 *   exchanges   what hides those of tp, of replicas, and of sharded weights; rings over all ranks, or level by level
 *   rows        a multiple of the bytes that this program's memory-bound rows move: fusion
 *   memory      what no count of tensors has: fragments, buffers, workspaces
 *
 * A cluster has one stack (cluster.h), so whatever prices on a cluster prices for its stack. */
#pragma once

#include "lib/base/option.h"
#include <stdbool.h>
#include <stdint.h>

struct cluster;

/* Whose arguments or files say a layout (stack_command.c). */
enum stack_command {
    STACK_NONE, STACK_MEGATRON_2021, STACK_MEGATRON_CORE, STACK_DEEPSPEED, STACK_TORCHTITAN, STACK_NANOTRON,
    N_STACK_COMMANDS
};

/* All 0: this program. */
struct stack {
    char name[32], options[OPTION_TEXT_MAX];   /* options: "grad-fp32:on, ...", which the user may set otherwise */
    enum stack_command command;
    bool no_zero_bubble, no_chunks;   /* a search leaves out zb-h1 and zb-v; and interleaved */
    bool whole_layers;           /* a replay of all of a layer runs its whole forward, with its exchanges */
    bool buckets;                /* gathers of weights are few and large; else one for each param */
    bool in_place;               /* sums and gathers have no buffers of their own */
    bool rings;                  /* a collective is one ring over all its ranks; else wire_time.h's levels */
    bool sums_wait;              /* nothing hides sums over replicas ... */
    int64_t sums_hide_from_zero; /* ... unless this ZeRO stage or a later one is on; 0: no stage does */
    bool gathers_wait;           /* nothing hides the gathers of ZeRO-1 and 2 */
    bool replay_gathers;         /* ZeRO-3 gathers a third time, for the replay; this program gathers for it and the
                                  * backward at once */
    double tp_hidden_part;       /* of tp's exchanges, behind at most half of the products */
    double fragments;            /* bytes added to all that are counted, as a part of them */
};

/** Read the section `name` of configs/stacks.ini, or of PATH as in "PATH:name", into cluster->stack, and change the
 *  cluster's figures by its own. "trivium" changes nothing.
 *  @collective{none} @errors E_DATA: no such stack or file; E_FORMAT, E_USAGE: as options_read_section; E_CONFIG: the
 *  cluster's ranks share cores */
enum status stack_read(const char *name, struct cluster *);
/** Set the stack's options of a plan, as a preset does. @errors those of options_set; E_FORMAT  @collective{none} */
enum status stack_set_options(const struct stack *, struct options *);

/** Write how the stack's program is started with a plan: its arguments, or the file that it reads; then what the user,
 *  the model and the layout say and has no key there. Of a stack without a command, the layout in this program's words.
 *  @param options of the plan @param arch of the model @param layout "--tp 4 --sp on ...", which counts before the
 *  options  @collective{none} */
void stack_write_command(const struct stack *, const struct options *options, const char *arch, const char *layout,
                         FILE *);

/* ---- how files of other programs say a layout (stack_keys.c), for writing and for reading (lib/stacks/read.c) ---- */

/* ARGUMENTS: "--key value". JSON, TOML, YAML: sections with keys; a section of YAML may be nested by a dot. */
enum stack_form { FORM_ARGUMENTS, FORM_JSON, FORM_TOML, FORM_YAML };
/* A key is written if the option has any value; a value above 1; one that is not off, 0 or empty; off; or is the word
 * `is`. The others are only read. READ: `is` is what that program does without the key; NULL: this program's default.
 * MUST: the key, or without it `is`, must have one of the values `there`, "a|b"; NULL: the key must not be there. One
 * that begins with = is the value of another key. TRAINS: the same, for commands that train. */
enum stack_when { KEY_ALWAYS, KEY_ABOVE_1, KEY_ON, KEY_OFF, KEY_IS, KEY_READ, KEY_MUST, KEY_TRAINS };
/* there: what is written in place of the value, as its form spells it; "": an argument without a value; of READ: the
 * option's value if the key is there. theirs "": the program does so without a key. */
struct stack_key { const char *section, *theirs, *ours; enum stack_when when; const char *is, *there; };

/** Read Megatron's window, "4095,0", "-1,0" or "", and which layers have it: "" all, "2" all but each second one, or
 *  "[1,0]", a number for each of `layers` (0: of any number). Gives the tokens of --window and the letters of
 *  --window-layers. 0: there is no window; negative: no option says the window, or the layers. Pure. */
enum { STACK_LAYERS_MAX = 129, STACK_NO_WINDOW = -1, STACK_NO_LAYERS = -2 };
int64_t stack_read_window(const char *before, const char *every, int64_t layers, char letters[STACK_LAYERS_MAX]);

/** The --fp8-recipe of Megatron's fp8-format, and fp8-recipe or, of fp4-format, "nvfp4"; "" where nothing turns fp8 on.
 *  NULL: no recipe here is that. Pure. */
const char *stack_read_fp8(const char *format, const char *recipe);

/* free: keys that do not matter here, or sections, as "section.*". ends with theirs NULL. */
struct stack_file { const char *title; enum stack_form form; const struct stack_key *keys; const char *free; };
enum { STACK_MOST_FILES = 2 };
extern const struct stack_file stack_files[N_STACK_COMMANDS][STACK_MOST_FILES];
/** @return the options that the name `ours` of a key ends up in: "chunks" of "layers-of-a-chunk"  @collective{none} */
const char *stack_key_shown(const char *ours);
