# cmake -DSOURCE=dir -DOUT=file -P WriteCommit.cmake: #define HYP_COMMIT, rewritten only when it changed. Sources from an
# archive name their commit themselves, wherever they are unpacked; git says it of others.
file(READ ${SOURCE}/cmake/commit.txt commit)
if(commit MATCHES "^([0-9a-f]+) ")
    string(SUBSTRING ${CMAKE_MATCH_1} 0 12 commit)
else()
    execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
        OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
    set(commit unknown)
endif()
set(text "#define HYP_COMMIT \"${commit}\"\n")
if(EXISTS ${OUT})
    file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
    file(WRITE ${OUT} "${text}")
endif()
