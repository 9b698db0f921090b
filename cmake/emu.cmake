# Whether the emulator of the CUDA kernels is built. It stands in for the driver, whose header is
# needed; and its fibers are not for the sanitizers.

option(FC_EMU "Build the emulator of the CUDA kernels, where the CUDA toolkit is" ON)
if(NOT FC_WITH_CUDA OR FC_SANITIZE OR CMAKE_CROSSCOMPILING)
    set(FC_EMU OFF)
endif()
