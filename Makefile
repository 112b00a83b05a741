# Trivium. `make help` lists what users need; everything built goes to build/.
#
# Settings:  V=1 show the commands   WERROR=1 warnings are errors (CI)   SAN=1 AddressSanitizer + UBSan
#            PREFIX=/usr/local DESTDIR= where make install puts things
#            DEBUG=1 no optimisation   YES=1 install packages without asking   DATA=path a text for tests that want one
#            MINE=1 in a handout: the exercises' files of the tree, not the references (docs/grading.md)
#            MPICC=mpicc.mpich another MPI than mpicc's (MPICH, Intel MPI), in a BUILD_NAME of its own
#            MPI=0 without MPI: ranks are launch's own (a program that needs no library of MPI where it runs)
#            ARCH=x86-64-v3 for processors of this kind (default: native, the one that is here)
#            ARCH=any one program for all of x86-64: what computes on tensors is in it for each of LEVELS, and the start
#            chooses (TRIVIUM_CPU=x86-64-v3: a lower one)
#            CUDA=1 with the CUDA device (default: where nvcc and a GPU are)   CUDA=0 without
#            CUDNN=0|1 (default: where it is)
#            CUDA_ARCH=90 compute capabilities to compile kernels for (default: those of the GPUs here; without one, all
#            that are supported)
#            SIMT=1 the CUDA device on the CPU: kernels run by tests/simt, libraries by fakes, for tests (docs/simt.md)
#            SIMT=check the same, and every memory access of a kernel checked for races, bounds, and reads before writes

SHELL := /bin/bash
.DEFAULT_GOAL := build
Q := $(if $(V),,@)

# ---- CUDA: by nvcc for a GPU, or by g++ for tests/simt. The CPU-only build needs nothing of it ----
NVCC ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(NVCC))
GPU := $(wildcard /dev/nvidia[0-9]* /dev/dxg)
ifeq ($(origin CUDA),undefined)
CUDA := $(if $(NVCC),$(if $(GPU),1,0),0)
ifneq ($(and $(NVCC),$(filter 0,$(MAKELEVEL)),$(filter 0,$(CUDA)),$(filter build demo \
    check,$(or $(MAKECMDGOALS),build))),)
$(info There is a CUDA toolkit but no GPU: built without the CUDA device. CUDA=1 includes it, and compiles for some \
    minutes.)
endif
endif
WITH_CUDA := $(if $(SIMT),1,$(filter 1,$(CUDA)))
TOOLKIT := $(wildcard $(CUDA_HOME)/include/cuda_runtime.h)
# cuDNN is where the compiler finds it: the toolkit, the system, CPATH (Python's packages: tools/gpu-check build)
HAVE_CUDNN = $(shell $(CC) -E -include cudnn.h -isystem $(CUDA_HOME)/include -x c /dev/null >/dev/null 2>&1 && echo 1)
# io_uring, for what is offloaded to a disk: where liburing is; URING= builds without
ifeq ($(origin URING),undefined)
URING := $(shell $(CC) -E -include liburing.h -x c /dev/null >/dev/null 2>&1 && echo 1)
endif
# sentencepiece, for Llama 2's and T5's tokenizers: where its library is, and a compiler of C++; SENTENCEPIECE= builds
# without
ifeq ($(origin SENTENCEPIECE),undefined)
SENTENCEPIECE := $(shell $(CC) -std=c++17 -E -include sentencepiece_processor.h -x c++ /dev/null >/dev/null 2>&1 && \
    echo 1)
endif
# Names for NVIDIA's profilers (train --nvtx): where the compiler or the toolkit has the header, CPU or GPU; NVTX=
# builds without
ifeq ($(origin NVTX),undefined)
NVTX := $(shell $(CC) -E -include nvtx3/nvToolsExt.h -isystem $(CUDA_HOME)/include -x c /dev/null >/dev/null 2>&1 && \
    echo 1)
endif
WITH_CUDNN := $(if $(SIMT),,$(if $(WITH_CUDA),$(filter 1,$(or $(CUDNN),$(HAVE_CUDNN)))))
ifeq ($(WITH_CUDA):$(SIMT):$(WITH_CUDNN):$(CUDNN):$(MAKELEVEL),1::::0)
$(info cuDNN is not found: attention is by our own kernels, slower. Put its include folder into CPATH (docs/gpu.md).)
endif

BUILD_NAME ?= build
MANNER := $(if $(SAN),-san)$(if $(DEBUG),-debug)$(if $(MINE),-mine)
B := $(BUILD_NAME)$(if $(SIMT),-simt)$(MANNER)
# Objects of C that see the CUDA device are a build's own; all others the emulated build has from the CPU's. check-more:
# one build takes another's
OBJ := $(B)/obj
SHARED := $(BUILD_NAME)$(MANNER)/obj

# ---- sources: a module is a folder; test_*.c and example_*.c live in it ----
MODULES := $(filter-out tests% nano% \
    build%,$(patsubst %/,%,$(sort $(dir $(wildcard */*.h driver/*/*.c dp_variants/*/*.h models/*/*.h models/*/*/*.h \
    oracle/*/*.h lib/*/*.h lib/*/*/*.h)))))
ALL_C := $(foreach m,$(MODULES),$(wildcard $(m)/*.c))
TEST_C := $(foreach m,$(MODULES),$(wildcard $(m)/test_*.c)) $(wildcard tests/*.c)
EXAMPLE_C := $(foreach m,$(MODULES),$(wildcard $(m)/example_*.c))
# A lesson's examples are linked to the references of its exercises; in a tree without those (make handout), to what is
# handed in. later.ini: of an exercise that is another handout's
LESSON_C := $(wildcard lessons/*/example_*.c)
solutions = $(foreach d,$(dir $(shell grep -ls '^reference' $(1)*/exercise.ini \
    $(1)*/later.ini)),$(or $(wildcard $(d)reference.c),$(filter-out $(d)test_%,$(wildcard $(d)*.c))))
CPU_C := $(filter lib/ops/%_cpu.c,$(ALL_C))      # compiled once for each element type (lib/ops/real.h)
CUDA_C := $(filter %_cuda.c %_nccl.c %_cudnn.c %_staged.c,$(ALL_C))   # host code of the CUDA device
NO_MPI_C := lib/comm/transport/comm_without_mpi.c
# Hot: all that computes on tensors, norms or the optimizer's states, without the tables that name it
HOT_C := $(filter-out $(TEST_C) $(CPU_C) $(CUDA_C),$(filter lib/comm/coded.c lib/comm/comm_reduce.c lib/device/dtype.c \
    lib/ops/codec% \
    lib/ops/reduce.c lib/ops/gemm/% zero/zero_coded.c,$(ALL_C)))
LIB_C := $(filter-out $(TEST_C) $(EXAMPLE_C) $(CPU_C) $(HOT_C) $(if $(WITH_CUDA),,$(CUDA_C)) \
    $(if $(filter 0,$(MPI)),$(filter lib/comm/transport/comm_mpi%,$(ALL_C)),$(NO_MPI_C)),$(ALL_C))
ELEMS := fp64 fp32 bf16 fp16
ALL_CU := $(foreach m,$(MODULES),$(wildcard $(m)/*.cu))
ELEM_CU := $(filter %_cuda.cu,$(ALL_CU))         # compiled once for each element type (lib/ops/cuda.h)
ONCE_CU := $(filter-out $(ELEM_CU),$(ALL_CU))

# ---- processors ----
# native, a name of -march, or any: the hot sources once for each level, all else for the lowest. bf16: Zen 4; amx:
# Sapphire Rapids
ARCH ?= native
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
LEVELS := $(if $(filter any,$(ARCH)),$(if $(filter x86_64,$(MACHINE)),x86-64-v2 x86-64-v3 x86-64-v4 x86-64-v4-bf16 \
    x86-64-v4-amx))
LOWEST := $(if $(filter any,$(ARCH)),$(or $(firstword $(LEVELS)),armv8-a),$(ARCH))
march = $(patsubst %-bf16,% -mavx512bf16,-march=$(1:%-amx=%-bf16)) $(if $(filter %-amx,$(1)),-mamx-tile -mamx-bf16)

# What sees CUDA: TRIVIUM_CUDA itself, a header that asks for it, or the toolkit's. tests/build.sh: nothing else does.
# With cuDNN the files that are about it have a folder of their own: all other objects are those of a build without
CUDA_WORDS := CUDA|cuda|cublas|cudnn|nccl|device/gpu\.h|ops/(optimizer_)?kernels\.h|test_gemm\.h|comm_lanes|simt/fake
SEES_CUDA := $(shell grep -lE '^.(if|include).*($(CUDA_WORDS))' \
    $(ALL_C) $(wildcard tests/*.c tests/simt/*.c tools/bench/*.c lessons/*/*.c lessons/*/*/*.c))
folder = $(if $(filter $(1),$(SEES_CUDA)),$(if \
    $(and $(WITH_CUDNN),$(filter %_cudnn.c,$(1))),$(B)/with-cudnn,$(OBJ)),$(SHARED))
obj = $(foreach c,$(1),$(call folder,$(c))/$(c:.c=.o))
# The hot objects, all of them or those of one level (hot_o,x86-64-v3/)
hot_o = $(foreach c,$(HOT_C),$(call folder,$(c))/$(1)$(c:.c=.o)) \
    $(foreach e,$(ELEMS),$(CPU_C:%.c=$(SHARED)/$(1)%.$(e).o))
LEVEL_O := $(foreach l,$(LEVELS),$(call hot_o,$(l)/))
HOT_O := $(if $(LEVELS),$(OBJ)/levels.o,$(call hot_o))
# Kernels are compiled in one of three ways, into a folder of their own; everything else is the same object.
VARIANT := $(if $(filter-out 1,$(SIMT)),-$(SIMT))
KERNELS := kernels$(VARIANT)
CU_O := $(foreach e,$(ELEMS),$(patsubst %.cu,$(B)/$(KERNELS)/%.$(e).o,$(ELEM_CU))) \
    $(patsubst %.cu,$(B)/$(KERNELS)/%.o,$(ONCE_CU))
SIMT_O := $(patsubst %,$(B)/$(KERNELS)/%.o,$(basename $(wildcard tests/simt/*.cpp))) \
    $(call obj,$(wildcard tests/simt/fake_*.c))
LIB_O := $(call obj,$(LIB_C)) $(if $(SENTENCEPIECE),$(SHARED)/lib/data/bpe_sentencepiece.o) \
    $(HOT_O) $(if $(WITH_CUDA),$(CU_O)) $(if $(SIMT),$(SIMT_O))
SIMT_TESTS := $(if $(SIMT),$(call obj,$(wildcard tests/simt/test_*.c)) \
    $(patsubst %.cu,$(B)/$(KERNELS)/%.o,$(wildcard tests/simt/test_*.cu)))
# TESTS_OF="lib/ops/ dp/": a runner with the tests of these folders or files alone
TEST_O := $(call obj,$(if $(TESTS_OF),$(filter-out tests/test_%,$(wildcard tests/*.c)) \
    $(filter $(TESTS_OF:%=%%),$(TEST_C)),$(TEST_C))) $(SIMT_TESTS)
EXAMPLES := $(patsubst %.c,$(B)/%,$(notdir $(EXAMPLE_C) $(LESSON_C)))

# ---- flags ----
# -g1: lines and functions. DEBUG=1 has variables too: most of what is optimized has none to show
CFLAGS ?= $(if $(DEBUG),-O0,-O2) $(if $(DEBUG)$(SAN),-g,-g1)
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unknown-pragmas $(if $(WERROR),-Werror)
comma := ,
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
# Any MPI: what its compiler shows. Its mpirun has a name of the same kind; Open MPI's is asked to take many ranks
MPICC ?= mpicc
MPI_SHOWN := $(shell $(MPICC) -show 2>/dev/null)
OPEN_MPI := $(if $(findstring Open MPI,$(shell $(MPICC) --showme:version 2>&1)),1)
MPI_CFLAGS := $(filter -I% -D% -pthread,$(MPI_SHOWN))
MPI_LIBS := $(if $(filter-out 0,$(or $(MPI),1)),$(filter-out -I% -D%,$(wordlist 2,99,$(MPI_SHOWN))))
MPIRUN ?= $(subst mpicc,mpirun,$(MPICC))$(if $(OPEN_MPI), --oversubscribe) --bind-to none
LIBRARIES := jansson inih openblas libxxhash libpcre2-8 libutf8proc libsodium yaml-0.1
PKG_LIBS := $(shell pkg-config --libs $(LIBRARIES) 2>/dev/null \
    || echo -ljansson -linih -lopenblas -lxxhash -lpcre2-8 -lutf8proc -lsodium -lyaml)
PKG_CFLAGS := $(shell pkg-config --cflags jansson inih openblas libpcre2-8 2>/dev/null)
# Where registers have 512 bits compilers prefer 256, for the clock's sake; the products need the 512 anyway
WHOLE_VECTORS := $(if $(filter x86_64,$(MACHINE)),-mprefer-vector-width=512)
# Never -ffast-math: NaN, infinity and the order of sums must mean what they say. In hot sources -ffp-contract=fast lets
# a*b+c become one FMA; all others compute the same bits for every ARCH
HOT_CFLAGS := -ffp-contract=fast $(if $(DEBUG),,-O3)
ALL_CFLAGS := -std=gnu17 -I. $(if $(URING),-DTRIVIUM_URING )$(CFLAGS) $(call march,$(LOWEST)) $(WHOLE_VECTORS) \
    -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp $(WARN) $(SANFLAGS) $(PKG_CFLAGS)
CUDA_CFLAGS := $(if $(WITH_CUDA),-DTRIVIUM_CUDA $(if $(TOOLKIT),-isystem $(CUDA_HOME)/include,-Itests/simt/toolkit))
NVTX_CFLAGS := $(if $(NVTX),-DTRIVIUM_NVTX $(if $(TOOLKIT),-isystem $(CUDA_HOME)/include))
CUDA_LIBS := $(if $(SIMT),-lstdc++ $(if $(filter cover,$(SIMT)),--coverage),$(if $(WITH_CUDA),-L$(CUDA_HOME)/lib64 \
    -Wl$(comma)-rpath$(comma)$(CUDA_HOME)/lib64 -lcudart -lcublasLt $(if $(WITH_CUDNN),-lcudnn )-lnccl -lstdc++))
LIBS := $(SANFLAGS) -fopenmp $(MPI_LIBS) $(PKG_LIBS) $(if $(URING),-luring) $(CUDA_LIBS) \
    $(if $(SENTENCEPIECE),-lsentencepiece -lstdc++) -lm -lpthread

build: $(B)/trivium$(VARIANT)

$(B)/trivium$(VARIANT): $(call obj,trivium.c) $(LIB_O)
	@mkdir -p $(@D)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

$(B)/trivium-tests$(VARIANT): $(TEST_O) $(LIB_O) | $(B)/settings$(VARIANT)
	@mkdir -p $(@D)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS) -lcmocka

# Examples are linked to one object of the library, without debugging information: a quarter of the time
$(B)/library$(VARIANT).o: $(LIB_O)
	@mkdir -p $(@D)
	$(Q)$(CC) -r -nostdlib $(if $(DEBUG)$(SAN),,-Wl$(comma)-S) -o $@ $^
define example_rule
$(B)/$(notdir $(basename $(1))): $(call obj,$(1) $(if $(filter lessons/%,$(1)),$(call solutions,$(dir $(1))))) \
    $(B)/library$(VARIANT).o
	$$(if $$(V),,@echo "LINK $$@")
	$$(Q)$$(CC) -o $$@ $$^ $$(LIBS)
endef
$(foreach e,$(EXAMPLE_C) $(LESSON_C),$(eval $(call example_rule,$(e))))
examples: $(EXAMPLES)

# All-reduce by size and algorithm: lib/comm's, and those that lesson 02 writes
bench-allreduce: $(B)/bench-allreduce
$(B)/bench-allreduce: $(call obj,tools/bench/allreduce.c lessons/02-collectives/all_reduce/reference.c) $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

# The update of states in files (--offload-to disk), against the disk alone
bench-disk: $(B)/bench-disk
$(B)/bench-disk: $(call obj,tools/bench/disk.c) $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

# Every collective by size, as nccl-tests prints it (tools/cluster-check); with the CUDA device in builds that have it
bench-collectives: $(B)/bench-collectives$(VARIANT)
$(B)/bench-collectives$(VARIANT): $(call obj,tools/bench/collectives.c) $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

# How long survivors of a killed rank need to agree; tools/bench/elastic.py --survivors
bench-survive: $(B)/bench-survive
$(B)/bench-survive: $(call obj,tools/bench/survive.c) $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

# The fp32 products of a layer, ours against oneDNN's, which only this needs (tools/install-deps bench)
bench-gemm:
	@tools/install-deps bench
	@$(MAKE) $(B)/bench-gemm
$(B)/bench-gemm: $(call obj,tools/bench/gemm.c) $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS) -ldnnl

# Measuring on a GPU (docs/gpu.md), only in builds with the CUDA device: single ops; and whether the host waits inside a
# step, for which the linker sends the calls that wait through tools/bench/step.c
WAITS := cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize cudaMalloc cudaFree cudaMemcpy
bench-kernels: $(B)/bench-kernels$(VARIANT)
bench-step: $(B)/bench-step$(VARIANT)
$(B)/bench-kernels$(VARIANT): $(call obj,$(wildcard tools/bench/kernels*.c)) $(LIB_O)
$(B)/bench-step$(VARIANT): $(call obj,tools/bench/step.c) $(LIB_O)
$(B)/bench-step$(VARIANT): LIBS += $(WAITS:%=-Wl$(comma)--wrap=%)
$(B)/bench-kernels$(VARIANT) $(B)/bench-step$(VARIANT):
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

# A handout (make handout) has starters where exercises replace a file, and what they replace, packed
PACKED = (echo '\#line 1 "$*.c"'; gzip -dc $<) | $(CC) $(ALL_CFLAGS) $(1) -MMD -MP -x c -c -o $@ -

SEES_CUDA_O := $(foreach f,$(OBJ) $(LEVELS:%=$(OBJ)/%) $(B)/with-cudnn,$(SEES_CUDA:%.c=$(f)/%.o))
$(SEES_CUDA_O): ALL_CFLAGS += $(CUDA_CFLAGS)
$(SEES_CUDA_O): $(OBJ)/cuda.flags
$(call hot_o) $(LEVEL_O): ALL_CFLAGS += $(HOT_CFLAGS)
$(SHARED)/lib/base/level.o: ALL_CFLAGS += -DTRIVIUM_ARCH='"$(ARCH)"' $(if $(LEVELS),-DTRIVIUM_LEVELS)
# -O1: tests take half the time to compile
$(filter %.o,$(call obj,$(TEST_C))): ALL_CFLAGS += $(if $(DEBUG),,-O1)
$(SHARED)/lib/base/nvtx.o: ALL_CFLAGS += $(NVTX_CFLAGS)
$(SHARED)/lib/base/nvtx.o: $(SHARED)/nvtx.flags
$(SHARED)/launch/launch.o $(SHARED)/launch/test_launch.o: ALL_CFLAGS += -DTRIVIUM_OPEN_MPI=$(or $(OPEN_MPI),0) \
    -DTRIVIUM_MPIRUN='$(foreach w,$(MPIRUN),"$(w)"$(comma))'
$(SHARED)/lib/comm/%.o $(SHARED)/tests/%.o $(OBJ)/lib/comm/%.o $(OBJ)/tests/%.o: ALL_CFLAGS += $(MPI_CFLAGS)

define c_rule
$(if $(MINE),,$(1).o: references/%.c.gz $(SHARED:obj=flags)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "CC $$*.c, the reference$(2)")
	$$(Q)$$(call PACKED,$(3)))
$(1).o: %.c $(SHARED:obj=flags)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "CC $$<$(2)")
	$$(Q)$$(CC) $$(ALL_CFLAGS) $(3) -MMD -MP -c -o $$@ $$<
endef
$(foreach f,$(sort $(SHARED) $(OBJ)),$(eval $(call c_rule,$(f)/%)))
$(foreach e,$(ELEMS),$(eval $(call c_rule,$(SHARED)/%.$(e), ($(e)),-DELEM=$(e) -DELEM_$(e))))
$(foreach l,$(LEVELS),$(foreach f,$(sort $(SHARED) \
    $(OBJ)),$(eval $(call c_rule,$(f)/$(l)/%, ($(l)),$(call march,$(l))))))
$(foreach l,$(LEVELS),$(foreach e,$(ELEMS),$(eval $(call c_rule,$(SHARED)/$(l)/%.$(e), ($(e) $(l)),-DELEM=$(e) \
    -DELEM_$(e) $(call march,$(l))))))
$(OBJ)/levels.o: $(LEVEL_O) tools/levels
	$(if $(V),,@echo "LEVELS $(LEVELS)")
	$(Q)CC=$(CC) tools/levels $@ '$(LEVELS)' $(LEVEL_O)
$(SHARED)/%.o: %.cpp $(SHARED:obj=flags)
	@mkdir -p $(@D)
	$(if $(V),,@echo "CXX $<")
	$(Q)$(CC) -x c++ -std=c++17 -I. $(CFLAGS) -Wall -Wextra $(if $(WERROR),-Werror) $(SANFLAGS) -MMD -MP -c -o $@ $<
$(eval $(call c_rule,$(B)/with-cudnn/%, (cuDNN),-DTRIVIUM_CUDNN \
    -DTRIVIUM_BEFORE_HOPPER=$$(if $$(filter 7% 8%,$$(or $$(CUDA_ARCH),80 90)),1,0) \
    -DTRIVIUM_HOPPER=$$(if $$(filter-out 7% 8%,$$(or $$(CUDA_ARCH),80 90)),1,0)))

# A kernel file has the same text for the GPU and for tests/simt. Compiled for the GPUs that are here, whose compute
# capability 9.0 is sm_90; without one for sm_80 (A100), sm_90 (H100, H200), and in PTX for what comes.
ifeq ($(WITH_CUDA)$(SIMT),1)
CUDA_ARCH ?= $(sort $(subst .,,$(if $(GPU),$(shell nvidia-smi --query-gpu=compute_cap --format=csv$(comma)noheader \
    2>/dev/null))))
GENCODE ?= $(foreach a,$(or $(CUDA_ARCH),80 90),-gencode arch=compute_$(a),code=sm_$(a)) \
    $(if $(CUDA_ARCH),,-gencode arch=compute_90,code=compute_90)
endif
NVCCFLAGS ?= -O3 -lineinfo
SIMT_CXXFLAGS := -std=c++17 -I. $(if $(TOOLKIT),-isystem $(CUDA_HOME)/include,-Itests/simt/toolkit) -g1 -O2 \
    -fopenmp-simd -ffp-contract=fast $(call march,$(LOWEST)) -Wall -Wextra -Wno-unknown-pragmas -Wno-extra \
    -DTRIVIUM_CUDA $(if $(WERROR),-Werror)
# -g1, and simt.h compiled beforehand, once for each element type: most of what a kernel costs to compile is that header
ifdef SIMT
CU := $(CXX) -x c++ $(SIMT_CXXFLAGS) -include tests/simt/simt.h \
    $(if $(filter check,$(SIMT)),-DSIMT_CHECK -fsanitize=thread) $(if $(filter cover,$(SIMT)),-O0 --coverage)
else
CU := $(NVCC) -std=c++17 -I. $(NVCCFLAGS) $(GENCODE) -DTRIVIUM_CUDA -Xcompiler -Wall
# What ptxas says of registers and spills is kept next to the object, for tests/registers.sh.
CU_LOG = -Xptxas -v 2>$(@:.o=.ptxas) || { cat $(@:.o=.ptxas); exit 1; }; grep -E 'warning|error' $(@:.o=.ptxas) || true
endif

# ccache keeps what includes such a header if these two say so
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
# $(1): an element type, or once
simt_h = $(if $(SIMT),$(B)/$(KERNELS)/simt.$(1).h)
cu = $(if $(SIMT),$(subst tests/simt/simt.h,$(simt_h),$(CU)) -fpch-preprocess,$(CU)) \
    $(if $(filter once,$(1)),,-DELEM=$(1) -DELEM_$(1)) -MMD -MP -MF $(basename $@).d
$(foreach e,$(ELEMS) once,$(B)/$(KERNELS)/simt.$(e).h.gch): $(B)/$(KERNELS)/simt.%.h.gch: tests/simt/simt.h \
    $(B)/$(KERNELS).flags
	@mkdir -p $(@D)
	$(Q)echo '#include "tests/simt/simt.h"' >$(@:.gch=)
	$(Q)$(subst -include $(call simt_h,$*),,$(call cu,$*)) -x c++-header -c -o $@ $(@:.gch=)

define cu_rule
$(B)/$(KERNELS)/%.$(1).o: %.cu $(B)/$(KERNELS).flags $(addsuffix .gch,$(call simt_h,$(1)))
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "CU $$< ($(1))")
	$$(Q)$$(call cu,$(1)) -c -o $$@ $$< $$(CU_LOG)
endef
$(foreach e,$(ELEMS),$(eval $(call cu_rule,$(e))))
$(B)/$(KERNELS)/%.o: %.cu $(B)/$(KERNELS).flags $(addsuffix .gch,$(call simt_h,once))
	@mkdir -p $(@D)
	$(if $(V),,@echo "CU $<")
	$(Q)$(call cu,once) -c -o $@ $< $(CU_LOG)
$(B)/$(KERNELS)/%.o: %.cpp $(B)/$(KERNELS).flags
	@mkdir -p $(@D)
	$(if $(V),,@echo "CXX $<")
	$(Q)$(CXX) $(SIMT_CXXFLAGS) $(if $(filter check,$(SIMT)),-DSIMT_CHECK) -MMD -MP -c -o $@ $<

# The page of reports, in the program: its template, with Vega where that is installed (tools/install-deps pictures)
VEGA ?= $(wildcard /usr/share/javascript/vega)
$(SHARED)/report.html: driver/report/join $(wildcard driver/report/page/*) planner/explorer/page/element.js \
    $(SHARED)/vega.flags
	@mkdir -p $(@D)
	$(Q)driver/report/join $(VEGA) >$@
$(SHARED)/driver/report/report.o: $(SHARED)/report.html
$(SHARED)/driver/report/report.o: ALL_CFLAGS += -DREPORT_PAGE='"$(SHARED)/report.html"'

# Objects are made again when the flags are not those that they were made with (CUDA=0 after CUDA=1, another ARCH, ...).
KERNEL_FLAGS := $(CU)
$(SHARED:obj=flags): SAID := $(ALL_CFLAGS) $(MPI_CFLAGS) $(MPIRUN)
$(OBJ)/cuda.flags: SAID := $(CUDA_CFLAGS)
$(SHARED)/nvtx.flags: SAID := $(NVTX_CFLAGS)
$(SHARED)/vega.flags: SAID := $(VEGA)
$(B)/$(KERNELS).flags: SAID := $(KERNEL_FLAGS)
$(filter $(B)/with-cudnn/%,$(LIB_O)): $(B)/$(KERNELS).flags
$(SHARED:obj=flags) $(OBJ)/cuda.flags $(SHARED)/nvtx.flags $(SHARED)/vega.flags $(B)/$(KERNELS).flags: .FORCE
	@mkdir -p $(@D)
	@echo '$(SAID)' | cmp -s - $@ || echo '$(SAID)' >$@
.FORCE:

# What tools/grade compiles and links submissions with: the flags and objects of this build
HELPERS := $(call obj,$(filter-out tests/test_%,$(wildcard tests/*.c)))
SIMT_CORE := $(patsubst %,$(B)/$(KERNELS)/%.o,$(basename $(filter-out tests/simt/fake_%,$(wildcard tests/simt/*.cpp))))
SETTINGS := MPIRUN CC CXX TEST_CFLAGS HOT_C HOT_CFLAGS CU LIBS LIB_O TEST_O HELPERS SIMT_CORE ELEMS KERNELS
TEST_CFLAGS = $(ALL_CFLAGS) -g $(CUDA_CFLAGS) $(MPI_CFLAGS)
$(B)/settings$(VARIANT): .FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(foreach s,$(SETTINGS),'$(s)=$($(s))') | cmp -s - $@ || printf '%s\n' \
	    $(foreach s,$(SETTINGS),'$(s)=$($(s))') >$@

-include $(shell find $(sort $(SHARED) $(OBJ)) $(B)/with-cudnn $(B)/$(KERNELS) -name '*.d' 2>/dev/null)

# ---- what users type ----
help:
	@echo 'make demo           install what is missing, build, train on 8 ranks and compare with one'
	@echo 'make check          install what is missing, build, run the tests; ends with "N passed, N failed"'
	@echo 'make check-more     the tests that take longer: half an hour'
	@echo 'make check-all      check, check-more, the lessons, and what takes long: two and a half hours (DATA=path of a text for the learning test)'
	@echo 'make check-kernels  every CUDA kernel without a GPU: emulated, checked for races, every line executed'
	@echo 'make bench          how fast it trains here, against the newest PyTorch, which it installs (BENCH=--quick)'
	@echo 'make figures        the pictures of the course, from runs on this machine, into docs/figures'
	@echo 'make check-deps     which folder may include which'
	@echo 'make sizes          lines of each part, with its budget; circles of files (after make check-build)'
	@echo 'make check-lessons  lessons and pages: anchors, links, and what their commands print (LESSON=03, LONG=1, ANCHORS=1)'
	@echo 'make docs           the site of pages, lessons and sources: build/docs/html/index.html'
	@echo 'make explorer       a page that shows what a layout needs, with the program in it: build/explorer/explorer.html'
	@echo 'make fuzz           the parsers against hostile input, with clang (SECONDS=60 each, TARGET=one of tests/fuzz; docs/fuzzing.md)'
	@echo 'make check-mutants  plausible mistakes, each of which some test must reject: an hour'
	@echo
	@echo 'make lesson LESSON=07   a shell for the commands of a lesson: their files go to $$WORK'
	@echo 'make grade LESSON=03 EXERCISE=scale FILE=my.c   an exercise of a lesson: what holds, what fails, where to look (docs/grading.md)'
	@echo 'make starter LESSON=17 EXERCISE=hunt-dp FILE=my/dp.c   what it begins with; make mine ... (PATCH=...): the program with it'
	@echo 'make mine MY=my     all of your files: a line a lesson; a program with them trains on 8 ranks: the same losses?'
	@echo 'make worksheet LESSON=04 NAME=ann OUT=my/worksheet.txt   questions with numbers of your own; FILE=... grades them'
	@echo 'make handout LESSON=03 OUT=dir    the tree without the answers (LESSON="03 05" OVER="01 02", LESSON=all)'
	@echo 'make autograder LESSON=03 OUT=autograder.zip   what Gradescope grades with'
	@echo 'make grade-all DIR=dir [LESSON=03] [OUT=scores.csv]   what many have handed in, each in a sandbox; a table of scores'
	@echo 'make marks TABLES="a.csv b.csv" REQUIRED="00/arithmetic 01/gelu" [OUT=marks.csv]   such tables to a class list'
	@echo 'make slides [LESSON=03]           slides of the lessons: build/slides/*.html'
	@echo 'make exam SEED=2026 OUT=dir       an examination and its key, by a seed; BANK=bank.md: all questions and keys'
	@echo 'make check-exercises [LESSON=03]  the exercises: references get full marks, planted mistakes are rejected'
	@echo
	@echo 'make nano           the whole idea in 880 lines, next to the large project (nano/README.md)'
	@echo 'make build          build/trivium          make examples  build/example_*'
	@echo 'make install        into PREFIX (/usr/local): program, man pages, completions, configs, library; make uninstall'
	@echo 'make dist           trivium-VERSION.tar.gz of what is committed'
	@echo 'make clean'
	@echo
	@echo 'settings: CUDA=0|1 MPI=0 SIMT=1|check WERROR=1 SAN=1 DEBUG=1 YES=1 ARCH=native|x86-64-v3|any DATA=path'
	@echo '          (see the head of the Makefile)'

deps:
	@tools/install-deps

# What these targets build, they build on all cores, unless -j was given.
ON_ALL_CORES = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))

# Two steps, because the libraries' flags are only known once they are installed. Without Vega pages have their tables.
demo: deps
	@! command -v apt-get >/dev/null || tools/install-deps pictures || true
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) build
	@$(B)/trivium demo --out $(B)

# The whole idea in 880 lines, apart from the rest (nano/README.md).
nano: build
	@BUILD=$(B) MY=$(MY) tests/nano.sh

# What a newcomer runs. The kernels' tests are a build of their own, emulated.
check: deps
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) check-build
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) SIMT=1 $(SIMT_BUILD)/trivium-tests $(SIMT_BUILD)/trivium
	@BUILD=$(B) NAME=$(BUILD_NAME) tests/check

# The rest, of half an hour: more builds, of the kernels watched, for AVX2, for any x86-64, and by nvcc where that is,
# for one architecture (check-all: the other). What nvcc does not compile is what the emulated build has compiled, with
# the same flags.
check-more: deps
	@tools/install-deps more teach
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) check-build
	@B=$(B) $(MAKE) --no-print-directory $(ON_ALL_CORES) -f tests/fuzz/Makefile replay
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) kernels-build
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) CUDA=0 ARCH=x86-64-v3 TESTS_OF='lib/ops/ tests/test_parity.c' \
	    BUILD_NAME=$(BUILD_NAME)-v3 $(BUILD_NAME)-v3/trivium-tests $(BUILD_NAME)-v3/trivium
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) CUDA=0 ARCH=any BUILD_NAME=$(BUILD_NAME)-any $(BUILD_NAME)-any/trivium \
	    $(BUILD_NAME)-any/settings
	@$(if $(NVCC),$(MAKE) --no-print-directory $(ON_ALL_CORES) CUDA=1 CUDA_ARCH=90 BUILD_NAME=$(BUILD_NAME)-cuda \
	    SHARED=$(B)/obj OBJ=$(SIMT_BUILD)/obj $(BUILD_NAME)-cuda/trivium $(BUILD_NAME)-cuda/trivium-tests)
	@BUILD=$(B) NAME=$(BUILD_NAME) tests/check more

check-kernels: deps
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) kernels-build cover-build
	@NAME=$(BUILD_NAME) tests/kernels

SIMT_BUILD := $(BUILD_NAME)-simt
kernels-build:
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) SIMT=1 $(SIMT_BUILD)/trivium-tests $(SIMT_BUILD)/trivium
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) SIMT=check $(SIMT_BUILD)/trivium-tests-check
cover-build:
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) SIMT=cover $(SIMT_BUILD)/trivium-tests-cover

cuda-kernels: $(CU_O)

# tests/fuzz.sh replays two targets by default; make check-more replays all
check-build: $(B)/trivium$(VARIANT) $(B)/trivium-tests$(VARIANT) examples
	@B=$(B) $(MAKE) --no-print-directory $(ON_ALL_CORES) -f tests/fuzz/Makefile replay NAMES='messages safetensors_header'

# Whatever fails, the rest runs too.
check-all:
	@$(MAKE) --no-print-directory check; a=$$?; $(MAKE) --no-print-directory check-more; b=$$?; \
	$(MAKE) --no-print-directory cover-build bench-allreduce; \
	$(if $(NVCC),$(MAKE) --no-print-directory $(ON_ALL_CORES) CUDA=1 CUDA_ARCH=80 BUILD_NAME=$(BUILD_NAME)-sm80 \
	cuda-kernels;) \
	BUILD=$(B) NAME=$(BUILD_NAME) DATA=$(DATA) tests/check long; c=$$?; tools/check-lessons --long; d=$$?; \
	exit $$((a | b | c | d))

check-mutants: deps
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) $(B)/trivium-tests$(VARIANT)
	@BUILD=$(B) tools/check-mutants

# How fast it trains on this machine, against PyTorch. BENCH: arguments of tools/bench/cpu.py; --quick: this build alone
bench: deps
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) build
	@$(if $(findstring --quick,$(BENCH)),true,$(MAKE) --no-print-directory $(ON_ALL_CORES) ARCH=x86-64-v3 \
	    BUILD_NAME=build-v3 CUDA=0 build)
	@BUILD=$(B) python3 tools/bench/cpu.py $(BENCH)

# libFuzzer on every parser of files and texts from outside: SECONDS each, or TARGET alone. Needs clang; see
# docs/fuzzing.md
fuzz: deps
	@command -v clang >/dev/null || { echo 'make fuzz needs clang and its sanitizers: apt-get install clang'; exit 1; }
	@B=$(B) $(MAKE) --no-print-directory $(ON_ALL_CORES) -f tests/fuzz/Makefile fuzzers
	@BUILD=$(B) FUZZ_SECONDS=$(SECONDS) RUNS=$(RUNS) TARGET=$(TARGET) tests/fuzz/run

check-deps:
	@tools/check-deps

# How large each part is, and which files of a folder need each other
sizes:
	@tools/sizes; tools/circles

# Are the lessons and pages still true? LESSON=03 or a path: only that; ANCHORS=1: nothing is run; LONG=1: long blocks
# too
check-lessons: deps
	@$(if $(ANCHORS),true,$(MAKE) --no-print-directory $(ON_ALL_CORES) build examples bench-allreduce)
	@tools/check-lessons $(if $(ANCHORS),--anchors) $(if $(LONG),--long) $(LESSON)

# The site, in build/docs/html: pages, lessons and sources. What it needs is another list than the build's.
docs: deps
	@tools/install-deps docs explorer
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) build
	@$(MAKE) --no-print-directory explorer
	@BUILD=$(B) tools/docs/options
	@tools/docs/build

# The explorer: one page, build/explorer/explorer.html (planner/explorer/README.md)
explorer:
	@tools/install-deps --check explorer >/dev/null || { echo \
	    'make explorer needs clang, lld and wasi-libc: tools/install-deps explorer'; exit 1; }
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) -f planner/explorer/Makefile

# The course's pictures in docs/figures, from runs on this machine (two to three minutes)
figures: deps
	@command -v gnuplot >/dev/null || tools/install-deps docs
	@$(MAKE) --no-print-directory $(ON_ALL_CORES) build bench-allreduce
	@BUILD=$(B) tools/figures

# ---- installation, by GNU's names: PREFIX is where the program will run, DESTDIR a root that is packed ----
VERSION := $(shell sed -n 's/^static const char VERSION.. = "\(.*\)";/\1/p' trivium.c)
PREFIX ?= /usr/local
TO = $(DESTDIR)$(PREFIX)
HEADERS = $(filter-out %_private.h,$(wildcard $(addsuffix /*.h,$(filter-out driver% launch% planner% oracle%, \
    $(MODULES)))))
define PC
Name: trivium
Description: training of large models in three dimensions, for teaching
Version: $(VERSION)
Cflags: -I$(PREFIX)/include/trivium
Libs: -L$(PREFIX)/lib -ltrivium $(filter-out $(PKG_LIBS),$(LIBS))
Requires: $(LIBRARIES)
endef
export PC

$(B)/libtrivium.a: $(LIB_O)
	$(if $(V),,@echo "AR $@")
	$(Q)rm -f $@; ar rcs $@ $^ && strip -S $@

install: $(B)/trivium $(B)/libtrivium.a
	$(Q)install -D $(B)/trivium $(TO)/bin/trivium
	$(Q)install -D -m 644 $(B)/libtrivium.a $(TO)/lib/libtrivium.a
	$(Q)mkdir -p $(TO)/lib/pkgconfig $(TO)/share/trivium $(TO)/share/doc/trivium/docs $(TO)/include/trivium
	$(Q)echo "$$PC" >$(TO)/lib/pkgconfig/trivium.pc
	$(Q)cp -r configs $(TO)/share/trivium/
	$(Q)install tools/metrics $(TO)/share/trivium
	$(Q)install -m 644 README.md CHANGELOG.md LICENSE CITATION.cff $(TO)/share/doc/trivium
	$(Q)install -m 644 docs/*.md $(TO)/share/doc/trivium/docs
	$(Q)tar cf - $(HEADERS) | tar xf - -C $(TO)/include/trivium
	$(Q)BUILD=$(B) tools/docs/options --install $(TO)

uninstall:
	$(Q)rm -rf $(TO)/share/trivium $(TO)/share/doc/trivium $(TO)/include/trivium
	$(Q)rm -f $(TO)/bin/trivium $(TO)/lib/libtrivium.a $(TO)/lib/pkgconfig/trivium.pc $(TO)/share/man/man1/trivium.1 \
	    $(TO)/share/man/man1/trivium-*.1 $(TO)/share/bash-completion/completions/trivium \
	    $(TO)/share/zsh/site-functions/_trivium $(TO)/share/fish/vendor_completions.d/trivium.fish

# An archive holds what is committed and nothing else; a commit gives the same bytes each time
dist: DIST = trivium-$(VERSION).tar.gz
dist:
	$(Q)git archive --format=tar --prefix=trivium-$(VERSION)/ HEAD | gzip -9n >$(DIST)
	@sha256sum $(DIST)

include tools/teach.mk

clean:
	rm -rf build build-*

.PHONY: build nano examples bench bench-allreduce bench-disk bench-gemm bench-collectives bench-survive figures \
    bench-kernels bench-step help deps demo check check-build check-more check-kernels kernels-build cover-build \
    cuda-kernels check-all check-mutants check-lessons docs explorer fuzz check-deps sizes install uninstall dist clean
