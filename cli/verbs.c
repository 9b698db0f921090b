/* verbs.c: the table of verbs. */
#include "verbs.h"

const cli_verb cli_verbs[] = {
    {
        .name = "demo",
        .bit = CLI_DEMO,
        .summary = "see it work: one shape on every device that is here",
        .description =
            "Computes attention for batch 1, 8 heads, 512 rows and 64 dimensions in f16 on random "
            "data, measures whole calls, compares the result with double precision and says which "
            "kernels there are besides and why they were not used.",
        .examples = {"demo", "demo --json"},
        .run = cli_demo,
    },
    {
        .name = "run",
        .bit = CLI_RUN,
        .operand = "DIR",
        .summary = "attention over .npy files",
        .description =
            "Reads q, k and v from .npy files, or all inputs from a directory that holds q.npy, "
            "k.npy, v.npy and those it needs of bias.npy, mask.npy, alibi.npy, sinks.npy, "
            "cu_q.npy, cu_kv.npy, kv_lengths.npy, page_table.npy, q_scale.npy, k_scale.npy and "
            "v_scale.npy. Sizes come from the shapes. Nothing is converted unless --convert asks "
            "for it. Output files appear whole or not at all.",
        .examples = {"run data --causal", "run --q q.npy --k k.npy --v v.npy --out out.npy",
                     "run data --type bf16 --out out.npy --lse lse.npy"},
        .run = cli_run,
    },
    {
        .name = "check",
        .bit = CLI_CHECK,
        .summary = "hold a kernel to the double-precision truth on every case",
        .description =
            "Runs the case list and compares each result with double precision. A case that the "
            "forced kernel does not take counts as refused, never as passed; a case whose "
            "gradients "
            "no kernel takes passes by its output alone, or counts as refused with --backward. The "
            "exit status is 1 when a case failed. An interrupt ends the run and reports what was "
            "done.",
        .examples = {"check", "check --kernel reference --json=check.json", "check --filter causal",
                     "check --list"},
        .run = cli_check,
    },
    {
        .name = "bench",
        .bit = CLI_BENCH,
        .summary = "measure whole calls",
        .description =
            "Times whole calls: the 10th, 50th and 90th percentile, never divided by the batch, "
            "and "
            "how far the first, second and last third of them lie apart (spread). A kernel is "
            "timed on a shape only after its result there was right, and what the timed calls "
            "left is compared with a call that was not timed. The roof is measured "
            "too: what the device reaches when it does nothing but multiply, or read. Give a shape "
            "with --shape or --batch, --heads and so on, or several, each with a --shape of its "
            "own; without one a set of shapes is measured, of which those are left out that would "
            "take too long.",
        .examples = {"bench", "bench --shape 2,16,1024,128 --shape 1,16,2048,128 --causal",
                     "bench --set mission --json", "bench --shape 1,8,512,64 --backward"},
        .run = cli_bench,
    },
    {
        .name = "kernels",
        .bit = CLI_KERNELS,
        .summary = "which kernel would run a problem, and why not another",
        .description = "Lists every kernel in the order of preference. Of those that accept the "
                       "problem the first runs it; the others say why they do not accept.",
        .examples = {"kernels", "kernels --shape 1,8,512,64 --type bf16 --causal",
                     "kernels --with alibi,paged --kv-heads 2"},
        .run = cli_kernels,
    },
    {
        .name = "ladder",
        .bit = CLI_LADDER,
        .summary = "what each technique buys: one CUDA kernel per idea, checked and timed",
        .description =
            "Runs every rung of the ladder on a CUDA device: checks its result against double "
            "precision, then times it, and shows the gain over the rung below. A technique can be "
            "left out of the rungs that use it, which compiles them anew. docs/ladder.md tells "
            "what each rung teaches.",
        .examples = {"ladder", "ladder --shape 4,16,2048,128 --svg ladder.svg",
                     "ladder --without swizzle", "ladder --macro STAGES=2"},
        .run = cli_ladder,
    },
    {
        .name = "emu",
        .bit = CLI_EMU,
        .summary = "count what a CUDA kernel does, without a GPU",
        .description =
            "Runs a problem on the emulator: the kernel's own source on the CPU, with every access "
            "checked. Prints how many matrix instructions, exponentials, barriers, passes through "
            "the banks of shared memory and sectors of global memory it takes, by line of source "
            "where memory is accessed, and from published peaks a lower bound of the time on some "
            "GPUs. A kernel that breaks a rule (a race, a missing wait, an access out of bounds, a "
            "deadlock) ends with a report. docs/emulator.md tells what is modelled.",
        .examples = {"emu", "emu --kernel ladder_swizzle --shape 1,1,128,64",
                     "emu --causal --json=counts.json", "emu --compare --sample 20"},
        .run = cli_emu,
    },
    {
        .name = "resources",
        .bit = CLI_RESOURCES,
        .summary = "registers, shared memory and spills of every CUDA kernel",
        .description =
            "Prints what the compiler said of every CUDA kernel in this program, against the "
            "budget in src/cuda/variants.txt. The exit status is 1 when a kernel is over its "
            "budget. Needs no GPU.",
        .examples = {"resources", "resources --filter swizzle", "resources --registers 64"},
        .run = cli_resources,
    },
    {
        .name = "profile",
        .bit = CLI_PROFILE,
        .operand = "DIR",
        .summary = "what bounds a CUDA kernel, by Nsight Compute, in words",
        .description =
            "Runs ncu on the kernel of a problem with the metrics that matter to attention (tensor "
            "cores, exponentials, issue slots, shared memory and its bank conflicts, L2, DRAM, "
            "stalls, occupancy), prints the numbers, what bounds the kernel and what to try, and "
            "keeps ncu's own report in DIR (profile where none is named). Where ncu is missing or "
            "may not read the counters it says what to do, the emulator's counts stand in, and the "
            "exit status is 1.",
        .examples = {"profile --shape 4,16,2048,64", "profile --kernel ladder_swizzle swizzle",
                     "profile --causal --json=profile.json"},
        .run = cli_profile,
    },
    {
        .name = "tune",
        .bit = CLI_TUNE,
        .operand = "FILE",
        .summary = "search a kernel's tile sizes, stages and warps for the fastest",
        .description =
            "Compiles a problem's kernel with every combination of the macros that are listed for "
            "it, drops what the compiler's report rules out, checks and times the rest, each in a "
            "process of its own: all of them shortly, the best quarter longer, the best three at "
            "length. FILE (tune.json where none is named) holds the search; after an interrupt the "
            "same command goes on from it. A GPU's winner goes into the file that FLASHCORE_TUNED "
            "names (flashcore-tuned.txt where it names none), which plans read when the variable "
            "is set. --backend emu ranks the candidates without a GPU by what they keep "
            "busy, counted; on the CPU kernels and numbers of threads are searched.",
        .examples = {"tune --backend cuda --shape 4,16,2048,64",
                     "tune --backend cuda --macro 'KV_TILE=32,64 STAGES=2,3' t.json",
                     "tune --backend emu --kernel ladder_swizzle --shape 1,1,256,64",
                     "tune --show t.json"},
        .run = cli_tune,
    },
    {
        .name = "repro",
        .bit = CLI_REPRO,
        .operand = "DIR",
        .summary = "check and measure all that this machine can, into one directory",
        .description =
            "Runs info, resources, check, bench, ladder and emu, each in a process of its own, "
            "and bench/peers.py where it is here, and writes into a new directory (flashcore-repro "
            "where none is named) their results as JSON and text, a description of the machine, a "
            "page that shows them all (report.html) and README.md, which says what was left out "
            "and why. The exit status is 1 when a step failed; what a machine cannot do is left "
            "out and no failure. An interrupt ends the step at hand and reports what was done.",
        .examples = {"repro", "repro results-l4", "repro --quick results"},
        .run = cli_repro,
    },
    {
        .name = "report",
        .bit = CLI_REPORT,
        .operand = "DIR",
        .summary = "one page from the results that other verbs wrote",
        .description =
            "Reads every .json file of a directory (this one where none is named), or one file, "
            "that check, bench, ladder, emu, resources, info, tune or bench/peers.py wrote with "
            "--json, and writes an HTML page: latency beside the peers, roofline, ladder, "
            "histograms of errors, tuning landscape, with all numbers in tables. The page needs "
            "neither a network nor scripts, follows the reader's light or dark, and can be "
            "printed. Needs no GPU.",
        .examples = {"report results", "report results --out page.html", "report bench.json"},
        .run = cli_report,
    },
    {
        .name = "ledger",
        .bit = CLI_LEDGER,
        .operand = "FILE",
        .summary = "the record of experiments: what was tried, what came of it",
        .description =
            "Lists the experiments of a ledger (docs/ledger.txt where none is named), or those "
            "that the flags choose. With --before and --after it compares two results of bench or "
            "ladder row by row; with --add it records an experiment, which takes its numbers, the "
            "verdict and the GPU from these two results unless they are given. A row is faster "
            "when its median lies below the 10th percentile before; an experiment is kept when "
            "some row is faster and none slower.",
        .examples = {"ledger --verdict negative --gpu H200",
                     "ledger --before a.json --after b.json",
                     "ledger --add --change A --predicted B --before a.json --after b.json",
                     "ledger --markdown > docs/ledger.md"},
        .run = cli_ledger,
    },
    {
        .name = "info",
        .bit = CLI_INFO,
        .summary = "version, build, devices, environment",
        .description =
            "Prints what a report of a problem should hold: the version and the build of "
            "the library, the devices that it found, the features of the processor and "
            "the FLASHCORE_ variables of the environment.",
        .examples = {"info", "info --json"},
        .run = cli_info,
    },
    {
        .name = "manual",
        .bit = CLI_MANUAL,
        .summary = "print the manual page",
        .description = "Prints the manual page in the form that man(1) reads.",
        .examples = {"manual > flashcore.1", "manual | man -l -"},
        .run = cli_manual,
    },
    {
        .name = "completion",
        .bit = CLI_COMPLETION,
        .summary = "print the completion script for bash",
        .description = "Prints a script that teaches bash the verbs and flags.",
        .examples = {"completion > ~/.local/share/bash-completion/completions/flashcore"},
        .run = cli_completion,
    },
    {
        .name = "help",
        .bit = CLI_HELP,
        .operand = "VERB",
        .summary = "explain a verb",
        .description = "Prints what VERB --help prints.",
        .examples = {"help run"},
        .run = cli_help,
    },
};

const size_t cli_verb_count = sizeof cli_verbs / sizeof cli_verbs[0];
