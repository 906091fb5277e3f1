# Run by cpack between installing the components and packing them: what a Debian package has besides. Everything is given the
# time of the release, SOURCE_DATE_EPOCH, so that the same sources make the same bytes.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
    message(FATAL_ERROR "SOURCE_DATE_EPOCH, the time that the packages are to bear, is not set: scripts/package.sh does")
endif()

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH
set(changelog "hypatia (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * CHANGELOG.md, which hypatia-doc installs, says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")

foreach(component ${CPACK_COMPONENTS_ALL})
    set(package ${HYP_PACKAGE_${component}})
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component})
    set(share ${root}${CPACK_PACKAGING_INSTALL_PREFIX}/share)
    file(WRITE ${share}/doc/${package}/changelog "${changelog}")
    file(COPY_FILE ${HYP_SOURCE}/packages/copyright ${share}/doc/${package}/copyright)
    if(EXISTS ${HYP_SOURCE}/packages/${component}.overrides)
        file(MAKE_DIRECTORY ${share}/lintian/overrides)
        file(COPY_FILE ${HYP_SOURCE}/packages/${component}.overrides ${share}/lintian/overrides/${package})
    endif()
    if(EXISTS ${share}/zsh/site-functions) # which are the machine's own in Debian
        file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
    endif()
    file(GLOB pages ${share}/man/*/*.[1-9])
    run(gzip -9n ${share}/doc/${package}/changelog ${pages})
    file(GLOB_RECURSE archives ${root}/*.a)
    if(archives)
        run(strip --strip-debug --enable-deterministic-archives ${archives})
    endif()
    run(find ${root} -type f -not -perm /111 -exec chmod 644 {} +)
    run(find ${root} -type f -perm /111 -exec chmod 755 {} +)
    run(find ${root} -type d -exec chmod 755 {} +)
    run(find ${root} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +)
endforeach()
