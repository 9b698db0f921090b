/* prelude.cuh: comes before the first line of a kernel file. With all of these in, their include
 * guards keep out the headers of the same names in src/cuda. Those that hold no PTX
 * (ptx_warp.cuh, ptx_fp8.cuh) have no counterpart here and are used as they are. */
#include "ptx_async.cuh"
#include "ptx_barrier.cuh"
#include "ptx_bulk.cuh"
#include "ptx_cluster.cuh"
#include "ptx_common.cuh"
#include "ptx_launch.cuh"
#include "ptx_math.cuh"
#include "ptx_mbarrier.cuh"
#include "ptx_memory.cuh"
#include "ptx_mma.cuh"
#include "ptx_mma8.cuh"
#include "ptx_wgmma.cuh"
#include "ptx_wgmma8.cuh"
