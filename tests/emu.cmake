# The emulator: what its instructions compute, what it must report, and every kernel on a part of the
# case list.

# 1. Small kernels, right and broken: name, source, value of BROKEN.
set(emu_test_objects "")
fc_emu_kernel(emu_test_objects right ${CMAKE_CURRENT_SOURCE_DIR}/emu_kernels/hopper.cu)
foreach(how copy_not_waited_for too_many_bytes_expected wrong_stride wrong_swizzle
        product_not_waited_for no_proxy_fence phase_not_flipped stage_not_free no_cluster_barrier
        left_too_early overwritten_during_store no_wgmma_fence sums_written_after_fence
        left_written_after_fence left_written_during_product previous_not_waited_for
        barrier_before_wait relay_does_not_wait registers_swapped short_step
        overwritten_after_product copy_left_behind)
    string(TOUPPER ${how} macro)
    fc_emu_kernel(emu_test_objects ${how} ${CMAKE_CURRENT_SOURCE_DIR}/emu_kernels/hopper.cu
        BROKEN=${macro})
endforeach()
foreach(how nothing barrier_count_differs barrier_not_reached lane_not_in_mask lane_has_left
        warp_diverged atomic_and_plain past_shared_memory misaligned_shared wrote_input_guard
        blocks_write_the_same cleared_during_use warps_at_two_barriers)
    string(TOUPPER ${how} macro)
    string(REPLACE nothing right name ${how})
    fc_emu_kernel(emu_test_objects ${name} ${CMAKE_CURRENT_SOURCE_DIR}/emu_kernels/basic.cu
        BROKEN=${macro})
endforeach()
add_library(emu_test_kernels MODULE ${emu_test_objects})
set_target_properties(emu_test_kernels PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(emu_test_kernels PRIVATE flashcore_emu m)

fc_add_cuda_test(emu)
target_include_directories(test_emu PRIVATE ${PROJECT_SOURCE_DIR} emu_kernels)
add_test(NAME emu COMMAND test_emu)
set(emu_environment "FLASHCORE_CUDA_DRIVER=$<TARGET_FILE:flashcore_emu>")
set_tests_properties(emu PROPERTIES ENVIRONMENT
    "${emu_environment};FLASHCORE_EMU_KERNELS=$<TARGET_FILE:emu_test_kernels>")
add_dependencies(test_emu emu_test_kernels)

# The same kernels as machine code, for `test_emu emu_hopper.cubin` on a GPU of sm_90.
add_custom_command(
    OUTPUT emu_hopper.cubin
    COMMAND ${FC_NVCC} -cubin -arch=sm_90a -std=c++17 -I${PROJECT_SOURCE_DIR}/src/cuda
            -DKERNEL_NAME=right ${CMAKE_CURRENT_SOURCE_DIR}/emu_kernels/hopper.cu -o
            emu_hopper.cubin
    DEPENDS emu_kernels/hopper.cu emu_kernels/emu_kernels.h
    VERBATIM)
add_custom_target(emu_hopper ALL DEPENDS emu_hopper.cubin)

# 2. Deliberate errors in the kernels.
get_property(emu_compiler GLOBAL PROPERTY FC_EMU_COMPILER)
add_test(
    NAME emu_mutations
    COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/emu_mutate.py --flashcore
            $<TARGET_FILE:flashcore> --emulator $<TARGET_FILE:flashcore_emu> --compiler
            "${emu_compiler}")
set_tests_properties(emu_mutations PROPERTIES PROCESSORS 2 LABELS slow)
add_test(
    NAME emu_all_mutations
    CONFIGURATIONS Nightly
    COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/emu_mutate.py --all --flashcore
            $<TARGET_FILE:flashcore> --emulator $<TARGET_FILE:flashcore_emu> --compiler
            "${emu_compiler}")

# 3. Every kernel.
add_test(
    NAME emu_check
    COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/emu_check.py --flashcore
            $<TARGET_FILE:flashcore>)
set_tests_properties(emu_check PROPERTIES PROCESSORS 2 LABELS slow)

# Variants that these cases alone run, and a sample might miss.
foreach(kernel sm80_prefill sm90_prefill)
    add_test(NAME emu_whole_tiles_${kernel}
        COMMAND flashcore check --backend emu --kernel ${kernel} --filter whole_tiles)
    set_tests_properties(emu_whole_tiles_${kernel} PROPERTIES COST 15)
endforeach()

# The largest blocks that sm80_prefill has room for on an H100; and on an A100 and an L4.
add_test(NAME emu_large_dims
    COMMAND flashcore check --backend emu --kernel sm80_prefill --filter large_dims)
set_tests_properties(emu_large_dims PROPERTIES COST 15)
foreach(capability 80 89)
    add_test(NAME emu_large_dims_sm_${capability}
        COMMAND flashcore check --backend emu --kernel sm80_prefill --filter "*-kv3?0-d256")
    set_tests_properties(emu_large_dims_sm_${capability} PROPERTIES ENVIRONMENT
        "FLASHCORE_EMU_CAPABILITY=${capability}")
endforeach()

# Kernels and variants that an H200 takes.
add_test(NAME emu_multiprocessors
    COMMAND flashcore kernels --backend emu --shape 1,8,512,64)
set_tests_properties(emu_multiprocessors PROPERTIES
    PASS_REGULAR_EXPRESSION "sm90_latency +forward +runs it"
    ENVIRONMENT FLASHCORE_EMU_MULTIPROCESSORS=132)
add_test(NAME emu_random_132
    COMMAND flashcore check --backend emu --kernel sm90_latency --random 25 --seed 50001)
set_tests_properties(emu_random_132 PROPERTIES COST 10
    ENVIRONMENT FLASHCORE_EMU_MULTIPROCESSORS=132)

foreach(part compare rows isolated)
    add_test(NAME emu_${part}
        COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/emu_${part}_test.py)
    set_tests_properties(emu_${part} PROPERTIES ENVIRONMENT "FLASHCORE=$<TARGET_FILE:flashcore>")
endforeach()

fc_add_cuda_test(floor_kernels)
target_include_directories(test_floor_kernels PRIVATE ${PROJECT_SOURCE_DIR})
add_test(NAME floor_kernels COMMAND test_floor_kernels)
set_tests_properties(floor_kernels PROPERTIES ENVIRONMENT "${emu_environment}")

# 4. What they cost.
add_test(
    NAME emu_counts
    COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/emu_counts_test.py)
foreach(family sm80 sm90)
    add_test(
        NAME emu_${family}_counts
        COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/emu_${family}_counts_test.py)
endforeach()
set_tests_properties(emu_counts emu_sm80_counts emu_sm90_counts PROPERTIES
    ENVIRONMENT "FLASHCORE=$<TARGET_FILE:flashcore>")
