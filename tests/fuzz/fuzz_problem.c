/* fuzz_problem.c: any descriptor at all, and what the library makes of it.
 *
 * An input becomes context options and a problem: field by field from values near the edges of what
 * is allowed, with a few fields overwritten by anything, or as raw bytes over the whole struct. It
 * is planned and queried, and a small one is run (run.c). Beside what the sanitizers see, these
 * must hold: a refusal has a sentence, and the queries agree with the plan. */
#include "run.h"
#include "stream.h"

#include "flashcore.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* ---- Inputs ---- */

static fc_strides make_strides(fuzz_stream *in)
{
    fc_strides strides = {0};
    switch (fuzz_u8(in) % 8) {
    case 5: /* packed QKV and the like: one tensor's rows inside another's */
        strides = (fc_strides){.batch = 2048, .head = 16, .row = 64, .dim = 1};
        break;
    case 6: strides = (fc_strides){.batch = -512, .head = -64, .row = -8, .dim = -1}; break;
    case 7:
        strides.batch = FUZZ_PICK(in, 0, 1, 64, 1024, -64, INT64_MAX, INT64_MIN);
        strides.head = FUZZ_PICK(in, 0, 1, 8, 64, 192, -8, INT64_MAX, INT64_MIN);
        strides.row = FUZZ_PICK(in, 0, 1, 8, 64, 192, -8, INT64_MAX / 2, INT64_MIN);
        strides.dim = FUZZ_PICK(in, 0, 1, 2, 3, -1, INT64_MAX, INT64_MIN);
        break;
    default: break; /* dense */
    }
    return strides;
}

static fc_broadcast make_broadcast(fuzz_stream *in)
{
    return (fc_broadcast){
        .batch = FUZZ_PICK(in, 0, 1, 256, -3),
        .head = FUZZ_PICK(in, 0, 1, 64, -64),
        .row = FUZZ_PICK(in, 0, 1, 16, INT64_MAX),
        .key = FUZZ_PICK(in, 0, 1, 2, -1),
    };
}

static fc_scaling make_scaling(fuzz_stream *in)
{
    const int64_t block_rows = FUZZ_PICK(in, 0, 0, 1, 2, 5, INT32_MAX);
    return (fc_scaling){
        .batch = FUZZ_PICK(in, 0, 1, 8),
        .head = FUZZ_PICK(in, 0, 1, 3),
        .block = block_rows ? 1 : 0,
        .block_rows = block_rows,
    };
}

static float make_float(fuzz_stream *in)
{
    const float choices[] = {0, 1, 0.5f, -1, 30, 1e30f, 1e-40f, 0.9999999f, INFINITY, NAN, -0.0f};
    return choices[fuzz_u8(in) % (sizeof choices / sizeof choices[0])];
}

static void choose_sizes(fuzz_stream *in, fc_attention *p)
{
    p->batch = FUZZ_PICK(in, 1, 2, 3, 0, INT32_MAX);
    p->kv_heads = FUZZ_PICK(in, 1, 2, 3, 0, INT32_MAX);
    p->q_heads = p->kv_heads * FUZZ_PICK(in, 1, 2, 4, 16, 0);
    p->q_length = FUZZ_PICK(in, 1, 2, 3, 5, 8, 0, INT32_MAX);
    p->kv_length = FUZZ_PICK(in, 1, 2, 4, 7, 16, 0, INT32_MAX);
    p->head_dim = FUZZ_PICK(in, 1, 2, 3, 4, 8, 16, 576, 577, 0);
    p->value_dim = FUZZ_PICK(in, 0, 0, 1, 5, 8, 576, -1);
    p->q_type = (fc_type)(fuzz_u8(in) % 8);
    p->kv_type = (fc_type)FUZZ_PICK(in, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
    p->out_type = (fc_type)FUZZ_PICK(in, 0, 0, 0, 1, 2, 3, 4, 6);
}

static void choose_storage(fuzz_stream *in, fc_attention *p)
{
    fc_strides *const strides[] = {
        &p->q_strides,    &p->k_strides,  &p->v_strides,  &p->out_strides, &p->lse_strides,
        &p->dout_strides, &p->dq_strides, &p->dk_strides, &p->dv_strides,
    };
    const bool some_are_strided = fuzz_chance(in, 2);
    for (size_t i = 0; some_are_strided && i < sizeof strides / sizeof strides[0]; i++)
        *strides[i] = make_strides(in);
    p->packed_q = fuzz_chance(in, 4);
    p->packed_kv = fuzz_chance(in, 4);
    p->paged = fuzz_chance(in, 4);
    p->has_kv_lengths = fuzz_chance(in, 4);
    if (p->packed_q)
        p->packed_q_rows = FUZZ_PICK(in, 8, 1, 0, 20);
    if (p->packed_kv)
        p->packed_kv_rows = FUZZ_PICK(in, 16, 1, 0, 40);
    if (p->paged) {
        p->page_size = FUZZ_PICK(in, 2, 1, 4, 16, 0, INT32_MAX);
        p->page_count = FUZZ_PICK(in, 4, 1, 0, 9, INT32_MAX);
        p->page_table_stride = FUZZ_PICK(in, 0, 0, 16, 1, INT32_MAX);
    }
}

static void choose_features(fuzz_stream *in, fc_attention *p)
{
    p->causal = fuzz_chance(in, 3);
    p->diagonal = fuzz_chance(in, 3);
    p->batch_invariant = fuzz_chance(in, 3);
    p->dependent_launch = fuzz_chance(in, 3);
    p->has_sinks = fuzz_chance(in, 3);
    if ((p->has_window = fuzz_chance(in, 3))) {
        p->window_left = FUZZ_PICK(in, 0, 1, 3, -1, INT32_MAX);
        p->window_right = FUZZ_PICK(in, 0, 1, 3, -1, INT32_MAX);
    }
    if ((p->has_alibi = fuzz_chance(in, 3)))
        p->alibi_batch_stride = FUZZ_PICK(in, 0, 1, 16, INT32_MAX);
    if ((p->has_bias = fuzz_chance(in, 3))) {
        p->bias_strides = make_broadcast(in);
        p->bias_type = (fc_type)FUZZ_PICK(in, 0, 1, 2, 3, 6, 4);
    }
    if ((p->has_mask = fuzz_chance(in, 3)))
        p->mask_strides = make_broadcast(in);
    if (fuzz_chance(in, 3)) {
        p->q_scaling = make_scaling(in);
        p->k_scaling = make_scaling(in);
        p->v_scaling = make_scaling(in);
    }
    if (fuzz_chance(in, 3)) {
        p->scale = make_float(in);
        p->softcap = make_float(in);
        p->dropout_p = make_float(in);
    }
}

/* Overwrites 4 or 8 bytes somewhere: what no list of choices foresees. */
static void poke(fuzz_stream *in, void *record, size_t record_bytes)
{
    const size_t width = fuzz_chance(in, 2) ? 4 : 8;
    const size_t slot = ((size_t)fuzz_u8(in) << 8 | fuzz_u8(in)) % (record_bytes / width);
    const uint64_t value = fuzz_u64(in);
    memcpy((char *)record + slot * width, &value, width);
}

static fc_attention make_problem(fuzz_stream *in)
{
    fc_attention problem = fc_attention_init();
    if (fuzz_chance(in, 16)) {
        for (size_t i = 0; i < sizeof problem; i++)
            ((uint8_t *)&problem)[i] = fuzz_u8(in);
        if (!fuzz_chance(in, 8))
            problem.struct_size = sizeof problem;
        return problem;
    }
    choose_sizes(in, &problem);
    choose_storage(in, &problem);
    choose_features(in, &problem);
    for (int pokes = fuzz_u8(in) % 16 - 11; pokes > 0; pokes--)
        poke(in, &problem, sizeof problem);
    return problem;
}

static void ignore_log(void *user, fc_log_level level, const char *message)
{
    (void)level;
    *(size_t *)user += strlen(message);
}

static fc_context_options make_options(fuzz_stream *in, char name[9], size_t *log_bytes)
{
    static const char *const names[] = {NULL, "reference", "reference_backward", "",
                                        ",",  "nosuch",    "reference,reference"};
    fc_context_options options = fc_context_options_init();
    if (!fuzz_chance(in, 4))
        return options;
    options.device_type = (fc_device_type)FUZZ_PICK(in, 0, 0, 0, 1, 2, -1);
    options.device_index = (int32_t)FUZZ_PICK(in, 0, 0, 0, 1, -1, INT32_MAX);
    options.threads = (int32_t)FUZZ_PICK(in, 0, 1, 2, -1, INT32_MAX, INT32_MIN);
    options.reserved = (int32_t)FUZZ_PICK(in, 0, 0, 0, 1);
    options.struct_size += (size_t)FUZZ_PICK(in, 0, 0, 0, 0, 8, -8, INT64_MIN);
    options.kernel = names[fuzz_u8(in) % (sizeof names / sizeof names[0])];
    if (fuzz_chance(in, 8)) {
        for (int i = 0; i < 8; i++)
            name[i] = (char)fuzz_u8(in);
        name[8] = 0;
        options.kernel = name;
    }
    if (fuzz_chance(in, 2)) {
        options.log = ignore_log;
        options.log_user = log_bytes;
    }
    return options;
}

/* ---- What is done with them ---- */

/* Every kernel answers, and those that call themselves chosen are those of the plan. */
static void query_kernels(fc_context *context, const fc_attention *problem, const fc_plan *plan)
{
    int chosen[2] = {0, 0};
    for (int index = -1; index <= fc_kernel_count(); index++) {
        fc_kernel_info info = fc_kernel_info_init();
        const fc_status status = fc_kernel_query(context, problem, index, &info);
        fuzz_check_status(status);
        FUZZ_REQUIRE(status != FC_OK || (index >= 0 && index < fc_kernel_count()));
        if (status != FC_OK)
            continue;
        FUZZ_REQUIRE(memchr(info.reason, 0, sizeof info.reason));
        FUZZ_REQUIRE(info.accepts || info.reason[0]);
        if (!info.chosen)
            continue;
        FUZZ_REQUIRE(info.direction == FC_FORWARD || info.direction == FC_BACKWARD);
        chosen[info.direction]++;
        const char *planned = plan ? fc_plan_kernel(plan, info.direction) : info.name;
        FUZZ_REQUIRE(planned && strcmp(planned, info.name) == 0);
    }
    FUZZ_REQUIRE(!plan || chosen[FC_FORWARD] == 1);
    FUZZ_REQUIRE(chosen[FC_BACKWARD] <= 1);
}

static void plan_and_run(fuzz_stream *in, fc_context *context, const fc_attention *problem)
{
    fc_plan *plan = NULL;
    const fc_status status = fc_plan_create(context, problem, &plan);
    fuzz_check_status(status);
    FUZZ_REQUIRE((status == FC_OK) == (plan != NULL));
    query_kernels(context, problem, plan);
    if (plan)
        fuzz_run(in, context, problem, plan);
    fc_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    fuzz_stream in = {bytes, count};
    char name[9];
    size_t log_bytes = 0;
    const fc_context_options options = make_options(&in, name, &log_bytes);
    fc_context *context = NULL;
    const fc_status status = fc_context_create(&options, &context);
    fuzz_check_status(status);
    FUZZ_REQUIRE((status == FC_OK) == (context != NULL));

    /* On the heap, exactly as long as a caller's struct is: reading past it is seen. */
    fc_attention *problem = malloc(sizeof *problem);
    FUZZ_REQUIRE(problem);
    *problem = make_problem(&in);
    if (context)
        plan_and_run(&in, context, problem);
    free(problem);
    fc_context_destroy(context);
    return 0;
}
