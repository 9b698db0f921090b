/* ptx_mbarrier.cuh: barriers in shared memory, by which some of a block's threads tell others that
 * they are done with something, without waiting themselves.
 *
 * An mbarrier counts arrivals. When it has as many as it was made for, the phase is over and the
 * next one begins from 0. Phases have parities 0, 1, 0, …: a thread waits for the end of a phase by
 * naming its parity, and must do so before the phase after it is over too. */
#ifndef FC_PTX_MBARRIER_CUH
#define FC_PTX_MBARRIER_CUH

#include "ptx_common.cuh"

typedef unsigned long long mbarrier; /* in shared memory, used by these functions alone */

/* By one thread; the others may use it after a __syncthreads. */
static __device__ __forceinline__ void mbarrier_init(mbarrier *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

/* What this thread read and wrote before is over for those who wait for the phase. */
static __device__ __forceinline__ void mbarrier_arrive(mbarrier *barrier)
{
    asm volatile("{\n"
                 ".reg .b64 state;\n"
                 "mbarrier.arrive.shared.b64 state, [%0];\n"
                 "}" ::"r"(shared_address(barrier))
                 : "memory");
}

/* From sm_90 on a thread sleeps until the phase is over, or for some time, and looks again. */
#if __CUDA_ARCH__ >= 900
#define MBARRIER_LOOK "mbarrier.try_wait.parity.shared.b64"
#else
#define MBARRIER_LOOK "mbarrier.test_wait.parity.shared.b64"
#endif

/* Until the phase of that parity is over. Parity 1 of a new barrier names the phase before the
 * first, which is over. */
static __device__ __forceinline__ void mbarrier_wait(mbarrier *barrier, int parity)
{
    unsigned over;
    do {
        asm volatile("{\n"
                     ".reg .pred over;\n"
                     MBARRIER_LOOK " over, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, over;\n"
                     "}"
                     : "=r"(over)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    } while (!over);
}

#endif
