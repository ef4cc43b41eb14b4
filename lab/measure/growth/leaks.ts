import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';

export type Leak = 'heap' | 'listener' | 'timer' | 'socket';

const KILOBYTE_OF_NUMBERS = 128;
const AN_HOUR_MS = 3_600_000;

const kept: unknown[] = [];

/** What an application does with a request that leaves something behind. */
export const LEAKS = {
  heap: () => {
    kept.push(new Array(KILOBYTE_OF_NUMBERS).fill(kept.length));
  },
  listener: () => {
    process.setMaxListeners(Infinity).on('growth', () => undefined);
  },
  timer: () => {
    setTimeout(() => undefined, AN_HOUR_MS).unref();
  },
  socket: ({ socket }: IncomingMessage) => {
    connect({ host: '127.0.0.1', port: Number(socket.localPort) }).unref();
  },
} satisfies Readonly<Record<Leak, (request: IncomingMessage) => void>>;
