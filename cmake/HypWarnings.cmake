# The warnings of every target of ours, as an interface library.
add_library(hyp_warnings INTERFACE)
target_compile_options(hyp_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wundef -Wconversion -Wno-sign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wwrite-strings -Wvla>)
# Named numbers are enumerators here, in floating-point arithmetic, too.
target_compile_options(hyp_warnings INTERFACE $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-enum-float-conversion>)
if(HYPATIA_WERROR)
    target_compile_options(hyp_warnings INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
