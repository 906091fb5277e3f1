// image.cu - every kernel, for one image: what the files share is compiled once.
#include "kernels.cu"
#include "layers.cu"
#include "rows.cu"
