/* attention_args.h: the one argument of the attention kernels, the same struct on host and device.
 * Everything of flashcore.h's problem that a kernel needs, resolved. */
#ifndef FC_CUDA_ATTENTION_ARGS_H
#define FC_CUDA_ATTENTION_ARGS_H

/* In elements; for variants without FEATURES in chunks of 8 elements, each less than 2³¹. */
typedef struct attention_strides {
    long long batch; /* of a paged tensor: from page to page; 0 where a tensor is packed */
    long long head;
    long long row;
    long long dim;
} attention_strides;

typedef struct attention_broadcast {
    long long batch;
    long long head;
    long long row;
    long long key;
} attention_broadcast;

/* n / divisor by a multiplication: (high half of n · magic) >> shift, for 0 <= n < 2³¹. */
typedef struct fast_divisor {
    int divisor;
    unsigned magic; /* 0: the divisor is 1 */
    int shift;
} fast_divisor;

/* As fc_type. */
enum { ARGS_F32 = 1, ARGS_F16 = 2, ARGS_BF16 = 3 };

typedef struct attention_args {
    const void *q;
    const void *k;
    const void *v;
    void *out;
    float *lse; /* or NULL, as every pointer below */
    const int *cu_q;
    const int *cu_kv;
    const int *kv_lengths;
    const int *page_table;
    const float *alibi;
    const void *bias;
    const unsigned char *mask;
    const float *sinks;
    /* Where the keys of a row are split over blocks: [split][batch][q_head][row], FP32. */
    float *partial_out; /* × value_dim, each split's own softmax */
    float *partial_lse; /* base 2 */

    attention_strides q_strides, k_strides, v_strides, out_strides;
    attention_strides lse_strides; /* always in elements */
    attention_broadcast bias_strides, mask_strides;
    long long alibi_batch_stride;
    long long page_table_stride;

    int first_batch; /* of this launch */
    int batch;
    int q_heads;
    int kv_heads;
    fast_divisor heads_per_kv; /* query heads that share a KV head */
    fast_divisor packed_heads; /* of them, those whose rows share a tile: 1 or all of them */
    int q_length;
    int kv_length;
    int packed_q_rows, packed_kv_rows; /* of the whole tensor; 0 where not packed */
    fast_divisor page_size;            /* divisor 0: not paged */
    int page_count;
    int head_dim;
    int value_dim;
    int top_left;                  /* 1: row i stands at key i */
    int window_left, window_right; /* -1: no limit */
    fast_divisor splits;           /* blocks that share the keys of a tile of rows */
    fast_divisor value_slices;     /* blocks that share the value dims of a tile of rows */
    int keys_per_split;            /* a whole number of tiles */
    int vector_loads;              /* 1: rows of Q, K, V are whole 16-byte chunks, aligned */
    int vector_stores;             /* 1: those of out */
    int out_type;
    int bias_type;

    float scale;
    float softcap; /* 0: off */
    /* Dropout keeps a weight when its random word is at least this; 0: off. */
    unsigned dropout_threshold;
    float dropout_scale;
    unsigned dropout_seed[2];
    unsigned dropout_offset[2];
} attention_args;

#endif
