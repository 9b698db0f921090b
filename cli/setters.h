/* setters.h: how the arguments of flags become values. See cli_setter. */
#ifndef CLI_SETTERS_H
#define CLI_SETTERS_H

#include "options.h"

cli_setter cli_set_switch;   /* int32_t: 1 */
cli_setter cli_set_text;     /* const char * */
cli_setter cli_set_json;     /* the path, which may be missing */
cli_setter cli_set_size;     /* int64_t of the problem, 1 or more */
cli_setter cli_set_rows;     /* int64_t, 1 or more */
cli_setter cli_set_threads;  /* int32_t, 1 or more */
cli_setter cli_set_unsigned; /* uint64_t */
cli_setter cli_set_float;
cli_setter cli_set_seconds; /* double above 0 */
cli_setter cli_set_type;
cli_setter cli_set_shape;  /* B,H,S,D: the problem's sizes, and one more of shapes */
cli_setter cli_set_window; /* L,R */
cli_setter cli_set_top_left;
cli_setter cli_set_layout;
cli_setter cli_set_backend;
cli_setter cli_set_with; /* a list of the problem's has_… switches */

#endif
