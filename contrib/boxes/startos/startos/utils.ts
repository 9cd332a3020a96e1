// Hosts and ports of this package, for those that depend on it.
export const electrumHostId = 'electrum'
export const electrumPort = 50001
export const explorerHostId = 'explorer'
export const explorerPort = 8080
export const dashboardHostId = 'dashboard'
export const dashboardPort = 9400

/** Where the image finds the node's data directory, read-only. */
export const nodeDir = '/node'
/** Where it finds its own volume. */
export const dataDir = '/data'
