import { manifest as bitcoinManifest } from 'bitcoin-core-startos/startos/manifest'
import { rpcHostId, rpcPort } from 'bitcoin-core-startos/startos/utils'
import { settings } from './fileModels/settings'
import { indexHealth } from './health'
import { sdk } from './sdk'
import {
  dashboardHostId,
  dashboardPort,
  dataDir,
  electrumPort,
  explorerPort,
  nodeDir,
} from './utils'

export const main = sdk.setupMain(async ({ effects }) => {
  // A change of the settings, of the node's address or of a name of this server restarts the service.
  await settings.read().const(effects)
  const rpcAddr = await sdk.host
    .getBridgeAddress(effects, {
      packageId: 'bitcoind',
      hostId: rpcHostId,
      internalPort: rpcPort,
      ssl: false,
    })
    .const()
  const names = await sdk.host
    .getOwn(effects, dashboardHostId, (host) => [
      ...new Set(
        Object.values(host?.bindings[dashboardPort]?.interfaces ?? {})
          .flatMap((one) => one.addressInfo?.hostnames ?? [])
          .map((one) => one.hostname),
      ),
    ])
    .const()

  const server = await sdk.SubContainer.eager(
    effects,
    { imageId: 'main' },
    sdk.Mounts.of()
      .mountVolume({
        volumeId: 'main',
        subpath: null,
        mountpoint: dataDir,
        readonly: false,
      })
      .mountDependency<typeof bitcoinManifest>({
        dependencyId: 'bitcoind',
        volumeId: 'main',
        subpath: null,
        mountpoint: nodeDir,
        readonly: true,
      }),
    'birdhouse',
  )

  return sdk.Daemons.of(effects)
    .addDaemon('primary', {
      subcontainer: server,
      exec: {
        command: ['/usr/bin/birdhouse', 'run'],
        // The owner of the node's files, which are for their owner alone.
        user: 'root',
        env: {
          HOME: dataDir,
          BIRDHOUSE_CONFIG: `${dataDir}/birdhouse.toml`,
          BIRDHOUSE_DATA_DIR: dataDir,
          BIRDHOUSE_NODE_DIR: nodeDir,
          BIRDHOUSE_RPC_COOKIE_FILE: `${nodeDir}/.cookie`,
          ...(rpcAddr ? { BIRDHOUSE_RPC_ADDR: rpcAddr } : {}),
          BIRDHOUSE_ELECTRUM_ADDR: `0.0.0.0:${electrumPort}`,
          BIRDHOUSE_HTTP_ADDR: `0.0.0.0:${explorerPort}`,
          BIRDHOUSE_OPS_ADDR: `0.0.0.0:${dashboardPort}`,
          BIRDHOUSE_OPS_HOST: names.join(','),
        },
      },
      ready: {
        display: 'Wallets',
        fn: () =>
          sdk.healthCheck.checkPortListening(effects, electrumPort, {
            successMessage: 'Wallets can connect',
            errorMessage: 'Birdhouse does not listen',
          }),
      },
      requires: [],
    })
    .addHealthCheck('sync-progress', {
      ready: { display: 'Index', fn: indexHealth },
      requires: [],
    })
})
