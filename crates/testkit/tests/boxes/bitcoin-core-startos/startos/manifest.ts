import { setupManifest } from '@start9labs/start-sdk'

export const manifest = setupManifest({
  id: 'bitcoind',
  title: 'Bitcoin',
  license: 'MIT',
  packageRepo: 'https://github.com/Start9Labs/bitcoin-core-startos',
  upstreamRepo: 'https://github.com/bitcoin/bitcoin',
  marketingUrl: 'https://bitcoincore.org',
  donationUrl: null,
  description: { short: 'Bitcoin', long: 'Bitcoin' },
  volumes: ['main'],
  images: { main: { source: { dockerTag: 'bitcoind:stub' }, arch: ['x86_64'] } },
  dependencies: {},
})
