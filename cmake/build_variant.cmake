# One variant from source to fat binary: cmake -D… -P build_variant.cmake
#   NVCC FATBINARY  the tools                      NAME    the kernel's and the files' name
#   CUDA_SOURCES    the folder of the sources      FILE    the source, relative to it
#   MACROS          "HEAD_DIM=64 STAGES=2"         TARGETS "sm_80 sm_90 compute_80"
#   OUTPUT          the folder for NAME.fatbin, NAME.sm_XX.cubin and NAME.sm_XX.log, the report
#   CACHE           a folder that several builds share, or nothing
#   STRICT          whether a warning is an error; binaries do not depend on it
cmake_minimum_required(VERSION 3.25)

separate_arguments(MACROS)
separate_arguments(TARGETS)
set(flags -std=c++17 -DKERNEL_NAME=${NAME})
foreach(macro ${MACROS})
    list(APPEND flags -D${macro})
endforeach()

# Adds to `text` what the compiler will read: the file and all that it includes, once each.
function(read_with_includes file)
    list(APPEND files_read ${file})
    file(READ ${CUDA_SOURCES}/${file} content)
    string(APPEND text "${file}\n${content}")
    string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${content}")
    foreach(include ${includes})
        string(REGEX REPLACE ".*\"(.*)\"" "\\1" included "${include}")
        if(NOT included IN_LIST files_read)
            read_with_includes(${included})
        endif()
    endforeach()
    set(files_read ${files_read} PARENT_SCOPE)
    set(text "${text}" PARENT_SCOPE)
endfunction()

function(read_source result)
    set(files_read "")
    set(text "")
    read_with_includes(${FILE})
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Everything that the binaries depend on, in one name; this script is part of it.
function(find_signature result)
    read_source(source)
    file(READ ${CMAKE_CURRENT_LIST_FILE} script)
    execute_process(COMMAND ${NVCC} --version OUTPUT_VARIABLE version COMMAND_ERROR_IS_FATAL ANY)
    string(SHA256 signature "${script}${version}${flags}${TARGETS}${source}")
    set(${result} ${signature} PARENT_SCOPE)
endfunction()

function(run_nvcc target result)
    set(log ${OUTPUT}/${NAME}.${target}.log)
    execute_process(
        COMMAND ${NVCC} ${ARGN} -o ${result}
        RESULT_VARIABLE failed OUTPUT_FILE ${log} ERROR_FILE ${log})
    if(failed)
        file(READ ${log} text)
        message(FATAL_ERROR "${NAME} for ${target}:\n${text}")
    endif()
endfunction()

# The PTX of the oldest target serves them all, unless the source asks which it is compiled for: more of
# it would name another target, and be the same otherwise. Making PTX is half of the work.
function(compile)
    read_source(source)
    set(numbers ${TARGETS})
    list(TRANSFORM numbers REPLACE "^[a-z]+_" "")
    list(SORT numbers COMPARE NATURAL)
    list(GET numbers 0 oldest)
    set(made "")
    set(images "")
    set(strict "")
    if(STRICT)
        set(strict -Werror=all-warnings)
    endif()
    foreach(target ${TARGETS})
        string(REGEX REPLACE "^[a-z]+_" "" number ${target})
        set(virtual compute_${number})
        if(NOT source MATCHES "__CUDA_ARCH__")
            set(virtual compute_${oldest})
        endif()
        set(ptx ${OUTPUT}/${NAME}.${virtual}.ptx)
        if(NOT ptx IN_LIST made)
            run_nvcc(${virtual} ${ptx}
                -ptx -arch=${virtual} -I${CUDA_SOURCES} ${flags} ${strict} ${CUDA_SOURCES}/${FILE})
            list(APPEND made ${ptx})
        endif()
        if(target MATCHES "^sm_")
            set(cubin ${OUTPUT}/${NAME}.${target}.cubin)
            run_nvcc(${target} ${cubin}
                -cubin -gencode arch=${virtual},code=${target} -Xptxas -v ${ptx})
            list(APPEND images --image3=kind=elf,sm=${number},file=${cubin})
        else()
            list(APPEND images --image3=kind=ptx,sm=${number},file=${ptx})
        endif()
    endforeach()
    execute_process(
        COMMAND ${FATBINARY} --create=${OUTPUT}/${NAME}.fatbin -64 --compress-all ${images}
        COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(NOT CACHE)
    compile()
    return()
endif()

find_signature(signature)
set(entry ${CACHE}/${signature})
if(EXISTS ${entry})
    file(GLOB results ${entry}/*)
    foreach(result ${results})
        cmake_path(GET result FILENAME file)
        file(COPY_FILE ${result} ${OUTPUT}/${file})
    endforeach()
    return()
endif()

# What was compiled while somebody wrote to its sources has no signature. An entry appears whole, by
# renaming: another build sees all of it or nothing. Of two that make the same one, the first stays.
compile()
find_signature(signature_after)
if(signature_after STREQUAL signature)
    string(RANDOM LENGTH 12 draft)
    set(draft ${CACHE}/draft-${draft})
    file(GLOB results ${OUTPUT}/${NAME}.*)
    file(COPY ${results} DESTINATION ${draft})
    file(RENAME ${draft} ${entry} RESULT failed)
    if(failed)
        file(REMOVE_RECURSE ${draft})
    endif()
endif()
