# hypatia_add_model(TARGET MODEL.onnx [NAME name] [OPTIONS option...] [DEPENDS file...])
#
# Compiles the model when the target is built, and again when it changes, and puts the plan into the target, which needs no file
# then:
#
#   find_package(hypatia REQUIRED)
#   add_executable(app main.c)
#   target_link_libraries(app PRIVATE hypatia::hypatia-rt)
#   hypatia_add_model(app digits.onnx OPTIONS --dim batch=1)
#
#   #include "digits_plan.h"
#   hyp_engine_load_memory(digits_plan, digits_plan_size, NULL, &engine, &diag);
#
# NAME is that of the model's file unless given, with what no name in C may have replaced by "_". OPTIONS are those of hypatiac;
# DEPENDS are files that the plan depends on besides the model: external data, rules, samples. The target is a program or a library
# of sources; the names are seen within the program or shared library that it becomes part of.
#
# hypatiac is the one beside this package, or of the PATH, or where Hypatia is part of this build (add_subdirectory, FetchContent)
# the one that it makes; -DHYPATIA_HYPATIAC=PATH names another, as for cross-compiling, where it runs on the machine that builds. Plans are the same for all processors. Any compiler for ELF files whose assembler knows .incbin
# does (gcc, clang); the plan goes through no compiler, so that its size costs nothing.

function(hypatia_add_model target model)
    cmake_parse_arguments(arg "" "NAME" "OPTIONS;DEPENDS" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "hypatia_add_model: what is '${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}'? "
            "Wanted hypatia_add_model(target model.onnx [NAME name] [OPTIONS option...] [DEPENDS file...])")
    endif()
    if(NOT TARGET ${target})
        message(FATAL_ERROR "hypatia_add_model: there is no target '${target}'")
    endif()
    get_target_property(directory ${target} SOURCE_DIR)
    if(NOT directory STREQUAL CMAKE_CURRENT_SOURCE_DIR)
        message(FATAL_ERROR "hypatia_add_model: '${target}' is a target of ${directory}; call it there")
    endif()
    cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    if(NOT arg_NAME)
        cmake_path(GET model STEM LAST_ONLY arg_NAME)
        string(MAKE_C_IDENTIFIER "${arg_NAME}" arg_NAME)
    elseif(NOT arg_NAME MATCHES "^[A-Za-z_][A-Za-z0-9_]*$")
        message(FATAL_ERROR "hypatia_add_model: '${arg_NAME}' is no name in C")
    endif()

    get_source_file_property(made ${model} GENERATED)
    if(NOT EXISTS ${model} AND NOT made)
        message(FATAL_ERROR "hypatia_add_model: there is no file '${model}', nor a rule before this one that makes it")
    endif()
    get_target_property(names ${target} HYPATIA_MODELS)
    if(arg_NAME IN_LIST names)
        message(FATAL_ERROR "hypatia_add_model: '${target}' has a model '${arg_NAME}' already; give this one another NAME")
    endif()
    set_property(TARGET ${target} APPEND PROPERTY HYPATIA_MODELS ${arg_NAME})

    set(hints) # lib/cmake/hypatia, or lib/PROCESSOR/cmake/hypatia, and bin have one prefix
    if(NOT CMAKE_CROSSCOMPILING) # else what lies beside the libraries does not run here
        set(hints HINTS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../../bin)
    endif()
    set(hypatiac hypatiac)
    if(HYPATIA_HYPATIAC OR NOT TARGET hypatiac OR CMAKE_CROSSCOMPILING)
        find_program(HYPATIA_HYPATIAC hypatiac ${hints} DOC "compiles models for hypatia_add_model")
        set(hypatiac ${HYPATIA_HYPATIAC})
    endif()
    if(NOT hypatiac)
        message(FATAL_ERROR "hypatia_add_model: hypatiac is not found; install Hypatia's tools, or name it by "
            "-DHYPATIA_HYPATIAC=PATH")
    endif()

    set(folder ${CMAKE_CURRENT_BINARY_DIR}/hypatia_models/${target})
    set(plan ${folder}/${arg_NAME}.plan)
    set(source ${folder}/${arg_NAME}_plan.c)
    if(NOT CMAKE_C_COMPILER_LOADED)
        set(source ${folder}/${arg_NAME}_plan.cpp)
    endif()
    if(plan MATCHES "[\"\\\\]")
        message(FATAL_ERROR "hypatia_add_model: the build folder has a quote or a backslash in its name: ${folder}")
    endif()
    set(HYPATIA_NAME ${arg_NAME})
    set(HYPATIA_PLAN ${plan})
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plan.h.in ${folder}/${arg_NAME}_plan.h @ONLY)
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plan.c.in ${source} @ONLY)
    add_custom_command(OUTPUT ${plan}
        COMMAND ${hypatiac} ${model} -o ${plan} -q ${arg_OPTIONS}
        DEPENDS ${model} ${hypatiac} ${arg_DEPENDS}
        WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
        COMMENT "Compiling ${arg_NAME} to a plan" VERBATIM)
    # Link-time optimisation would take apart what the assembler is to see as it is.
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${plan} COMPILE_OPTIONS -fno-lto)
    target_sources(${target} PRIVATE ${source})
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${folder}>)
endfunction()
