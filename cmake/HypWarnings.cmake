# The warnings of every target of ours, as an interface library.
add_library(hyp_warnings INTERFACE)
target_compile_options(hyp_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wundef -Wconversion -Wno-sign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wwrite-strings -Wvla>)
if(HYPATIA_WERROR)
    target_compile_options(hyp_warnings INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
