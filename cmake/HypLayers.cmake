# hyp_layer(name source...): one OBJECT library per folder of src, named hyp_<name>.
function(hyp_layer name)
    add_library(hyp_${name} OBJECT ${ARGN})
    target_include_directories(hyp_${name} PUBLIC
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
    target_compile_definitions(hyp_${name} PRIVATE _GNU_SOURCE
        $<$<BOOL:${HYPATIA_SMALL_SIZES}>:HYP_SMALL_SIZES>)
    target_link_libraries(hyp_${name} PRIVATE hyp_warnings)
endfunction()

# hyp_test(name source... [LAYERS layer...] [LIBS lib...]): a cmocka program that sees internal headers.
function(hyp_test name)
    cmake_parse_arguments(arg "" "" "LAYERS;LIBS" ${ARGN})
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
    target_include_directories(${name} PRIVATE
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests ${PROJECT_BINARY_DIR}/generated)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE HYP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    foreach(layer ${arg_LAYERS})
        target_link_libraries(${name} PRIVATE hyp_${layer})
    endforeach()
    target_link_libraries(${name} PRIVATE ${arg_LIBS} hyp_warnings PkgConfig::CMOCKA m)
    add_test(NAME ${name} COMMAND ${name})
endfunction()
