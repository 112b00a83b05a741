/* nvcuda::wmma is in tests/simt/simt_wmma.h, which every .cu file includes before this header. */
