/* verbs.h: what each verb of the command line does, one file each. They return the exit status. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "options.h"

int cli_demo(const cli_arguments *arguments);
int cli_run(const cli_arguments *arguments);
int cli_check(const cli_arguments *arguments);
int cli_bench(const cli_arguments *arguments);
int cli_ladder(const cli_arguments *arguments);
int cli_resources(const cli_arguments *arguments);
int cli_emu(const cli_arguments *arguments);
int cli_repro(const cli_arguments *arguments);
int cli_report(const cli_arguments *arguments);
int cli_ledger(const cli_arguments *arguments);
int cli_tune(const cli_arguments *arguments);
int cli_profile(const cli_arguments *arguments);
int cli_kernels(const cli_arguments *arguments);
int cli_info(const cli_arguments *arguments);
int cli_manual(const cli_arguments *arguments);
int cli_completion(const cli_arguments *arguments);
int cli_help(const cli_arguments *arguments);

void cli_print_help(const cli_verb *verb); /* NULL: of the program */

#endif
