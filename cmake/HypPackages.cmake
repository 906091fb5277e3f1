# cpack: a Debian package of each component that HypInstall.cmake names. scripts/package.sh runs it; what a package has besides
# installed files is written by FinishPackages.cmake.
if(NOT HYPATIA_COMPILER OR NOT BUILD_SHARED_LIBS)
    return() # the packages are of the whole, with both kinds of libraries
endif()
set(HYPATIA_MAINTAINER "The owner of Hypatia <owner@hypatia.invalid>" CACHE STRING "Whom the packages name: Name <address>")

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME hypatia)
set(CPACK_PACKAGE_CONTACT ${HYPATIA_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 1) # several write blocks as they come
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/FinishPackages.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/HypCpack.cmake)
set(CPACK_COMPONENTS_ALL runtime compiler development tools documentation)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# Libraries of ours that others link are found where the build made them; who needs them says so below, with the version.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})

# hyp_package(component name section summary line...): the lines follow the summary in the description.
macro(hyp_package component name section summary)
    string(TOUPPER ${component} upper)
    set(HYP_PACKAGE_${component} ${name})
    set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
    set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
    string(JOIN "\n" CPACK_DEBIAN_${upper}_DESCRIPTION ${summary} ${ARGN})
endmacro()
hyp_package(runtime libhypatia-rt${PROJECT_VERSION_MAJOR} libs "runtime of Hypatia, which executes compiled networks"
    "Loads a plan, which hypatiac made of an ONNX model, and runs it on a CPU or"
    "an NVIDIA GPU, whose driver is loaded when the program runs.")
hyp_package(compiler libhypatia${PROJECT_VERSION_MAJOR} libs "compiler of ONNX models, by equality saturation"
    "Reads a model, finds equal and cheaper forms of it, and writes one plan file"
    "that libhypatia-rt executes. It also has the e-graphs, for terms of any"
    "language.")
hyp_package(development libhypatia-dev libdevel "headers and archives of Hypatia's libraries"
    "Headers, static libraries, pkg-config files and the CMake package of"
    "libhypatia-rt and libhypatia.")
hyp_package(tools hypatia-tools science "compiles, runs, times, trains and describes neural networks"
    "The commands hypatiac, hypatia and hypatia-egraph, with the rules and the"
    "device profiles that are built into the compiler, as files to read.")
hyp_package(documentation hypatia-doc doc "documentation of Hypatia"
    "The pages of the manual, from a first model to the design, and the examples.")

foreach(component RUNTIME COMPILER TOOLS)
    set(CPACK_DEBIAN_${component}_PACKAGE_SHLIBDEPS ON)
endforeach()
set(CPACK_DEBIAN_DOCUMENTATION_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${HYP_PACKAGE_runtime} (= ${PROJECT_VERSION}), ${HYP_PACKAGE_compiler} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libprotobuf-c-dev, libjansson-dev") # to link the archives
if(HYP_HAVE_ONEDNN)
    string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS ", libdnnl-dev")
endif()
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS ${CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS})
if(MICROHTTPD_FOUND) # opened by hypatia serve; its name here and in later releases of Debian
    set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "libmicrohttpd12t64 | libmicrohttpd12")
endif()
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS hypatia-doc)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS hypatia-doc)

# What programs that were linked with a library depend on: the later releases of the series (docs/stability.md).
if(PROJECT_VERSION_MAJOR EQUAL 0)
    math(EXPR next "${PROJECT_VERSION_MINOR} + 1")
    set(next 0.${next})
else()
    math(EXPR next "${PROJECT_VERSION_MAJOR} + 1")
endif()
foreach(library ${HYP_LIBRARIES})
    set(component ${HYP_COMPONENT_${library}})
    set(package ${HYP_PACKAGE_${component}})
    set(control ${PROJECT_BINARY_DIR}/packages/${component})
    file(WRITE ${control}/shlibs
        "lib${library} ${PROJECT_VERSION_MAJOR} ${package} (>= ${PROJECT_VERSION}), ${package} (<< ${next}~)\n")
    file(WRITE ${control}/triggers "activate-noawait ldconfig\n")
    string(TOUPPER ${component} upper)
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control}/shlibs ${control}/triggers)
endforeach()

# What FinishPackages.cmake is to know.
file(WRITE ${PROJECT_BINARY_DIR}/HypCpack.cmake "set(HYP_SOURCE [[${PROJECT_SOURCE_DIR}]])\n")
foreach(component ${CPACK_COMPONENTS_ALL})
    file(APPEND ${PROJECT_BINARY_DIR}/HypCpack.cmake "set(HYP_PACKAGE_${component} ${HYP_PACKAGE_${component}})\n")
endforeach()
include(CPack)
