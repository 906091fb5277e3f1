find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# hyp_find_library(TARGET module): PkgConfig::TARGET, linked as an archive when HYPATIA_STATIC_DEPS is on.
function(hyp_find_library target module)
    pkg_check_modules(${target} REQUIRED IMPORTED_TARGET GLOBAL ${module})
    if(HYPATIA_STATIC_DEPS)
        pkg_get_variable(dir ${module} libdir)
        set_target_properties(PkgConfig::${target} PROPERTIES INTERFACE_LINK_LIBRARIES
            "${dir}/lib${${target}_LIBRARIES}.a")
    endif()
endfunction()

hyp_find_library(PROTOBUFC libprotobuf-c)
find_program(PROTOC_C NAMES protoc-c REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED) # used header-only: src/base/CMakeLists.txt

# oneDNN: hypatia::onednn, a name that installed static libraries can ask for, too (hypatiaConfig.cmake.in).
if(HYPATIA_ONEDNN)
    include(HypFindOnednn)
    set(HYP_HAVE_ONEDNN ${HYP_ONEDNN_FOUND})
    if(HYP_ONEDNN_FOUND)
        message(STATUS "oneDNN ${HYP_ONEDNN_VERSION}: ${DNNL_LIBRARY}")
        set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # what is installed finds one that lies elsewhere
    elseif(HYP_ONEDNN_ROOTS)
        message(FATAL_ERROR "${HYP_ONEDNN_MESSAGE}")
    else()
        message(STATUS "${HYP_ONEDNN_MESSAGE}: the CPU backend, and products of weights, do without it")
    endif()
endif()

function(hyp_use_onednn target)
    target_compile_definitions(${target} PUBLIC HYP_HAVE_ONEDNN)
    target_link_libraries(${target} PUBLIC hypatia::onednn ${CMAKE_DL_LIBS})
endfunction()

if(HYPATIA_COMPILER)
    hyp_find_library(JANSSON jansson)
endif()
if(BUILD_TESTING)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET GLOBAL cmocka)
endif()

# hyp_protobuf(layer file.proto): generates generated/<file>.pb-c.[ch] and compiles it into the layer.
function(hyp_protobuf layer proto)
    get_filename_component(stem ${proto} NAME_WE)
    get_filename_component(dir ${proto} ABSOLUTE)
    get_filename_component(dir ${dir} DIRECTORY)
    set(out ${PROJECT_BINARY_DIR}/generated)
    file(MAKE_DIRECTORY ${out})
    add_custom_command(OUTPUT ${out}/${stem}.pb-c.c ${out}/${stem}.pb-c.h
        COMMAND ${PROTOC_C} --proto_path=${dir} --c_out=${out} ${dir}/${stem}.proto
        DEPENDS ${dir}/${stem}.proto VERBATIM)
    add_custom_target(hyp_${stem}_pb DEPENDS ${out}/${stem}.pb-c.c ${out}/${stem}.pb-c.h)
    target_sources(hyp_${layer} PRIVATE ${out}/${stem}.pb-c.c)
    add_dependencies(hyp_${layer} hyp_${stem}_pb)
    set_source_files_properties(${out}/${stem}.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
    target_link_libraries(hyp_${layer} PUBLIC PkgConfig::PROTOBUFC)
endfunction()
