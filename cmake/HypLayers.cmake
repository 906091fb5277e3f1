# hyp_layer(name source...): one OBJECT library per folder of src, named hyp_<name>.
function(hyp_layer name)
    add_library(hyp_${name} OBJECT ${ARGN})
    target_include_directories(hyp_${name} PUBLIC
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
    target_compile_definitions(hyp_${name} PRIVATE _GNU_SOURCE
        $<$<BOOL:${HYPATIA_SMALL_SIZES}>:HYP_SMALL_SIZES>)
    # The linker drops the functions that a library does not use; tables for unwinding are a tenth of the runtime.
    target_compile_options(hyp_${name} PRIVATE -ffunction-sections -fdata-sections
        $<$<CONFIG:Release>:-fno-asynchronous-unwind-tables>)
    target_link_libraries(hyp_${name} PRIVATE hyp_warnings)
endfunction()

# hyp_test_settings(name layer...): what tests are compiled with: internal headers, and what their layers want and are told.
function(hyp_test_settings name)
    target_include_directories(${name} PRIVATE
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests ${PROJECT_BINARY_DIR}/generated)
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE HYP_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
        $<$<BOOL:${HYPATIA_SMALL_SIZES}>:HYP_SMALL_SIZES>)
    foreach(layer ${ARGN})
        target_link_libraries(${name} PRIVATE hyp_${layer})
    endforeach()
    target_link_libraries(${name} PRIVATE hyp_warnings PkgConfig::CMOCKA)
endfunction()

# hyp_shared_source(out source layer...): sets `out` to the object of a source, which is compiled once for all test programs that
# see the same layers: else a quarter of what a build compiles would be such files again.
function(hyp_shared_source out source)
    set(layers ${ARGN})
    list(SORT layers)
    list(JOIN layers _ seen)
    string(MAKE_C_IDENTIFIER ${source} file)
    set(library shared_${file}_${seen})
    if(NOT TARGET ${library})
        add_library(${library} OBJECT ${PROJECT_SOURCE_DIR}/${source})
        hyp_test_settings(${library} ${layers})
        if(source MATCHES "oracle" AND CMAKE_C_FLAGS_DEBUG MATCHES "fsanitize") # watched is what is tested, not what judges it
            target_compile_options(${library} PRIVATE -O2 -fno-sanitize=all)
        endif()
    endif()
    set(${out} $<TARGET_OBJECTS:${library}> PARENT_SCOPE)
endfunction()

# Two hundred programs have what they test inside: scripts/test.sh names a linker that takes a third of the usual one's time.
set(HYPATIA_TEST_LINKER "" CACHE STRING "the linker of test programs (lld, gold, ...); that of all others where it is empty")

# hyp_test_program(name source... [LAYERS layer...] [LIBS lib...]): a cmocka program that sees internal headers. Its first source
# is its own; others of the tests may be those of several programs.
function(hyp_test_program name)
    cmake_parse_arguments(arg "" "" "LAYERS;LIBS" ${ARGN})
    list(POP_FRONT arg_UNPARSED_ARGUMENTS sources)
    foreach(source ${arg_UNPARSED_ARGUMENTS})
        get_filename_component(path ${source} ABSOLUTE)
        file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
        if(path MATCHES "^tests/" AND arg_LAYERS)
            hyp_shared_source(source ${path} ${arg_LAYERS})
        endif()
        list(APPEND sources ${source})
    endforeach()
    add_executable(${name} ${sources})
    hyp_test_settings(${name} ${arg_LAYERS})
    target_link_libraries(${name} PRIVATE ${arg_LIBS} m)
    target_link_options(${name} PRIVATE $<$<BOOL:${HYPATIA_TEST_LINKER}>:-fuse-ld=${HYPATIA_TEST_LINKER}>)
endfunction()

# hyp_test(...[COST seconds]): such a program, run as one test. Tests of more than eight seconds say about how long they take:
# ctest begins with them, and scripts/test.sh --quick leaves them out.
function(hyp_test name)
    cmake_parse_arguments(arg "" "COST" "" ${ARGN})
    hyp_test_program(${name} ${arg_UNPARSED_ARGUMENTS})
    add_test(NAME ${name} COMMAND ${name})
    if(arg_COST)
        set_tests_properties(${name} PROPERTIES COST ${arg_COST} LABELS long)
    endif()
endfunction()

# The address sanitizer's library: interpreters load it first. clang links it into each program unless it is told not to, and
# a program that such an interpreter starts would have it twice.
if(CMAKE_C_FLAGS_DEBUG MATCHES "fsanitize=address")
    set(HYP_ASAN libasan.so)
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
        set(HYP_ASAN libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
    endif()
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${HYP_ASAN} OUTPUT_VARIABLE HYP_ASAN
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang" AND NOT HYPATIA_FUZZ)
        get_filename_component(asan_folder ${HYP_ASAN} DIRECTORY)
        add_link_options(-shared-libsan -Wl,-rpath,${asan_folder})
    endif()
endif()

# hyp_python_test(name script argument... [INPROCESS] [COST seconds]): a script under tests/ that drives the tools, or with INPROCESS
# loads the libraries through ctypes. Exit code 77 = skipped, with the reason printed.
function(hyp_python_test name script)
    cmake_parse_arguments(arg "INPROCESS" "COST" "" ${ARGN})
    add_test(NAME ${name} COMMAND python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${arg_UNPARSED_ARGUMENTS})
    set(environment HYP_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} HYP_LIB=${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
    if(arg_INPROCESS AND CMAKE_C_FLAGS_DEBUG MATCHES "fsanitize=address")
        # The interpreter was not built with the sanitizer, so it is loaded first; it also leaks by design. The C++ library
        # must be there when the sanitizer looks for what throws: some judges do.
        list(APPEND environment "LD_PRELOAD=${HYP_ASAN} libstdc++.so.6" ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16)
    endif()
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 ENVIRONMENT "${environment}")
    if(arg_COST)
        set_tests_properties(${name} PROPERTIES COST ${arg_COST} LABELS long)
    endif()
endfunction()
