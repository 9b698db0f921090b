/* attend.c: causal attention over 128 tokens with 8 heads, in one call.
 *
 *     cc attend.c $(pkg-config --cflags --libs flashcore) -o attend && ./attend */
#include <flashcore.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 8, TOKENS = 128, HEAD_DIM = 64, ELEMENTS = HEADS * TOKENS * HEAD_DIM };

static float q[ELEMENTS], k[ELEMENTS], v[ELEMENTS], out[ELEMENTS]; /* [head][token][dim] */

int main(void)
{
    for (int i = 0; i < ELEMENTS; i++) {
        q[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        k[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        v[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    }
    fc_attention problem = fc_attention_init(); /* what to compute */
    problem.batch = 1;
    problem.q_heads = problem.kv_heads = HEADS;
    problem.q_length = problem.kv_length = TOKENS;
    problem.head_dim = HEAD_DIM;
    problem.q_type = FC_F32;
    problem.causal = 1;
    fc_buffers buffers = fc_buffers_init(); /* where the data is */
    buffers.q = q;
    buffers.k = k;
    buffers.v = v;
    buffers.out = out;

    fc_context *context = NULL; /* where to compute it: the CPU, default options */
    if (fc_context_create(NULL, &context) != FC_OK ||
        fc_attend(context, &problem, &buffers, NULL) != FC_OK) {
        fprintf(stderr, "%s\n", fc_last_error());
        return 1;
    }
    printf("The first token sees itself alone: out = %f, v = %f\n", out[0], v[0]);
    fc_context_destroy(context);
    return 0;
}
