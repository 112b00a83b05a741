/* nvcuda::wmma is in tests/simt/simt_wmma.h, which every .cu file has before it includes this. */
