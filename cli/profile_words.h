/* profile_words.h: what ncu's numbers of one kernel say: what bounds it, what to try. */
#ifndef CLI_PROFILE_WORDS_H
#define CLI_PROFILE_WORDS_H

#include "csv.h"
#include "json.h"

/* All metrics that are asked for, joined by commas, as ncu takes them. */
const char *profile_metrics(void);

/* One row of ncu's table, a launch. */
void profile_print(const csv_table *table, int row);
void profile_json(json_writer *json, const csv_table *table, int row);

#endif
