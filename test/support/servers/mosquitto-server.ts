import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { responses } from './responses.js';
import { findServer, requireServer } from './find-executable.js';
import { startServer, type Place, type StartedServer } from './start-server.js';

/**
 * MQTT v5: CONNECT with a clean start, no properties and an empty client id; and the first bytes of the
 * reply.
 */
const CONNECT = Buffer.from('100d00044d51545405020000000000', 'hex');
const CONNACK = /^\x20/;

export interface StartMosquittoOptions extends Place {
  /** Further lines of its configuration, by name: `{ max_inflight_messages: 1 }`. */
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
}

export interface MosquittoServer extends StartedServer {
  readonly url: string;
}

const PROGRAM = ['mosquitto', 'MOSQUITTO_BIN'] as const;

/** The mosquitto that MOSQUITTO_BIN names, else one on PATH. */
export const findMosquitto = () => findServer(...PROGRAM);

/**
 * Starts a separate mosquitto on 127.0.0.1, which speaks MQTT v5 and accepts anonymous clients, and waits
 * until it accepts one. If `dir` is given, sessions and their pending messages survive `stop()`, but not
 * SIGKILL.
 */
export async function startMosquitto(
  options: StartMosquittoOptions = {},
): Promise<MosquittoServer> {
  const program = requireServer(...PROGRAM);
  const server = await startServer('mosquitto', options, (port, dir) => {
    const file = join(dir, 'mosquitto.conf');
    writeFileSync(file, configuration(port, dir, options));
    return {
      program,
      args: ['-c', file],
      readyLog: /mosquitto version \S+ running/,
      isReady: () => responses(port, CONNECT, CONNACK),
    };
  });
  return { ...server, url: `mqtt://127.0.0.1:${String(server.port)}` };
}

function configuration(port: number, dir: string, { settings }: StartMosquittoOptions): string {
  const lines = {
    listener: `${String(port)} 127.0.0.1`,
    allow_anonymous: true,
    // Started by root, it would change to a user without access to its folder.
    user: userInfo().username,
    persistence: true,
    persistence_location: `${dir}/`,
    ...settings,
  };
  return Object.entries(lines)
    .map(([name, value]) => `${name} ${String(value)}\n`)
    .join('');
}
