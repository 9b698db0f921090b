# One variant from source to fat binary: cmake -D… -P build_variant.cmake
#   NVCC FATBINARY  the tools                      NAME    the kernel's and the files' name
#   CUDA_SOURCES    the folder of the sources      FILE    the source, relative to it
#   MACROS          "HEAD_DIM=64 STAGES=2"         TARGETS "sm_80 sm_90 compute_80"
#   OUTPUT          the folder for NAME.fatbin, NAME.sm_XX.cubin and NAME.sm_XX.log, the report

set(flags -std=c++17 -I${CUDA_SOURCES} -DKERNEL_NAME=${NAME})
separate_arguments(MACROS)
separate_arguments(TARGETS)
foreach(macro ${MACROS})
    list(APPEND flags -D${macro})
endforeach()

set(images "")
foreach(target ${TARGETS})
    string(REGEX REPLACE "^[a-z]+_" "" number ${target})
    if(target MATCHES "^sm_")
        set(result ${OUTPUT}/${NAME}.${target}.cubin)
        set(log ${OUTPUT}/${NAME}.${target}.log)
        set(how -cubin -gencode arch=compute_${number},code=sm_${number} -Xptxas -v)
        list(APPEND images --image3=kind=elf,sm=${number},file=${result})
    else()
        set(result ${OUTPUT}/${NAME}.${target}.ptx)
        set(log ${OUTPUT}/${NAME}.${target}.log)
        set(how -ptx -arch=${target})
        list(APPEND images --image3=kind=ptx,sm=${number},file=${result})
    endif()
    execute_process(COMMAND ${NVCC} ${how} ${flags} ${CUDA_SOURCES}/${FILE} -o ${result}
        RESULT_VARIABLE failed OUTPUT_FILE ${log} ERROR_FILE ${log})
    if(failed)
        file(READ ${log} text)
        message(FATAL_ERROR "${NAME} for ${target}:\n${text}")
    endif()
endforeach()
execute_process(
    COMMAND ${FATBINARY} --create=${OUTPUT}/${NAME}.fatbin -64 --compress-all ${images}
    COMMAND_ERROR_IS_FATAL ANY)
