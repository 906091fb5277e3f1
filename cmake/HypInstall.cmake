# cmake --install: libraries, tools, headers, pkg-config files, the CMake package, man pages. Headers of the compiler
# come with the compiler only.
include(CMakePackageConfigHelpers)

set(HYP_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hypatia)
set(HYP_LIBRARIES hypatia-rt)
set(HYP_HEADERS status types runtime nn)
if(HYPATIA_COMPILER)
    list(APPEND HYP_LIBRARIES hypatia)
    list(APPEND HYP_HEADERS compiler egraph onnx tensor_io)
    install(TARGETS hypatiac hypatia-egraph hypatia-tool)
    install(FILES man/hypatiac.1 man/hypatia.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(DIRECTORY share/schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/hypatia)
endif()

install(TARGETS ${HYP_LIBRARIES} EXPORT hypatiaTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT hypatiaTargets NAMESPACE hypatia:: DESTINATION ${HYP_CMAKE_DIR})
foreach(header ${HYP_HEADERS})
    install(FILES include/hypatia/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hypatia)
endforeach()
install(FILES include/hypatia/runtime.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hypatia)

# A static library needs its dependencies at the user's link. A shared one finds its own: pkg-config, which wants the
# files of all that is listed even for --cflags, is told of none.
set(HYP_PRIVATE_hypatia-rt libprotobuf-c)
set(HYP_PRIVATE_hypatia "libprotobuf-c jansson")
set(HYP_LIBS_hypatia-rt "-lm -ldl -lpthread")
set(HYP_LIBS_hypatia "-lm -ldl")
if(HYP_HAVE_ONEDNN)
    string(PREPEND HYP_LIBS_hypatia-rt "-ldnnl ")
    string(PREPEND HYP_LIBS_hypatia "-ldnnl ")
endif()
set(HYP_DESCRIPTION_hypatia-rt "Runs plans that hypatiac made from ONNX models")
set(HYP_DESCRIPTION_hypatia "Compiles ONNX models to plans by equality saturation")
# From the .pc file back to the prefix, so that an installed tree can be moved.
file(RELATIVE_PATH HYP_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" HYP_PC_UP ${HYP_PC_UP})
foreach(name ${HYP_LIBRARIES})
    set(HYP_PC_NAME ${name})
    set(HYP_PC_DESCRIPTION ${HYP_DESCRIPTION_${name}})
    set(HYP_PC_PRIVATE)
    if(NOT BUILD_SHARED_LIBS)
        set(HYP_PC_PRIVATE "Requires.private: ${HYP_PRIVATE_${name}}\nLibs.private: ${HYP_LIBS_${name}}\n")
    endif()
    configure_file(cmake/library.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

configure_package_config_file(cmake/hypatiaConfig.cmake.in ${PROJECT_BINARY_DIR}/hypatiaConfig.cmake
    INSTALL_DESTINATION ${HYP_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hypatiaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hypatiaConfig.cmake ${PROJECT_BINARY_DIR}/hypatiaConfigVersion.cmake
    DESTINATION ${HYP_CMAKE_DIR})
if(HYP_HAVE_ONEDNN AND NOT BUILD_SHARED_LIBS)
    install(FILES cmake/HypFindOnednn.cmake DESTINATION ${HYP_CMAKE_DIR})
endif()
