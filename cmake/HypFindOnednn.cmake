# oneDNN of the versions that Hypatia knows, as the target hypatia::onednn: HYP_ONEDNN_FOUND, or HYP_ONEDNN_MESSAGE says
# what was found and what was wanted. Used by the build, and installed for users of the static libraries.
#
# dnnl_ROOT (or DNNL_ROOT, as variables or in the environment) is the folder that has include/ and lib/; dnnl_DIR that of
# the library's CMake package, lib/cmake/dnnl in it. Where one is given, nothing is taken from elsewhere: headers of one
# version and a library of another would not fit. Else CMake's usual folders are searched, and those that pkg-config tells.
set(HYP_ONEDNN_OLDEST 2.4) # the first whose products can be told to keep the full precision of f32
set(HYP_ONEDNN_FOUND OFF)
set(HYP_ONEDNN_ROOTS)
foreach(name dnnl DNNL)
    list(APPEND HYP_ONEDNN_ROOTS ${${name}_ROOT} $ENV{${name}_ROOT})
    if(${name}_DIR)
        list(APPEND HYP_ONEDNN_ROOTS ${${name}_DIR}/../../.. ${${name}_DIR}/../../../..) # lib/<machine>/cmake/dnnl, too
    endif()
endforeach()
if(HYP_ONEDNN_ROOTS)
    find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.h PATHS ${HYP_ONEDNN_ROOTS} PATH_SUFFIXES include
        include/${CMAKE_LIBRARY_ARCHITECTURE} NO_DEFAULT_PATH)
    find_library(DNNL_LIBRARY dnnl PATHS ${HYP_ONEDNN_ROOTS} PATH_SUFFIXES lib lib64 lib/${CMAKE_LIBRARY_ARCHITECTURE}
        NO_DEFAULT_PATH)
else()
    pkg_check_modules(HYP_ONEDNN_PC QUIET dnnl)
    find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.h HINTS ${HYP_ONEDNN_PC_INCLUDE_DIRS})
    find_library(DNNL_LIBRARY dnnl HINTS ${HYP_ONEDNN_PC_LIBRARY_DIRS})
endif()
mark_as_advanced(DNNL_INCLUDE DNNL_LIBRARY)
if(NOT DNNL_INCLUDE OR NOT DNNL_LIBRARY)
    string(REPLACE ";" " or " HYP_ONEDNN_WHERE "${HYP_ONEDNN_ROOTS}")
    string(REGEX REPLACE "(.+)" " in \\1" HYP_ONEDNN_WHERE "${HYP_ONEDNN_WHERE}")
    set(HYP_ONEDNN_MESSAGE
        "oneDNN was not found${HYP_ONEDNN_WHERE} (wanted: include/ and lib/ of version ${HYP_ONEDNN_OLDEST} to 3)")
    return()
endif()
set(HYP_ONEDNN_VERSION "")
file(GLOB version_header ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h)
foreach(part MAJOR MINOR PATCH)
    set(line "")
    if(version_header)
        file(STRINGS ${version_header} line REGEX "^#define DNNL_VERSION_${part} ")
    endif()
    string(REGEX MATCH "[0-9]+" number "${line}")
    string(APPEND HYP_ONEDNN_VERSION ".${number}")
endforeach()
string(SUBSTRING "${HYP_ONEDNN_VERSION}" 1 -1 HYP_ONEDNN_VERSION)
if(HYP_ONEDNN_VERSION VERSION_LESS HYP_ONEDNN_OLDEST OR NOT HYP_ONEDNN_VERSION VERSION_LESS 4)
    set(HYP_ONEDNN_MESSAGE
        "oneDNN ${HYP_ONEDNN_VERSION} was found in ${DNNL_INCLUDE} (wanted: version ${HYP_ONEDNN_OLDEST} to 3)")
    return()
endif()
set(HYP_ONEDNN_FOUND ON)
if(NOT TARGET hypatia::onednn)
    add_library(hypatia::onednn UNKNOWN IMPORTED GLOBAL)
    set_target_properties(hypatia::onednn PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE})
endif()
