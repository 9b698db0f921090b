/* features.c: see features.h. */
#define _DEFAULT_SOURCE /* syscall */
#include "cpu/features.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#define FC_CPU_LEVEL_NAME(enumerator, name, text) name,
#define FC_CPU_LEVEL_TEXT(enumerator, name, text) text,
static const char *const level_names[] = {FC_CPU_LEVEL_LIST(FC_CPU_LEVEL_NAME)};
static const char *const level_texts[] = {FC_CPU_LEVEL_LIST(FC_CPU_LEVEL_TEXT)};

const char *fc_cpu_level_name(fc_cpu_level level)
{
    return level_names[level];
}

const char *fc_cpu_level_text(fc_cpu_level level)
{
    return level_texts[level];
}

#if defined(__x86_64__)

static bool has_bits(uint64_t value, uint64_t bits)
{
    return (value & bits) == bits;
}

/* Which registers the operating system saves. The instruction is written out, because its intrinsic
 * would need this file compiled for more than the baseline. */
static uint64_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives a process the tiles' 8 KB of state only when it asks. */
static bool may_use_tiles(void)
{
#if defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static fc_cpu_level find_level(void)
{
    enum { SAVES_AVX = 0x6, SAVES_AVX512 = 0xe6, SAVES_TILES = 0x60000 };
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29; /* 1: ecx */
    const uint32_t avx2 = 1u << 5, avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  /* 7: ebx */
    const uint32_t amx = 1u << 22 | 1u << 24;                                           /* 7: edx */
    const uint32_t avx512_bf16 = 1u << 5; /* 7.1: eax */
    uint32_t eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has_bits(ecx, fma | osxsave | avx | f16c))
        return FC_CPU_PLAIN;
    const uint64_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !has_bits(saved, SAVES_AVX) ||
        !has_bits(ebx, avx2))
        return FC_CPU_PLAIN;
    if (!has_bits(saved, SAVES_AVX512) || !has_bits(ebx, avx512))
        return FC_CPU_AVX2;
    const bool has_tiles = has_bits(saved, SAVES_TILES) && has_bits(edx, amx);
    if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !has_bits(eax, avx512_bf16))
        return FC_CPU_AVX512;
    return has_tiles && may_use_tiles() ? FC_CPU_AMX : FC_CPU_AVX512BF16;
}

#elif defined(__aarch64__)

static fc_cpu_level find_level(void)
{
#if defined(__linux__)
    const unsigned long fhm = 1ul << 23;  /* HWCAP_ASIMDFHM */
    const unsigned long bf16 = 1ul << 14; /* HWCAP2_BF16 */
    if (getauxval(AT_HWCAP) & fhm)        /* as all that have BF16 do */
        return getauxval(AT_HWCAP2) & bf16 ? FC_CPU_NEONBF16 : FC_CPU_NEONFHM;
#endif
    return FC_CPU_NEON; /* part of the baseline */
}

#else

static fc_cpu_level find_level(void)
{
    return FC_CPU_PLAIN;
}

#endif

static bool is_our_kind(fc_cpu_level level)
{
#if defined(__x86_64__)
    return level == FC_CPU_PLAIN || level > FC_CPU_NEONBF16;
#elif defined(__aarch64__)
    return level <= FC_CPU_NEONBF16;
#else
    return level == FC_CPU_PLAIN;
#endif
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static fc_cpu_level found;

static void find_once(void)
{
    found = find_level();
}

bool fc_cpu_has(fc_cpu_level level)
{
    pthread_once(&once, find_once);
    return is_our_kind(level) && level <= found;
}

static void list_our_levels(char *text, size_t bytes)
{
    size_t used = 0;
    for (fc_cpu_level level = 0; level < FC_CPU_LEVEL_COUNT; level++)
        if (is_our_kind(level) && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "",
                                     level_names[level]);
}

fc_status fc_cpu_read_limit(fc_cpu_level *limit)
{
    const char *value = getenv("FLASHCORE_CPU");
    *limit = FC_CPU_LEVEL_COUNT - 1;
    if (!value || !*value)
        return FC_OK;
    for (fc_cpu_level level = 0; level < FC_CPU_LEVEL_COUNT; level++)
        if (is_our_kind(level) && strcmp(value, level_names[level]) == 0) {
            *limit = level;
            return FC_OK;
        }
    char allowed[80];
    list_our_levels(allowed, sizeof allowed);
    return fc_fail(FC_ERROR_INVALID, "FLASHCORE_CPU=%.40s is not known here; allowed: %s", value,
                   allowed);
}
