# cmake --install: libraries, tools, headers, pkg-config files, the CMake package, man pages, completion, documentation, rules
# and profiles. Headers of the compiler come with the compiler only. HypPackages.cmake makes a package of each component.
include(CMakePackageConfigHelpers)

set(HYP_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hypatia)
set(HYP_LIBRARIES hypatia-rt)
set(HYP_HEADERS status types signature runtime nn)
if(HYPATIA_COMPILER)
    list(APPEND HYP_LIBRARIES hypatia)
    list(APPEND HYP_HEADERS compiler egglog egraph onnx tensor_io)
    install(TARGETS hypatiac hypatia-egraph hypatia-tool COMPONENT tools)
    install(FILES man/hypatiac.1 man/hypatia.1 man/hypatia-egraph.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
    install(FILES share/completions/_hypatia DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tools)
    foreach(command hypatia hypatiac hypatia-egraph) # bash and fish look for a file of the command's name
        install(FILES share/completions/hypatia.bash RENAME ${command}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
        install(FILES share/completions/hypatia.fish RENAME ${command}.fish
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tools)
    endforeach()
    # tritonserver --backend-directory finds it there, as HYP_BACKENDS/hypatia/libtriton_hypatia.so.
    set(HYP_BACKENDS ${CMAKE_INSTALL_LIBDIR}/hypatia/backends)
    if(TARGET triton_hypatia)
        install(TARGETS triton_hypatia LIBRARY DESTINATION ${HYP_BACKENDS}/hypatia COMPONENT tools)
    endif()
    # What the compiler has inside, to read and to begin files of one's own with; schemas of what the tools write.
    install(DIRECTORY rules profiles share/schemas DESTINATION ${CMAKE_INSTALL_DATADIR}/hypatia COMPONENT tools)
endif()
set(HYP_DOC_DIR ${CMAKE_INSTALL_DATADIR}/doc/hypatia)
install(FILES README.md CHANGELOG.md SECURITY.md DESTINATION ${HYP_DOC_DIR} COMPONENT documentation)
install(DIRECTORY docs examples DESTINATION ${HYP_DOC_DIR} COMPONENT documentation PATTERN __pycache__ EXCLUDE PATTERN .* EXCLUDE)

# The archives that stand beside shared libraries are named by a file of their own, which is read where they are asked for:
# they need what the libraries are made of.
set(HYP_COMPONENT_hypatia-rt runtime)
set(HYP_COMPONENT_hypatia compiler)
foreach(name ${HYP_LIBRARIES})
    install(TARGETS ${name} EXPORT hypatiaTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        LIBRARY COMPONENT ${HYP_COMPONENT_${name}} NAMELINK_COMPONENT development
        ARCHIVE COMPONENT development)
    if(BUILD_SHARED_LIBS)
        install(TARGETS ${name}-static EXPORT hypatiaStaticTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
            ARCHIVE COMPONENT development)
    endif()
endforeach()
install(EXPORT hypatiaTargets NAMESPACE hypatia:: DESTINATION ${HYP_CMAKE_DIR} COMPONENT development)
if(BUILD_SHARED_LIBS)
    install(EXPORT hypatiaStaticTargets NAMESPACE hypatia:: DESTINATION ${HYP_CMAKE_DIR} COMPONENT development)
endif()
foreach(header ${HYP_HEADERS})
    install(FILES include/hypatia/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hypatia COMPONENT development)
endforeach()
install(FILES include/hypatia/runtime.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hypatia COMPONENT development)

# Pages of section 3, written from the headers.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    set(pages ${PROJECT_BINARY_DIR}/man3)
    list(TRANSFORM HYP_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/hypatia/ OUTPUT_VARIABLE headers)
    list(TRANSFORM headers APPEND .h)
    add_custom_command(OUTPUT ${pages}.done
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
        COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/man3.py ${PROJECT_VERSION} ${pages} ${headers}
        COMMAND ${CMAKE_COMMAND} -E touch ${pages}.done
        DEPENDS ${PROJECT_SOURCE_DIR}/scripts/man3.py ${headers} VERBATIM)
    add_custom_target(hyp_man3 ALL DEPENDS ${pages}.done)
    install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT documentation)
else()
    message(STATUS "manual pages of the functions: left out, because there is no Python")
endif()

# A static library needs its dependencies at the user's link, as flags: pkg-config wants the files of all that is required
# by name even for --cflags. A shared one finds its own.
set(HYP_LINK_protobuf ${PROTOBUFC_LDFLAGS})
set(HYP_LINK_jansson ${JANSSON_LDFLAGS})
list(TRANSFORM CMAKE_C_IMPLICIT_LINK_DIRECTORIES PREPEND -L OUTPUT_VARIABLE HYP_LINK_known) # the compiler looks there anyway
list(REMOVE_ITEM HYP_LINK_protobuf ${HYP_LINK_known})
list(REMOVE_ITEM HYP_LINK_jansson ${HYP_LINK_known})
if(HYPATIA_STATIC_DEPS AND NOT BUILD_SHARED_LIBS) # they have what they need inside
    set(HYP_LINK_protobuf)
    set(HYP_LINK_jansson)
endif()
string(JOIN " " HYP_LIBS_hypatia-rt ${HYP_LINK_protobuf} -lm -ldl -lpthread)
string(JOIN " " HYP_LIBS_hypatia ${HYP_LINK_protobuf} ${HYP_LINK_jansson} -lm -ldl -lpthread)
if(HYP_HAVE_ONEDNN)
    string(PREPEND HYP_LIBS_hypatia-rt "-ldnnl ")
    string(PREPEND HYP_LIBS_hypatia "-ldnnl ")
endif()
set(HYP_DESCRIPTION_hypatia-rt "Runs plans that hypatiac made from ONNX models")
set(HYP_DESCRIPTION_hypatia "Compiles ONNX models to plans by equality saturation")
# From the .pc file back to the prefix, so that an installed tree can be moved.
file(RELATIVE_PATH HYP_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" HYP_PC_UP ${HYP_PC_UP})

# hyp_pkgconfig(pc library libs private): pc.pc, which links `libs` and, with --static, `private`.
function(hyp_pkgconfig pc library libs private)
    set(HYP_PC_NAME ${pc})
    set(HYP_PC_DESCRIPTION ${HYP_DESCRIPTION_${library}})
    set(HYP_PC_LIBS ${libs})
    set(HYP_PC_PRIVATE ${private})
    configure_file(cmake/library.pc.in ${PROJECT_BINARY_DIR}/${pc}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()
foreach(name ${HYP_LIBRARIES})
    if(BUILD_SHARED_LIBS)
        hyp_pkgconfig(${name} ${name} "-L\${libdir} -l${name}" "")
        hyp_pkgconfig(${name}-static ${name} "\${libdir}/lib${name}.a ${HYP_LIBS_${name}}" "")
    else()
        hyp_pkgconfig(${name} ${name} "-L\${libdir} -l${name}" "Libs.private: ${HYP_LIBS_${name}}\n")
    endif()
endforeach()

configure_package_config_file(cmake/hypatiaConfig.cmake.in ${PROJECT_BINARY_DIR}/hypatiaConfig.cmake
    INSTALL_DESTINATION ${HYP_CMAKE_DIR})
# Which releases a program may be built against instead of this one: docs/stability.md.
set(HYP_COMPATIBLE SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(HYP_COMPATIBLE SameMinorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hypatiaConfigVersion.cmake COMPATIBILITY ${HYP_COMPATIBLE})
install(FILES ${PROJECT_BINARY_DIR}/hypatiaConfig.cmake ${PROJECT_BINARY_DIR}/hypatiaConfigVersion.cmake
    cmake/HypatiaModel.cmake cmake/plan.h.in cmake/plan.c.in
    DESTINATION ${HYP_CMAKE_DIR} COMPONENT development)
if(HYP_HAVE_ONEDNN) # for static libraries
    install(FILES cmake/HypFindOnednn.cmake DESTINATION ${HYP_CMAKE_DIR} COMPONENT development)
endif()
