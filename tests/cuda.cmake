# The CUDA part without a GPU: a driver that fails on command, run-time compilation, budgets.

add_library(fake_cuda MODULE fake_cuda.c)
target_include_directories(fake_cuda SYSTEM PRIVATE ${FC_CUDA_INCLUDE})

function(fc_add_cuda_test name)
    add_executable(test_${name} test_${name}.c ${ARGN})
    target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(test_${name} SYSTEM PRIVATE ${FC_CUDA_INCLUDE})
    target_link_libraries(test_${name} PRIVATE flashcore_static cmocka)
endfunction()

foreach(name cuda cuda_layout cuda_hopper cuda_hopper_blocks floors)
    fc_add_cuda_test(${name} cuda_fixture.c)
    target_compile_definitions(test_${name} PRIVATE FAKE_CUDA_LIBRARY="$<TARGET_FILE:fake_cuda>")
    add_dependencies(test_${name} fake_cuda)
    add_test(NAME ${name} COMMAND test_${name})
endforeach()

foreach(name sha256 jit_report)
    fc_add_cuda_test(${name})
    add_test(NAME ${name} COMMAND test_${name})
endforeach()
foreach(name jit_cache jit_directory jit_program)
    fc_add_cuda_test(${name} jit_fixture.c)
    add_test(NAME ${name} COMMAND test_${name} ${PROJECT_SOURCE_DIR}/src/cuda)
endforeach()

# NVRTC comes with the toolkit, but not with every part of it.
cmake_path(GET FC_CUDA_INCLUDE PARENT_PATH cuda_folder)
find_library(FC_NVRTC nvrtc HINTS ${cuda_folder}/lib64 ${cuda_folder}/lib)
if(FC_NVRTC)
    foreach(name jit jit_cubin)
        fc_add_cuda_test(${name} jit_fixture.c)
        add_test(NAME ${name} COMMAND test_${name})
        set_tests_properties(${name} PROPERTIES ENVIRONMENT FLASHCORE_NVRTC=${FC_NVRTC})
    endforeach()
    fc_add_cuda_test(variants)
    add_test(NAME variants COMMAND test_variants)
    set_tests_properties(variants PROPERTIES
        COST 55 ENVIRONMENT FLASHCORE_NVRTC=${FC_NVRTC} LABELS slow)
else()
    message(WARNING "NVRTC was not found: run-time compilation is not tested")
endif()

# The builds of one checkout share compiled kernels.
if(NOT FC_SANITIZE)
    add_test(
        NAME variant_cache
        COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/variant_cache_test.py)
endif()

# Budgets: of every kernel, as variants.txt states it, and of the library with all kernels in it.
add_test(NAME resources COMMAND flashcore resources)
if(NOT FC_SANITIZE)
    add_test(NAME library_size COMMAND ${CMAKE_COMMAND} -DFILE=$<TARGET_FILE:flashcore_shared>
        -DMOST_BYTES=31457280 -P ${CMAKE_CURRENT_SOURCE_DIR}/size_test.cmake)
endif()
