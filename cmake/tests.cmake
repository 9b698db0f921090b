# Which tests this build can run. None is left out in silence: what is missing fails as a test.

find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)

if(CMAKE_CROSSCOMPILING)
    # No cmocka for a foreign machine: the program checks itself, on few cases because the emulator
    # is slow. The second pattern has every feature in it, beside ALiBi.
    foreach(cases decode alibi-*)
        string(REGEX MATCH "[a-z]+" name ${cases})
        add_test(
            NAME cross_check_${name}
            COMMAND flashcore check --kernel reference --threads 1 --filter ${cases})
    endforeach()
elseif(CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY)
    add_library(cmocka INTERFACE)
    target_include_directories(cmocka SYSTEM INTERFACE ${CMOCKA_INCLUDE_DIR})
    target_link_libraries(cmocka INTERFACE ${CMOCKA_LIBRARY})
    add_subdirectory(tests)
else()
    message(STATUS "No cmocka: no unit tests (scripts/install-deps test installs it)")
    add_test(NAME cmocka_is_missing COMMAND ${CMAKE_COMMAND} -E false)
endif()

if(NOT FC_SANITIZE)
    add_executable(emu_fibers tests/emu_fibers.c $<TARGET_OBJECTS:flashcore_emu_machine>)
    target_include_directories(emu_fibers PRIVATE ${PROJECT_SOURCE_DIR} emu)
    target_link_libraries(emu_fibers PRIVATE m pthread ${CMAKE_DL_LIBS})
    add_test(NAME emu_fibers COMMAND emu_fibers)
endif()

include(${PROJECT_SOURCE_DIR}/tests/cpu.cmake)

# A sanitized library needs its users sanitized too, which is not how it is installed.
if(NOT CMAKE_CROSSCOMPILING AND NOT FC_SANITIZE)
    add_test(
        NAME install
        COMMAND
            ${PROJECT_SOURCE_DIR}/tests/install_test.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(install PROPERTIES LABELS install)
endif()

if(FC_LINT)
    find_program(RUN_CLANG_TIDY NAMES run-clang-tidy run-clang-tidy-14 REQUIRED)
    add_test(NAME format COMMAND ${PROJECT_SOURCE_DIR}/scripts/format --check)
    # A tenth of the states of a function that clang explores unless told: most functions have far
    # fewer, and those that have more take half of the time.
    add_test(NAME tidy COMMAND ${RUN_CLANG_TIDY} -quiet -p ${PROJECT_BINARY_DIR}
        -extra-arg=-Xclang -extra-arg=-analyzer-config -extra-arg=-Xclang -extra-arg=max-nodes=20000
        "${PROJECT_SOURCE_DIR}/(src|lab|cli|emu|tests|tools|python/src)/.*[.]c$")
    set_tests_properties(format PROPERTIES LABELS lint)
    set_tests_properties(tidy PROPERTIES COST 100 PROCESSORS 2 LABELS lint)
endif()
