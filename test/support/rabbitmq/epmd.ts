import { onFreePort } from '../on-free-port.js';
import { startServerProcess, type ServerProcess } from '../server-process.js';
import { START_MS } from '../start-patience.js';
import type { FoundRabbitMq } from './installation.js';

const STOP_TIMEOUT_MS = 2_000;

export interface Epmd extends ServerProcess {
  readonly port: number;
}

/**
 * Starts Erlang's register of nodes, by which a broker and its tools find each other. The machine's own would let
 * the brokers of several tests meet, and one that Erlang starts would outlive the broker.
 */
export function startEpmd({ epmd }: FoundRabbitMq, dir: string): Promise<Epmd> {
  return onFreePort(async (port) => {
    const server = await startServerProcess({
      name: 'epmd',
      program: epmd,
      args: ['-d', '-port', String(port), '-address', '127.0.0.1'],
      dir,
      readyLog: /epmd running/,
      startTimeoutMs: START_MS,
      stopTimeoutMs: STOP_TIMEOUT_MS,
    });
    return { ...server, port };
  });
}
