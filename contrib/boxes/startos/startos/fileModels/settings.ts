import { FileHelper, z } from '@start9labs/start-sdk'
import { sdk } from '../sdk'

/** Settings of Birdhouse by the names of its configuration file, as far as the action Settings has them. */
const shape = z.object({
  profile: z.enum(['full', 'lean']).catch('full'),
  preset: z.enum(['usual', 'pi4']).catch('usual'),
  'silent-payments': z.enum(['off', 'scan', 'full']).catch('off'),
  'block-filters': z.enum(['on', 'off']).catch('off'),
})

export const settings = FileHelper.toml(
  { base: sdk.volumes.main, subpath: '/birdhouse.toml' },
  shape,
)
