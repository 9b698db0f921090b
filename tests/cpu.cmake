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
        target_sources(test_cpu PRIVATE $<TARGET_OBJECTS:cpu_probe_${isa}>)
    endforeach()
    target_include_directories(test_cpu PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(test_cpu PRIVATE flashcore_static cmocka m)
    add_test(NAME cpu COMMAND test_cpu)
endif()

# The case list, on the sets that any processor of this kind has.
set(checked_kernels cpu_plain_prefill cpu_plain_decode)
set(check_flags "")
if("neon" IN_LIST cpu_sets)
    list(APPEND checked_kernels cpu_neon_prefill cpu_neon_decode)
elseif(CMAKE_CROSSCOMPILING)
    # The emulator knows AVX2 when it is asked to; it is slow, so that few cases have to do.
    set(checked_kernels cpu_avx2_prefill cpu_avx2_decode)
    set(check_flags --filter decode)
else()
    # AVX2 and more: whatever this processor has, as the table chooses it.
    add_test(NAME check_cpu_best COMMAND flashcore check)
    set_tests_properties(check_cpu_best PROPERTIES PROCESSORS 2 LABELS slow)
endif()
foreach(kernel ${checked_kernels})
    # Sanitizers make the whole list take minutes: every kind of memory is enough, for decode in the
    # pairs, whose rows are few.
    if(FC_SANITIZE AND kernel MATCHES "decode")
        set(check_flags --filter bias-*)
    elseif(FC_SANITIZE)
        set(check_flags --filter features)
    endif()
    add_test(NAME check_${kernel} COMMAND flashcore check --kernel ${kernel} ${check_flags})
    set_tests_properties(check_${kernel} PROPERTIES
        PROCESSORS 2 ENVIRONMENT QEMU_CPU=max LABELS slow)
endforeach()
