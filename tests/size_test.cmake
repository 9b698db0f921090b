# FILE may have MOST_BYTES bytes.
file(SIZE ${FILE} bytes)
message(STATUS "${FILE}: ${bytes} bytes of ${MOST_BYTES}")
if(bytes GREATER MOST_BYTES)
    message(FATAL_ERROR "the library is larger than its budget")
endif()
