import { sdk } from './sdk'

// Nothing is asked of the node's settings: any `prune` will do (0 or more), and neither txindex nor ZMQ is needed. So no
// task is made for it. Birdhouse follows a node that still downloads the chain, so its sync is not waited for either.
export const setDependencies = sdk.setupDependencies(async () => ({
  bitcoind: {
    kind: 'running',
    versionRange: '>=28.4:12',
    healthChecks: ['bitcoind'],
  },
}))
