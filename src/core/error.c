/* error.c: status names and texts, and the sentence behind the last error of each thread. */
#include "core/internal.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[1024];
static _Thread_local char last_reason[sizeof((fc_kernel_info *)0)->reason];

const char *fc_status_name(fc_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text) \
    case name: return #name;
        FC_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "unknown status";
}

const char *fc_status_text(fc_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text) \
    case name: return text;
        FC_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

const char *fc_last_error(void)
{
    return last_error;
}

fc_status fc_fail(fc_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

const char *fc_refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_reason, sizeof last_reason, format, arguments);
    va_end(arguments);
    return last_reason;
}
