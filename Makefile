# Trivium. `make help` lists what users need; everything built goes to build/.
#
# Settings:  V=1 show the commands   WERROR=1 warnings are errors (CI)   SAN=1 AddressSanitizer + UBSan   DEBUG=1 no optimisation
#            YES=1 install packages without asking   DATA=path a text for the tests that want one

SHELL := /bin/bash
.DEFAULT_GOAL := build
Q := $(if $(V),,@)
B := build$(if $(SAN),-san)$(if $(DEBUG),-debug)

# ---- sources: a module is a folder; test_*.c and example_*.c live in it ----
MODULES := lib/base lib/device lib/ops lib/comm lib/program lib/data lib/run gpt dp tp pp zero mixed_precision recompute driver
ALL_C := $(foreach m,$(MODULES),$(wildcard $(m)/*.c))
TEST_C := $(foreach m,$(MODULES),$(wildcard $(m)/test_*.c)) $(wildcard tests/*.c)
EXAMPLE_C := $(foreach m,$(MODULES),$(wildcard $(m)/example_*.c))
CPU_C := $(filter lib/ops/%_cpu.c,$(ALL_C))      # compiled once for each element type (lib/ops/real.h)
LIB_C := $(filter-out $(TEST_C) $(EXAMPLE_C) $(CPU_C),$(ALL_C))
ELEMS := fp64 fp32 bf16 fp16

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
CPU_O := $(foreach e,$(ELEMS),$(patsubst %.c,$(B)/obj/%.$(e).o,$(CPU_C)))
LIB_O := $(call obj,$(LIB_C)) $(CPU_O)
TEST_O := $(call obj,$(TEST_C))
EXAMPLES := $(patsubst %.c,$(B)/%,$(notdir $(EXAMPLE_C)))

# ---- flags ----
ARCH ?= native
OPT := $(if $(DEBUG),-O0,-O3)
CFLAGS ?= $(OPT) -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-unknown-pragmas $(if $(WERROR),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
comma := ,
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
MPI_CFLAGS := $(shell mpicc --showme:compile 2>/dev/null)
MPI_LIBS := $(shell mpicc --showme:link 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs jansson inih openblas 2>/dev/null || echo -ljansson -linih -lopenblas)
PKG_CFLAGS := $(shell pkg-config --cflags jansson inih openblas 2>/dev/null)
# -ffp-contract=fast lets a*b+c become one FMA; never -ffast-math: NaN, infinity and the order of sums must mean what they say
ALL_CFLAGS := -std=gnu17 -I. $(CFLAGS) -march=$(ARCH) -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp $(WARN) $(SANFLAGS) $(PKG_CFLAGS)
LIBS := $(SANFLAGS) -fopenmp $(MPI_LIBS) $(PKG_LIBS) -ldnnl -lm -lpthread

build: $(B)/trivium

$(B)/trivium: $(B)/obj/trivium.o $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS)

$(B)/trivium-tests: $(TEST_O) $(LIB_O)
	$(if $(V),,@echo "LINK $@")
	$(Q)$(CC) -o $@ $^ $(LIBS) -lcmocka

define example_rule
$(B)/$(notdir $(basename $(1))): $(call obj,$(1)) $(LIB_O)
	$$(if $$(V),,@echo "LINK $$@")
	$$(Q)$$(CC) -o $$@ $$^ $$(LIBS)
endef
$(foreach e,$(EXAMPLE_C),$(eval $(call example_rule,$(e))))
examples: $(EXAMPLES)

$(B)/obj/lib/comm/%.o $(B)/obj/tests/%.o: ALL_CFLAGS += $(MPI_CFLAGS)
$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "CC $<")
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

define cpu_rule
$(B)/obj/%.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "CC $$< ($(1))")
	$$(Q)$$(CC) $$(ALL_CFLAGS) -DELEM=$(1) -DELEM_$(1) -MMD -MP -c -o $$@ $$<
endef
$(foreach e,$(ELEMS),$(eval $(call cpu_rule,$(e))))

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

# ---- what users type ----
help:
	@echo 'make demo           install what is missing, build, train on 8 ranks and compare with one'
	@echo 'make check          install what is missing, build, run the tests; ends with "N passed, N failed"'
	@echo 'make check-all      check, the mutants, and what takes long (DATA=path of a text for the learning test)'
	@echo 'make check-deps     who may include whom'
	@echo 'make check-mutants  plausible mistakes, each of which some test must reject'
	@echo 'make build          build/trivium          make examples  build/example_*'
	@echo 'make clean'
	@echo
	@echo 'settings: WERROR=1 SAN=1 DEBUG=1 YES=1 ARCH=native DATA=path (see the head of the Makefile)'

deps:
	@tools/install-deps

# Two steps, because the libraries' flags are only known once they are installed.
demo: deps
	@$(MAKE) --no-print-directory build
	@BUILD=$(B) tools/demo

check: deps
	@$(MAKE) --no-print-directory check-build
	@BUILD=$(B) tests/run

check-build: $(B)/trivium $(B)/trivium-tests examples

check-all: deps
	@$(MAKE) --no-print-directory check-build
	@BUILD=$(B) LONG=1 TEST_LIMIT=3600 DATA=$(DATA) tests/run
	@BUILD=$(B) tools/check-mutants

check-mutants: deps
	@$(MAKE) --no-print-directory $(B)/trivium-tests
	@BUILD=$(B) tools/check-mutants

check-deps:
	@tools/check-deps

clean:
	rm -rf build build-san build-debug build-san-debug

.PHONY: build examples help deps demo check check-build check-all check-mutants check-deps clean
