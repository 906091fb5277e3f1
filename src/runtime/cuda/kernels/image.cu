// image.cu - the kernels that every device has, for one image: what the files share is compiled once.
#include "kernels.cu"
#include "rows.cu"
#include "reduce.cu"
#include "channels.cu"
#include "scatter.cu"
#include "windows.cu"
#include "recurrent.cu"
#include "nn.cu"
