# The program: its .npy reader as a unit, then everything from outside.

add_executable(test_npy test_npy.c ../cli/npy.c ../cli/npy_header.c)
target_compile_definitions(test_npy PRIVATE _POSIX_C_SOURCE=200809L)
target_include_directories(test_npy PRIVATE ..)
target_link_libraries(test_npy PRIVATE cmocka)
add_test(NAME npy COMMAND test_npy)

add_executable(test_child test_child.c ../cli/child.c ../cli/interrupt.c)
target_compile_definitions(test_child PRIVATE _XOPEN_SOURCE=700)
target_include_directories(test_child PRIVATE ../cli)
target_link_libraries(test_child PRIVATE flashcore_lab cmocka)
add_test(NAME child COMMAND test_child)

add_executable(test_gpu_state test_gpu_state.c ../cli/gpu_state.c)
target_compile_definitions(test_gpu_state PRIVATE _XOPEN_SOURCE=700)
target_include_directories(test_gpu_state PRIVATE ../cli)
target_link_libraries(test_gpu_state PRIVATE flashcore_lab cmocka)
add_test(NAME gpu_state COMMAND test_gpu_state)

# The first Python that has NumPy, which need not be the first Python. Where none has it, the test
# that wants it fails.
function(fc_has_numpy result candidate)
    execute_process(COMMAND ${candidate} -c "import numpy" RESULT_VARIABLE status ERROR_QUIET)
    if(status)
        set(${result} FALSE PARENT_SCOPE)
    endif()
endfunction()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
find_program(FC_PYTHON_WITH_NUMPY NAMES python3 VALIDATOR fc_has_numpy)
if(NOT FC_PYTHON_WITH_NUMPY)
    set(FC_PYTHON_WITH_NUMPY ${Python3_EXECUTABLE})
endif()
foreach(part cli cli_run report repro ledger tune profile source)
    add_test(
        NAME ${part}
        COMMAND ${FC_PYTHON_WITH_NUMPY} -B ${CMAKE_CURRENT_SOURCE_DIR}/${part}_test.py)
    set_tests_properties(${part} PROPERTIES
        ENVIRONMENT "FLASHCORE=$<TARGET_FILE:flashcore>"
        LABELS cli)
endforeach()
# One looks for what the program leaves in /tmp, the other has it work there.
set_tests_properties(source tune PROPERTIES RESOURCE_LOCK temporary_folders)
set_tests_properties(cli PROPERTIES COST 30)
