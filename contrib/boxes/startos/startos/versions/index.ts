import { IMPOSSIBLE, VersionGraph, VersionInfo } from '@start9labs/start-sdk'

/** The version of Birdhouse, then that of this package. */
export const current = VersionInfo.of({
  version: '@VERSION@:0',
  releaseNotes: 'Birdhouse @VERSION@: @REPOSITORY@/releases',
  // A newer Birdhouse reads the files of an older one, or says what to do.
  migrations: { up: async () => {}, down: IMPOSSIBLE },
})

export const versionGraph = VersionGraph.of({ current, other: [] })
