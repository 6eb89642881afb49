# Native builds: the library, the C tests, and one program per fuzz harness.
include(CheckIncludeFile)

if(GW_SANITIZE)
  add_compile_options(-fsanitize=${GW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GW_SANITIZE})
endif()

# SIMDe implements the wasm intrinsics natively, so the wasm kernels run under sanitizers too.
check_include_file(simde/wasm/simd128.h gw_have_simde)
if(gw_have_simde)
  add_compile_definitions(GW_SIMDE=1)
endif()

find_package(Threads REQUIRED)
# The rooms below the kernels are the same for all of these.
set(gw_below ${gw_sources})
set(gw_above ${gw_sources})
list(FILTER gw_below INCLUDE REGEX "/src/(base|file|text)/")
list(FILTER gw_above EXCLUDE REGEX "/src/(base|file|text)/")
add_library(gw_below OBJECT ${gw_below})

# gw_library(NAME): the engine, from gw_above as the target's definitions make it.
function(gw_library name)
  add_library(${name} STATIC ${gw_above} $<TARGET_OBJECTS:gw_below>)
  target_link_libraries(${name} PUBLIC m Threads::Threads)
  if(GW_SANITIZE)
    # At -O2 SIMDe's loops over lanes stay loops, each lane with its checks: half of what attention's tests take.
    target_compile_options(${name} PRIVATE -O3)
  endif()
endfunction()

gw_library(gw)

if(GW_SANITIZE)
  # One file with every relaxed kernel: at -O2 and above its checks take minutes to compile.
  set(gw_relaxed_options -O1)
  if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    # Half of that time are GCC's points-to analysis and the positions of variables for debuggers.
    list(APPEND gw_relaxed_options -fno-tree-pta -fno-var-tracking)
  endif()
  set_source_files_properties(src/kernels/quants_relaxed.c PROPERTIES COMPILE_OPTIONS "${gw_relaxed_options}")
endif()

# gw_test_program(NAME LIBRARY): the C tests. They count the threads of each test (test.h).
function(gw_test_program name library)
  add_executable(${name} ${gw_test_sources})
  target_include_directories(${name} PRIVATE tests/c)
  target_link_libraries(${name} ${library})
  if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    target_compile_definitions(${name} PRIVATE GW_COUNT_THREADS=1)
    target_link_options(${name} PRIVATE -Wl,--wrap=pthread_create)
  endif()
endfunction()

gw_test_program(gw_tests gw)
add_executable(gw_run_file tests/families/run_file.c)
target_link_libraries(gw_run_file gw)

# The relaxed kernels natively, for tests and sanitizers; what they race for is no other than in the engine above.
if(gw_have_simde AND NOT GW_SANITIZE MATCHES thread)
  gw_library(gw_relaxed)
  target_compile_definitions(gw_relaxed PUBLIC GW_RELAXED_SIMDE=1)
  gw_test_program(gw_tests_relaxed gw_relaxed)
endif()

if(GW_SANITIZE)
  # A load costs many times as much here, and the other tests want the processor: threads go to sleep sooner.
  target_compile_definitions(gw_below PRIVATE GW_SPINS=500)
endif()

# What only tests compute with, on one thread, cannot race.
if(GW_SANITIZE MATCHES thread)
  set_source_files_properties(tests/c/naive.c tests/c/tiny_gguf.c PROPERTIES COMPILE_OPTIONS -fno-sanitize=thread)
endif()

foreach(source ${gw_fuzzers})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source} tests/c/tiny_gguf.c)
  target_link_libraries(${name} gw)
  if(GW_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${name} PRIVATE tests/fuzz/replay.c)
  endif()
endforeach()

# Coverage guides the fuzzer where bytes decide, not through arithmetic, where it is only slow.
if(GW_LIBFUZZER)
  foreach(source ${gw_sources})
    if(NOT source MATCHES "/(kernels/[^/]*|attention|forward|kv|ops|topk|types|formats|half|sha256|threads|pure)[.]c$")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
    endif()
  endforeach()
endif()
