/* nvcuda::wmma is in lib/simt/simt_wmma.h, which every .cu file has before it includes this. */
