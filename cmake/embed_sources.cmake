# Carries the kernel sources inside the library, as the table that src/jit/jit.h declares.
#
#   fc_embed_sources(<folder> <output.c>)    a rule that writes output.c from the folder's sources
#
# The rule runs this same file as a script, with FOLDER and OUTPUT set.

if(NOT CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
    function(fc_embed_sources folder output)
        file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cu ${folder}/*.cuh ${folder}/*.h)
        set(script ${CMAKE_CURRENT_FUNCTION_LIST_FILE})
        add_custom_command(
            OUTPUT ${output}
            COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DOUTPUT=${output} -P ${script}
            DEPENDS ${sources} ${script}
            COMMENT "Embedding the kernel sources"
            VERBATIM)
    endfunction()
    return()
endif()

file(GLOB_RECURSE names RELATIVE ${FOLDER} ${FOLDER}/*.cu ${FOLDER}/*.cuh ${FOLDER}/*.h)
list(SORT names)
set(arrays "")
set(rows "")
set(index 0)
foreach(name IN LISTS names)
    # Bytes and not a string, which C compilers need not accept beyond 4095 characters.
    file(READ ${FOLDER}/${name} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${index}[] = {${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${index}},\n")
    math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"jit/jit.h\"

${arrays}
const jit_source jit_sources[] = {
${rows}};
const size_t jit_source_count = ${index};
")
