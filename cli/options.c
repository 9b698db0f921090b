/* options.c: the table of flags. */
#include "options.h"

#include "cuda/ladder/ladder.h"
#include "setters.h"

#define FIELD(member) offsetof(cli_arguments, member)
#define INPUT(index) (offsetof(cli_arguments, inputs) + (index) * sizeof(const char *))

enum {
    PROBLEM = CLI_BENCH | CLI_KERNELS | CLI_EMU | CLI_TUNE | CLI_PROFILE,
    SIZES = PROBLEM | CLI_LADDER,
    ANY_PROBLEM = PROBLEM | CLI_RUN,
    CONTEXT =
        CLI_DEMO | CLI_RUN | CLI_CHECK | CLI_BENCH | CLI_KERNELS | CLI_EMU | CLI_TUNE | CLI_PROFILE,
    REPORT = (CONTEXT & ~CLI_TUNE) | CLI_INFO | CLI_LADDER | CLI_RESOURCES | CLI_LEDGER
};

const char *const cli_input_names[CLI_INPUT_COUNT] = {
    "q",    "k",     "v",          "bias",       "mask",    "alibi",   "sinks",
    "cu_q", "cu_kv", "kv_lengths", "page_table", "q_scale", "k_scale", "v_scale",
};

const cli_option cli_options[] = {
    /* The files of run. */
    {"q", "FILE", "queries, an .npy file", CLI_RUN, cli_set_text, INPUT(CLI_Q)},
    {"k", "FILE", "keys", CLI_RUN, cli_set_text, INPUT(CLI_K)},
    {"v", "FILE", "values", CLI_RUN, cli_set_text, INPUT(CLI_V)},
    {"out", "FILE", "where the output goes; out.npy in DIR, or here, when not given", CLI_RUN,
     cli_set_text, FIELD(out_path)},
    {"out", "FILE", "where the page goes; report.html in DIR when not given", CLI_REPORT,
     cli_set_text, FIELD(out_path)},
    {"lse", "FILE", "write the log-sum-exp of every row, f32", CLI_RUN, cli_set_text,
     FIELD(lse_path)},
    {"bias", "FILE",
     "added to the scores: [batch][head][row][key], f32, f16, bf16 or f64; extents "
     "of 1 repeat",
     CLI_RUN, cli_set_text, INPUT(CLI_BIAS)},
    {"mask", "FILE", "[batch][head][row][key], bool: False hides the key; extents of 1 repeat",
     CLI_RUN, cli_set_text, INPUT(CLI_MASK)},
    {"alibi", "FILE", "ALiBi slopes, f32: [head] or [batch][head]", CLI_RUN, cli_set_text,
     INPUT(CLI_ALIBI)},
    {"sinks", "FILE", "one more logit per query head, f32: [head]", CLI_RUN, cli_set_text,
     INPUT(CLI_SINKS)},
    {"cu-q", "FILE",
     "queries are packed as [row][head][dim]; where sequences begin: batch + 1 row "
     "numbers",
     CLI_RUN, cli_set_text, INPUT(CLI_CU_Q)},
    {"cu-kv", "FILE", "the same for keys and values", CLI_RUN, cli_set_text, INPUT(CLI_CU_KV)},
    {"kv-lengths", "FILE", "keys of each sequence: [batch]", CLI_RUN, cli_set_text,
     INPUT(CLI_KV_LENGTHS)},
    {"page-table", "FILE",
     "keys and values are paged as [page][row][head][dim]; page numbers: "
     "[batch][pages]",
     CLI_RUN, cli_set_text, INPUT(CLI_PAGE_TABLE)},
    {"q-scale", "FILE",
     "FP8 scales, f32: one number, [head], [batch][head], or with --scale-rows "
     "[batch][head][block]",
     CLI_RUN, cli_set_text, INPUT(CLI_Q_SCALE)},
    {"k-scale", "FILE", "the same for keys, by KV head", CLI_RUN, cli_set_text, INPUT(CLI_K_SCALE)},
    {"v-scale", "FILE", "the same for values", CLI_RUN, cli_set_text, INPUT(CLI_V_SCALE)},
    {"scale-rows", "N", "rows that share a scale", CLI_RUN, cli_set_rows, FIELD(scale_rows)},
    {"convert", "TYPE", "convert q, k and v to this type first, rounding to nearest", CLI_RUN,
     cli_set_type, FIELD(convert_to)},
    {"seed", "N", "seed of the dropout", CLI_RUN, cli_set_unsigned, FIELD(dropout_seed)},
    {"offset", "N", "offset of the dropout", CLI_RUN, cli_set_unsigned, FIELD(dropout_offset)},

    /* The problem. */
    {"shape", "B,H,S,D",
     "batch, heads, length and head dimension in one word; given several times, up to 32, each is "
     "a row, and none of these four has a flag of its own",
     CLI_BENCH, cli_set_shape, 0},
    {"shape", "B,H,S,D", "batch, heads, length and head dimension in one word", SIZES & ~CLI_BENCH,
     cli_set_shape, 0},
    {"batch", "N", "sequences (default 1)", SIZES, cli_set_size, FIELD(problem.batch)},
    {"heads", "N", "query heads (default 8)", SIZES, cli_set_size, FIELD(problem.q_heads)},
    {"kv-heads", "N", "KV heads (default: as many as query heads)", SIZES, cli_set_size,
     FIELD(problem.kv_heads)},
    {"q-length", "N", "query length (default 512)", SIZES, cli_set_size, FIELD(problem.q_length)},
    {"kv-length", "N", "key length (default: the query length)", SIZES, cli_set_size,
     FIELD(problem.kv_length)},
    {"head-dim", "N", "elements of a query and a key (default 64)", SIZES, cli_set_size,
     FIELD(problem.head_dim)},
    {"value-dim", "N", "elements of a value (default: as of a key)", PROBLEM, cli_set_size,
     FIELD(problem.value_dim)},
    {"with", "LIST",
     "inputs there are besides: alibi, bias, mask, sinks, kv-lengths, packed, paged; "
     "joined by commas",
     PROBLEM, cli_set_with, 0},
    {"page-size", "N", "rows of a page, with --with paged (default 16)", PROBLEM, cli_set_rows,
     FIELD(problem.page_size)},
    {"type", "TYPE",
     "element type (default f16; for run what the files hold: needed for bf16 and "
     "FP8, which NumPy stores as u2, V2, u1 or V1)",
     ANY_PROBLEM, cli_set_type, FIELD(problem.q_type)},
    {"kv-type", "TYPE", "type of keys and values (default: as of the queries)", ANY_PROBLEM,
     cli_set_type, FIELD(problem.kv_type)},
    {"out-type", "TYPE", "type of the output (default: as of the queries; bf16 for FP8)",
     ANY_PROBLEM, cli_set_type, FIELD(problem.out_type)},
    {"bias-type", "TYPE", "type of the bias (default f32; for run what its file holds)",
     ANY_PROBLEM, cli_set_type, FIELD(problem.bias_type)},
    {"layout", "bhsd|bshd",
     "order of the axes: batch, heads, rows, dim (the default) or batch, "
     "rows, heads, dim",
     ANY_PROBLEM, cli_set_layout, FIELD(layout)},
    {"scale", "X", "factor of the scores (default 1/sqrt(head_dim))", ANY_PROBLEM, cli_set_float,
     FIELD(problem.scale)},
    {"causal", NULL, "a row sees the keys up to its own position", ANY_PROBLEM, cli_set_switch,
     FIELD(problem.causal)},
    {"top-left", NULL, "positions count from the first key, not from the last", ANY_PROBLEM,
     cli_set_top_left, 0},
    {"window", "LEFT,RIGHT", "a row sees so many keys on either side of its position; -1: all",
     ANY_PROBLEM, cli_set_window, 0},
    {"softcap", "X", "scores become X * tanh(score / X)", ANY_PROBLEM, cli_set_float,
     FIELD(problem.softcap)},
    {"dropout", "P", "probability of dropping a weight", ANY_PROBLEM, cli_set_float,
     FIELD(problem.dropout_p)},
    {"batch-invariant", NULL, "a row's bits do not depend on what else is in the batch",
     ANY_PROBLEM, cli_set_switch, FIELD(problem.batch_invariant)},
    {"dependent-launch", NULL,
     "a kernel of sm_90 may start while the one before it still ends; it waits before it touches "
     "memory",
     ANY_PROBLEM, cli_set_switch, FIELD(problem.dependent_launch)},

    /* The case list. */
    {"filter", "PATTERN",
     "only cases whose name or group holds PATTERN, or matches it where it "
     "has *, ? or [; of resources: only kernels whose name holds it",
     CLI_CHECK | CLI_RESOURCES, cli_set_text, FIELD(filter)},
    {"case", "NAME", "only the case of exactly this name", CLI_CHECK, cli_set_text,
     FIELD(case_name)},
    {"list", NULL, "print the names of the cases and run nothing", CLI_CHECK, cli_set_switch,
     FIELD(list)},
    {"random", "N",
     "N cases that are drawn, problems of every kind, in place of the list; --case takes one of "
     "them by its name, or by random-NUMBER",
     CLI_CHECK, cli_set_rows, FIELD(random)},
    {"seed", "N", "number of the first case that is drawn (default 1)", CLI_CHECK, cli_set_rows,
     FIELD(seed)},
    {"sample", "N",
     "at most N cases: of those that a kernel accepts and that are not large, every so many",
     CLI_CHECK | CLI_EMU, cli_set_rows, FIELD(sample)},
    {"isolated", NULL,
     "run the cases in another process: one that crashes, hangs or breaks the CUDA context fails "
     "alone",
     CLI_CHECK, cli_set_switch, FIELD(isolated)},
    {"limit", "X", "seconds that a case may take, with --isolated (default 300)", CLI_CHECK,
     cli_set_seconds, FIELD(limit)},
    {"compare", NULL,
     "on a machine with a GPU: run a sample of the case list on the emulator and on the GPU, and "
     "show how far they differ",
     CLI_EMU, cli_set_switch, FIELD(compare)},

    {"backward", NULL, "the gradients: time their call; of check: only cases that have them",
     CLI_CHECK | CLI_BENCH, cli_set_switch, FIELD(backward)},
    {"without-lse", NULL, "calls that do not ask for the log-sum-exp of each row", CLI_BENCH,
     cli_set_switch, FIELD(without_lse)},

    /* Timing. */
    {"set", "mission|standard", "which shapes to time when none is given (default standard)",
     CLI_BENCH, cli_set_text, FIELD(bench_set)},
    {"seconds", "X", "time for the calls of one row (default 2; of tune's last round 1)",
     CLI_DEMO | CLI_BENCH | CLI_LADDER | CLI_TUNE, cli_set_seconds, FIELD(seconds)},

    {"quick", NULL, "a minute in place of an hour: samples of the case list, few shapes", CLI_REPRO,
     cli_set_switch, FIELD(quick)},

    /* The ledger. */
    {"filter", "TEXT", "only experiments that hold TEXT somewhere", CLI_LEDGER, cli_set_text,
     FIELD(filter)},
    {"verdict", "negative|mixed|kept", "only these; with --add: what came of it", CLI_LEDGER,
     cli_set_text, FIELD(verdict)},
    {"gpu", "NAME", "only those on a GPU whose name holds NAME; with --add: where it was measured",
     CLI_LEDGER, cli_set_text, FIELD(gpu)},
    {"markdown", NULL, "as the page docs/ledger.md", CLI_LEDGER, cli_set_switch, FIELD(markdown)},
    {"before", "FILE", "compare two results of bench or ladder (--json): the one before a change",
     CLI_LEDGER, cli_set_text, FIELD(before_path)},
    {"after", "FILE", "and the one after it", CLI_LEDGER, cli_set_text, FIELD(after_path)},
    {"add", NULL, "record an experiment", CLI_LEDGER, cli_set_switch, FIELD(add)},
    {"change", "TEXT", "what was changed", CLI_LEDGER, cli_set_text, FIELD(change)},
    {"predicted", "TEXT", "what it should have brought, and why", CLI_LEDGER, cli_set_text,
     FIELD(predicted)},
    {"measured", "TEXT", "what it did (default: from --before and --after)", CLI_LEDGER,
     cli_set_text, FIELD(measured)},
    {"how", "TEXT", "the command that shows it", CLI_LEDGER, cli_set_text, FIELD(how)},
    {"commit", "ID", "of the sources (default: as git says here)", CLI_LEDGER, cli_set_text,
     FIELD(commit)},

    /* The ladder and the compiler's reports. */
    {"without", "TECHNIQUE",
     "compare the rungs that use a technique with and without it: " FC_LADDER_TECHNIQUES,
     CLI_LADDER, cli_set_text, FIELD(without)},
    {"macro", "NAME=VALUE", "compare the rungs that have a macro with it set so: KV_TILE=32",
     CLI_LADDER, cli_set_text, FIELD(macro)},
    {"macro", "CHOICES",
     "search these values and no others, 'KV_TILE=32,64 STAGES=2,3' (default: those listed for the "
     "kernel)",
     CLI_TUNE, cli_set_text, FIELD(macro)},
    {"gpu", "NAME", "with --backend emu: whose peaks turn counts into times (default L4)", CLI_TUNE,
     cli_set_text, FIELD(gpu)},
    {"calls", NULL, "only make the two calls that the profiler watches", CLI_PROFILE,
     cli_set_switch, FIELD(calls)},
    {"show", NULL, "run nothing: say what FILE found, and why", CLI_TUNE, cli_set_switch,
     FIELD(show)},
    {"list", NULL, "print the choices and run nothing", CLI_TUNE, cli_set_switch, FIELD(list)},
    {"svg", "FILE", "draw the times", CLI_LADDER, cli_set_text, FIELD(svg_path)},
    {"registers", "N", "hold every kernel to N registers in place of its own budget", CLI_RESOURCES,
     cli_set_rows, FIELD(most_registers)},

    /* The device. */
    {"backend", "cpu|cuda|emu",
     "where to run (default cpu); emu runs the CUDA kernels on the CPU, slowly and strictly",
     CONTEXT & ~(unsigned)(CLI_DEMO | CLI_EMU | CLI_PROFILE), cli_set_backend,
     FIELD(context.device_type)},
    {"kernel", "NAME", "run this kernel or fail; FLASHCORE_KERNEL does the same", CONTEXT,
     cli_set_text, FIELD(context.kernel)},
    {"source", "FILE",
     "compile this .cu file in place of the kernel's own (docs/lab.md tells its argument; default "
     "kernel: ladder_fused)",
     CLI_CHECK | CLI_BENCH | CLI_EMU | CLI_TUNE | CLI_PROFILE, cli_set_text, FIELD(source_path)},
    {"threads", "N", "CPU threads at most (default: as many as OpenMP gives)", CONTEXT,
     cli_set_threads, FIELD(context.threads)},

    /* Output. */
    {"json", "[FILE]", "JSON on stdout in place of text, or into FILE besides", REPORT,
     cli_set_json, FIELD(json_path)},
    {"help", NULL, "this text", CLI_EVERY_VERB, cli_set_switch, FIELD(help)},
};

const size_t cli_option_count = sizeof cli_options / sizeof cli_options[0];
