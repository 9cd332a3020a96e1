import { settings } from '../fileModels/settings'
import { sdk } from '../sdk'

const { InputSpec, Value } = sdk

const inputSpec = InputSpec.of({
  profile: Value.select({
    name: 'Index',
    description: 'The small index takes half of the disk, and needs a node that keeps all blocks. A change begins a new index.',
    values: { full: 'Full', lean: 'Small (lean)' },
    default: 'full',
  }),
  preset: Value.select({
    name: 'Memory',
    description: 'Memory of the build of the index.',
    values: { usual: 'Usual', pi4: 'Machine with 4 GB' },
    default: 'usual',
  }),
  'silent-payments': Value.select({
    name: 'Silent payments',
    description: 'An index of silent payments (BIP 352), built in the background.',
    values: { off: 'Off', scan: 'For Sparrow', full: 'For wallets that scan by themselves, too' },
    default: 'off',
  }),
  'block-filters': Value.select({
    name: 'Block filters',
    description: 'Compact block filters (BIP 157) in the REST API, computed in the background.',
    values: { off: 'Off', on: 'On' },
    default: 'off',
  }),
})

export const setSettings = sdk.Action.withInput(
  'settings',
  async () => ({
    name: 'Settings',
    description: 'Switch indexes of Birdhouse on or off',
    warning: null,
    allowedStatuses: 'any',
    group: null,
    visibility: 'enabled',
  }),
  inputSpec,
  async () => settings.read().once(),
  async ({ effects, input }) => {
    await settings.merge(effects, input)
  },
)
