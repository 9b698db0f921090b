/* options.h: every flag of every verb, in one table. The parser, --help, the manual and the
 * completion script all read it, so they cannot disagree. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "flashcore.h"

#include <stdbool.h>

enum {
    CLI_DEMO = 1 << 0,
    CLI_RUN = 1 << 1,
    CLI_CHECK = 1 << 2,
    CLI_BENCH = 1 << 3,
    CLI_KERNELS = 1 << 4,
    CLI_INFO = 1 << 5,
    CLI_LADDER = 1 << 6,
    CLI_RESOURCES = 1 << 7,
    CLI_MANUAL = 1 << 8,
    CLI_COMPLETION = 1 << 9,
    CLI_HELP = 1 << 10,
    CLI_EMU = 1 << 11,
    CLI_REPORT = 1 << 12,
    CLI_REPRO = 1 << 13,
    CLI_LEDGER = 1 << 14,
    CLI_TUNE = 1 << 15,
    CLI_PROFILE = 1 << 16,
    CLI_EVERY_VERB = (1 << 17) - 1
};

typedef int32_t cli_layout;
enum { CLI_BHSD = 0, CLI_BSHD = 1 };

/* The inputs of `run`, in the order of cli_input_names: also the names of its files in a directory
 * (q.npy). */
enum {
    CLI_Q,
    CLI_K,
    CLI_V,
    CLI_BIAS,
    CLI_MASK,
    CLI_ALIBI,
    CLI_SINKS,
    CLI_CU_Q,
    CLI_CU_KV,
    CLI_KV_LENGTHS,
    CLI_PAGE_TABLE,
    CLI_Q_SCALE,
    CLI_K_SCALE,
    CLI_V_SCALE,
    CLI_INPUT_COUNT
};
extern const char *const cli_input_names[CLI_INPUT_COUNT];

/* A word such as 1,8,512,64. */
typedef struct cli_shape {
    const char *word;
    int64_t batch, q_heads, q_length, head_dim;
} cli_shape;
enum { CLI_MOST_SHAPES = 32 };

/* What the command line said. What it did not say is zero. */
typedef struct cli_arguments {
    const char *operand; /* the word that is no flag: a directory, help's verb */
    fc_attention problem;
    fc_context_options context;
    cli_layout layout;
    int32_t problem_given;             /* a flag of the problem's sizes was there */
    int32_t shape_size_given;          /* one of those four that --shape says, too */
    cli_shape shapes[CLI_MOST_SHAPES]; /* every --shape; the last one is the problem's */
    int32_t shape_count;

    const char *inputs[CLI_INPUT_COUNT]; /* paths */
    const char *out_path;
    const char *lse_path;
    fc_type convert_to;
    int64_t scale_rows;
    uint64_t dropout_seed;
    uint64_t dropout_offset;

    const char *bench_set;
    double seconds;

    int32_t backward;
    int32_t without_lse;
    const char *filter;
    const char *case_name;
    int64_t most_registers;
    const char *without;
    const char *macro;
    const char *svg_path;
    const char *source_path;
    int32_t list;
    int64_t random; /* 0: the list */
    int64_t seed;   /* of the first case with random; 0: 1 */
    int64_t sample; /* 0: every case */
    int32_t compare;
    int32_t isolated;
    double limit; /* seconds of a case, with isolated */
    int32_t quick;
    int32_t show;
    int32_t calls;
    int32_t emulated; /* --backend emu */

    int32_t add;
    int32_t markdown;
    const char *change;
    const char *predicted;
    const char *measured;
    const char *verdict;
    const char *gpu;
    const char *commit;
    const char *how;
    const char *before_path;
    const char *after_path;

    const char *json_path; /* NULL or "-": stdout */
    int32_t json;
    int32_t help;
} cli_arguments;

/* Stores what `text` says; false with a sentence about the argument. A switch gets NULL. */
enum { CLI_COMPLAINT_BYTES = 200 };
typedef bool cli_setter(cli_arguments *arguments, void *field, const char *text,
                        char complaint[CLI_COMPLAINT_BYTES]);

typedef struct cli_option {
    const char *name;     /* without the two dashes */
    const char *argument; /* NULL: none; in brackets: may be left out; a|b: one of these */
    const char *help;
    unsigned verbs;
    cli_setter *set;
    size_t field; /* offset in cli_arguments */
} cli_option;

extern const cli_option cli_options[];
extern const size_t cli_option_count;

typedef struct cli_verb {
    const char *name;
    unsigned bit;
    const char *operand; /* as shown in the usage line; NULL: none is taken */
    const char *summary;
    const char *description;
    const char *examples[4]; /* command lines without "flashcore", up to a NULL */
    int (*run)(const cli_arguments *arguments);
} cli_verb;

extern const cli_verb cli_verbs[];
extern const size_t cli_verb_count;
const cli_verb *cli_find_verb(const char *name); /* NULL */
int cli_unknown_verb(const char *name);          /* says what to type instead; CLI_USAGE */

/* CLI_OK or CLI_USAGE, with the mistake and its remedy on stderr. */
int cli_parse(const cli_verb *verb, int word_count, char **words, cli_arguments *arguments);

fc_type cli_type_by_name(const char *name); /* FC_TYPE_AUTO: no such type */

#endif
