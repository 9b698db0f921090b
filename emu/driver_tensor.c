/* driver_tensor.c: tensor maps. Refuses what the driver refuses, as far as kernels here
 * come near it. */
#include "driver.h"

#include "tensor_map.h"

#include <string.h>

static int bytes_of(CUtensorMapDataType type)
{
    switch ((int)type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return 4;
    default: return 0;
    }
}

static int swizzle_bytes_of(CUtensorMapSwizzle swizzle)
{
    switch ((int)swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: return 0;
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return -1;
    }
}

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *result, CUtensorMapDataType type,
                                       cuuint32_t dims, void *memory, const cuuint64_t *sizes,
                                       const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *element_strides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    (void)promotion;
    if (!emu_driver_has_context())
        return emu_driver_fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    emu_tensor_map map = {.magic = EMU_TENSOR_MAP_MAGIC,
                          .dims = (uint8_t)dims,
                          .element_bytes = (uint8_t)bytes_of(type),
                          .fills_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                          .memory = memory};
    const int swizzle_bytes = swizzle_bytes_of(swizzle);
    if (!map.element_bytes || swizzle_bytes < 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        dims < 1 || dims > EMU_TENSOR_DIMS)
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE, "no tensor map that the emulator knows");
    map.swizzle_bytes = (uint8_t)swizzle_bytes;
    map.strides[0] = map.element_bytes;
    if ((uintptr_t)memory % 16)
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE, "the tensor is not aligned to 16 bytes");
    for (cuuint32_t i = 0; i < dims; i++) {
        map.sizes[i] = (uint32_t)sizes[i];
        map.box[i] = (uint16_t)box[i];
        if (i > 0)
            map.strides[i] = strides[i - 1];
        if (sizes[i] == 0 || box[i] == 0 || box[i] > 256 || element_strides[i] != 1 ||
            (i > 0 && strides[i - 1] % 16))
            return emu_driver_fail(CUDA_ERROR_INVALID_VALUE,
                                   "axis %u: size %llu, box %u, element stride %u", i,
                                   (unsigned long long)sizes[i], box[i], element_strides[i]);
    }
    const unsigned row_bytes = box[0] * map.element_bytes;
    if (row_bytes % 16 || (swizzle_bytes && row_bytes > (unsigned)swizzle_bytes))
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE,
                               "a row of the box has %u bytes; the swizzle takes %d", row_bytes,
                               swizzle_bytes);
    _Static_assert(sizeof map <= sizeof *result, "the map fits");
    memset(result, 0, sizeof *result);
    memcpy(result, &map, sizeof map);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *memory)
{
    emu_tensor_map known;
    if (!emu_driver_has_context())
        return emu_driver_fail(CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    memcpy(&known, map, sizeof known);
    if (known.magic != EMU_TENSOR_MAP_MAGIC || (uintptr_t)memory % 16)
        return emu_driver_fail(CUDA_ERROR_INVALID_VALUE,
                               "no tensor map, or no address aligned to 16 bytes");
    known.memory = memory;
    memcpy(map, &known, sizeof known);
    return CUDA_SUCCESS;
}
