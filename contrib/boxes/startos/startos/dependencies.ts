import { sdk } from './sdk'

// Nothing is asked of the node's settings: neither txindex nor ZMQ is needed. A node that prunes by itself is refused
// until the index is built, which the health check says; it prunes because its operator wants it, so no task changes it.
// Birdhouse follows a node that still downloads the chain, so its sync is not waited for either.
export const setDependencies = sdk.setupDependencies(async () => ({
  bitcoind: {
    kind: 'running',
    versionRange: '>=28.4:12',
    healthChecks: ['bitcoind'],
  },
}))
