/* kernels.c: the CPU's rows of the table of kernels: one per instruction set and kind of shape. */
#include "cpu/cpu.h"
#include "cpu/features.h"

enum { DECODE_Q_LENGTH = 16, DECODE_ROWS = 64 };

typedef struct cpu_row {
    const fc_cpu_ops *ops;
    fc_cpu_level level;
    fc_type type; /* of Q, K and V, where the kernel takes no other */
    bool few_rows;
} cpu_row;

static const char *refuse_many_rows(const fc_attention *p)
{
    if (p->q_length > DECODE_Q_LENGTH)
        return fc_refuse("for at most %d query rows, not q_length = " I64, DECODE_Q_LENGTH,
                         p->q_length);
    const int64_t group = p->q_heads / p->kv_heads;
    if (p->q_length * group > DECODE_ROWS)
        return fc_refuse("for at most %d query rows of a KV head, not " I64, DECODE_ROWS,
                         p->q_length * group);
    if (p->batch_invariant && p->packed_q)
        return "with packed queries the longest of the batch chooses the kernel, which "
               "batch_invariant forbids";
    return NULL;
}

static const char *accepts(const fc_kernel *self, const fc_context *context, const fc_attention *p)
{
    const cpu_row *row = self->data;
    if (context->device_type != FC_CPU)
        return "runs on the CPU alone";
    if (!fc_cpu_has(row->level))
        return fc_refuse("this processor does not have %s", fc_cpu_level_text(row->level));
    if ((int)row->level > context->cpu_limit)
        return fc_refuse("FLASHCORE_CPU=%s leaves it out",
                         fc_cpu_level_name((fc_cpu_level)context->cpu_limit));
    if (p->q_type == FC_F64 || p->kv_type == FC_F64 || p->out_type == FC_F64)
        return "f64 is left to the reference";
    if (row->type && (p->q_type != row->type || p->kv_type != row->type))
        return fc_refuse("its instructions take %s, not q_type = %s and kv_type = %s",
                         fc_type_name(row->type), fc_type_name(p->q_type),
                         fc_type_name(p->kv_type));
    return row->few_rows ? refuse_many_rows(p) : NULL;
}

static size_t workspace_bytes(const fc_kernel *self, const fc_context *context,
                              const fc_attention *p)
{
    const cpu_row *row = self->data;
    return row->ops->workspace_bytes(p, context->threads);
}

static fc_status run(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                     fc_stream stream)
{
    (void)g;
    (void)stream;
    const cpu_row *row = plan->kernels[FC_FORWARD]->data;
    row->ops->run(&plan->problem, b, plan->context->threads);
    return FC_OK;
}

static fc_status run_backward(const fc_plan *plan, const fc_buffers *b, const fc_gradients *g,
                              fc_stream stream)
{
    (void)stream;
    const cpu_row *row = plan->kernels[FC_BACKWARD]->data;
    row->ops->run_backward(&plan->problem, b, g, plan->context->threads);
    return FC_OK;
}

#define CPU_ROW(isa, shape, direction_, run_, summary_, ...)                   \
    const fc_kernel fc_cpu_##isa##_##shape##_kernel = {                        \
        .name = "cpu_" #isa "_" #shape,                                        \
        .summary = summary_,                                                   \
        .direction = direction_,                                               \
        .accepts = accepts,                                                    \
        .workspace_bytes = workspace_bytes,                                    \
        .run = run_,                                                           \
        .data = &(const cpu_row){.ops = &fc_cpu_##isa##_##shape, __VA_ARGS__}, \
    };

#define CPU_ROWS(isa, level_, text)                                                             \
    CPU_ROW(isa, decode, FC_FORWARD, run, "few query rows, keys split over the threads; " text, \
            .level = level_, .few_rows = true)                                                  \
    CPU_ROW(isa, prefill, FC_FORWARD, run, "many query rows, in tiles; " text, .level = level_) \
    CPU_ROW(isa, backward, FC_BACKWARD, run_backward, "gradients, in tiles; " text, .level = level_)

CPU_ROWS(plain, FC_CPU_PLAIN, "plain C vectors")
#if defined(__aarch64__)
CPU_ROWS(neon, FC_CPU_NEON, "NEON")
CPU_ROW(neonfhm, decode, FC_FORWARD, run,
        "few query rows, keys split over the threads; NEON with FHM", .level = FC_CPU_NEONFHM,
        .type = FC_F16, .few_rows = true)
CPU_ROW(neonbf16, prefill, FC_FORWARD, run, "many query rows, in tiles; NEON with BF16",
        .level = FC_CPU_NEONBF16, .type = FC_BF16)
#elif defined(__x86_64__)
CPU_ROWS(avx2, FC_CPU_AVX2, "AVX2 with FMA")
CPU_ROWS(avx512, FC_CPU_AVX512, "AVX-512")
CPU_ROW(amx, prefill, FC_FORWARD, run, "many query rows, in tiles; AMX", .level = FC_CPU_AMX,
        .type = FC_BF16)
CPU_ROW(avx512bf16, prefill, FC_FORWARD, run, "many query rows, in tiles; AVX-512 with BF16",
        .level = FC_CPU_AVX512BF16, .type = FC_BF16)
#endif
