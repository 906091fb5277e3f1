# Refuses processors that Hypatia is not for. Includes nothing, so that tests/tools can run it alone.
# Plans are mapped as they are, and offsets into weights do not fit into 32 bits.
math(EXPR bits "8 * ${CMAKE_SIZEOF_VOID_P}")
if(NOT bits EQUAL 64)
    message(FATAL_ERROR "Hypatia is 64-bit: ${CMAKE_C_COMPILER} makes code for ${bits} bits here. Take a compiler for "
        "a 64-bit processor, without -m32 and -mx32")
endif()
if(NOT CMAKE_C_BYTE_ORDER STREQUAL "LITTLE_ENDIAN")
    message(FATAL_ERROR "Hypatia is little-endian, as its plans are: ${CMAKE_C_COMPILER} makes code for a big-endian "
        "processor (${CMAKE_SYSTEM_PROCESSOR}). Take a compiler for a little-endian one")
endif()
