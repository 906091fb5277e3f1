# The CUDA backend, added to hyp_runtime where a toolkit is found. Of the toolkit only headers and nvcc are used;
# nothing of CUDA is linked, and CMake needs no CUDA language.

# Ready code for 9.0; on other GPUs, from 7.5 on, the driver compiles the PTX once and keeps the result. The image is
# in every binary, and each ready architecture would add a third to it.
set(arches -gencode=arch=compute_75,code=compute_75 -gencode=arch=compute_90,code=sm_90)
set(few_rows_arches -gencode=arch=compute_90,code=compute_90 -gencode=arch=compute_90,code=sm_90)
set(image_arches ${arches})
set(attention_arches ${arches} -gencode=arch=compute_80,code=compute_80) # what tensor cores can do since then
set(compress -Xfatbin=-compress-all)
set(images ${PROJECT_BINARY_DIR}/generated)

# Where the same sources are built in several ways, once is enough for these.
set(HYPATIA_CUDA_BUILT "" CACHE PATH "another build folder of these sources, whose CUDA kernels are taken instead of compiled")
set(HYPATIA_NVCC "" CACHE INTERNAL "the compiler of kernels; empty where the CUDA backend is left out")
set(HYPATIA_CUDA_PACKS ON CACHE INTERNAL "whether the toolkit makes images as small as can be")
if(HYPATIA_CUDA)
    find_package(CUDAToolkit 12.0 QUIET)
    if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
        message(STATUS "CUDA backend: left out, because no CUDA toolkit (12.0 or newer) was found")
    else()
        if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
            set(compress --compress-mode=size)
        else()
            set(HYPATIA_CUDA_PACKS OFF CACHE INTERNAL "")
        endif()
        # Whether this nvcc knows the architectures, and takes the host's C++ compiler, shows only when it compiles.
        file(WRITE ${images}/probe.cu "#include <cuda_fp8.h>\n__global__ void probe() {}\n")
        execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++17 -fatbin ${attention_arches} ${compress}
            -o ${images}/probe.out ${images}/probe.cu RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
        if(failed)
            message(WARNING "CUDA backend: left out, because nvcc of CUDA ${CUDAToolkit_VERSION} does not compile for "
                "GPUs of 7.5, 8.0 and 9.0 here:\n${said}\nIf it does not take the C++ compiler, name one that it takes: "
                "NVCC_PREPEND_FLAGS='-ccbin g++-12' in the environment, for the build, too. If it does not know a GPU, take "
                "another toolkit by -DCUDAToolkit_ROOT=FOLDER (12.0 to 13). Or leave CUDA out by -DHYPATIA_CUDA=OFF")
        else()
            set(HYPATIA_NVCC ${CUDAToolkit_NVCC_EXECUTABLE} CACHE INTERNAL "")
        endif()
    endif()
endif()

if(HYPATIA_NVCC)
    set(cuda_dir ${CMAKE_CURRENT_SOURCE_DIR}/cuda)
    file(MAKE_DIRECTORY ${images})
    file(GLOB kernel_sources CONFIGURE_DEPENDS ${cuda_dir}/kernels/*)
    set(shared_headers src/base/elementwise.h src/base/philox.h src/kernels/slopes.h src/kernels/cubic.h
        src/kernels/resize_line.h src/kernels/sample_place.h include/hypatia/types.h)
    list(TRANSFORM shared_headers PREPEND ${PROJECT_SOURCE_DIR}/)
    set(HYPATIA_CUDA_SOURCES ${kernel_sources} ${shared_headers} CACHE INTERNAL "what the images of kernels are made of")
    foreach(name image few_rows attention)
        if(HYPATIA_CUDA_BUILT)
            set(built ${HYPATIA_CUDA_BUILT}/generated/${name}.fatbin)
            add_custom_command(OUTPUT ${images}/${name}.fatbin
                COMMAND ${CMAKE_COMMAND} -E copy ${built} ${images}/${name}.fatbin DEPENDS ${built})
            continue()
        endif()
        add_custom_command(OUTPUT ${images}/${name}.fatbin
            COMMAND ${HYPATIA_NVCC} -std=c++17 -O3 -fatbin ${${name}_arches} ${compress}
                -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src -o ${images}/${name}.fatbin
                ${cuda_dir}/kernels/${name}.cu
            DEPENDS ${HYPATIA_CUDA_SOURCES}
            COMMENT "Compiling CUDA kernels: ${name}" VERBATIM)
    endforeach()

    # What generated kernels share, as a text, which the binary carries too: without comments, and with a short name for
    # what every function begins with. Another one has what those need that do a layer, too.
    function(carry_text name text)
        foreach(file ${ARGN})
            set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
            file(READ ${file} read)
            string(REGEX REPLACE "//[^\n]*|/\\*([^*]|\\*+[^*/])*\\*+/" "" read "${read}")
            string(REGEX REPLACE "\n[ \n]+" "\n" read "${read}")
            string(REPLACE "__device__ __forceinline__" "F" read "${read}")
            string(APPEND text "${read}")
        endforeach()
        file(GENERATE OUTPUT ${images}/${name} CONTENT "${text}")
    endfunction()
    carry_text(device_text.cuh "#define F __device__ __forceinline__\n" ${PROJECT_SOURCE_DIR}/src/base/elementwise.h
        ${cuda_dir}/kernels/instructions.h ${cuda_dir}/kernels/own_floats.cuh ${cuda_dir}/kernels/scalar.cuh
        ${cuda_dir}/kernels/pointwise.cuh ${cuda_dir}/kernels/pieces.cuh)
    carry_text(layer_text.cuh "" ${cuda_dir}/kernels/layer_args.h ${cuda_dir}/kernels/barriers.cuh
        ${cuda_dir}/kernels/few_rows.cuh)

    file(GLOB host_sources CONFIGURE_DEPENDS ${cuda_dir}/*/*.c)
    enable_language(ASM)
    set(HYP_CUDA_FILES image.fatbin few_rows.fatbin attention.fatbin device_text.cuh layer_text.cuh)
    target_sources(hyp_runtime PRIVATE ${images}/image.fatbin ${images}/few_rows.fatbin ${images}/attention.fatbin
        ${host_sources} cuda/driver/images.S)
    list(TRANSFORM HYP_CUDA_FILES PREPEND ${images}/)
    set_source_files_properties(cuda/driver/images.S PROPERTIES OBJECT_DEPENDS "${HYP_CUDA_FILES}"
        COMPILE_OPTIONS -I${images}) # where the assembler, too, looks for files
    target_include_directories(hyp_runtime SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(hyp_runtime PUBLIC HYP_HAVE_CUDA)
    find_path(HYPATIA_NVTX nvtx3/nvToolsExt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
    if(HYPATIA_NVTX)
        target_compile_definitions(hyp_runtime PRIVATE HYP_HAVE_NVTX)
    endif()
    target_link_libraries(hyp_runtime PUBLIC ${CMAKE_DL_LIBS})
endif()
