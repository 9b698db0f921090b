# The CPU kernels: their vector layer, their object files, and the case list on each of them.

get_property(cpu_sets GLOBAL PROPERTY FC_CPU_SETS)

# The comma keeps a set's objects in one argument.
set(object_arguments "baseline=$<JOIN:$<TARGET_OBJECTS:flashcore_objects>,,>")
foreach(isa ${cpu_sets})
    list(APPEND object_arguments "${isa}=$<JOIN:$<TARGET_OBJECTS:flashcore_cpu_${isa}>,,>")
endforeach()
find_package(Python3 COMPONENTS Interpreter)
if(NOT FC_SANITIZE) # which adds names and instructions of its own
    add_test(
        NAME cpu_objects
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/cpu_objects_test.py ${CMAKE_OBJDUMP}
                ${CMAKE_NM} ${object_arguments})
endif()

if(TARGET cmocka)
    add_executable(test_cpu ${PROJECT_SOURCE_DIR}/tests/test_cpu.c)
    foreach(isa ${cpu_sets})
        add_library(cpu_probe_${isa} OBJECT ${PROJECT_SOURCE_DIR}/tests/cpu_probe.c)
        get_property(flags GLOBAL PROPERTY FC_CPU_FLAGS_${isa})
        fc_compile_for(cpu_probe_${isa} ${isa} ${flags})
        if(FC_SANITIZE)
            target_compile_definitions(cpu_probe_${isa} PRIVATE FLOATS_APART=997)
        endif()
        target_sources(test_cpu PRIVATE $<TARGET_OBJECTS:cpu_probe_${isa}>)
    endforeach()
    target_include_directories(test_cpu PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(test_cpu PRIVATE flashcore_static cmocka m)
    add_test(NAME cpu COMMAND test_cpu)

    add_executable(test_cpu_decode ${PROJECT_SOURCE_DIR}/tests/test_cpu_decode.c)
    target_include_directories(test_cpu_decode PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(test_cpu_decode PRIVATE flashcore_lab cmocka m)
    if(NOT CMAKE_CROSSCOMPILING AND NOT FC_SANITIZE MATCHES "thread") # they say nothing of threads
        add_test(NAME cpu_decode COMMAND test_cpu_decode)
    endif()

    add_executable(test_cpu_backward ${PROJECT_SOURCE_DIR}/tests/test_cpu_backward.c)
    target_link_libraries(test_cpu_backward PRIVATE flashcore_lab cmocka m)
    add_test(NAME cpu_backward COMMAND test_cpu_backward)
    set_tests_properties(cpu_backward PROPERTIES PROCESSORS 2)
endif()

# The case list, on the sets that any processor of this kind has.
set(checked_kernels cpu_plain_prefill cpu_plain_decode)
set(check_flags "")
if(CMAKE_CROSSCOMPILING)
    # The emulator knows AVX2 when it is asked to; it is slow, so that few cases have to do.
    set(check_flags --filter decode)
    if("neon" IN_LIST cpu_sets)
        set(checked_kernels cpu_neon_prefill cpu_neon_decode)
    else()
        set(checked_kernels cpu_avx2_prefill cpu_avx2_decode)
    endif()
elseif("neon" IN_LIST cpu_sets)
    list(APPEND checked_kernels cpu_neon_prefill cpu_neon_decode)
else()
    # AVX2 and more: whatever this processor has, as the table chooses it. With sanitizers every type
    # and every kind of memory, and two types of many lengths.
    if(FC_SANITIZE)
        foreach(group features plain-*f16)
            string(REGEX REPLACE "[^a-z].*" "" name ${group})
            add_test(NAME check_cpu_best_${name} COMMAND flashcore check --filter ${group})
            set_tests_properties(check_cpu_best_${name} PROPERTIES COST 40 LABELS slow)
        endforeach()
    else()
        add_test(NAME check_cpu_best COMMAND flashcore check)
        set_tests_properties(check_cpu_best PROPERTIES COST 100 LABELS slow)
    endif()
endif()
foreach(kernel ${checked_kernels})
    # The plain kernels are the same source as those with vectors, which run the whole list.
    if(NOT CMAKE_CROSSCOMPILING AND NOT FC_SANITIZE)
        set(check_flags "")
        if(kernel MATCHES "plain")
            set(check_flags --sample 700)
        endif()
    endif()
    # Sanitizers make the whole list take minutes: every kind of memory is enough, for decode in the
    # pairs, whose rows are few.
    if(FC_SANITIZE AND kernel MATCHES "decode")
        set(check_flags --filter bias-*)
    elseif(FC_SANITIZE)
        set(check_flags --filter features)
    endif()
    # Both directions of the set: lse and scores that were rounded alike.
    string(REGEX REPLACE "_[a-z]+$" "_backward" backward ${kernel})
    add_test(
        NAME check_${kernel}
        COMMAND flashcore check --kernel ${kernel},${backward} ${check_flags})
    set_tests_properties(check_${kernel} PROPERTIES
        COST 50 ENVIRONMENT QEMU_CPU=max LABELS slow)
    # Of the same source the plain kernels have looked for leaks, which takes seconds.
    if(FC_SANITIZE MATCHES "address" AND NOT kernel MATCHES "plain")
        set_property(
            TEST check_${kernel} APPEND PROPERTY ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)
    endif()
endforeach()
if(CMAKE_CROSSCOMPILING AND "avx2" IN_LIST cpu_sets)
    add_test(
        NAME check_cpu_avx2_backward
        COMMAND flashcore check --backward --kernel cpu_avx2_prefill,cpu_avx2_backward
                --filter sinks*)
    set_tests_properties(check_cpu_avx2_backward PROPERTIES
        COST 50 ENVIRONMENT QEMU_CPU=max LABELS slow)
endif()

# This processor may lack BF16 and FHM; its own emulator does not. Every kind of values, or of
# features, in few cases.
if("neonbf16" IN_LIST cpu_sets AND NOT FC_SANITIZE)
    set(emulated flashcore)
    set(emulated_decode test_cpu_decode)
    if(NOT CMAKE_CROSSCOMPILING)
        set(emulated qemu-aarch64 $<TARGET_FILE:flashcore>)
        set(emulated_decode qemu-aarch64 $<TARGET_FILE:test_cpu_decode>)
    endif()
    add_test(
        NAME check_cpu_neonbf16_prefill
        COMMAND ${emulated} check --kernel cpu_neonbf16_prefill --threads 1
                --filter *[a-z]-causal-bf16)
    set_tests_properties(check_cpu_neonbf16_prefill PROPERTIES
        ENVIRONMENT QEMU_CPU=max LABELS slow)
    add_test(
        NAME check_cpu_neonfhm_decode
        COMMAND ${emulated} check --kernel cpu_neonfhm_decode --threads 1 --filter *[dkps34]-spread)
    set_tests_properties(check_cpu_neonfhm_decode PROPERTIES
        ENVIRONMENT QEMU_CPU=max LABELS slow)
    if(TARGET test_cpu_decode)
        add_test(NAME cpu_neonfhm_decode COMMAND ${emulated_decode} cpu_neonfhm_decode)
        set_tests_properties(cpu_neonfhm_decode PROPERTIES
            ENVIRONMENT QEMU_CPU=max LABELS slow)
    endif()
endif()
