// Stands in for the package of StartOS' Bitcoin, which is on GitHub alone.
export const rpcHostId = 'rpc'
export const rpcPort = 8332
