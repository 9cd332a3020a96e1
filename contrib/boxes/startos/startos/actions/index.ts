import { sdk } from '../sdk'
import { setSettings } from './settings'

export const actions = sdk.Actions.of().addAction(setSettings)
