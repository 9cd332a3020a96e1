# Included by Bitcoin Core's own project(), see scripts/bitcoind: compiles its sources in groups (a unity build).
#
# Most of the compiler's time goes into headers that nearly every source includes, and into the same templates in many
# sources. The groups are those of CMake, in the order of Core's lists. A source that reuses a name of its group is
# compiled alone; the version of the sources is pinned, so the list below is complete.
set(CMAKE_UNITY_BUILD ON)
# 12 sources need up to 1.3 GB of memory; more of them save little.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

function(compile_alone)
  foreach(source IN ITEMS index/coinstatsindex.cpp node/chainstate.cpp)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/${source} TARGET_DIRECTORY bitcoin_node
      PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()
# The target exists at the end of Core's own file.
cmake_language(DEFER CALL compile_alone)
