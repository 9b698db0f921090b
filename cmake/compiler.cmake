# What every target of the project is compiled with.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_definitions(_XOPEN_SOURCE=700) # beside C17: threads, clocks, strdup, realpath

add_compile_options(
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes
    $<$<BOOL:${FC_WERROR}>:-Werror>)

if(FC_SANITIZE)
    add_compile_options(
        -fsanitize=${FC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_compile_definitions(FC_SANITIZED)
    add_link_options(-fsanitize=${FC_SANITIZE})
endif()

# For programs that run while the project is built: nobody looks for their leaks, which takes seconds.
set(FC_TOOL_ENVIRONMENT "")
if(FC_SANITIZE MATCHES "address")
    set(FC_TOOL_ENVIRONMENT ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0)
endif()

if(FC_OPENMP)
    find_package(OpenMP COMPONENTS C)
endif()
if(NOT OpenMP_C_FOUND)
    # Its pragmas are then unknown, and what they alone use is used by nobody.
    add_compile_options(-Wno-unknown-pragmas -Wno-unused-parameter -Wno-unused-variable)
endif()

# The line that fc_build() gives: compiler, target, build type, threads, sanitizers.
string(TOLOWER "${CMAKE_C_COMPILER_ID}" compiler_name)
string(REPLACE "gnu" "gcc" compiler_name "${compiler_name}")
set(fc_build_text "${compiler_name} ${CMAKE_C_COMPILER_VERSION}")
string(APPEND fc_build_text ", ${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_SYSTEM_NAME}")
string(APPEND fc_build_text ", ${CMAKE_BUILD_TYPE}")
if(OpenMP_C_FOUND)
    string(APPEND fc_build_text ", OpenMP")
else()
    string(APPEND fc_build_text ", one thread (no OpenMP)")
endif()
if(FC_SANITIZE)
    string(APPEND fc_build_text ", sanitizers ${FC_SANITIZE}")
endif()
message(STATUS "FlashCore ${PROJECT_VERSION}: ${fc_build_text}")
