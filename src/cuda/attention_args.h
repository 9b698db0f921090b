/* attention_args.h: the one argument of the attention kernels, the same struct on host and device.
 * Everything of flashcore.h's problem that a kernel needs, resolved.
 *
 * What every kernel reads comes first; what only the variants with FEATURES read, last. */
#ifndef FC_CUDA_ATTENTION_ARGS_H
#define FC_CUDA_ATTENTION_ARGS_H

/* n / divisor by a multiplication: (high half of n · magic) >> shift, for 0 <= n < 2³¹. */
typedef struct fast_divisor {
    int divisor;
    unsigned magic; /* 0: the divisor is 1 */
    int shift;
} fast_divisor;

/* Of Q, K, V and out in chunks of 8 elements, where all strides are whole chunks; of LSE in
 * elements. */
typedef struct row_strides {
    int batch; /* 0 where a tensor is packed */
    int head;
    int row;
} row_strides;

/* In elements. */
typedef struct element_strides {
    long long batch; /* of a paged tensor: from page to page */
    long long head;
    long long row;
    long long dim;
} element_strides;

typedef struct broadcast_strides {
    long long batch;
    long long head;
    long long row;
    long long key;
} broadcast_strides;

/* Blocks that share the keys of a tile of rows, at most: two a lane of merge.cu. */
enum { ARGS_MOST_SPLITS = 64 };

/* As fc_type. */
enum { ARGS_F32 = 1, ARGS_F16 = 2, ARGS_BF16 = 3 };

/* What only the variants with FEATURES read. */
typedef struct attention_features {
    element_strides q_strides, k_strides, v_strides, out_strides;
    const int *page_table;
    const float *alibi;
    const void *bias;
    const unsigned char *mask;
    broadcast_strides bias_strides, mask_strides;
    long long alibi_batch_stride;
    long long page_table_stride;
    fast_divisor page_size; /* divisor 0: not paged */
    int page_count;
    fast_divisor value_slices; /* blocks that share the value dims of a tile of rows */
    int vector_loads;          /* 1: rows of Q, K, V are whole 16-byte chunks, aligned */
    int vector_stores;         /* 1: those of out */
    int out_type;
    int bias_type;
    float softcap; /* 0: off */
    float dropout_scale;
    /* Dropout keeps a weight when its random word is at least this; 0: off. */
    unsigned dropout_threshold;
    unsigned dropout_seed[2];
    unsigned dropout_offset[2];
} attention_features;

typedef struct attention_args {
    /* A block waits for each line of 64 bytes of the constant cache when it first looks there. A
     * kernel's argument begins 48 bytes before one (sm_90), in the line that every access to memory
     * needs. So that is where lies what a block reads first; in the lines behind it where it finds
     * its rows, what it reads after its last sum, and what few problems have. */
    int q_length;
    int kv_length;
    int top_left;                  /* 1: row i stands at key i */
    int window_left, window_right; /* -1: no limit */
    fast_divisor heads_per_kv;     /* query heads that share a KV head */
    float scale_log2;              /* of scores, for exponentials to base 2 */
    int first_batch;               /* of this launch */
    int head_dim;
    int value_dim;

    const void *q;
    const void *k;
    const void *v;
    row_strides q_chunks, k_chunks, v_chunks;
    int batch;

    void *out;
    const float *sinks;        /* or NULL */
    float *lse;                /* or NULL */
    fast_divisor packed_heads; /* of those on a KV head, heads whose rows share a tile: 1 or all */
    row_strides out_chunks, lse_strides;
    int q_heads;

    const int *cu_q; /* or NULL */
    const int *cu_kv;
    const int *kv_lengths;
    /* Where blocks come in groups of sequences, a query head or a group of packed ones each. */
    fast_divisor head_groups; /* of a batch */
    fast_divisor sequences;   /* of a group of blocks */
    fast_divisor splits;      /* blocks that share the keys of a tile of rows */
    int keys_per_split;       /* a whole number of tiles */

    int packed_q_rows, packed_kv_rows; /* of the whole tensor; 0 where not packed */
    /* Where the keys of a row are split over blocks: [split][batch][q_head][row], FP32. */
    float *partial_lse; /* base 2 */
    float *partial_out; /* × value_dim, up to a multiple of 4; each split's own softmax */

    attention_features more;
} attention_args;

/* Of its first group, which a line ends with. */
#define ATTENTION_ARGS_FIRST_BYTES 48

#endif
