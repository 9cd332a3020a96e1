import { actions } from '../actions'
import { restoreInit } from '../backups'
import { setDependencies } from '../dependencies'
import { settings } from '../fileModels/settings'
import { setInterfaces } from '../interfaces'
import { sdk } from '../sdk'
import { versionGraph } from '../versions'

// The file must be there: Birdhouse is started with its name.
const writeSettings = sdk.setupOnInit(async (effects) => {
  await settings.merge(effects, {})
})

export const init = sdk.setupInit(
  restoreInit,
  versionGraph,
  setInterfaces,
  setDependencies,
  actions,
  writeSettings,
)

export const uninit = sdk.setupUninit(versionGraph)
