# The CUDA part: every row of src/cuda/variants.txt becomes a fat binary inside the library.
# Without the toolkit the library is built for the CPU alone, and says so.

set(FC_CUDA AUTO CACHE STRING "Build the CUDA part: ON, OFF, or AUTO (when nvcc is found)")
set(FC_CUDA_CACHE "" CACHE PATH "A folder in which several builds share compiled kernels, or nothing")
set(FC_WITH_CUDA OFF)
if(FC_CUDA AND NOT CMAKE_CROSSCOMPILING)
    find_program(FC_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
    find_program(FC_FATBINARY fatbinary HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
    if(FC_NVCC AND FC_FATBINARY)
        file(REAL_PATH ${FC_NVCC} nvcc_path)
        cmake_path(GET nvcc_path PARENT_PATH nvcc_folder)
        find_path(FC_CUDA_INCLUDE cuda.h HINTS ${nvcc_folder}/../include /usr/local/cuda/include)
    endif()
    if(FC_CUDA_INCLUDE)
        set(FC_WITH_CUDA ON)
    elseif(NOT FC_CUDA STREQUAL "AUTO")
        message(FATAL_ERROR "FC_CUDA=${FC_CUDA}, but nvcc, fatbinary or cuda.h was not found")
    endif()
endif()

if(FC_WITH_CUDA)
    execute_process(COMMAND ${FC_NVCC} --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9.]+)" _ "${nvcc_version}")
    string(APPEND fc_build_text ", CUDA ${CMAKE_MATCH_1}")
    message(STATUS "CUDA part: yes, toolkit ${CMAKE_MATCH_1} (${FC_NVCC})")
else()
    string(APPEND fc_build_text ", no CUDA")
    message(STATUS "CUDA part: no (FC_CUDA=${FC_CUDA}); the library serves the CPU alone")
endif()

# Adds to flashcore_objects what the table of kernels needs. Rows of variants.txt:
#   name | file | targets | budget | macros
function(fc_add_cuda_variants target)
    set(sources ${PROJECT_SOURCE_DIR}/src/cuda)
    set(table ${sources}/variants.txt)
    set(output ${PROJECT_BINARY_DIR}/variants)
    file(MAKE_DIRECTORY ${output})
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${sources}/*.cuh ${sources}/*.h)
    file(STRINGS ${table} rows REGEX "^[a-z]")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
    set(binaries "")
    foreach(row ${rows})
        string(REGEX REPLACE " *\\| *" "|" row "${row}")
        string(REPLACE "|" ";" columns "${row}")
        list(GET columns 0 name)
        list(GET columns 1 file)
        list(GET columns 2 targets)
        list(GET columns 4 macros)
        add_custom_command(
            OUTPUT ${output}/${name}.fatbin
            COMMAND
                ${CMAKE_COMMAND} -DNVCC=${FC_NVCC} -DFATBINARY=${FC_FATBINARY} -DNAME=${name}
                -DCUDA_SOURCES=${sources} -DFILE=${file} "-DMACROS=${macros}"
                "-DTARGETS=${targets}" -DOUTPUT=${output} -DCACHE=${FC_CUDA_CACHE}
                -DSTRICT=${FC_WERROR} -P
                ${PROJECT_SOURCE_DIR}/cmake/build_variant.cmake
            DEPENDS ${sources}/${file} ${headers} ${table}
                    ${PROJECT_SOURCE_DIR}/cmake/build_variant.cmake
            COMMENT "Compiling kernel ${name}"
            VERBATIM)
        list(APPEND binaries ${output}/${name}.fatbin)
    endforeach()

    add_executable(describe_variants ${PROJECT_SOURCE_DIR}/tools/describe_variants.c
        ${PROJECT_SOURCE_DIR}/src/jit/report.c ${PROJECT_SOURCE_DIR}/src/jit/cubin.c
        ${PROJECT_SOURCE_DIR}/src/core/error.c)
    target_include_directories(describe_variants PRIVATE
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    add_custom_command(
        OUTPUT ${output}/variants.c ${output}/images.S
        COMMAND ${FC_TOOL_ENVIRONMENT} $<TARGET_FILE:describe_variants> ${table} ${output}
        DEPENDS describe_variants ${binaries} ${table}
        COMMENT "Describing the kernels"
        VERBATIM)
    set_source_files_properties(${output}/images.S PROPERTIES OBJECT_DEPENDS "${binaries}")
    target_sources(${target} PRIVATE ${output}/variants.c ${output}/images.S)
endfunction()
