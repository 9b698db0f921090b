/* ptx_wgmma8.cuh: the emulator's counterpart of src/cuda/ptx_wgmma8.cuh. */
#ifndef FC_PTX_WGMMA8_CUH
#define FC_PTX_WGMMA8_CUH

#include "ptx_wgmma.cuh"

EMU_DEFINE_WGMMA(64, EMU_E4M3, e4m3)
EMU_DEFINE_WGMMA(64, EMU_E5M2, e5m2)
EMU_DEFINE_WGMMA(128, EMU_E4M3, e4m3)
EMU_DEFINE_WGMMA(128, EMU_E5M2, e5m2)

#endif
