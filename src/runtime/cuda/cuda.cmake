# The CUDA backend, added to hyp_runtime where a toolkit is found. Of the toolkit only headers and nvcc are used;
# nothing of CUDA is linked, and CMake needs no CUDA language.
if(HYPATIA_CUDA)
    find_package(CUDAToolkit 12.0 QUIET)
    if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
        message(STATUS "CUDA backend: left out, because no CUDA toolkit (12.0 or newer) was found")
    endif()
endif()

if(HYPATIA_CUDA AND CUDAToolkit_NVCC_EXECUTABLE)
    # Ready code for 9.0; on other GPUs, from 7.5 on, the driver compiles the PTX once and keeps the result. The image is
    # in every binary, and each ready architecture would add a third to it.
    set(arches -gencode=arch=compute_75,code=compute_75 -gencode=arch=compute_90,code=sm_90)
    set(compress -Xfatbin=-compress-all)
    if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
        set(compress --compress-mode=size)
    endif()
    set(image ${PROJECT_BINARY_DIR}/generated/kernels.fatbin)
    set(cuda_dir ${CMAKE_CURRENT_SOURCE_DIR}/cuda)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
    set(HYPATIA_CUDA_IMAGE_SOURCES ${cuda_dir}/image.cu ${cuda_dir}/kernels.cu ${cuda_dir}/layers.cu ${cuda_dir}/kernels.h
        ${PROJECT_SOURCE_DIR}/include/hypatia/types.h CACHE INTERNAL "what the image of kernels is made of")
    add_custom_command(OUTPUT ${image}
        COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 -O3 -fatbin ${arches} ${compress}
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -o ${image} ${cuda_dir}/image.cu
        DEPENDS ${HYPATIA_CUDA_IMAGE_SOURCES}
        COMMENT "Compiling CUDA kernels" VERBATIM)
    target_sources(hyp_runtime PRIVATE ${image}
        cuda/backend_cuda.c cuda/device.c cuda/library.c cuda/prepare.c cuda/extent.c cuda/gemm.c cuda/product.c
        cuda/pointwise.c cuda/program.c cuda/reduce.c cuda/movement.c cuda/move.c cuda/replay.c
        cuda/calls.c cuda/chain.c cuda/layers.c)
    set_source_files_properties(cuda/device.c PROPERTIES
        OBJECT_DEPENDS ${image} COMPILE_DEFINITIONS "HYP_CUDA_IMAGE=\"${image}\"")
    target_include_directories(hyp_runtime SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(hyp_runtime PUBLIC HYP_HAVE_CUDA)
    target_link_libraries(hyp_runtime PUBLIC ${CMAKE_DL_LIBS})
endif()
