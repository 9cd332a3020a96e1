import { access } from 'node:fs/promises'
import { settings } from '../fileModels/settings'
import { sdk } from '../sdk'

const { InputSpec, Value } = sdk

/** Networks of a node, by the folders of their indexes. */
const networks = ['bitcoin', 'testnet', 'testnet4', 'signet', 'regtest']

/** An index has the form that it was begun with. */
const hasIndex = async () => {
  const files = networks.map((network) =>
    sdk.volumes.main.subpath(`/${network}/VERSION`),
  )
  const found = files.map((file) =>
    access(file).then(
      () => true,
      () => false,
    ),
  )
  return (await Promise.all(found)).includes(true)
}

const inputSpec = InputSpec.of({
  profile: Value.dynamicSelect(async () => ({
    name: 'Index',
    description:
      'The small index takes half of the disk, and needs a node that keeps all blocks. Choose before the first start.',
    values: { full: 'Full', lean: 'Small (lean)' },
    default: 'full',
    disabled: (await hasIndex())
      ? 'The index has been begun, and keeps its form'
      : false,
  })),
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
    const before = await settings.read().once()
    if (before && before.profile !== input.profile && (await hasIndex())) {
      throw new Error('The index has been begun, and keeps its form')
    }
    await settings.merge(effects, input)
  },
)
