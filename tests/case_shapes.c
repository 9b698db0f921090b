/* case_shapes.c: the cases that differ in sizes: batches, lengths, heads and dims. */
#include "case_draft.h"

/* ---- Shapes ---- */

static void add_shape(int64_t batch, int64_t heads, int64_t length, fc_type type, uint64_t seed,
                      bool causal)
{
    case_draft d = draft_make("shapes", batch, heads, length, length, 64);
    d.c.seed = seed;
    d.c.problem.q_type = type;
    d.c.problem.causal = causal;
    draft_name(&d, "b%d", (int)batch);
    draft_name(&d, "h%d", (int)heads);
    draft_name(&d, "s%d", (int)length);
    if (causal)
        draft_name(&d, "causal");
    draft_name(&d, "%s", fc_type_name(type));
    draft_name(&d, "seed%d", (int)seed);
    case_add(&d);
}

static void add_shapes(void)
{
    static const struct {
        int64_t batch, heads, length;
    } small[] = {{1, 2, 64}, {1, 4, 128}, {2, 2, 64}};
    static const fc_type types[] = {FC_F32, FC_F16, FC_BF16, FC_F8_E4M3, FC_F8_E5M2};
    static const int64_t sweep[] = {32, 64, 96, 160, 192, 320, 512};
    for (size_t shape = 0; shape < 3; shape++)
        for (size_t type = 0; type < 5; type++)
            for (uint64_t seed = 1; seed <= (type < 3 ? 3 : 1); seed++)
                add_shape(small[shape].batch, small[shape].heads, small[shape].length, types[type],
                          seed, false);
    for (size_t i = 0; i < sizeof sweep / sizeof sweep[0]; i++) {
        add_shape(1, 1, sweep[i], FC_F16, 1, false);
        add_shape(1, 1, sweep[i], FC_BF16, 2, true);
    }
    add_shape(1, 8, 512, FC_F16, 1, false);
    add_shape(2, 8, 256, FC_F16, 1, false);
    add_shape(1, 1, 1024, FC_F16, 1, false);
    add_shape(1, 1, 2048, FC_F16, 1, true);
}

/* ---- Lengths ---- */

static void add_lengths(int64_t q_length, int64_t kv_length, fc_type type, bool causal,
                        bool backward)
{
    case_draft d = draft_make("lengths", 1, 2, q_length, kv_length, 64);
    d.c.problem.q_type = type;
    d.c.problem.causal = causal;
    d.c.backward = backward;
    draft_name(&d, "q%d", (int)q_length);
    draft_name(&d, "kv%d", (int)kv_length);
    if (causal)
        draft_name(&d, "causal");
    draft_name(&d, "%s", fc_type_name(type));
    case_add(&d);
}

static void add_all_lengths(void)
{
    static const int64_t tiles[] = {16, 32, 64, 128, 256};
    static const int64_t odd[] = {1, 2, 3, 5, 7, 11, 13, 29, 37, 53, 61, 79};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        for (int64_t off = -1; off <= 1; off++) {
            add_lengths(5, tiles[i] + off, FC_F16, false, true);
            add_lengths(3, tiles[i] + off, FC_F8_E4M3, false, false);
            add_lengths(tiles[i] + off, 19, FC_BF16, true, false);
            if (tiles[i] <= 128)
                add_lengths(tiles[i] + off, tiles[i] + off, FC_F16, true, tiles[i] <= 64);
        }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        add_lengths(odd[i], odd[i], FC_F32, false, true);
        add_lengths(odd[i], odd[i], FC_F16, true, true);
        add_lengths(1, odd[i] + 64, FC_BF16, true, false);
        add_lengths(odd[i], 40, FC_F16, true, false);
        add_lengths(40, odd[i], FC_F16, true, false);
    }
}

static void add_single_element(void)
{
    static const fc_type types[] = {FC_F32, FC_F16, FC_BF16, FC_F8_E4M3, FC_F8_E5M2, FC_F64};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        case_draft d = draft_make("lengths", 1, 1, 1, 1, 1);
        d.c.problem.q_type = types[i];
        d.c.backward = true;
        draft_name(&d, "all1-%s", fc_type_name(types[i]));
        case_add(&d);
    }
}

static void add_empty(int64_t batch, int64_t q_length, int64_t kv_length, bool sinks)
{
    case_draft d = draft_make("lengths", batch, 2, q_length, kv_length, 64);
    d.c.problem.has_sinks = sinks;
    d.c.backward = true;
    draft_name(&d, "empty-b%d-q%d-kv%d", (int)batch, (int)q_length, (int)kv_length);
    if (sinks)
        draft_name(&d, "sinks");
    case_add(&d);
}

/* ---- Heads and dims ---- */

static void add_heads(void)
{
    static const int64_t ratios[] = {1, 2, 3, 4, 5, 8, 16};
    static const int64_t lengths[] = {1, 5, 33};
    for (size_t i = 0; i < sizeof ratios / sizeof ratios[0]; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof lengths[0]; j++) {
            case_draft d = draft_make("heads", 2, 2, lengths[j], 67, 64);
            d.c.problem.q_heads = 2 * ratios[i];
            d.c.problem.causal = j % 2 == 0;
            d.c.backward = j == 1;
            draft_name(&d, "gqa%d-q%d", (int)ratios[i], (int)lengths[j]);
            case_add(&d);
        }
}

static void add_dims(int64_t head_dim, int64_t value_dim, fc_type type)
{
    case_draft d = draft_make("dims", 1, 2, 9, 35, head_dim);
    d.c.problem.value_dim = value_dim;
    d.c.problem.q_type = type;
    d.c.problem.causal = type != FC_F32;
    d.c.backward = type == FC_F16;
    draft_name(&d, "d%d", (int)head_dim);
    if (value_dim)
        draft_name(&d, "dv%d", (int)value_dim);
    draft_name(&d, "%s", fc_type_name(type));
    case_add(&d);
}

static void add_all_dims(void)
{
    static const int64_t dims[] = {1,  2,  7,   8,   16,  24,  32,  40,  63,  64,  65,
                                   80, 96, 128, 160, 192, 224, 256, 320, 512, 575, 576};
    static const int64_t pairs[][2] = {{192, 128}, {576, 512}, {64, 128}, {128, 64},
                                       {1, 576},   {576, 1},   {72, 56},  {7, 13}};
    static const fc_type types[] = {FC_F32, FC_F16, FC_F8_E4M3};
    for (size_t type = 0; type < 3; type++) {
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            add_dims(dims[i], 0, types[type]);
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
            add_dims(pairs[i][0], pairs[i][1], types[type]);
    }
}

/* ---- Long: gradients of more rows and keys than a tile holds, in few dims ---- */

static void add_long(const char *name, case_draft *d)
{
    d->c.backward = true;
    draft_name(d, "%s-q%d-kv%d", name, (int)d->c.problem.q_length, (int)d->c.problem.kv_length);
    case_add(d);
}

static void add_all_long(void)
{
    case_draft causal = draft_make("long", 1, 1, 600, 530, 16);
    causal.c.problem.q_type = FC_F32;
    causal.c.problem.causal = 1;
    add_long("causal", &causal);

    case_draft window = draft_make("long", 1, 1, 530, 600, 16);
    window.c.problem.q_type = FC_BF16;
    window.c.problem.has_window = 1;
    window.c.problem.window_left = 300;
    window.c.problem.window_right = 13;
    add_long("window", &window);

    /* All sequences and heads add to the same gradient of the bias. */
    case_draft shared = draft_make("long", 2, 2, 150, 530, 8);
    shared.c.problem.q_type = FC_F32;
    shared.c.problem.q_heads = 4;
    shared.c.problem.has_bias = 1;
    shared.bias_axes = DRAFT_ROW;
    add_long("shared_bias", &shared);

    case_draft ragged = draft_make("long", 2, 1, 600, 600, 8);
    ragged.c.problem.packed_q = ragged.c.problem.packed_kv = 1;
    ragged.c.problem.causal = 1;
    ragged.c.problem.has_sinks = 1;
    add_long("ragged", &ragged);

    /* 8192 keys, the length of the second sequence, make more tiles of at most 32 than 12289. */
    case_draft lengths = draft_make("long", 2, 1, 1, 12289, 4);
    lengths.c.problem.has_kv_lengths = 1;
    add_long("lengths", &lengths);
}

/* ---- Plain: what the simplest fast kernel serves, dense and without features ---- */

static void add_plain(int64_t q_length, int64_t kv_length, int64_t head_dim, fc_type type,
                      int scale_axes)
{
    case_draft d = draft_make("plain", 2, 2, q_length, kv_length, head_dim);
    d.c.problem.q_heads = 4;
    d.c.problem.q_type = type;
    d.scale_axes = scale_axes;
    if (type == FC_F8_E4M3 || type == FC_F8_E5M2)
        d.c.problem.out_type = FC_F16;
    draft_name(&d, "plain-q%d-kv%d-d%d-%s", (int)q_length, (int)kv_length, (int)head_dim,
               fc_type_name(type));
    if (scale_axes)
        draft_name(&d, "scales%d", scale_axes);
    case_add(&d);
}

static void add_all_plain(void)
{
    static const int64_t lengths[][2] = {{1, 1},    {1, 300},   {64, 64}, {65, 63},
                                         {33, 127}, {130, 200}, {5, 1},   {100, 257}};
    static const fc_type types[] = {FC_F16, FC_BF16, FC_F32};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int64_t dim = 64; dim <= 128; dim += 64) {
            for (size_t type = 0; type < 3; type++)
                add_plain(lengths[i][0], lengths[i][1], dim, types[type], 0);
            add_plain(lengths[i][0], lengths[i][1], dim, FC_F8_E4M3, DRAFT_HEAD);
            add_plain(lengths[i][0], lengths[i][1], dim, FC_F8_E5M2, DRAFT_BATCH | DRAFT_HEAD);
            add_plain(lengths[i][0], lengths[i][1], dim, FC_F8_E4M3, 0);
        }
}

/* Whole tiles of keys, for which kernels have variants, and more rows than fit one tile of them.
 * With 64 dims there are so many that the largest tiles are taken. */
static void add_whole_tiles(int64_t head_dim, fc_type type)
{
    static const int64_t lengths[][2] = {{130, 128}, {500, 384}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        case_draft d =
            draft_make("whole", 1, head_dim == 64 ? 6 : 2, lengths[i][0], lengths[i][1], head_dim);
        d.c.problem.q_type = type;
        draft_name(&d, "whole_tiles-q%d-kv%d-d%d-%s", (int)lengths[i][0], (int)lengths[i][1],
                   (int)head_dim, fc_type_name(type));
        case_add(&d);
    }
}

static void add_all_whole_tiles(void)
{
    for (int64_t dim = 64; dim <= 256; dim *= 2) {
        add_whole_tiles(dim, FC_F16);
        add_whole_tiles(dim, FC_BF16);
    }
}

/* Limits that move through several tiles of rows and keys. */
static void add_limits(int64_t head_dim, fc_type type)
{
    static const struct {
        const char *name;
        int64_t q_length, kv_length, left, right;
        fc_diagonal diagonal;
    } limits[] = {
        {"causal", 200, 330, -1, 0, FC_BOTTOM_RIGHT},
        {"more_rows", 330, 200, -1, 0, FC_BOTTOM_RIGHT},
        {"window", 200, 330, 40, 0, FC_BOTTOM_RIGHT},
        {"wide_window", 330, 330, 130, 70, FC_BOTTOM_RIGHT},
        {"more_keys", 129, 330, -1, 31, FC_TOP_LEFT},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        case_draft d =
            draft_make("limits", 1, 2, limits[i].q_length, limits[i].kv_length, head_dim);
        d.c.problem.q_type = type;
        d.c.problem.has_window = 1;
        d.c.problem.window_left = limits[i].left;
        d.c.problem.window_right = limits[i].right;
        d.c.problem.diagonal = limits[i].diagonal;
        draft_name(&d, "limits-%s-d%d-%s", limits[i].name, (int)head_dim, fc_type_name(type));
        case_add(&d);
    }
}

static void add_all_limits(void)
{
    for (int64_t dim = 64; dim <= 256; dim *= 2) {
        add_limits(dim, FC_F16);
        add_limits(dim, FC_BF16);
    }
}

void case_add_shapes(void)
{
    add_shapes();
    add_all_plain();
    add_all_whole_tiles();
    add_all_limits();
    add_all_lengths();
    add_single_element();
    add_empty(0, 5, 7, false);
    add_empty(2, 0, 7, false);
    add_empty(2, 5, 0, false);
    add_empty(2, 5, 0, true);
    add_heads();
    add_all_dims();
    add_all_long();
}
