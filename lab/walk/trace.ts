import { register } from 'node:module';
import { Socket } from 'node:net';

/** A function of `lib` that was entered. */
export interface Entry {
  /** A path below `lib`, or {@link SOCKET}. */
  readonly file: string;
  /** Empty where the function has none; the port of a socket. */
  readonly name: string;
  /** Where it begins in its file, in characters. */
  readonly at: number;
}

/** In the place of a file: the process wrote to a socket. */
export const SOCKET = 'socket';

declare global {
  var entered: (file: string, name: string, at: number) => void;
}

let entries: Entry[] = [];

/** Notes each function of `lib` that is entered. Before `lib` is loaded: its files are changed for that as they are read. */
export function startTrace(): void {
  globalThis.entered = (file, name, at) => entries.push({ file, name, at });
  register('./trace-hooks.mjs', import.meta.url);
  const write = Reflect.get(Socket.prototype, 'write') as (...args: unknown[]) => boolean;
  const noted = function (this: Socket, ...args: unknown[]) {
    globalThis.entered(SOCKET, String(this.remotePort), 0);
    return write.apply(this, args);
  };
  Object.assign(Socket.prototype, { write: noted });
}

/** The entries since the last call. */
export function takeTrace(): readonly Entry[] {
  const taken = entries;
  entries = [];
  return taken;
}
