# `cmake --install`: libraries, header, program with its manual, pkg-config file, CMake package.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/FlashCore)

install(TARGETS flashcore_shared flashcore_static EXPORT FlashCoreTargets)
install(TARGETS flashcore)
install(FILES include/flashcore.h TYPE INCLUDE)
install(EXPORT FlashCoreTargets NAMESPACE flashcore:: DESTINATION ${package_dir})

configure_package_config_file(
    cmake/FlashCoreConfig.cmake.in FlashCoreConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(FlashCoreConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
    FILES
        ${CMAKE_CURRENT_BINARY_DIR}/FlashCoreConfig.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/FlashCoreConfigVersion.cmake
    DESTINATION ${package_dir})

# flashcore.pc finds its prefix from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
get_property(pc_libs_private GLOBAL PROPERTY FC_STATIC_NEEDS)
list(TRANSFORM pc_libs_private PREPEND "-l" REGEX "^[^/]")
list(JOIN pc_libs_private " " pc_libs_private)
configure_file(cmake/flashcore.pc.in flashcore.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flashcore.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The program prints its own manual and completion, which a cross-built one can't do here.
if(NOT CMAKE_CROSSCOMPILING)
    add_custom_command(
        OUTPUT flashcore.1 flashcore.bash
        COMMAND ${FC_TOOL_ENVIRONMENT} $<TARGET_FILE:flashcore> manual > flashcore.1
        COMMAND ${FC_TOOL_ENVIRONMENT} $<TARGET_FILE:flashcore> completion > flashcore.bash
        DEPENDS flashcore
        VERBATIM)
    add_custom_target(flashcore_manual ALL DEPENDS flashcore.1 flashcore.bash)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/flashcore.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(
        FILES ${CMAKE_CURRENT_BINARY_DIR}/flashcore.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME flashcore)
endif()
