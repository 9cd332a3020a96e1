import { sdk } from './sdk'

// Settings and the certificate that wallets remember. The index is built again from the node.
export const { createBackup, restoreInit } = sdk.setupBackups(async () =>
  sdk.Backups.ofVolumes('main').setOptions({
    exclude: ['/bitcoin', '/testnet', '/testnet4', '/signet', '/regtest'],
  }),
)
