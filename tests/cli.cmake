# The program: its .npy reader as a unit, then everything from outside.

add_executable(test_npy test_npy.c ../cli/npy.c ../cli/npy_header.c)
target_compile_definitions(test_npy PRIVATE _POSIX_C_SOURCE=200809L)
target_include_directories(test_npy PRIVATE ..)
target_link_libraries(test_npy PRIVATE cmocka)
add_test(NAME npy COMMAND test_npy)

find_package(Python3 COMPONENTS Interpreter REQUIRED)
foreach(part cli cli_run)
    add_test(
        NAME ${part}
        COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/${part}_test.py)
    set_tests_properties(${part} PROPERTIES
        ENVIRONMENT "FLASHCORE=$<TARGET_FILE:flashcore>"
        LABELS cli)
endforeach()
