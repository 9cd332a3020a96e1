import { setupManifest } from '@start9labs/start-sdk'

export const manifest = setupManifest({
  id: 'birdhouse',
  title: 'Birdhouse',
  license: 'MIT',
  packageRepo: '@REPOSITORY@',
  upstreamRepo: '@REPOSITORY@',
  marketingUrl: '@REPOSITORY@',
  donationUrl: null,
  description: {
    short: 'Electrum server and block explorer in one',
    long: 'Birdhouse serves Electrum wallets, a block explorer and the REST API of Esplora from your own Bitcoin node. It needs no transaction index, and works beside a pruned node.',
  },
  volumes: ['main'],
  images: {
    main: {
      source: { dockerTag: '@IMAGE@' },
      arch: ['x86_64', 'aarch64'],
    },
  },
  dependencies: {
    bitcoind: {
      description: 'The node whose blocks are indexed',
      optional: false,
      metadata: {
        title: 'Bitcoin',
        icon: 'https://raw.githubusercontent.com/Start9Labs/bitcoin-core-startos/refs/heads/30.x/dep-icon.svg',
      },
    },
  },
})
