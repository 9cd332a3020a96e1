import { sdk } from './sdk'
import {
  dashboardHostId,
  dashboardPort,
  electrumHostId,
  electrumPort,
  explorerHostId,
  explorerPort,
} from './utils'

export const setInterfaces = sdk.setupInterfaces(async ({ effects }) => {
  const electrum = await sdk.MultiHost.of(effects, electrumHostId).bindPort(
    electrumPort,
    {
      protocol: null,
      preferredExternalPort: electrumPort,
      secure: null,
      addSsl: {
        preferredExternalPort: 50002,
        alpn: null,
        addXForwardedHeaders: false,
        auth: null,
      },
    },
  )
  const wallets = sdk.createInterface(effects, {
    id: 'electrum',
    name: 'Wallets',
    description: 'Electrum protocol, for wallets',
    type: 'api',
    schemeOverride: { ssl: 'ssl', noSsl: 'tcp' },
    masked: false,
    username: null,
    path: '',
    query: {},
  })

  const page = async (
    host: string,
    port: number,
    name: string,
    description: string,
  ) => {
    const origin = await sdk.MultiHost.of(effects, host).bindPort(port, {
      protocol: 'http',
      preferredExternalPort: port,
    })
    const shown = sdk.createInterface(effects, {
      id: host,
      name,
      description,
      type: 'ui',
      schemeOverride: null,
      masked: false,
      username: null,
      path: '',
      query: {},
    })
    return origin.export([shown])
  }

  return [
    await electrum.export([wallets]),
    await page(
      dashboardHostId,
      dashboardPort,
      'Dashboard',
      'State of the server, and what to type into a wallet',
    ),
    await page(
      explorerHostId,
      explorerPort,
      'Explorer',
      'Blocks, transactions and addresses; REST API under /api',
    ),
  ]
})
