/* version.c: what this library is and how it was built. */
#include "core/internal.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

#ifndef FC_BUILD_TEXT
#define FC_BUILD_TEXT "unknown build"
#endif

const char *fc_version(void)
{
    return TEXT(FC_VERSION_MAJOR) "." TEXT(FC_VERSION_MINOR) "." TEXT(FC_VERSION_PATCH);
}

const char *fc_build(void)
{
    return FC_BUILD_TEXT;
}

const char *fc_type_name(fc_type type)
{
    static const char *const names[] = {"auto", "f32", "f16", "bf16", "e4m3", "e5m2", "f64"};
    return type >= FC_TYPE_AUTO && type <= FC_F64 ? names[type] : NULL;
}

size_t fc_type_bytes(fc_type type)
{
    static const size_t bytes[] = {0, 4, 2, 2, 1, 1, 8};
    return type >= FC_TYPE_AUTO && type <= FC_F64 ? bytes[type] : 0;
}
