import { get } from 'node:http';
import type { SharedKind, SharedServer } from './kinds.js';

const asked = new Map<SharedKind, Promise<SharedServer>>();

/** The shared server, emptied when this file requests it for the first time. It may have to start. */
export function sharedServer(kind: SharedKind): Promise<SharedServer> {
  const lent = asked.get(kind) ?? ask(kind);
  asked.set(kind, lent);
  return lent;
}

function ask(kind: SharedKind): Promise<SharedServer> {
  const { SHARED_SERVERS_URL, JEST_WORKER_ID } = process.env;
  return new Promise((resolve, reject) => {
    const url = `${String(SHARED_SERVERS_URL)}/${kind}/${String(JEST_WORKER_ID)}`;
    const request = get(url, { agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      // Not before its socket is closed: some tests count theirs.
      response.socket.once('close', () => {
        if (response.statusCode === 200) resolve(JSON.parse(text) as SharedServer);
        else reject(new Error(text));
      });
    });
    request.on('error', reject);
  });
}
