# The tests that hold the reference to what was computed elsewhere, and the proof that they can fail.

find_package(Python3 COMPONENTS Interpreter REQUIRED)

add_library(reference_fixture STATIC elements.c fixture.c table_reader.c tables.c)
target_link_libraries(reference_fixture PUBLIC flashcore_static cmocka m)

foreach(name backward dropout equivalence gradients reference tables visibility)
    add_executable(test_${name} test_${name}.c)
    target_link_libraries(test_${name} PRIVATE reference_fixture)
endforeach()
foreach(name backward dropout equivalence gradients reference visibility)
    add_test(NAME ${name} COMMAND test_${name})
endforeach()

set(tables ${CMAKE_CURRENT_SOURCE_DIR}/data/tables.txt)
add_test(NAME tables COMMAND test_tables ${tables})
add_test(
    NAME tables_recipe
    COMMAND
        Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/data/make_tables.py --check ${tables})
set_tests_properties(tables_recipe PROPERTIES LABELS slow)

# A broken reference may well read past its buffers: a sanitizer's report would hide the message.
if(NOT FC_SANITIZE)
    get_property(static_needs GLOBAL PROPERTY FC_STATIC_NEEDS)
    list(TRANSFORM static_needs PREPEND -l REGEX "^[^/-]")
    list(JOIN static_needs " " static_needs)
    add_test(
        NAME mutations
        COMMAND
            Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/mutate.py --cc ${CMAKE_C_COMPILER}
            --archive $<TARGET_FILE:flashcore_static> --lab $<TARGET_FILE:flashcore_lab>
            "--libraries=${CMOCKA_LIBRARY} ${static_needs}")
    set_tests_properties(mutations PROPERTIES PROCESSORS 2 TIMEOUT 600 LABELS slow)
endif()
