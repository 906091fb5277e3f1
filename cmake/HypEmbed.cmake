# hyp_embed(layer header list file... [list file...]): C arrays with the texts of files (absolute paths), made when
# the files change:
#
#   hyp_embed(rewrite rewrite/builtin.h hyp_builtin_rules /.../a.rules hyp_builtin_profiles /.../b.profile)
#
# Also the script that makes them: cmake -DOUT=x.c -DHEADER=h -DLISTS="name|file|file,name|file" -P HypEmbed.cmake
if(CMAKE_SCRIPT_MODE_FILE)
    set(text "#include \"${HEADER}\"\n")
    string(REPLACE "," ";" LISTS "${LISTS}")
    foreach(list ${LISTS})
        string(REPLACE "|" ";" files "${list}")
        list(POP_FRONT files name)
        set(rows "")
        set(number 0)
        foreach(file ${files})
            file(READ ${file} hex HEX)
            string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
            string(REGEX REPLACE "(................................................................................................................)"
                "\\1\n" bytes "${bytes}")
            get_filename_component(stem ${file} NAME_WE)
            string(APPEND text "static const char ${name}_${number}[] = {\n${bytes}0};\n")
            string(APPEND rows "    {\"${stem}\", ${name}_${number}, sizeof ${name}_${number} - 1},\n")
            math(EXPR number "${number} + 1")
        endforeach()
        string(APPEND text "const hyp_builtin_text ${name}[] = {\n${rows}};\nconst size_t ${name}_count = ${number};\n")
    endforeach()
    file(WRITE ${OUT} "${text}")
    return()
endif()

function(hyp_embed layer header)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/builtin.c)
    set(lists "")
    set(depends "")
    set(entry "")
    foreach(word ${ARGN})
        if(IS_ABSOLUTE ${word})
            string(APPEND entry "|${word}")
            list(APPEND depends ${word})
        else()
            list(APPEND lists ${entry})
            set(entry ${word})
        endif()
    endforeach()
    list(APPEND lists ${entry})
    list(JOIN lists "," lists)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DHEADER=${header} "-DLISTS=${lists}"
            -P ${PROJECT_SOURCE_DIR}/cmake/HypEmbed.cmake
        DEPENDS ${depends} ${PROJECT_SOURCE_DIR}/cmake/HypEmbed.cmake VERBATIM)
    target_sources(hyp_${layer} PRIVATE ${out})
endfunction()
