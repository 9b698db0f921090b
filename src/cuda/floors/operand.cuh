/* operand.cuh: numbers to multiply. Zeros would draw less power than data does, and the clock would be
 * higher than any attention sees. */
#ifndef FC_FLOORS_OPERAND_CUH
#define FC_FLOORS_OPERAND_CUH

#include "ptx_common.cuh"

/* Two f16 with 1 ≤ |x| < 2, another pair for every index. */
static __device__ __forceinline__ unsigned operand_pair(unsigned index)
{
    unsigned bits = index * 2654435761u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    bits ^= bits >> 13;
    return (bits & 0x83ff83ffu) | 0x3c003c00u;
}

#endif
