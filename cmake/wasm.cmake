# The four wasm modules of the package, and the C tests as wasm for Node.
#
# js/engine/engine.js instantiates the modules itself, on a memory that it makes: emcc's own JavaScript
# (x.mjs) is a by-product that stays in the build folder. Hot code is compiled at -O3 and linked at
# -O1: the optimiser that -O2 runs behind the link undoes the scheduling of the SIMD loops.

file(STRINGS ${PROJECT_SOURCE_DIR}/src/exports.txt gw_names REGEX "^[a-z_0-9]+$")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/exports.txt)
list(TRANSFORM gw_names PREPEND _)
list(APPEND gw_names __emscripten_stack_restore)   # gives a helper thread its stack
list(JOIN gw_names , gw_exports)

set(gw_link -O1 -mbulk-memory --no-entry -sIMPORTED_MEMORY=1 -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB
    -sINITIAL_MEMORY=1MB -sSTACK_SIZE=256KB -sMALLOC=emmalloc -sFILESYSTEM=0
    -sEXPORTED_FUNCTIONS=${gw_exports})
if(GW_NAMES)
  list(APPEND gw_link --profiling-funcs)
endif()

set(simd128_flags -msimd128)
set(relaxed_flags -msimd128 -mrelaxed-simd)
set(threads_flags -matomics)

# gw_compile(OPTIONS FILE…): compiles files of src/ with these options.
function(gw_compile options)
  list(TRANSFORM ARGN REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1.c")
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${options})
endfunction()

# What runs once for a file or a token, or only leads to kernels, is built small: it is a tenth of a module's bytes
# otherwise.
gw_compile(-Os text/trie model/attention model/describe model/kv
    model/tokens file/store file/types base/half text/tokenizer text/vocabulary text/merge_queue text/added text/alphabet model/arch model/vectors
    base/threads model/ops model/topk)
gw_compile(-Oz kernels/proof kernels/proof_relaxed kernels/ref   # for the proofs alone
    api file/gguf model/config model/forward model/load model/model run/session run/state run/step text/grammar text/matcher text/plain)
# Unrolled for shifts that differ, loops over vectors are 18 KB more. Packing Q4_K and Q5_K takes a quarter longer, the
# other types no longer.
gw_compile(-fno-unroll-loops file/formats text/split)
# Functions that are called in many places: a third less without a copy in each. Draws take no longer, measured.
gw_compile("-mllvm;-inline-threshold=5" run/sampler text/states)
# Vector code for its short loops is a kilobyte.
gw_compile("-fno-vectorize;-fno-unroll-loops" text/states)

# gw_objects(NAME FLAG…): all of src/ compiled for one variant.
function(gw_objects name)
  add_library(${name} OBJECT ${gw_sources})
  target_compile_options(${name} PRIVATE -O3 -DNDEBUG -mbulk-memory ${ARGN})
endfunction()

# gw_module(NAME OBJECTS LINK-FLAG…): js/NAME.wasm.
function(gw_module name objects)
  add_executable(${name} $<TARGET_OBJECTS:${objects}>)
  set_target_properties(${name} PROPERTIES SUFFIX .mjs)
  target_link_options(${name} PRIVATE ${gw_link} ${ARGN})
  add_custom_command(TARGET ${name} POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy
    $<TARGET_FILE_DIR:${name}>/${name}.wasm ${PROJECT_SOURCE_DIR}/js/${name}.wasm)
endfunction()

add_custom_target(modules)   # the four, without the tests

foreach(simd simd128 relaxed)
  gw_objects(gw-${simd} ${${simd}_flags})
  gw_objects(gw-${simd}-threads ${${simd}_flags} ${threads_flags})
  gw_module(gemma-${simd} gw-${simd})
  gw_module(gemma-${simd}-threads gw-${simd}-threads -sSHARED_MEMORY=1)
  add_dependencies(modules gemma-${simd} gemma-${simd}-threads)

  add_executable(gw_tests_${simd} ${gw_test_sources} $<TARGET_OBJECTS:gw-${simd}>)
  set_target_properties(gw_tests_${simd} PROPERTIES SUFFIX .mjs)
  target_include_directories(gw_tests_${simd} PRIVATE tests/c)
  target_compile_options(gw_tests_${simd} PRIVATE -O2 ${${simd}_flags})
  target_link_options(gw_tests_${simd} PRIVATE -O1 -sENVIRONMENT=node -sEXIT_RUNTIME=1
    --extern-post-js ${PROJECT_SOURCE_DIR}/cmake/run-tests.js   # a .mjs only exports; this one runs
    -sALLOW_MEMORY_GROWTH=1 -sMAXIMUM_MEMORY=4GB -sSTACK_SIZE=1MB)
endforeach()
