/* ladder_args.h: the one argument of every ladder kernel, the same struct on host and device. */
#ifndef FC_LADDER_ARGS_H
#define FC_LADDER_ARGS_H

typedef struct ladder_args {
    /* Dense [batch][head][row][HEAD_DIM], 16-byte aligned; f16, or FP8 for the quantised rung. */
    const void *q;
    const void *k;
    const void *v;
    void *out;  /* f16 */
    float *lse; /* [batch][q_head][row], or NULL */
    void *workspace;
    /* Quantised rung: scale[batch · …_scale_batch + head · …_scale_head], or NULL for 1. */
    const float *q_scale;
    const float *k_scale;
    const float *v_scale;
    int q_scale_batch, q_scale_head;
    int k_scale_batch, k_scale_head;
    int v_scale_batch, v_scale_head;
    int batch;
    int q_heads;
    int kv_heads; /* divides q_heads */
    int q_length;
    int kv_length; /* may be 0: out = 0, lse = -inf */
    int splits;    /* split over keys: how many blocks share a tile of rows */
    float scale;
} ladder_args;

#endif
