import { dashboardPort } from './utils'

/** The body of Birdhouse's `/health`, as far as it is shown. */
type Health = {
  status: string
  percent?: number
  height?: number | null
  node_height?: number
  reason?: string
}

type Shown = { result: 'success' | 'loading' | 'starting'; message: string }

/** The state of the index with its progress. The server answers from its first second on. */
export async function indexHealth(): Promise<Shown> {
  let health: Health
  try {
    const response = await fetch(`http://127.0.0.1:${dashboardPort}/health`)
    health = (await response.json()) as Health
  } catch {
    return { result: 'starting', message: 'Birdhouse is starting' }
  }
  return shown(health)
}

export function shown(health: Health): Shown {
  const { status, percent, height, node_height, reason } = health
  if (status === 'serving')
    return { result: 'success', message: `At block ${height}` }
  if (status === 'syncing')
    return { result: 'loading', message: `The index is built: ${percent} %` }
  if (status === 'behind the node')
    return { result: 'loading', message: `At block ${height} of ${node_height}` }
  return { result: 'loading', message: reason ? `${status}: ${reason}` : status }
}
