import { get } from 'node:http';
import { beforeAll } from '@jest/globals';
import { START_HOOK_MS } from '../start-patience.js';
import type { SharedKind, SharedServer } from './kinds.js';

const asked = new Map<SharedKind, Promise<SharedServer>>();

/** The shared server, emptied when this file asks for it for the first time. It may have to start: {@link START_HOOK_MS}. */
export function sharedServer(kind: SharedKind): Promise<SharedServer> {
  const lent = asked.get(kind) ?? ask(kind);
  asked.set(kind, lent);
  return lent;
}

/** The shared server from before the tests of this file, or of a `describe`, until after them. */
export function useSharedServer(kind: SharedKind): () => SharedServer {
  let server: SharedServer | undefined;
  beforeAll(async () => {
    server = await sharedServer(kind);
  }, START_HOOK_MS);
  return () => {
    if (server === undefined) throw new Error(`The shared ${kind} has not started.`);
    return server;
  };
}

function ask(kind: SharedKind): Promise<SharedServer> {
  const { SHARED_SERVERS_URL, JEST_WORKER_ID } = process.env;
  return new Promise((resolve, reject) => {
    const url = `${String(SHARED_SERVERS_URL)}/${kind}/${String(JEST_WORKER_ID)}`;
    const request = get(url, { agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      // Not before its socket is gone: there are tests that count theirs.
      response.socket.once('close', () => {
        if (response.statusCode === 200) resolve(JSON.parse(text) as SharedServer);
        else reject(new Error(text));
      });
    });
    request.on('error', reject);
  });
}
